"""Which data connections a client has, and which of them serves the next call.

One connection per model is kept, and calls share it. Where several threads were the first at once, each
has got a lease of its own: the first one's connection is kept, the others are closed after their
call. A connection obtained under a parent lease serves calls under that parent alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Optional

    from .steps import Line

    Key = tuple[str, Optional[str], Optional[str]]
    """Whom a connection serves: a model's name, and the parent lease and the sticky key of its callers."""


MOST_STICKY = 16
"""So many connections with sticky keys are kept for a model, the last ones."""


class Lines:
    """The open data connections. Every single operation is safe among threads."""

    def __init__(self) -> None:
        self._kept: dict[Key, Line] = {}
        self._open: set[Line] = set()

    def __repr__(self) -> str:
        return f"<Lines for {sorted(model for model, _, _ in self._kept)}, {len(self._open)} open>"

    def kept(self, key: Key) -> Line | None:
        """The connection that a call for `key` goes to."""
        return self._kept.get(key)

    def add(self, line: Line) -> None:
        """A connection stands; it is closed by `settle` unless `keep` is called."""
        self._open.add(line)

    def keep(self, key: Key, line: Line) -> None:
        """Calls for `key` go to this connection from now on, unless there is one already.

        Connections of other parents are over with their parent's call: they go when they are idle.
        """
        self._kept.setdefault(key, line)
        model, parent, sticky = key
        if sticky is not None:
            known = [each for each in list(self._kept) if each[0] == model and each[2] is not None]
            for each in known[:-MOST_STICKY]:
                self._drop(each)
        if parent is not None:
            for (other, past_parent, _), past in list(self._kept.items()):
                if other == model and past_parent not in (None, parent):
                    self.retire(past)
                    self.settle(past)

    def _drop(self, key: Key) -> None:
        """No further call with this key goes to its connection, which goes when it is idle."""
        line = self._kept.pop(key, None)
        if line is not None:
            self.settle(line)

    def retire(self, line: Line) -> None:
        """No further call goes to this connection."""
        for key, kept in list(self._kept.items()):
            if kept is line:
                self._kept.pop(key, None)

    def settle(self, line: Line) -> None:
        """A call on it is over: if nobody needs the connection any more, it is closed."""
        if line not in list(self._kept.values()) and line.close_if_idle():
            self._open.discard(line)

    def close(self) -> None:
        """Ends every connection, and every call on it."""
        self._kept.clear()
        with suppress(KeyError):
            while True:
                self._open.pop().close()

    def all(self) -> list[Line]:
        """Every open connection."""
        return list(self._open)
