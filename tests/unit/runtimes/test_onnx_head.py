"""What ONNX files say of themselves, and what is said of files that are none or are not whole."""

from __future__ import annotations

import os
import random
import resource
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from lazyd.runtimes import onnx_head, onnx_reader
from lazyd.runtimes.arrays import Port, signature

from .onnx_files import FLOAT, INT64, STRING, field, graph, identity, model, node, port, sums, varint, weights, written

MODELS = Path(__file__).parents[3] / "build" / "models"


def test_a_model_is_described_without_its_library(tmp_path: Path) -> None:
    head = onnx_head.read(written(tmp_path / "m.onnx", identity(FLOAT, ("N", 3, None, -1), author="somebody")))
    assert (head.ir_version, head.producer, head.opsets) == (8, "by hand 1.0", {"ai.onnx": 17})
    assert head.inputs == [Port("x", "float32", ("N", 3, None, None))]
    assert head.metadata == {"author": "somebody"}
    assert (head.graph, head.nodes, head.parameters) == ("small", 1, 0)


def test_a_single_number_is_told_from_an_array_of_unknown_shape(tmp_path: Path) -> None:
    parts = (field(11, port("sr", INT64, ())), field(11, port("any", STRING, None)))
    head = onnx_head.read(written(tmp_path / "m.onnx", model(graph(*parts))))
    assert signature(head.inputs) == "sr: int64[], any: str[…]"


def test_what_is_no_array_has_no_type(tmp_path: Path) -> None:
    answers = field(1, "probabilities") + field(2, field(4, b""))
    head = onnx_head.read(written(tmp_path / "m.onnx", model(graph(field(12, answers)))))
    assert head.outputs == [Port("probabilities")]


def test_weights_are_counted_and_are_no_inputs(tmp_path: Path) -> None:
    head = onnx_head.read(
        written(tmp_path / "m.onnx", sums(weights("w", (2,), raw=bytes(8)), field(11, port("w", FLOAT, (2,)))))
    )
    assert [port.name for port in head.inputs] == ["x"]
    assert (head.parameters, head.bytes_by_type, head.weight_bytes) == (2, {"float32": 8}, 8)


def test_weights_within_nodes_are_counted_too(tmp_path: Path) -> None:
    inner = graph(field(5, weights("b", (3,), raw=bytes(12))))
    choice = node("If", ["c"], ["y"], field(1, "then_branch") + field(6, inner))
    head = onnx_head.read(written(tmp_path / "m.onnx", model(graph(field(1, choice)))))
    assert head.parameters == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ocr/cls.onnx", "x: float32[?,3,?,?] -> save_infer_model/scale_0.tmp_1: float32[?,2]"),
        (
            "vad.onnx",
            "input: float32[?,?], state: float32[2,?,128], sr: int64[] -> output: float32[?,1], stateN: float32[?,?,?]",
        ),
    ],
)
def test_real_models_say_what_they_take(name: str, expected: str) -> None:
    if not (MODELS / name).exists():
        pytest.skip(f"{MODELS} has no {name} (make setup)")
    head = onnx_head.read(str(MODELS / name))
    assert f"{signature(head.inputs)} -> {signature(head.outputs)}" == expected
    assert 0.9 < head.weight_bytes / (MODELS / name).stat().st_size < 1


# Weights in files of their own.


def external(tmp_path: Path, size: int, **where: object) -> str:
    (tmp_path / "w.data").write_bytes(bytes(size))
    return written(tmp_path / "m.onnx", sums(weights("w", (2,), **where)))


def test_files_of_weights_are_found_beside_the_model(tmp_path: Path) -> None:
    path = external(tmp_path, 24, location="w.data", offset=16, length=8)
    head = onnx_head.read(path)
    assert head.external == {"w.data": 24}
    assert onnx_head.external_files(path, head) == [str(tmp_path / "w.data")]
    assert head.weight_bytes == 8


@pytest.mark.parametrize(
    ("size", "where", "reason"),
    [
        (23, {"location": "w.data", "offset": 16, "length": 8}, r"w\.data is truncated: 1 of 24 bytes are missing"),
        (7, {"location": "w.data"}, r"w\.data is truncated: 1 of 8 bytes are missing"),
        (0, {"location": "other"}, r"m\.onnx has weights in 'other', which is missing beside it"),
        (0, {"location": "/etc/passwd"}, "'/etc/passwd', which is not in its folder"),
        (0, {"location": "../w.data"}, r"'\.\./w\.data', which is not in its folder"),
        (0, {"location": "a/../../w.data"}, "which is not in its folder"),
        (0, {}, "weights in '', which is not in its folder"),
        (0, {"location": "w.data", "offset": "-1"}, "a file of their own have the offset '-1'"),
        (0, {"location": "w.data", "length": "many"}, "have the length 'many'"),
        (9, {"location": "w.data", "length": "3"}, "of the weights 'w' not all are there"),
    ],
)
def test_files_of_weights_that_cannot_be_used_are_told(
    tmp_path: Path, size: int, where: dict[str, object], reason: str
) -> None:
    if "length" in where and where["length"] == "3":
        where = {**where, "length": "0"}
    with pytest.raises((ValueError, OSError), match=reason):
        onnx_head.read(external(tmp_path, size, **where))


def test_a_file_of_weights_that_comes_later_is_seen(tmp_path: Path) -> None:
    path = external(tmp_path, 8, location="late.data")
    with pytest.raises(FileNotFoundError, match="missing beside it"):
        onnx_head.read(path)
    (tmp_path / "late.data").write_bytes(bytes(8))
    assert onnx_head.read(path).external == {"late.data": 8}


def test_a_pipe_of_weights_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is a pipe, not a file of weights"):
        onnx_head.read(external(tmp_path, 0, location="pipe"))


# Files that are no models.


def directory(path: Path) -> None:
    path.mkdir()


def content(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data) and None


WHOLE = identity()
BAD = {
    "text": (content(b"once upon a time\n" * 9), "is not an ONNX file: it begins with b'once upo'"),
    "empty": (content(b""), "is empty, not an ONNX file"),
    "zip": (content(b"PK\x03\x04" + bytes(50)), "is a zip archive, not an ONNX file"),
    "gguf": (content(b"GGUF\x03\x00\x00\x00" + b"\xff" * 60), "is a GGUF file, not an ONNX file"),
    "pickle": (content(b"\x80\x04\x95" + bytes(50)), "is a pickle, not an ONNX file"),
    "lfs": (content(b"version https://git-lfs.github.com/spec/v1\n"), "the file itself was not fetched"),
    "ort": (content(b"\x1c\x00\x00\x00ORTM" + bytes(50)), r"in onnxruntime's own format \(\.ort\)"),
    "truncated": (content(WHOLE[:30]), "is truncated or damaged: a field is longer than what it is in"),
    "cut within a number": (content(WHOLE[:3]), "is truncated or damaged"),
    "no graph": (content(field(1, 8)), "is truncated or damaged: it has no graph"),
    "absurd length": (content(field(1, 8) + b"\x3a" + varint(1 << 60) + b"abc"), "is truncated or damaged"),
    "absurd name": (content(model(field(2, "n" * (1 << 20)) * 70)), "more than 67108864 bytes of names"),
    "absurd weights": (
        content(sums(weights("w", (1 << 40, 1 << 40), raw=bytes(8)))),
        "of the weights 'w' not all are there",
    ),
    "negative weights": (content(sums(weights("w", (-2,), raw=bytes(8)))), "'w' have no possible shape"),
    "directory": (directory, "is a directory, not an ONNX file"),
    "pipe": (os.mkfifo, "is a pipe, not an ONNX file"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_no_model_is_told_in_one_line(kind: str, tmp_path: Path) -> None:
    make, reason = BAD[kind]
    path = tmp_path / "m.onnx"
    make(path)
    with pytest.raises(ValueError, match=reason) as caught:
        onnx_head.read(str(path))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_graphs_without_end_within_each_other_are_damage(tmp_path: Path) -> None:
    inner = graph()
    for _ in range(50):
        inner = graph(field(1, node("If", ["c"], ["y"], field(6, inner))))
    with pytest.raises(ValueError, match="more than 16 graphs are within each other"):
        onnx_head.read(written(tmp_path / "m.onnx", model(inner)))


def test_no_more_fields_are_looked_at_than_a_large_model_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert onnx_reader.MOST_FIELDS == 1_000_000
    monkeypatch.setattr(onnx_reader, "MOST_FIELDS", 1000)
    with pytest.raises(ValueError, match="more than 1000 fields"):
        onnx_head.read(written(tmp_path / "m.onnx", model(graph(field(1, field(4, b"")) * 600))))


def test_more_entries_than_anybody_needs_are_damage(tmp_path: Path) -> None:
    many = {f"key{number}": "" for number in range(onnx_reader.MOST_WHOLE + 1)}
    with pytest.raises(ValueError, match="more than 4096 entries of one kind"):
        onnx_head.read(written(tmp_path / "m.onnx", identity(**many)))


def damaged(rng: random.Random, whole: bytes) -> bytes:
    """Some bytes near its beginning or its end are others; or a part is cut out, comes twice, or all after it lacks."""
    data = bytearray(whole)
    near = min(len(data), 20_000)
    for _ in range(rng.randint(1, 8)):
        place = rng.randrange(near)
        data[place if rng.random() < 0.7 else -1 - place] = rng.randrange(256)
    start, end = sorted((rng.randrange(near), rng.randrange(near)))
    choice = rng.randrange(8)
    if choice == 0:
        del data[start:end]
    elif choice == 1:
        data[start:start] = data[start:end]
    elif choice == 2:
        del data[start:]
    return bytes(data)


def samples() -> list[bytes]:
    """Small models, and real ones where there are any."""
    small = [
        identity(),
        sums(weights("w", (2,), raw=bytes(8))),
        sums(weights("w", (2,), location="w.data", offset=0, length=8)),
    ]
    real = [MODELS / name for name in ("ocr/cls.onnx", "vad.onnx")]
    return small * 3 + [path.read_bytes() for path in real if path.exists()]


def problem(path: Path) -> str | None:
    """What is said of a file; None: it was read. Anything but these two kinds of errors is a fault."""
    onnx_head._read_once.cache_clear()
    try:
        onnx_head.read(str(path))
    except (ValueError, OSError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_file_holds_it_is_read_or_refused_in_little_memory(seed: int, tmp_path: Path) -> None:
    """Of time it takes what the fields take that it looks at, and these are counted."""
    rng = random.Random(seed)
    known = samples()
    path = tmp_path / "m.onnx"
    said = []
    for _ in range(70):
        data = rng.randbytes(rng.randint(1, 2000)) if rng.random() < 0.2 else damaged(rng, rng.choice(known))
        path.write_bytes(data)
        del data
        tracemalloc.start()
        try:
            said.append(problem(path))
            assert tracemalloc.get_traced_memory()[1] < 20 << 20
        finally:
            tracemalloc.stop()
    assert 0 < said.count(None) < 70
    assert not [text for text in said if text is not None and "\n" in text]


def test_reading_a_head_needs_no_more_memory_than_the_head(tmp_path: Path) -> None:
    """A file of 2 GiB of weights, as far as anybody can see: it has a hole."""
    size = 2 << 30
    path = tmp_path / "m.onnx"
    tensor = field(1, size // 4) + field(2, FLOAT) + field(8, "w") + varint(9 << 3 | 2) + varint(size)
    node_of = graph(field(1, node("Identity", ["w"], ["y"]))) + varint(5 << 3 | 2) + varint(len(tensor) + size)
    head = field(1, 8) + varint(7 << 3 | 2) + varint(len(node_of) + len(tensor) + size)
    with path.open("wb") as file:
        file.write(head + node_of + tensor)
        file.truncate(len(head + node_of + tensor) + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert onnx_head.read(str(path)).parameters == size // 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB
