"""Why the daemon cannot start: one line for a person, and an exit status."""

from __future__ import annotations

EX_FAILED = 1
EX_CONFIG = 78


class CannotStart(Exception):
    """Ends the start. `str` is one line: what, why, what to do."""

    def __init__(self, line: str, status: int = EX_FAILED) -> None:
        super().__init__(line)
        self.status = status
