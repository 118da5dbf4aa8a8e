"""Which models' files are here, and how those that are not are brought here (the effects `Fetch`, `StopFetching`).

What a URL names is found by a link whose path follows from the URL (`placed`), so a spec can say where before anything
is there. What is known by its checksum is never looked up again; all else is when a model is loaded and it was last
compared longer ago than `revalidate`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from lazyd import places, urls
from lazyd.core.effects import Fetch, StopFetching
from lazyd.core.events import Event, Fetched, Fetching, Renewed, Unpredictable
from lazyd.core.spec import Config, ModelSpec

from ..tasks import Background
from .fetcher import Conversation, Fetcher, NoFetcher
from .places import key_of

if TYPE_CHECKING:
    from lazyd.fetch.cache import Cache
    from lazyd.fetch.entries import Entry

log = logging.getLogger("lazyd.fetching")

HEAD_S = 20.0
"""A head that takes longer is done without."""
HEADS = 64
"""So many are remembered to be here, or not to be had."""
TRIES = 3
ENDED = "the fetcher has ended"
"""Then another one goes on where it was, so many times."""
HEADLESS_S = 60.0
"""One that was not to be had is asked for again after so long."""


class Fetches:
    """`tell` gets the events; `loaded` are the keys of models in memory, `wanted` of those that wait for room."""

    def __init__(
        self,
        fetcher: Fetcher,
        state: str,
        background: Background,
        tell: Callable[[Event], None],
        spec_of: Callable[[str], ModelSpec | None],
        config: Callable[[], Config],
        loaded: Callable[[], Iterable[str]],
        wanted: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._fetcher = fetcher
        self._root = places.fetched_dir(state)
        self._background = background
        self._tell = tell
        self._spec_of = spec_of
        self._config = config
        self._loaded = loaded
        self._wanted = wanted
        self._fresh: set[str] = set()
        """Models for which it was fetched just now: their next load needs no look at it."""
        self._used: dict[str, float] = {}
        """By key of a URL: what the fetcher has yet to be told."""
        self._heads: dict[str, str] = {}
        """By key of a URL: where its head is."""
        self._headless: dict[str, float] = {}
        """By key of a URL: until when it is not asked again, as there was none to be had."""
        self._stops: dict[tuple[str, int], asyncio.Event] = {}

    @functools.cached_property
    def _cache(self) -> Cache:
        """Imported when the first model has a URL: its libraries take as long as many another part of the start."""
        from lazyd.fetch.cache import Cache

        return Cache(self._root)

    async def are_absent(self, model: str, spec: ModelSpec) -> bool:
        """Whether its files have to be fetched, or looked up, before it is loaded."""
        key = key_of(spec)
        if key is None:
            return False
        self._used[key] = time.time()
        if model in self._fresh:
            self._fresh.discard(model)
            return False
        entry = await asyncio.to_thread(self._cache.entry, key)
        return entry is None or not self._is_recent(spec, entry)

    async def head(self, spec: ModelSpec) -> ModelSpec | None:
        """The same as if its files were here, for who reads what they say of themselves; None: that cannot be had."""
        key = key_of(spec)
        if key is None or spec.fetched is None or spec.path is None:
            return None
        if await asyncio.to_thread(self._cache.entry, key) is not None:
            return None
        folder = self._heads.get(key)
        if folder is None or not await asyncio.to_thread(os.path.isdir, folder):
            folder = await self._new_head(key, spec.path)
        if folder is None:
            return None
        name = "" if urls.is_folder(spec.path) else os.path.basename(spec.fetched)
        return msgspec.structs.replace(spec, fetched=os.path.join(folder, name).rstrip("/"))

    def fetch(self, effect: Fetch) -> None:
        stop = self._stops[effect.model, effect.number] = asyncio.Event()
        self._background.once(f"fetch of {effect.model}", self._fetch(effect, stop))

    def stop(self, effect: StopFetching) -> None:
        stop = self._stops.get((effect.model, effect.number))
        if stop is not None:
            stop.set()

    async def quit(self) -> None:
        await self._fetcher.quit()

    def look(self) -> tuple[list[Entry], int, int]:
        """What is here, how many bytes that is, and how many it may be. Blocks."""
        if not os.path.isdir(self._root):
            return [], 0, 0
        from lazyd.fetch import room

        most = room.may_hold(self._cache, self._config().settings.fetch_disk)
        return self._cache.entries(), room.used_bytes(self._cache), most

    def used_at(self, entry: Entry) -> float:
        """When a model was last loaded from it, as far as is known here."""
        return max(entry.used, self._used.get(entry.key, 0.0))

    async def remove(self, keys: list[str], *, unfinished: bool) -> int:
        """Removes these, and `unfinished` downloads. How many bytes that has given back."""
        question = {"do": "remove", "keys": keys, "kept": self.kept(), "unfinished": unfinished}
        try:
            async with self._fetcher.ask(question) as conversation:
                said = await conversation.hear(None)
        except NoFetcher as error:
            log.warning("nothing was removed: %s", error)
            return 0
        return int(said["bytes"]) if said is not None else 0

    def _is_recent(self, spec: ModelSpec, entry: Entry) -> bool:
        lasts_s = self._config().settings.revalidate_s
        return spec.sha256 is not None or lasts_s is None or 0 <= time.time() - entry.checked <= lasts_s

    async def _new_head(self, key: str, url: str) -> str | None:
        if self._headless.get(key, 0.0) > time.monotonic():
            return None
        if max(len(self._heads), len(self._headless)) >= HEADS:
            self._heads.clear()
            self._headless.clear()
        folder = await self._read_head(key, url)
        if folder is None:
            self._headless[key] = time.monotonic() + HEADLESS_S
        else:
            self._heads[key] = folder
        return folder

    async def _read_head(self, key: str, url: str) -> str | None:
        with suppress(NoFetcher, TimeoutError):
            async with (
                asyncio.timeout(HEAD_S),
                self._fetcher.ask({"do": "head", "key": key, "url": url}) as conversation,
            ):
                said = await conversation.hear(None)
                if said is not None and said["on"] == "head":
                    return str(said["folder"])
                log.info("no head of %s: %s", urls.masked(url), said["reason"] if said else "the fetcher has ended")
        return None

    async def _fetch(self, effect: Fetch, stop: asyncio.Event) -> None:
        """Tells how far it is, and how it ends; of one that is stopped nothing more."""
        model, number = effect.model, effect.number
        spec = self._spec_of(model)
        reason = "it is not configured any more"
        try:
            if spec is not None:
                reason = await self._patiently(effect, spec, stop)
        except NoFetcher as error:
            reason = str(error)
        finally:
            del self._stops[model, number]
        if stop.is_set():
            return
        if reason:
            self._tell(Unpredictable(model=model, number=number, reason=reason))
        else:
            self._fresh.add(model)
            self._tell(Fetched(model=model, number=number))

    async def _patiently(self, effect: Fetch, spec: ModelSpec, stop: asyncio.Event) -> str:
        reason = ENDED
        for _ in range(TRIES):
            if reason == ENDED and not stop.is_set():
                reason = await self._asked(effect, spec, stop)
        return reason

    async def _asked(self, effect: Fetch, spec: ModelSpec, stop: asyncio.Event) -> str:
        """Why it was not fetched; empty: it was. Raises `NoFetcher`."""
        key = key_of(spec)
        used, self._used = self._used, {}
        question = {
            "do": "fetch",
            "key": key,
            "url": spec.path,
            "sha256": spec.sha256,
            "disk": self._config().settings.fetch_disk,
            "kept": self.kept(),
            "loaded": self._keys(self._loaded()),
            "used": used,
        }
        async with self._fetcher.ask(question) as conversation:
            while True:
                said = await self._next(conversation, spec, stop)
                if said is None or isinstance(said, str):
                    return said or ENDED
                if said["on"] == "progress":
                    self._tell(Fetching(model=effect.model, number=effect.number, fraction=said["fraction"]))
                    continue
                if said["on"] == "fetched":
                    self._heads.pop(key or "", None)
                    if said["note"]:
                        log.warning("%s: %s", effect.model, said["note"])
                    if said["changed"]:
                        self._renew(key)
                    return ""
                return str(said["reason"])

    async def _next(
        self, conversation: Conversation, spec: ModelSpec, stop: asyncio.Event
    ) -> dict[str, Any] | str | None:
        """What it says next, or why that is not waited for."""
        hear = asyncio.ensure_future(conversation.hear(spec.load_timeout_s))
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([hear, stopped], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                await _stop(conversation)
                return "it is not wanted any more"
            return hear.result()
        except TimeoutError:
            await _stop(conversation)  # the next try makes a connection of its own, and goes on where this one was
            return f"no progress for {spec.load_timeout_s:g} s while fetching (load_timeout)"
        finally:
            stopped.cancel()
            hear.cancel()

    def _renew(self, key: str | None) -> None:
        """All that were loaded from it leave when they are idle."""
        for model in self._loaded():
            spec = self._spec_of(model)
            if spec is not None and key_of(spec) == key:
                self._tell(Renewed(model=model))

    def kept(self) -> list[str]:
        """The keys of what models in memory were loaded from, and of what waits to be loaded."""
        return self._keys((*self._loaded(), *self._wanted()))

    def _keys(self, models: Iterable[str]) -> list[str]:
        specs: Mapping[str, ModelSpec | None] = {model: self._spec_of(model) for model in models}
        return sorted({key for spec in specs.values() if spec is not None and (key := key_of(spec)) is not None})


async def _stop(conversation: Conversation) -> None:
    """What it was asked for is not waited for any more."""
    conversation.say({"do": "stop"})
    await asyncio.sleep(0)
