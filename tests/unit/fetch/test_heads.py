"""Of a file elsewhere only what tells of it is read, and read here as if all of it were."""

from __future__ import annotations

import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lazyd.fetch import heads, manifest
from lazyd.runtimes import gguf, onnx_head

from ..runtimes import onnx_files
from ..runtimes.test_gguf import model
from ..runtimes.test_llama_cpp_needs import EMBEDDING, LAYERS, SHAPE
from .elsewhere import Elsewhere

URL = "s3://b/m.gguf"


def test_a_header_is_read_from_its_head_as_from_the_whole_file(tmp_path: Path) -> None:
    whole, there = tmp_path / "m.gguf", Elsewhere()
    model(whole, pairs=SHAPE, tensors={**EMBEDDING, **LAYERS})
    there.put(URL, whole.read_bytes() + b"\0" * (8 << 20))
    heads.fetch(str(tmp_path / "heads"), {"m.gguf": URL}, there.open)
    head = tmp_path / "heads" / "m.gguf"
    assert head.stat().st_size == len(there.files[URL])
    assert head.stat().st_blocks * 512 < 4 << 20
    assert gguf.read(str(head)).metadata == gguf.read(str(whole)).metadata
    assert sum(end - start for start, end in there.reads) <= (1 << 20) + heads.BLOCK


def test_two_who_want_the_same_head_at_a_time_both_get_it(tmp_path: Path) -> None:
    there, meeting = Elsewhere(), threading.Barrier(2, timeout=60)
    data = onnx_files.sums(onnx_files.weights("w", (4,), raw=b"1" * 16))
    there.put("s3://b/m.onnx", data)
    there.before_read = meeting.wait
    with ThreadPoolExecutor(2) as threads:
        asked = [
            threads.submit(heads.fetch, str(tmp_path / "head"), {"m.onnx": "s3://b/m.onnx"}, there.open)
            for _ in range(2)
        ]
    assert [one.result() for one in asked] == [None, None]
    assert [path.name for path in tmp_path.iterdir()] == ["head"]
    assert onnx_head.read(str(tmp_path / "head" / "m.onnx")).inputs


def test_of_an_onnx_model_weights_are_not_read_whatever_follows_them(tmp_path: Path) -> None:
    raw = os.urandom(16 * heads.BLOCK)
    data = onnx_files.sums(onnx_files.weights("w", (len(raw) // 4,), raw=raw))
    there = Elsewhere()
    there.put("s3://b/m.onnx", data)
    heads.fetch(str(tmp_path / "heads"), {"m.onnx": "s3://b/m.onnx"}, there.open)
    (tmp_path / "whole.onnx").write_bytes(data)
    head, whole = (onnx_head.read(str(tmp_path / name)) for name in ("heads/m.onnx", "whole.onnx"))
    assert (head.inputs, head.outputs, head.metadata) == (whole.inputs, whole.outputs, whole.metadata)
    assert sum(end - start for start, end in there.reads) <= 4 * heads.BLOCK


def test_an_onnx_model_brings_its_files_of_weights() -> None:
    there = Elsewhere()
    there.put("s3://b/d/m.onnx", onnx_files.sums(onnx_files.weights("w", (2,), location="sub/w.data")))
    there.put("s3://b/d/sub/w.data", b"x" * 8)
    wanted = {"m.onnx": "s3://b/d/m.onnx", "sub/w.data": "s3://b/d/sub/w.data"}
    assert manifest.files("s3://b/d/m.onnx", there.open) == wanted
    there.put("s3://b/d/bad.onnx", onnx_files.sums(onnx_files.weights("w", (2,), location="../w")))
    assert manifest.files("s3://b/d/bad.onnx", there.open) == {"bad.onnx": "s3://b/d/bad.onnx"}


def test_any_part_is_read_once(tmp_path: Path) -> None:
    data, reads = os.urandom(3 * heads.BLOCK + 10), []

    def read(start: int, end: int) -> bytes:
        reads.append((start, end))
        return data[start:end]

    with heads.Sparse(str(tmp_path / "f"), len(data), read) as file:
        buffered = io.BufferedReader(file)
        buffered.seek(-10, os.SEEK_END)
        assert buffered.read() == data[-10:]
        buffered.seek(5)
        assert buffered.read(20) == data[5:25]
        buffered.seek(0)
        assert buffered.read() == data
    assert sum(end - start for start, end in reads) == len(data)


def test_of_any_other_file_its_size_is_enough(tmp_path: Path) -> None:
    there = Elsewhere()
    there.put("s3://b/x.bin", b"x" * 5000)
    heads.fetch(str(tmp_path / "heads"), {"deep/x.bin": "s3://b/x.bin"}, there.open)
    assert (tmp_path / "heads" / "deep" / "x.bin").stat().st_size == 5000
    assert there.reads == []
