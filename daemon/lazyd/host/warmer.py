"""The process that reads models' files into the page cache, and keeps some of them locked there.

It is executed by the host in a cgroup of its own, as the kernel charges a page of a file to whoever touches it
first. It reads at the lowest input/output priority: one file at a time of each disk, since several at once are
slower on most.

    {"do": "warm", "model": key, "id": number, "files": [[path, "device:inode", bytes], …], "lock": bool}
    {"do": "let_go", "model": key}

Each order is told of by ``{"is": "pages", "model", "id", "stage", "done", "total", "reason"}``, until it has ended:
``queued``, ``reading``, then ``warm`` or ``locked``; or ``failed``, or ``gone`` after `let_go`. ``warm`` with a reason
means that the kernel does not let the files be locked. A newer order of a model takes the place of an older one.

How one is carried out stands in `reading`. Only the standard library is imported.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import threading
from typing import Any

from ..wire import packets
from ..worker.link import decode, encode
from ..worker.process import calm_signals, die_with_host, set_name
from .reading import Disks, File, Order, be_modest


class Warmer:
    """All orders, and the host at the other end."""

    def __init__(self, sock: socket.socket) -> None:
        self.disks = Disks()
        self._socket = sock
        self._orders: dict[str, Order] = {}
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Takes orders until the host closes the connection."""
        while True:
            data, ancillary, _, _ = self._socket.recvmsg(packets.MAX_PACKET_BYTES, packets.ANCILLARY)
            fds = packets.received(ancillary)
            if not data:
                return
            message, fds = decode(data, fds)
            packets.close(fds)
            self._carry_out(message)

    def _carry_out(self, message: dict[str, Any]) -> None:
        known = self._orders.get(message["model"])
        if message["do"] == "let_go" and known is not None:
            known.let_go()
        elif message["do"] == "warm":
            if known is not None:
                known.let_go()
            files = [File(*file) for file in message["files"]]
            order = Order(self, message["model"], message["id"], files, lock=message["lock"])
            self._orders[message["model"]] = order
            order.begin()

    def over(self, order: Order, stage: str, reason: str | None = None) -> None:
        """An order has ended; the first end counts."""
        with self._sending:
            if order.is_told:
                return
            order.is_told = order.is_over = True
            if self._orders.get(order.model) is order:
                del self._orders[order.model]
        order.tell(stage, reason)
        self.disks.look_again()

    def say(self, message: dict[str, Any]) -> None:
        with self._sending:
            data, fds, ours = encode(message)
            socket.send_fds(self._socket, [data], fds)
            if ours is not None:
                os.close(ours)


def main(argv: list[str]) -> None:
    """``python -m lazyd.host.warmer FD HOST``: the descriptor of the link, and the host's process id."""
    die_with_host(int(argv[1]))
    calm_signals()
    set_name("lazyd-warmer")
    be_modest()
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    with contextlib.suppress(OSError):  # the host has gone
        Warmer(socket.socket(fileno=int(argv[0]))).serve()
    os._exit(0)  # a thread may wait for a dead disk


if __name__ == "__main__":
    main(sys.argv[1:])
