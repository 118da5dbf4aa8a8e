"""Whoever is passed by in the line would not have got anything, had each place been looked at closely."""

from __future__ import annotations

import pytest

from lazyd.core import answers, plans, together
from lazyd.core.eviction import units
from lazyd.core.lifecycle import State
from lazyd.core.line import Line
from lazyd.core.placement import Placement
from lazyd.core.records import Seeker
from lazyd.core.spec import GIB
from lazyd.core.victims import choose_victims
from tests.bench.machine import Machine, Plant

from .story import RESIDENT, Story, spec

EVENTS = 1200
IS_PASSED_BY = Line.is_passed_by


def could_get_something(line: Line, seeker: Seeker, *, overdue: bool) -> bool:
    """A look at each place where it could go."""
    groups = together.placements(line.world, seeker, lambda name: line.headroom(seeker, name))
    return any(could_get(line, seeker, placement, overdue=overdue) for group in groups for placement in group)


def could_get(line: Line, seeker: Seeker, placement: Placement, *, overdue: bool) -> bool:
    world, booking = line.world, placement.booking
    deficit = {name: n - line.headroom(seeker, name) for name, n in booking.items()}
    if max(deficit.values()) <= 0:  # who has a plan waits for it until it fits
        return seeker.key not in world.plans or world.ledger.fits(booking)
    if seeker.key in world.plans:
        return False
    short = [name for name, n in deficit.items() if n > 0]
    ways = [False, True] if overdue and not plans.drains_already(world, short) else [False]
    return any(choose_victims(units(world, booking, finish=finish), deficit) is not None for finish in ways)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "plant", [Plant(models=60, gpus=2), Plant(models=80, gpus=3, ram_gib=24.0, requests_per_s=12.0)]
)
def test_nobody_is_passed_by_who_could_get_something(plant: Plant, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[bool] = []

    def checked(line: Line, seeker: Seeker, *, overdue: bool) -> bool:
        could = could_get_something(line, seeker, overdue=overdue)
        passed.append(IS_PASSED_BY(line, seeker, overdue=overdue))
        assert not (could and passed[-1]), seeker
        return passed[-1]

    monkeypatch.setattr(Line, "is_passed_by", checked)
    Machine(plant, seed).run(EVENTS)
    assert sum(passed) > 100


def test_who_is_passed_by_is_served_as_soon_as_there_is_room() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    call = story.get("a")
    story.ready("a")
    story.call(call)
    request = story.get("b", timeout=60)
    line = Line(story.core.world)
    assert line.is_passed_by(story.core.world.models["b"], overdue=False)
    assert line.blocked == [story.core.world.models["b"]]
    assert not line.ahead
    story.end_call(call)
    story.close(call)
    story.wait(3)  # `a` has served for its quantum
    story.answer_drain("a")
    story.exit("a", status=0)
    assert story.state("b") is State.LOADING
    assert request not in story.answers


def test_what_an_overdue_one_would_have_first_is_set_aside_though_it_is_passed_by() -> None:
    story = Story(spec("a"), spec("b"), gpus_gib=[8, 9], ram_gib=40, sizes={"a": 7, "b": 7})
    for name in ("a", "b"):
        call = story.get(name)
        story.ready(name)
        story.call(call)
    story.sizes["c"] = 7
    story.configure(spec("a"), spec("b"), spec("c", device=("gpu",)))
    story.get("c", timeout=60)
    model = story.core.world.models["c"]
    for worker in story.core.world.workers.values():  # a lease that is held is not waited for
        for instance in worker.instances.values():
            for lease in instance.leases.values():
                lease.hold_until = story.now + 1000
    story.configure(spec("a"), spec("b"), spec("c", device=("gpu",)))
    line = Line(story.core.world)
    assert line.is_passed_by(model, overdue=True)
    assert line.ahead == {"gpu1": 7 * GIB, "ram": 7 * GIB // 10}


def test_who_can_never_have_room_is_not_passed_by_but_refused() -> None:
    story = Story(spec("risk", tier=RESIDENT), spec("a"), spec("b"), sizes={"risk": 2, "a": 6, "b": 7})
    story.ready("risk")
    call = story.get("a")
    story.ready("a")
    story.call(call)
    waiting = story.get("b", timeout=60)
    assert waiting not in story.answers
    story.strangers["ram"] = 2 * GIB
    story.strangers_last()
    refused = story.answers[waiting]
    assert isinstance(refused, answers.NoRoom)
    assert "other programs use 2.0 GiB" in refused.reason
