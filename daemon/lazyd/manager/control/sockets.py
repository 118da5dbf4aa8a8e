"""The control socket: inherited from systemd, taken over from a dead daemon, or made anew."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat

from lazyd import places
from lazyd.varlink.peer import peer_of

from ..failures import CannotStart

_FIRST_INHERITED = 3
BACKLOG = 1024
"""Clients that may wait to be accepted."""
MAX_PATH = 107
"""Bytes of a socket's path that the kernel takes."""
_A_WORKER = "f" * 32


def control_socket(given: str | None, runtime: str, group: int | None) -> tuple[socket.socket, bool]:
    """The listening control socket, and whether it is inherited.

    It is what was asked for, else an inherited one, else the default. `given` is the argument of
    ``--socket``; an inherited socket of the same path is used for it.

    Raises:
        CannotStart: a live daemon has it, or it cannot be made.
    """
    listening = inherited()
    chosen = places.chosen_socket(given)
    for sock in listening:
        if chosen is None or sock.getsockname() == chosen:
            sock.setblocking(False)
            return sock, True
    return listen(chosen or places.control_socket(runtime), group), False


def inherited() -> list[socket.socket]:
    """Sockets that systemd made and passed on. Later callers and children get none.

    Raises:
        CannotStart: one of them is no listening Unix stream socket.
    """
    pid = os.environ.pop("LISTEN_PID", "")
    count = os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    sockets = []
    for fd in range(_FIRST_INHERITED, _FIRST_INHERITED + int(count)):
        os.set_inheritable(fd, False)
        try:
            sock = socket.socket(fileno=fd)
            fits = sock.family == socket.AF_UNIX and sock.type == socket.SOCK_STREAM
            fits = fits and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        except OSError:
            fits = False
        if not fits:
            raise CannotStart(
                f"inherited descriptor {fd} is no listening Unix stream socket; ListenStream= must name a path"
            )
        sockets.append(sock)
    return sockets


def listen(path: str, group: int | None) -> socket.socket:
    """Makes the socket, for the daemon's user alone or, where the group lazyd may be given it, for that too.

    What a dead daemon left at `path` is replaced; a live one's is not.
    """
    _make_way(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(path)
        if group is not None:
            with contextlib.suppress(PermissionError):  # a user who is not in the group
                os.chown(path, -1, group)
                os.chmod(path, 0o660)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise CannotStart(f"{path} cannot be made: {error.strerror or error}; give another --socket") from None
    finally:
        os.umask(before)
    sock.setblocking(False)
    return sock


def _make_way(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        return
    except OSError as error:
        raise CannotStart(f"{path} cannot be looked at: {error.strerror}; give another --socket") from None
    if not stat.S_ISSOCK(mode):
        raise CannotStart(f"{path} is no socket; move it away, or give another --socket")
    holder = live_holder(path)
    if holder is not None:
        raise CannotStart(f"{path} belongs to a live daemon ({describe(holder)}); stop it, or give another --socket")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def make_directory(path: str) -> None:
    """Makes a directory for sockets, for the daemon's user and group alone, unless it is there."""
    try:
        os.makedirs(path, mode=0o750, exist_ok=True)
    except OSError as error:
        raise CannotStart(f"{path} cannot be made: {error.strerror}; make it, or give --runtime-dir") from None


def check_length(runtime: str) -> None:
    """Checks that workers can have sockets below a runtime directory.

    Raises:
        CannotStart: its path is too long.
    """
    longest = len(os.fsencode(places.data_socket(runtime, _A_WORKER)))
    if longest > MAX_PATH:
        raise CannotStart(
            f"the path {runtime} is {longest - MAX_PATH} bytes too long for sockets in it; give another --runtime-dir"
        )


def live_holder(path: str) -> int | None:
    """The pid of the process that listens at `path`; None: nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1)
        try:
            sock.connect(path)
            return peer_of(sock).pid
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return None
            raise CannotStart(
                f"{path} exists and cannot be connected to: {error.strerror}; stop who has it, or give another --socket"
            ) from None


def describe(pid: int) -> str:
    """``pid 12, lazyd``, as far as it can be seen."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return f"pid {pid}, {file.read().strip()}"
    except OSError:
        return f"pid {pid}"
