"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

import errno
import socket
import struct
from typing import Protocol

import msgspec

SO_PEERGROUPS = 59
_UCRED = struct.Struct("3i")
_FEW_GROUPS = 64
_MOST_GROUPS = 65536


class Peer(msgspec.Struct, frozen=True):
    """The process that connected, at the time when it connected."""

    pid: int
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()
    """Its supplementary groups."""

    def in_group(self, gid: int) -> bool:
        return self.gid == gid or gid in self.groups


class HasOptions(Protocol):
    """A socket, or what asyncio gives in its place."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def peer_of(sock: HasOptions) -> Peer:
    """Reads the credentials of a connected socket's other end.

    SO_PEERCRED names the primary group only; the others come from SO_PEERGROUPS.
    """
    pid, uid, gid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return Peer(pid, uid, gid, _groups(sock))


def _groups(sock: HasOptions) -> frozenset[int]:
    for count in (_FEW_GROUPS, _MOST_GROUPS):
        try:
            raw = sock.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 4 * count)
        except OSError as error:
            if error.errno == errno.ERANGE:
                continue
            return frozenset()  # a kernel before 4.13 does not know the option
        return frozenset(struct.unpack(f"{len(raw) // 4}I", raw))
    return frozenset()
