"""What is known of how much of which model's files is in the page cache.

Looking is cheap, but there may be 10,000 models on a disk that sleeps. So only models are looked at that somebody
has asked for, or that were in memory, of late; in threads, when somebody wants to know, and not again within
`GOOD_S`. Nobody waits for it: `Status` shows what was found last.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic

from lazyd.core.effects import Note
from lazyd.core.names import model_key
from lazyd.core.spec import ModelSpec

from ..apart import Apart
from ..tasks import Background
from . import files, sampling

MOST_MODELS = 256
GOOD_S = 2.0
AT_ONCE = 4
"""So many models are looked at side by side."""
TELLING = frozenset({"ready", "cold", "locked", "unlocked"})
"""Events about a model after which another part of its files may be in memory."""


def fraction(spec: ModelSpec) -> float | None:
    """Of the files of a model. Blocks. Raises `OSError` or `ValueError` if they cannot be looked at."""
    return sampling.cached_fraction(files.paths(spec))


class Known:
    """`spec_of` finds the spec of a key, a member's being its family's."""

    def __init__(self, spec_of: Callable[[str], ModelSpec | None], background: Background) -> None:
        self._spec_of = spec_of
        self._background = background
        self._apart = Apart()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._looked: OrderedDict[str, float] = OrderedDict()
        """When each model was looked at last; those that were wanted longest ago come first."""
        self._under_way: set[str] = set()
        self._fractions: dict[str, float] = {}

    @property
    def fractions(self) -> Mapping[str, float]:
        """The part that is cached, by model; of those of which it is known."""
        return self._fractions

    def look(self, key: str) -> None:
        """Somebody wants to know of one model: it is looked at in the background."""
        self._keep(key)
        if key not in self._under_way and monotonic() - self._looked[key] >= GOOD_S:
            self._under_way.add(key)
            self._background.once(f"look at the pages of {key}", self.look_now(key))

    def look_at_all(self) -> None:
        """Somebody wants to know of all: those that were of interest of late are looked at."""
        for key in list(self._looked):
            if key not in self._under_way:
                self.look(key)

    def noted(self, note: Note) -> None:
        """Something has happened to a model."""
        if note.model is not None and note.kind in TELLING:
            key = model_key(note.model)
            self._keep(key)
            self._looked[key] = float("-inf")
            self.look(key)

    def set(self, key: str, part: float) -> None:
        """So much is there, as who reads its files tells."""
        self._keep(key)
        self._fractions[key] = part

    async def look_now(self, key: str) -> None:
        """Looks, whenever it was looked at last. What cannot be looked at is not known."""
        spec = self._spec_of(key)
        try:
            found = None
            if spec is not None:
                async with self._turn:
                    found = await self._apart.ask(spec.identity, partial(fraction, spec))
        except (OSError, ValueError):
            found = None
        finally:
            self._under_way.discard(key)
        if key not in self._looked:
            return
        self._looked[key] = monotonic()
        if found is None:
            self._fractions.pop(key, None)
        else:
            self._fractions[key] = found

    def _keep(self, key: str) -> None:
        self._looked.setdefault(key, float("-inf"))
        self._looked.move_to_end(key)
        while len(self._looked) > MOST_MODELS:
            forgotten, _ = self._looked.popitem(last=False)
            self._fractions.pop(forgotten, None)
