"""What a worker asks of the kernel, and what it puts right after a fork.

A worker must not outlive the host. A thread that watches a pipe is not enough, because native
code may hold the interpreter's lock for seconds; the kernel's parent-death signal is. It goes
with the parent that a process has when it asks for it, so it is asked for once the host is the
parent, and the parent is looked at again after.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import random
import resource
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

ORPHANED = 86
"""The exit status of a process that finds its host gone."""
PARENT_PATIENCE_S = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_host(host: int) -> None:
    """From now on SIGKILL comes when the process `host` ends; leaves at once if it has already."""
    deadline = time.monotonic() + PARENT_PATIENCE_S
    while os.getppid() != host:  # the process between zygote and worker is about to end
        if time.monotonic() > deadline or not _exists(host):
            os._exit(ORPHANED)
        time.sleep(0.0005)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:
        os._exit(ORPHANED)


def adopt_orphans() -> None:
    """Descendants whose parents have ended become this process's children: so they can be found."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """What `ps` and `top` show; 15 bytes of it."""
    _libc.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def calm_signals() -> None:
    """Signals end the process, as a worker has nothing to tidy that the host could not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable(file=2)


def raise_file_limit() -> None:
    """As many connections as the administrator allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def replace_streams(log: int) -> None:
    """Standard input is empty, standard output and error go to `log`, line by line."""
    empty = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, empty), (1, log), (2, log)):
        os.dup2(source, target)
    for fd in {empty, log} - {0, 1, 2}:
        os.close(fd)
    open_streams()


def open_streams() -> None:
    """Python's streams over descriptors 0 to 2, whatever an imported library made of them.

    Errors in what is written never raise, and each line is written at once, as the process may
    end without a last flush.
    """
    for name, fd in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        mode = "r" if fd == 0 else "w"
        stream = open(fd, mode, buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def reseed() -> None:
    """Makes this process's random numbers its own: a fork shares the state of every generator."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.seed()


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
