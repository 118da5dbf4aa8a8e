"""What was fetched, and what of it is to be removed: ``Fetched``, ``Discard``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from lazyd.core.spec import Config
from lazyd.errors import Busy
from lazyd.varlink import parameters as given_for
from lazyd.varlink.call import Call

from ..fetching.fetching import Fetches
from ..fetching.places import key_of
from .looking import Looking
from .requests import or_refuse

if TYPE_CHECKING:
    from lazyd.fetch.entries import Entry


class Cached:
    """`config` is what is in force."""

    def __init__(self, fetches: Fetches, looking: Looking, config: Callable[[], Config]) -> None:
        self._fetches = fetches
        self._looking = looking
        self._config = config

    def fetched(self, call: Call, _: given_for.Parameters) -> None:
        call.run(self._fetched(call))

    def discard(self, call: Call, given: given_for.Discard) -> None:
        keys = None if given.model is None else [key_of(self._looking.find(given.model)[1]) or ""]
        call.run(or_refuse(call, self._discard(call, keys, given.model or "")))

    async def _fetched(self, call: Call) -> None:
        entries, used, may_hold = await asyncio.to_thread(self._fetches.look)
        models: dict[str, list[str]] = {}
        for model, spec in self._config().models.items():
            if (key := key_of(spec)) is not None:
                models.setdefault(key, []).append(model)
        shown = [_shown(entry, models.get(entry.key, []), self._fetches.used_at(entry)) for entry in entries]
        call.reply({"fetched": shown, "bytes": used, "budgetBytes": may_hold})

    async def _discard(self, call: Call, keys: list[str] | None, model: str) -> None:
        """Without keys all that nothing in memory was loaded from. Raises `Busy`: the model is in memory."""
        kept = self._fetches.kept()
        unfinished = keys is None
        if keys is None:
            entries, used, _ = await asyncio.to_thread(self._fetches.look)
            if not used:
                call.reply({"freedBytes": 0})
                return
            keys = [entry.key for entry in entries if entry.key not in kept]
        elif set(keys) & set(kept):
            raise Busy(model=model, in_flight=0, reason="it is in memory: unload it first")
        call.reply({"freedBytes": await self._fetches.remove(keys, unfinished=unfinished)})


def _shown(entry: Entry, models: list[str], used: float) -> dict[str, object]:
    return {
        "url": entry.url,
        "bytes": entry.total_bytes,
        "files": len(entry.files),
        "usedAt": used,
        "checkedAt": entry.checked,
        "models": models,
    }
