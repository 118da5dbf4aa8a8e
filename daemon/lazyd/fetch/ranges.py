"""A range of a file on a web server, where the answer is believed only if it says that it is that range.

A server may know ranges of one file and not of another, or forget them while it copies a file from elsewhere; what it
sends then has the right length now and then, and is never what was asked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .failures import NoRanges

if TYPE_CHECKING:
    from fsspec.implementations.http import HTTPFileSystem

_SAID = re.compile(r"bytes (\d+)-(\d+)/")
_PARTIAL, _NOT_SATISFIABLE = 206, 416


def read(fs: HTTPFileSystem, url: str, start: int, end: int) -> bytes:
    """Raises `NoRanges`, and what aiohttp does."""
    from fsspec.asyn import sync

    data: bytes = sync(fs.loop, _read, fs, url, start, end)
    return data


async def _read(fs: Any, url: str, start: int, end: int) -> bytes:
    session = await fs.set_session()
    headers = {**fs.kwargs.get("headers", {}), "Range": f"bytes={start}-{end - 1}"}
    async with session.get(fs.encode_url(url), **{**fs.kwargs, "headers": headers}) as answer:
        if answer.status != _NOT_SATISFIABLE:
            answer.raise_for_status()
        if answer.status != _PARTIAL or not is_range(answer.headers.get("Content-Range", ""), start, end):
            raise NoRanges("it does not answer with the part of the file that it is asked for")
        data: bytes = await answer.content.readexactly(end - start)
        return data


def is_range(said: str, start: int, end: int) -> bool:
    """Whether an answer's ``Content-Range`` is of these bytes."""
    found = _SAID.match(said)
    return found is not None and (int(found[1]), int(found[2]) + 1) == (start, end)
