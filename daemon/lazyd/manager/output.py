"""The daemon's own log: lines on standard error, in the journal's manner or with a time.

A thread writes them. A terminal that was stopped (Ctrl-S), or a pipe that nobody reads, would
otherwise stop the loop at the next line.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from queue import SimpleQueue
from typing import TextIO

MAX_UNWRITTEN = 10_000
"""Lines that wait to be written; beyond that they are counted and lost."""
PATIENCE_S = 1.0
"""How long the end of the process waits for the last lines to be written."""

_LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _ForTheJournal(logging.Formatter):
    """Every line begins with its level, as systemd reads it; the time is the journal's."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_LEVELS.get(record.levelno, 5)}>"
        return "\n".join(prefix + line for line in super().format(record).split("\n"))


class Writer(logging.Handler):
    """Hands lines to a thread that writes them to `stream`. What cannot be written is no error."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._unwritten: SimpleQueue[str | threading.Event] = SimpleQueue()
        self._lost = 0
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._unwritten.qsize() >= MAX_UNWRITTEN:
            self._lost += 1
            return
        if self._lost:
            self._unwritten.put(f"{self._lost} lines of the log were lost: nobody read it")
            self._lost = 0
        self._unwritten.put(self.format(record))

    def flush(self) -> None:
        """Waits until all is written, but not for ever. `logging.shutdown` calls it."""
        written = threading.Event()
        self._unwritten.put(written)
        written.wait(PATIENCE_S)

    def _write(self) -> None:
        while True:
            item = self._unwritten.get()
            if isinstance(item, threading.Event):
                item.set()
                continue
            try:
                self._stream.write(f"{item}\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass  # the terminal has gone


def set_up() -> None:
    """Sends the log to standard error."""
    logging.raiseExceptions = False
    handler = Writer(sys.stderr)
    if os.environ.get("JOURNAL_STREAM"):
        handler.setFormatter(_ForTheJournal("%(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
