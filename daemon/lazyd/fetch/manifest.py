"""Which files a URL means: one, all below it, or one with what belongs to it.

A GGUF model in parts names its first one (``…-00001-of-00003.gguf``), an ONNX model names its files of weights itself.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection

from lazyd import urls
from lazyd.runtimes import gguf

from . import heads
from .failures import Failed
from .remote import Remote

MOST_FILES = 10_000
LONGEST_NAME = 255
"""Bytes, of a file or a folder."""
ONNX = ".onnx"


def files(url: str, open_url: Callable[[str], Remote]) -> dict[str, str]:
    """URLs by the names that they get here. Raises `Failed`."""
    found = _folder(url, open_url) if urls.is_folder(url) else _one(url, open_url)
    if wrong := next(filter(None, (_what_is_wrong(name, found) for name in found)), None):
        raise Failed(f"{urls.masked(url)}: {wrong}")
    return found


def _one(url: str, open_url: Callable[[str], Remote]) -> dict[str, str]:
    name = urls.name_of(url)
    found = {name: url}
    for part in gguf.parts(name)[1:] if name.endswith(".gguf") else ():
        found[part] = _beside(url, part)
    if name.endswith(ONNX):
        found |= {weights: _beside(url, weights) for weights in _weights(url, open_url)}
    return found


def _folder(url: str, open_url: Callable[[str], Remote]) -> dict[str, str]:
    names = open_url(url).below()
    if not names:
        raise Failed(f"{urls.masked(url)}: nothing is below it")
    if len(names) > MOST_FILES:
        raise Failed(f"{urls.masked(url)}: {len(names)} files are below it, and no more than {MOST_FILES} are fetched")
    plain = urls.without_query(url)
    return {urls.decoded(name, url): f"{plain}{name}{url[len(plain) :]}" for name in names}


def _what_is_wrong(name: str, names: Collection[str]) -> str | None:
    """Why a file cannot be kept under this name, beside the others."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return f"{name[:LONGEST_NAME]!r} is no name for a file"
    if any(len(part.encode()) > LONGEST_NAME for part in parts):
        return f"a name is longer than {LONGEST_NAME} bytes: {name[:40]}…"
    folders = ("/".join(parts[:end]) for end in range(1, len(parts)))
    both = next((folder for folder in folders if folder in names), None)
    return None if both is None else f"{both!r} is a file and a folder"


def _weights(url: str, open_url: Callable[[str], Remote]) -> list[str]:
    remote = open_url(url)
    info = remote.info()
    if info.bytes is None or not info.ranges:
        return []
    with tempfile.TemporaryDirectory() as folder, heads.Sparse(f"{folder}/head", info.bytes, remote.read) as file:
        return heads.externals(file, info.bytes)


def _beside(url: str, name: str) -> str:
    """Another file of the same folder."""
    plain = urls.without_query(url)
    return f"{os.path.dirname(plain)}/{name}{url[len(plain) :]}"
