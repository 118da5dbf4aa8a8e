"""What an ONNX file says of itself, without its library: what goes in and comes out, opsets, where its weights are.

`onnx_reader` reads it. Weights may lie in files of their own; these are looked for here. ONNX lets a model name
any path, and lazyd only those in the model's own folder.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from . import checked
from .onnx_reader import Reader
from .protobuf import Damaged, Message

if TYPE_CHECKING:
    from .onnx_reader import Head

_OTHERS = {
    b"GGUF": "a GGUF file",
    b"PK\x03\x04": "a zip archive",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "packed by gzip",
    b"\x80": "a pickle",
    b"version https://git-lfs": "a pointer of Git LFS, and the file itself was not fetched",
}
_ORT_FORMAT = b"ORTM"
"""Bytes 4 to 8 of a file in onnxruntime's own format."""


def read(path: str) -> Head:
    """The head of the file; read once, as long as the file does not change. External files are looked at each time.

    Raises `OSError`, and `ValueError` with one clear line for what is no ONNX file or is not whole.
    """
    checked.model_file(path, "onnx", "an ONNX file")
    found = os.stat(path)
    head = _read_once(path, found.st_size, found.st_mtime_ns)
    for name, needed in head.external.items():
        _look_at(path, name, needed)
    return head


def external_files(path: str, head: Head) -> list[str]:
    """Where its weights are that lie in files of their own."""
    return [os.path.join(os.path.dirname(path), name) for name in head.external]


@functools.lru_cache(maxsize=64)
def _read_once(path: str, size: int, _changed_ns: int) -> Head:
    with open(path, "rb") as file:
        begins = file.read(32)
        file.seek(0)
        reader = Reader(Message(file, size))
        try:
            reader.model()
        except Damaged as error:
            raise ValueError(_not_whole(path, begins, str(error))) from None
    if not reader.has_graph or not reader.head.ir_version:
        raise ValueError(_not_whole(path, begins, "it has no graph"))
    return reader.head


def _not_whole(path: str, begins: bytes, why: str) -> str:
    """One line about a file that could not be read to its end."""
    if not begins:
        return f"{path} is empty, not an ONNX file"
    if begins[4:8] == _ORT_FORMAT:
        return f"{path} is in onnxruntime's own format (.ort); give the ONNX file that it was made from"
    other = next((name for start, name in _OTHERS.items() if begins.startswith(start)), None)
    if other is not None:
        return f"{path} is {other}, not an ONNX file"
    if begins[0] == 0x08 and begins[1:2] < b"\x80":  # field 1, the version of the format: every writer begins so
        return f"{path} is truncated or damaged: {why}"
    return f"{path} is not an ONNX file: it begins with {begins[:8]!r}"


def _look_at(path: str, name: str, needed: int) -> None:
    """Raises `OSError`, `ValueError` if weights that lie in a file of this name cannot be read from there."""
    if not name or "\0" in name or os.path.isabs(name) or ".." in name.replace("\\", "/").split("/"):
        raise ValueError(f"{path} has weights in {name!r}, which is not in its folder; only files there are read")
    full = os.path.join(os.path.dirname(path), name)
    try:
        size = checked.model_file(full, "onnx", "a file of weights")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} has weights in {name!r}, which is missing beside it") from None
    if size < needed:
        raise ValueError(f"{full} is truncated: {needed - size} of {needed} bytes are missing")
