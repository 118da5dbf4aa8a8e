"""Executes a program as a child in a session of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..worker.process import PR_SET_PDEATHSIG

_libc = ctypes.CDLL(None)


def execute(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    keep: Sequence[int] = (),
    output: int | None = None,
    cgroup: Path | None = None,
) -> int:
    """The pid of the new process, which dies with this one.

    It inherits the descriptors `keep`, writes to `output`, and begins in `cgroup`, so that
    nothing of it is ever outside. If the program cannot be executed, the process says so on its
    output and exits with status 127.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _become(command, env, keep, output, cgroup)
        finally:
            os._exit(127)
    return pid


def _become(
    command: Sequence[str], env: Mapping[str, str], keep: Sequence[int], output: int | None, cgroup: Path | None
) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    for target in (1, 2):
        os.dup2(empty if output is None else output, target)
    if cgroup is not None:
        with contextlib.suppress(OSError):
            (cgroup / "cgroup.procs").write_text("0")
    for fd in keep:
        os.set_inheritable(fd, True)
    try:
        os.execve(command[0], list(command), dict(env))
    except OSError as error:
        os.write(2, f"{command[0]} cannot be executed: {error.strerror}\n".encode())
