"""Which models are looked at, and when."""

from __future__ import annotations

import asyncio

import pytest

from lazyd.core.effects import Note
from lazyd.core.spec import ModelSpec
from lazyd.manager.pages import known
from lazyd.manager.pages.known import MOST_MODELS, Known
from lazyd.manager.tasks import Background

from ..waiting import until

LOOKED: list[str] = []


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were looked at. One called ``gone`` cannot be."""
    LOOKED.clear()

    def fraction(spec: ModelSpec) -> float:
        LOOKED.append(spec.name)
        if spec.name == "gone":
            raise FileNotFoundError(spec.name)
        return 0.5

    monkeypatch.setattr(known, "fraction", fraction)
    return LOOKED


def made() -> Known:
    return Known(lambda key: ModelSpec(name=key, runtime="llama_cpp"), Background())


def test_nothing_is_looked_at_unasked(looked: list[str]) -> None:
    async def story() -> None:
        of = made()
        of.look_at_all()
        await asyncio.sleep(0)
        assert looked == []
        assert of.fractions == {}

    asyncio.run(story())


def test_what_was_asked_for_is_looked_at_in_the_background_and_not_again_at_once(looked: list[str]) -> None:
    async def story() -> None:
        of = made()
        of.look("a")
        assert of.fractions == {}
        await until(lambda: of.fractions == {"a": 0.5})
        of.look("a")
        of.look_at_all()
        await asyncio.sleep(0.01)
        assert looked == ["a"]

    asyncio.run(story())


def test_it_is_looked_at_again_after_what_may_have_changed_it(looked: list[str]) -> None:
    async def story() -> None:
        of = made()
        of.noted(Note(kind="ready", model="a"))
        await until(lambda: looked == ["a"])
        await until(lambda: of.fractions == {"a": 0.5})
        of.noted(Note(kind="draining", model="a"))
        of.noted(Note(kind="cold", model="a"))
        await until(lambda: looked == ["a", "a"])

    asyncio.run(story())


def test_of_what_cannot_be_looked_at_nothing_is_known(looked: list[str]) -> None:
    async def story() -> None:
        of = made()
        of.set("gone", 1.0)
        await of.look_now("gone")
        assert of.fractions == {}
        assert looked == ["gone"]

    asyncio.run(story())


def test_there_may_be_ten_thousand_models() -> None:
    async def story() -> None:
        of = made()
        for number in range(10_000):
            of.set(f"m{number}", 1.0)
        assert len(of.fractions) == MOST_MODELS
        assert f"m{9_999}" in of.fractions

    asyncio.run(story())
