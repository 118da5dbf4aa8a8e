"""The floor of bulk data: sends back what comes, the given number of bytes at a time.

Run as a program: ``python mirror.py FD BYTES``, where the descriptor is one end of a pair of Unix stream sockets.
"""

from __future__ import annotations

import socket
import sys


def received(sock: socket.socket, into: memoryview) -> bool:
    """Whether all has come; not if the other end was closed."""
    while into:
        count = sock.recv_into(into)
        if not count:
            return False
        into = into[count:]
    return True


if __name__ == "__main__":
    end = socket.socket(fileno=int(sys.argv[1]))
    data = memoryview(bytearray(int(sys.argv[2])))
    while received(end, data):
        end.sendall(data)
