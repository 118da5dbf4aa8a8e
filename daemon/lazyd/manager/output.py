"""The daemon's own log: lines on standard error, in the journal's manner or with a time."""

from __future__ import annotations

import logging
import os
import sys

_LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _ForTheJournal(logging.Formatter):
    """Every line begins with its level, as systemd reads it; the time is the journal's."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_LEVELS.get(record.levelno, 5)}>"
        return "\n".join(prefix + line for line in super().format(record).split("\n"))


def set_up() -> None:
    """Sends the log to standard error. A terminal that has gone is no error."""
    logging.raiseExceptions = False
    handler = logging.StreamHandler(sys.stderr)
    if os.environ.get("JOURNAL_STREAM"):
        handler.setFormatter(_ForTheJournal("%(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
