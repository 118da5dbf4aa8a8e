"""Which ports of this machine are open, and whose they are, as ``/proc`` says.

A port that was free a moment ago may be taken by a stranger before the program that it was meant for opens it. Then
the stranger would be taken for that program. So a port counts as open only if a process below this one has it, or one
that has got away from it, and still has in its environment what the program was started with.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ADDRESS = "127.0.0.1"
_LISTENS = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOOPBACK = f"{int.from_bytes(socket.inet_aton(ADDRESS), sys.byteorder):08X}"
"""As it stands in these tables; that of IPv6 ends with it, where it means the same."""


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as sock:
        sock.bind((ADDRESS, 0))
        port: int = sock.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """Whether anybody listens there, where it can be reached by `ADDRESS`."""
    return any(found == port and _is_reached(address) for address, found, _ in _listening())


def is_ours(port: int, mark: str | None) -> bool:
    """Whether this process, one below it, or one with `mark` in its environment (``NAME=value``) listens there."""
    return port in ours() or (mark is not None and port in _ports(_marked(mark.encode())))


def ours() -> set[int]:
    """All ports that this process and those below it listen at."""
    return _ports(_below(os.getpid()))


def _ports(pids: Iterable[int]) -> set[int]:
    sockets = {inode for pid in pids for inode in _sockets(pid)}
    return {port for _, port, inode in _listening() if inode in sockets} if sockets else set()


def _marked(mark: bytes) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        yield int(name)
            except OSError:  # it has gone, or is another user's
                continue


def _is_reached(address: str) -> bool:
    return not address.strip("0") or address.endswith(_LOOPBACK)


def _listening() -> Iterator[tuple[str, int, str]]:
    """The address, the port and the inode of every socket that listens, of either IP."""
    for table in _TABLES:
        try:
            with open(table) as file:
                lines = file.readlines()[1:]
        except OSError:  # a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENS:
                address, _, port = fields[1].rpartition(":")
                yield address, int(port, 16), fields[9]


def _sockets(pid: int) -> Iterator[str]:
    """The inodes of a process's sockets."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:  # it has gone, or is another user's
        return
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]


def _below(pid: int) -> set[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(name)) is not None:
            children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        each = todo.pop()
        found.add(each)
        todo += children.get(each, ())
    return found


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None
