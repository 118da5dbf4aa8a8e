"""What is remembered of models goes from one manager to the next."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lazyd.core.effects import KeepPast, Memorable, WarmedUp
from lazyd.core.events import Event, Memory, Remembered
from lazyd.core.habits import Habit
from lazyd.core.monitoring import Past
from lazyd.core.records import Waste
from lazyd.manager.readiness import memories, remembering
from lazyd.manager.readiness.memories import Memories, OfHabit, OfPast, OfWarmup
from lazyd.manager.readiness.remembering import Remembering
from lazyd.manager.tasks import Background

from ..waiting import until


class Core:
    """Has habits that have changed, and is told of those that were kept."""

    def __init__(self) -> None:
        self.changed: dict[str, Memory] = {}
        self.told: list[Event] = []

    def take(self) -> dict[str, Memory]:
        changed, self.changed = self.changed, {}
        return changed

    @property
    def remembered(self) -> Remembered:
        (event,) = self.told
        assert isinstance(event, Remembered)
        return event


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    background = Background()
    yield background
    await background.stop()
    assert not background.deaths


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "readiness.db")


def manager(core: Core, background: Background, path: str) -> Remembering:
    return Remembering(path, background, lambda reason: pytest.fail(reason), core.take, core.told.append)


def habit(*arrivals: float) -> Habit:
    habit = Habit()
    for when in arrivals:
        habit.arrived(when)
    return habit


async def test_habits_pasts_and_warmups_are_told_to_the_next_manager(
    core: Core, background: Background, path: str
) -> None:
    first = manager(core, background, path)
    await first.recall()
    waste = Waste(left_s=5.0, at=1500.0, guesses=2, wrong=1)
    core.changed = {"a": Memory(habit=habit(1000.0, 1300.0, 1600.0), waste=waste)}
    first.sweep()
    first.keep_past(KeepPast(model="a", identity="id", past=Past(loads_s=(1.0, 2.0))))
    first.warmed_up(WarmedUp(model="a", subject="s", runtime="zoo 1"))
    first.warmed_up(WarmedUp(model="a", subject="s", runtime="zoo 2"))
    await first.settled()
    assert not core.told  # there was no file
    await manager(core, background, path).recall()
    told = core.remembered.memories["a"]
    assert told.habit is not None
    assert told.habit.last == pytest.approx(1600.0, abs=1.0)
    assert told.habit.visits == habit(1000.0, 1300.0, 1600.0).visits
    assert told.waste is not None
    assert (told.waste.left_s, told.waste.guesses, told.waste.wrong) == (5.0, 2, 1)
    assert told.waste.at == pytest.approx(1500.0, abs=1.0)
    assert waste.at == 1500.0, "the core's own stays as it is"
    assert core.remembered.pasts == {"a": ("id", Past(loads_s=(1.0, 2.0)))}
    assert {key: set(value) for key, value in core.remembered.warmed.items()} == {"s": {"zoo 1", "zoo 2"}}


async def test_a_warmup_of_before_the_machine_was_started_anew_does_not_count(
    core: Core, background: Background, path: str
) -> None:
    Memories(path, "another boot").learn([OfWarmup("s", "zoo 1")])
    await manager(core, background, path).recall()
    assert core.remembered.warmed == {}


async def test_habits_gather_before_they_are_written(
    core: Core, background: Background, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering, "GATHER_S", 0.02)
    keeps = manager(core, background, path)
    await keeps.recall()
    core.changed = {"a": Memory(habit=habit(1.0)), "b": Memory(habit=habit(2.0))}
    keeps.gather(Memorable())
    keeps.gather(Memorable())
    assert core.changed
    await until(lambda: not core.changed)
    await keeps.settled()
    assert Memories(path, "x").remembered().memories.keys() == {"a", "b"}


async def test_what_is_kept_is_not_written_over_before_it_has_been_told(
    core: Core, background: Background, path: str
) -> None:
    Memories(path, "x").learn([OfHabit("a", Memory(habit=habit(1000.0, 2000.0)))])
    keeps = manager(core, background, path)
    core.changed = {"a": Memory(habit=habit(5000.0))}
    keeps.sweep()
    await keeps.recall()
    assert core.changed
    assert core.remembered.memories.keys() == {"a"}


def test_the_file_is_bounded_and_its_owners_alone(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MOST", 3)
    file = Memories(path, "x")
    for number in range(10):
        file.learn([OfHabit(f"m{number}", Memory()), OfPast(f"m{number}", "id", Past()), OfWarmup("s", f"r{number}")])
    kept = file.remembered()
    assert kept.memories.keys() == kept.pasts.keys() == {"m7", "m8", "m9"}
    assert set(kept.warmed["s"]) == {"r7", "r8", "r9"}
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_row_that_makes_no_sense_is_none(path: str) -> None:
    Memories(path, "x").learn([OfHabit("a", Memory()), OfHabit("b", Memory()), OfPast("b", "id", Past())])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE habits SET memory = '{\"habit\": 7}' WHERE model = 'a'")
        other.execute("UPDATE pasts SET past = x'ff'")
    kept = Memories(path, "x").remembered()
    assert kept.memories.keys() == {"b"}
    assert not kept.pasts


def test_a_damaged_file_is_set_aside_and_learning_begins_anew(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"SQLite format 3\0" + b"spoilt" * 700)
    kept = Memories(path, "x")
    assert kept.remembered() == Remembered()
    assert kept.problem is not None
    assert "is learned afresh" in kept.problem
    kept.learn([OfHabit("a", Memory())])
    assert Memories(path, "x").remembered().memories.keys() == {"a"}
