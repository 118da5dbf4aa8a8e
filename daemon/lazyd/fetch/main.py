"""``python -m lazyd.fetch``: started by systemd when the manager connects to its socket, or by the manager itself.

It ends by itself when there is nothing left to do. One at a time works in a folder: a lock says so.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence

from lazyd import places

from . import credentials
from .cache import OPEN, Cache
from .server import Server

LISTEN_FD = 3
"""The first descriptor that systemd passes on."""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser("lazyd-fetch", allow_abbrev=False)
    parser.add_argument("--state-dir", metavar="DIR", help="what is fetched is kept below it")
    parser.add_argument("--socket", metavar="PATH", help="where to listen, without systemd")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="lazyd-fetch: %(message)s", stream=sys.stderr)
    logging.getLogger("lazyd").setLevel(logging.INFO)  # what libraries say may name what nobody should read
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # what is under way goes on where it was
    root = places.fetched_dir(places.state_dir(options.state_dir))
    try:
        os.makedirs(root, mode=OPEN, exist_ok=True)
        lock_fd = os.open(os.path.join(root, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        print(f"lazyd-fetch: {root} cannot be written to: {error.strerror}", file=sys.stderr)
        return 1
    with open(lock_fd, "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"lazyd-fetch: another one works in {root}", file=sys.stderr)
            return 0
        try:
            credentials.take(os.environ)
        except (OSError, ValueError) as error:
            print(f"lazyd-fetch: {error}", file=sys.stderr)
            return 1
        Server(_listening(options.socket), Cache(root)).run()
        if options.socket is not None:
            os.unlink(options.socket)
        os._exit(0)  # a thread that still asks a server must not hold the process


def _listening(path: str | None) -> socket.socket:
    if path is None:
        if os.environ.get("LISTEN_PID") != str(os.getpid()):
            sys.exit("lazyd-fetch: without systemd it needs --socket")
        return socket.socket(fileno=LISTEN_FD)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.path.exists(path):
        os.unlink(path)  # of one that was killed: the lock is ours
    before = os.umask(0o077)
    try:
        sock.bind(path)
    finally:
        os.umask(before)
    sock.listen(64)
    return sock
