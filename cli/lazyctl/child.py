"""A program that lazyctl runs in its place: what it sees of GPUs, which signals it gets, how it ended.

The child stays in lazyctl's process group, so the terminal's Ctrl-C reaches both. Signals are taken one by
one (`sigwaitinfo`), because only then the kernel says where each comes from: what it sent itself is the
terminal's and has reached the child too; what another process sent to lazyctl is passed on.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""What shells answer with."""
SIGNALLED = 128
"""Shells add the signal's number to it."""

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_WATCHED = frozenset({*_PASSED_ON, signal.SIGCHLD})
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_SI_KERNEL = 0x80
"""``si_code`` of what no process sent."""


class CannotRun(Exception):
    """The program cannot be started. `status` is what to exit with."""

    def __init__(self, line: str, status: int) -> None:
        super().__init__(line)
        self.status = status


def found(name: str) -> str:
    """The file of a program, as a shell finds it.

    Raises:
        CannotRun: there is none, or it may not be executed.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    if "/" in name and os.path.exists(name):
        raise CannotRun(f"{name} cannot be executed: it is no program, or may not be run by this user", NOT_EXECUTABLE)
    where = "" if "/" in name else " on the PATH"
    raise CannotRun(f"there is no command {name}{where}; nothing was reserved", NOT_FOUND)


def environment(device: str, uuid: str | None, base: Mapping[str, str]) -> dict[str, str]:
    """That of a program which is to see this device alone; in RAM it sees no GPU."""
    visible = "" if device == "ram" else uuid or device.removeprefix("gpu")
    return {**base, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}


def run(path: str, command: Sequence[str], variables: Mapping[str, str], on_started: Callable[[], object]) -> int:
    """Runs a program to its end; its exit status, or 128 and the signal that ended it.

    `on_started` is called once it runs; threads that it starts leave the signals to this one.

    Raises:
        CannotRun: it cannot be started.
    """
    with _signals_held() as before:
        pid = _spawn(path, command, variables, before)
        on_started()
        return _wait(pid)


@contextmanager
def _signals_held() -> Iterator[set[int]]:
    """Signals stay pending until somebody takes them. Yields the mask that was in force."""
    before = set(signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED))
    try:
        yield before
    finally:
        while signal.sigtimedwait(_WATCHED, 0) is not None:  # they were meant for a program that has ended
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _spawn(path: str, command: Sequence[str], variables: Mapping[str, str], mask: set[int]) -> int:
    try:
        return os.posix_spawn(path, list(command), variables, setsigmask=mask, setsigdef=_IGNORED_BY_PYTHON)
    except OSError as error:
        status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        hint = "; is the interpreter that its first line names there?" if status == NOT_FOUND else ""
        raise CannotRun(f"{command[0]} cannot be started: {error.strerror}{hint}", status) from None


def _wait(pid: int) -> int:
    while True:
        told = signal.sigwaitinfo(_WATCHED)
        if told.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else SIGNALLED - code
        elif told.si_code != _SI_KERNEL:
            with suppress(ProcessLookupError):
                os.kill(pid, told.si_signo)
