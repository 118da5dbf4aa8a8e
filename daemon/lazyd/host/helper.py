"""Runs a short program and tells how it went, without waiting for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..worker.loop import Loop
from .logs import LogFile, LogPipe
from .reaper import Reaper
from .spawn import execute


def run(
    loop: Loop,
    reaper: Reaper,
    command: Sequence[str],
    limit_s: float,
    on_done: Callable[[int | None, str], None],
) -> None:
    """Calls back with the exit status (None: it was killed) and the last of its output."""
    reads, writes = os.pipe()
    pid = execute(command, dict(os.environ), output=writes)
    os.close(writes)
    output = LogPipe(loop, reads, LogFile(os.devnull))
    limit = loop.after(limit_s, lambda: reaper.kill(pid))

    def exited(status: int | None, _signal: int | None) -> None:
        limit.cancel()
        output.finish()
        on_done(status, output.last_lines)

    reaper.watch(pid, exited)
