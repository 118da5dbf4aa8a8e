"""What an earlier manager has learned: told late, or damaged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lazyd.core import events, remembering
from lazyd.core.beats import Beat
from lazyd.core.events import Memory
from lazyd.core.habits import Habit

from .day import Day
from .story import spec
from .test_prewarming import every_five_minutes


def learned() -> tuple[Day, Memory]:
    day = Day(spec("alpha"))
    every_five_minutes(day, "alpha", 12)
    return day, remembering.take(day.core.world)["alpha"]


def test_what_is_told_after_the_first_request_is_not_lost() -> None:
    """Who wakes a daemon asks before it has read what it knows."""
    before, kept = learned()
    assert kept.habit is not None
    visits = len(kept.habit.visits)
    day = Day(spec("alpha"))
    day.now = before.now + 270
    day.visit("alpha")
    day.tell(events.Remembered(memories={"alpha": kept}))
    found = remembering.take(day.core.world)["alpha"]
    assert found.habit is not None
    assert len(found.habit.visits) == visits + 1
    assert found.habit.last == day.now
    day.wait(298)
    assert day.is_hot("alpha")


def test_what_has_been_learned_anew_is_kept() -> None:
    _, kept = learned()
    day = Day(spec("alpha"))
    every_five_minutes(day, "alpha", 3)
    day.tell(events.Remembered(memories={"alpha": kept}))
    habit = day.core.world.models["alpha"].habit
    assert habit is not None
    assert len(habit.visits) == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"period_s": 0.0},
        {"period_s": float("inf")},
        {"spread_s": 0.0},
        {"spread_s": -1.0},
        {"chance": 5.0},
        {"next_s": float("nan")},
    ],
)
def test_a_damaged_beat_is_refused(damage: dict[str, Any]) -> None:
    sound = Beat(300.0, 300.0, 1.0, 0.9, True)
    with pytest.raises(ValueError, match="damaged beat"):
        msgspec.structs.replace(sound, **damage)


@pytest.mark.parametrize(
    "damage",
    [
        {"last": float("inf")},
        {"began": float("nan")},
        {"visits": [-300.0, -300.0]},
        {"visits": [0.0]},
        {"trust": 9.0},
        {"last": None},
    ],
)
def test_a_damaged_habit_is_refused(damage: dict[str, Any]) -> None:
    sound = Habit(last=50.0, began=50.0, visits=[300.0, 300.0])
    with pytest.raises(ValueError, match="damaged habit"):
        msgspec.structs.replace(sound, **damage)
