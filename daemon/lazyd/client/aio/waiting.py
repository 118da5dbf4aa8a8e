"""Waiting for a socket or an event, with a deadline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..steps import Late
from ..unix import left_s

if TYPE_CHECKING:
    import socket


async def until(future: asyncio.Future[None], deadline: float | None) -> None:
    """Waits for the future alone, without a task for it. Raises `Late`."""
    if deadline is None:
        await future
        return
    timer = asyncio.get_running_loop().call_later(left_s(deadline) or 0.0, _late, future)
    try:
        await future
    finally:
        timer.cancel()


async def readable(sock: socket.socket, deadline: float | None) -> None:
    """Raises `Late`."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.add_reader(sock.fileno(), wake, future)
    try:
        await until(future, deadline)
    finally:
        loop.remove_reader(sock.fileno())


async def writable(sock: socket.socket, deadline: float | None) -> None:
    """Raises `Late`."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.add_writer(sock.fileno(), wake, future)
    try:
        await until(future, deadline)
    finally:
        loop.remove_writer(sock.fileno())


def wake(future: asyncio.Future[None]) -> None:
    """Ends somebody's waiting, unless it has ended."""
    if not future.done():
        future.set_result(None)


def _late(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(Late())
