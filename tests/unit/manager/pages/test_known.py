"""Which models are looked at, and when."""

from __future__ import annotations

import pytest

from lazyd.core.effects import Note
from lazyd.core.spec import ModelSpec
from lazyd.manager.pages import known
from lazyd.manager.pages.known import MOST_MODELS, Known
from lazyd.manager.tasks import Background

from ..waiting import until


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were looked at. One called ``gone`` cannot be."""
    found: list[str] = []

    def fraction(spec: ModelSpec) -> float:
        found.append(spec.name)
        if spec.name == "gone":
            raise FileNotFoundError(spec.name)
        return 0.5

    monkeypatch.setattr(known, "fraction", fraction)
    return found


def made() -> Known:
    return Known(lambda key: ModelSpec(name=key, runtime="llama_cpp"), Background())


async def test_nothing_is_looked_at_unasked(looked: list[str]) -> None:
    of = made()
    of.look_at_all()
    of.look("a")
    await until(lambda: "a" in of.fractions)
    assert looked == ["a"]


async def test_what_was_asked_for_is_looked_at_in_the_background_and_not_again_at_once(
    looked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "AT_ONCE", 1)  # one after the other
    of = made()
    of.look("a")
    assert of.fractions == {}
    await until(lambda: of.fractions == {"a": 0.5})
    of.look("a")
    of.look_at_all()
    of.look("b")
    await until(lambda: "b" in of.fractions)
    assert looked == ["a", "b"]


async def test_it_is_looked_at_again_after_what_may_have_changed_it(looked: list[str]) -> None:
    of = made()
    of.noted(Note(kind="ready", model="a"))
    await until(lambda: looked == ["a"])
    await until(lambda: of.fractions == {"a": 0.5})
    of.noted(Note(kind="draining", model="a"))
    of.noted(Note(kind="cold", model="a"))
    await until(lambda: looked == ["a", "a"])


async def test_of_what_cannot_be_looked_at_nothing_is_known(looked: list[str]) -> None:
    of = made()
    of.set("gone", 1.0)
    await of.look_now("gone")
    assert of.fractions == {}
    assert looked == ["gone"]


async def test_there_may_be_ten_thousand_models() -> None:
    of = made()
    for number in range(10_000):
        of.set(f"m{number}", 1.0)
    assert len(of.fractions) == MOST_MODELS
    assert f"m{9_999}" in of.fractions
