"""The manager's side of fetching: what it asks for, what it tells the core, and what it does without."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lazyd.core.effects import Fetch, StopFetching
from lazyd.core.events import Event, Fetched, Fetching, Renewed, Unpredictable
from lazyd.core.spec import Config, ModelSpec, Settings
from lazyd.fetch.cache import Cache
from lazyd.fetch.entries import Fetched as File
from lazyd.manager.fetching.fetcher import NoFetcher
from lazyd.manager.fetching.fetching import Fetches
from lazyd.manager.fetching.places import key_of, placed
from lazyd.manager.tasks import Background

from .waiting import until

URL = "s3://b/a.gguf"


class Conversation:
    def __init__(self, says: list[dict[str, Any] | None]) -> None:
        self.says = says
        self.said: list[dict[str, Any]] = []

    def say(self, message: dict[str, Any]) -> None:
        self.said.append(message)

    async def hear(self, within_s: float | None) -> dict[str, Any] | None:
        if self.says:
            return self.says.pop(0)
        async with asyncio.timeout(within_s):
            await asyncio.Event().wait()
        return None


class Fetcher:
    """Says what it is told to, to each question in turn."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.conversation = Conversation([])
        self.is_there = True

    @contextlib.asynccontextmanager
    async def ask(self, question: dict[str, Any]) -> AsyncIterator[Conversation]:
        if not self.is_there:
            raise NoFetcher("the fetcher cannot be started")
        self.asked.append(question)
        yield self.conversation


class Desk:
    def __init__(self, state: Path) -> None:
        fields: dict[str, Any] = {"runtime": "python", "load_timeout_s": 5.0}
        models = {
            "a": ModelSpec(name="a", path=URL, **fields),
            "b": ModelSpec(name="b", path=URL, **fields),
            "quick": ModelSpec(name="quick", path=URL, **{**fields, "load_timeout_s": 0.05}),
            "sure": ModelSpec(name="sure", path=URL, sha256="ab" * 32, **fields),
            "local": ModelSpec(name="local", path="/srv/a.gguf", **fields),
        }
        self.config = placed(Config(settings=Settings(revalidate_s=600), models=models), str(state))
        self.fetcher = Fetcher()
        self.background = Background()
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        self.loaded: list[str] = []
        self.cache = Cache(str(state / "fetched"))
        self.fetches = Fetches(
            self.fetcher,  # type: ignore[arg-type]
            str(state),
            self.background,
            self.told.put_nowait,
            self.config.models.get,
            lambda: self.config,
            lambda: self.loaded,
        )

    def keep(self, model: str, age_s: float = 0.0) -> None:
        """What a model's URL names was fetched so long ago."""
        key = key_of(self.config.models[model])
        assert key is not None
        part = self.cache.part(URL)
        Path(part).write_bytes(b"x")
        self.cache.keep_blob(part, "cd" * 32)
        entry = self.cache.keep(key, URL, [File("a.gguf", 1, "mark", "cd" * 32)])
        self.cache.write(type(entry)(**{**vars(entry), "checked": time.time() - age_s}))

    async def are_absent(self, model: str) -> bool:
        return await self.fetches.are_absent(model, self.config.models[model])

    async def tells(self) -> Event:
        async with asyncio.timeout(30):
            return await self.told.get()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.background.stop()
    assert not desk.background.deaths


async def test_only_what_is_elsewhere_and_not_here_is_absent(desk: Desk) -> None:
    assert not await desk.are_absent("local")
    assert await desk.are_absent("a")
    desk.keep("a")
    assert not await desk.are_absent("a")
    assert not await desk.are_absent("b"), "the same URL"


async def test_what_was_compared_long_ago_is_looked_up_unless_its_checksum_is_known(desk: Desk) -> None:
    desk.keep("a", age_s=700)
    desk.keep("sure", age_s=700)
    assert await desk.are_absent("a")
    assert not await desk.are_absent("sure")


async def test_the_core_hears_how_far_it_is_and_that_it_is_here(desk: Desk) -> None:
    desk.loaded = ["b", "local"]
    desk.fetcher.conversation.says = [
        {"on": "progress", "fraction": 0.5, "bytes": 5},
        {"on": "fetched", "changed": True, "note": ""},
    ]
    desk.fetches.fetch(Fetch(model="a", number=7))
    assert await desk.tells() == Fetching(model="a", number=7, fraction=0.5)
    assert await desk.tells() == Renewed(model="b")
    assert await desk.tells() == Fetched(model="a", number=7)
    (asked,) = desk.fetcher.asked
    assert (asked["url"], asked["disk"], asked["kept"]) == (URL, 0.5, [key_of(desk.config.models["b"])])
    assert not await desk.are_absent("a"), "it was fetched for this load"


@pytest.mark.parametrize(
    ("model", "is_there", "says", "reason"),
    [
        ("a", True, [{"on": "failed", "reason": "access is denied"}], "access is denied"),
        ("quick", True, [], "no progress for 0.05 s while fetching (load_timeout)"),
        ("a", False, [], "the fetcher cannot be started"),
        ("gone", True, [], "it is not configured any more"),
    ],
)
async def test_what_went_wrong_is_told(
    desk: Desk, model: str, is_there: bool, says: list[dict[str, Any]], reason: str
) -> None:
    desk.fetcher.is_there, desk.fetcher.conversation.says = is_there, says
    desk.fetches.fetch(Fetch(model=model, number=1))
    assert await desk.tells() == Unpredictable(model=model, number=1, reason=reason)
    if model == "quick":  # its connection is not waited for at the next try
        assert desk.fetcher.conversation.said == [{"do": "stop"}]


async def test_a_fetcher_that_ends_is_asked_again_and_given_up_in_the_end(desk: Desk) -> None:
    desk.fetcher.conversation.says = [None, {"on": "fetched", "changed": False, "note": ""}]
    desk.fetches.fetch(Fetch(model="a", number=1))
    assert await desk.tells() == Fetched(model="a", number=1)
    desk.fetcher.conversation.says = [None, None, None]
    desk.fetches.fetch(Fetch(model="a", number=2))
    assert await desk.tells() == Unpredictable(model="a", number=2, reason="the fetcher has ended")
    assert len(desk.fetcher.asked) == 5


async def test_one_that_is_stopped_is_told_of_no_more(desk: Desk) -> None:
    desk.fetcher.conversation.says = [{"on": "progress", "fraction": 0.1, "bytes": 1}]
    desk.fetches.fetch(Fetch(model="a", number=1))
    await desk.tells()
    desk.fetches.stop(StopFetching(model="a", number=1))
    desk.fetches.fetch(Fetch(model="gone", number=2))
    assert (await desk.tells()).model == "gone"  # type: ignore[attr-defined]
    await until(lambda: desk.fetcher.conversation.said == [{"do": "stop"}])


async def test_a_head_is_asked_for_once_and_one_that_is_not_to_be_had_not_again_at_once(
    desk: Desk, tmp_path: Path
) -> None:
    spec = desk.config.models["a"]
    desk.fetcher.conversation.says = [{"on": "failed", "reason": "no ranges"}]
    assert await desk.fetches.head(spec) is None
    assert await desk.fetches.head(spec) is None
    assert len(desk.fetcher.asked) == 1
    sure = desk.config.models["sure"]
    desk.fetcher.conversation.says = [{"on": "head", "folder": str(tmp_path)}]
    for _ in range(2):
        here = await desk.fetches.head(sure)
        assert here is not None
        assert here.fetched == str(tmp_path / "a.gguf")
        assert here.identity == sure.identity
    assert len(desk.fetcher.asked) == 2
    desk.keep("sure")
    assert await desk.fetches.head(sure) is None, "all of it is here"
