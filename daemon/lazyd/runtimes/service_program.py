"""The program of a service as a child of its worker: started in a process group of its own, heard, and ended.

What it writes goes to the worker's log as it comes. The kernel ends it with the worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1
_CHUNK = 64 * 1024
_TAIL = 4096
_LAST_LINES = 5
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0e-\x1f\x7f]")
"""Colours and the like: nothing for an error."""
_LAST_WORDS_S = 1.0
"""After its end its output is read for so long: a process that it has left behind may keep the pipe open."""
GRACE_S = 3.0
"""How long a program may take to end where nothing is said."""

_libc = ctypes.CDLL(None)


class Program:
    """A running program. `line` is looked for in its output."""

    def __init__(
        self, command: Sequence[str], env: dict[str, str], directory: str, line: re.Pattern[str] | None = None
    ) -> None:
        """Starts it. Raises `OSError`. It ends with the thread that calls this, at the latest."""
        self._line = line
        self._unfinished = ""
        self._tail = b""
        self.written = 0
        """Bytes of its output so far."""
        self.line_found = threading.Event()
        self.ended = threading.Event()
        self.status: int | None = None
        """Negative: the signal that ended it."""
        self._on_end: Callable[[int], None] | None = None
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            list(command),
            env=env,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            preexec_fn=_begin,
        )
        self._reader = threading.Thread(target=self._read, name="output", daemon=True)
        self._reader.start()
        threading.Thread(target=self._wait, name="end", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """It has not ended, also if what it has written is still being read."""
        return self._process.poll() is None

    @property
    def last_lines(self) -> str:
        """The last of what it has written, on one line."""
        text = _CONTROL.sub("", self._tail.decode("utf-8", "replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-_LAST_LINES:])

    @property
    def how_it_ended(self) -> str:
        """``status 3``."""
        status = self.status or 0
        return f"status {status}" if status >= 0 else f"signal {-status}"

    def when_ended(self, on_end: Callable[[int], None] | None) -> None:
        """Calls back with its status when it has ended, or now if it has; in another thread. None: not any more."""
        with self._lock:
            self._on_end = on_end
        if on_end is not None and self.ended.is_set():
            threading.Thread(target=self._tell, name="end", daemon=True).start()

    def give_up(self, why: str) -> None:
        """Kills it and its process group, unless it is on its way out: a line in the log says why."""
        with self._lock:
            serves = self._on_end is not None
        if serves:
            print(f"{why}: it is ended", flush=True)
            self._signal(signal.SIGKILL)

    def stop(self, how: dict[str, Any], command: Sequence[str] = ()) -> None:
        """Ends it and its process group: by `command`, by a signal, and what is left after its grace by SIGKILL."""
        self.when_ended(None)
        deadline = time.monotonic() + how.get("grace_s", 10.0 if how else GRACE_S)
        if command and not self.ended.is_set():
            _run(command, deadline - time.monotonic())
        if not self.ended.is_set():
            self._signal(getattr(signal, how.get("signal", "SIGTERM")))
            self.ended.wait(max(0.0, deadline - time.monotonic()))
        self._signal(signal.SIGKILL)
        self.ended.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    # In threads of its own.

    def _wait(self) -> None:
        status = self._process.wait()
        self._reader.join(_LAST_WORDS_S)
        self.status = status
        self.ended.set()
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.status or 0)

    def _read(self) -> None:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        while data := os.read(output, _CHUNK):
            self.written += len(data)
            self._tail = (self._tail + data)[-_TAIL:]
            self._look_for_line(data)
            while data:
                data = data[os.write(1, data) :]

    def _look_for_line(self, data: bytes) -> None:
        if self._line is None or self.line_found.is_set():
            return
        *lines, rest = (self._unfinished + data.decode("utf-8", "replace")).split("\n")
        self._unfinished = rest[-_CHUNK:]
        if any(self._line.search(line) for line in lines):
            self.line_found.set()


def _begin() -> None:
    """In the child, before the program."""
    os.setpgid(0, 0)
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _run(command: Sequence[str], limit_s: float) -> None:
    """A command that has a program end. What goes wrong is written to the log."""
    try:
        subprocess.run(list(command), stdin=subprocess.DEVNULL, timeout=max(0.1, limit_s), check=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"the command that stops it: {error}", flush=True)
