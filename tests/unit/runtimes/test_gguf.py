"""Headers of GGUF files, written here by hand."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest

from lazyd.runtimes import gguf


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: str, content: Any) -> bytes:
    if kind == "text":
        return struct.pack("<I", 8) + text(content)
    if kind == "texts":
        return struct.pack("<IIQ", 9, 8, len(content)) + b"".join(map(text, content))
    if kind == "numbers":
        return struct.pack("<IIQ", 9, 4, len(content)) + struct.pack(f"<{len(content)}I", *content)
    return struct.pack("<II", 4, content)


def model(
    path: Path,
    *,
    pairs: dict[str, tuple[str, Any]] | None = None,
    kind: int = 2,
    tensors: dict[str, tuple[int, tuple[int, ...]]] | None = None,
) -> Path:
    """A file with one tensor, 360 bytes of Q4_0, unless said otherwise."""
    pairs = pairs if pairs is not None else {"general.architecture": ("text", "tiny"), "tiny.context_length": ("n", 77)}
    tensors = tensors if tensors is not None else {"weights": (kind, (64, 10))}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    head += b"".join(text(key) + value(*content) for key, content in pairs.items())
    offset = 0
    for name, (number, shape) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", number, offset)
        _, block, block_bytes = gguf.TENSOR_TYPES.get(number, ("", 64, 36))
        offset += -(-math.prod(shape) // block) * block_bytes
        offset += -offset % 32 if len(tensors) > 1 else 0
    path.write_bytes(head + bytes(-len(head) % 32) + bytes(offset))
    return path


def test_a_header_tells_what_the_model_is(tmp_path: Path) -> None:
    header = gguf.read(str(model(tmp_path / "m.gguf")))
    assert (header.architecture, header.parameters) == ("tiny", 640)
    assert header.tensors == (gguf.Tensor("weights", "Q4_0", (64, 10), 360),)
    assert header.bytes_by_type == {"Q4_0": 360}
    assert header.of_architecture("context_length") == 77
    assert header.needed_bytes == header.file_bytes


def test_long_arrays_are_given_as_their_length(tmp_path: Path) -> None:
    pairs = {"few": ("texts", ["a", "b"]), "many": ("texts", ["x"] * 1000), "numbers": ("numbers", range(1000))}
    metadata = gguf.read(str(model(tmp_path / "m.gguf", pairs=pairs))).metadata
    assert metadata == {"few": ["a", "b"], "many": {"length": 1000}, "numbers": {"length": 1000}}


def test_a_number_may_be_stated_for_each_layer(tmp_path: Path) -> None:
    pairs = {"general.architecture": ("text", "tiny"), "tiny.heads": ("numbers", [*range(40)]), "tiny.width": ("n", 7)}
    header = gguf.read(str(model(tmp_path / "m.gguf", pairs=pairs)))
    assert header.by_layer("heads", 40) == [*range(40)]
    assert header.by_layer("width", 3) == [7, 7, 7]
    assert header.by_layer("missing", 2, default=5) == [5, 5]
    assert header.of_architecture("heads") == 39


def test_the_context_length_is_found_without_reading_on(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-400])
    assert gguf.context_length(str(path)) == 77


@pytest.mark.parametrize("missing", [1, 300])
def test_a_file_that_ends_within_its_tensors_is_truncated(tmp_path: Path, missing: int) -> None:
    path = model(tmp_path / "m.gguf")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-missing])
    with pytest.raises(ValueError, match=f"is truncated: {missing} of {size} bytes are missing"):
        gguf.read(str(path))


def test_a_file_that_ends_within_its_header_is_truncated(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf")
    for length in range(24, 150):
        path.write_bytes(model(tmp_path / "whole.gguf").read_bytes()[:length])
        with pytest.raises(ValueError, match="is truncated"):
            gguf.read(str(path))


@pytest.mark.parametrize("content", [b"", b"hello", b"GGML" + bytes(100)])
def test_what_is_no_gguf_file_is_said_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a GGUF file"):
        gguf.read(str(path))


def test_an_unknown_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 9, 0, 0))
    with pytest.raises(ValueError, match="version 9"):
        gguf.read(str(path))


def test_an_unknown_type_of_tensor_is_no_reason_to_refuse(tmp_path: Path) -> None:
    assert gguf.read(str(model(tmp_path / "m.gguf", kind=99))).bytes_by_type == {"type 99": 0}


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf")
    assert gguf.read(str(path)).architecture == "tiny"
    model(path, pairs={"general.architecture": ("text", "other")})
    assert gguf.read(str(path)).architecture == "other"


def test_a_split_model_names_its_parts() -> None:
    assert gguf.parts("/m/x-00001-of-00003.gguf") == [f"/m/x-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert gguf.parts("/m/x.gguf") == ["/m/x.gguf"]
