"""What a model's leaving costs: its reload time by the chance that it is wanted soon."""

from __future__ import annotations

import pytest

from lazyd.core import cost, events
from lazyd.core.heat import HALF_LIFE_S, Heat
from lazyd.core.lifecycle import State
from lazyd.core.records import Instance, Model

from .story import Story, spec


def instance(story: Story, name: str = "a") -> Instance:
    found = story.core.world.models[name].instance
    assert found is not None
    return found


def cost_s(story: Story, name: str = "a") -> float:
    return cost.cost_of(story.core.world, instance(story, name))


def model(story: Story, name: str = "a") -> Model:
    return story.core.world.models[name]


# The count of uses


def test_a_use_counts_half_after_the_half_life() -> None:
    heat = Heat()
    heat.used(1000.0)
    heat.used(1000.0 + HALF_LIFE_S)
    assert heat.count == pytest.approx(1.5)


def test_a_steady_rate_is_estimated_as_what_it_is() -> None:
    heat = Heat()
    for number in range(1000):
        heat.used(number * 20.0)
    assert heat.rate_per_s(1000 * 20.0) == pytest.approx(1 / 20, rel=0.05)


def test_the_chance_of_use_grows_with_frequency_and_falls_with_time() -> None:
    rare, frequent = Heat(), Heat()
    rare.used(100.0)
    for second in range(90, 100):
        frequent.used(float(second))
    assert 0 < rare.chance(100.0, 60.0) < frequent.chance(100.0, 60.0) < 1
    assert frequent.chance(200.0, 60.0) < frequent.chance(100.0, 60.0)
    assert rare.chance(100.0, 60.0) < rare.chance(100.0, 600.0)


def test_a_model_that_nobody_used_may_still_be_wanted() -> None:
    never, long_ago = Heat(), Heat()
    long_ago.used(0.0)
    assert 0 < never.chance(1e6, 60.0) < 0.05
    assert long_ago.chance(1e6, 60.0) == pytest.approx(never.chance(1e6, 60.0))


# The cost


def test_of_two_models_used_alike_the_one_that_loads_longer_costs_more() -> None:
    story = Story(spec("a"), spec("b"))
    story.hot("a", after=9)
    story.hot("b", after=3)
    assert cost_s(story, "a") > 2 * cost_s(story, "b")


def test_of_two_models_that_load_alike_the_one_used_more_costs_more() -> None:
    story = Story(spec("a"), spec("b"))
    for _ in range(5):
        story.hot("a")
    story.hot("b")
    assert cost_s(story, "a") > cost_s(story, "b")


def test_the_cost_falls_while_a_model_is_not_used() -> None:
    story = Story(spec("a", idle_timeout_s=None))
    story.hot("a")
    before = cost_s(story)
    story.wait(600)
    after = cost_s(story)
    assert after < before
    story.wait(100_000)
    assert 0 < cost_s(story) < after


def test_every_call_counts_as_a_use_and_the_first_one_of_a_lease_is_the_lease_itself() -> None:
    story = Story(spec("a"))
    request = story.get("a")
    story.ready("a")
    story.end_call(story.call(request))
    assert model(story).heat.count == pytest.approx(1.0, rel=0.01)
    lease = story.granted(request)
    for _ in range(3):
        story.tell(events.LeaseBusy(worker=lease.worker, lease=lease.lease))
        story.tell(events.LeaseIdle(worker=lease.worker, lease=lease.lease))
    assert model(story).heat.count == pytest.approx(4.0, rel=0.01)


def test_looking_at_the_cost_changes_nothing() -> None:
    story = Story(spec("a"))
    story.hot("a")
    before = cost_s(story)
    assert cost_s(story) == before


def test_what_is_in_the_middle_of_a_call_costs_a_whole_load() -> None:
    story = Story(spec("a"))
    request = story.get("a")
    story.ready("a", after=7)
    story.call(request)
    assert cost_s(story) == pytest.approx(7.0)


def test_one_slow_load_of_several_changes_little() -> None:
    story = Story(spec("a"))
    for seconds in (2, 2, 30):
        story.hot("a", after=seconds)
        story.unload("a")
        story.answer_drain("a")
        story.exit("a", status=0)
    story.hot("a", after=2)
    assert model(story).last_load_s == pytest.approx(2.0)
    assert cost.expected_load_s(story.core.world, instance(story)) == pytest.approx(2.0)


def test_only_the_last_loads_count() -> None:
    story = Story(spec("a"))
    for seconds in [9] * cost.RECENT + [1] * cost.RECENT:
        story.hot("a", after=seconds)
        story.unload("a")
        story.answer_drain("a")
        story.exit("a", status=0)
    assert model(story).expected_load_s == pytest.approx(1.0)


def test_a_load_that_nobody_waits_for_costs_what_was_spent_on_it() -> None:
    story = Story(spec("a"))
    story.tell(events.Cancel(request=story.get("a")))
    assert story.state("a") is State.LOADING
    assert cost_s(story) == 0
    story.wait(5)
    assert 0 < cost_s(story) < 5


def test_before_any_load_was_measured_the_bytes_tell() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 1, "b": 4})
    story.get("a")
    story.get("b")
    world = story.core.world
    small, large = (cost.expected_load_s(world, instance(story, name)) for name in "ab")
    assert cost.START_S < small < large
    assert large - small == pytest.approx(3 * 2**30 / cost.DISK_BYTES_PER_S)


def test_the_way_back_from_being_parked_is_not_a_load_and_makes_leaving_it_cheaper() -> None:
    story = Story(spec("a", idle_timeout_s=60.0, device=("gpu0",)), gpus_gib=[8], ram_gib=40)
    use_and_park(story, load_s=20)
    use_and_park(story, load_s=5)
    assert model(story).expected_load_s == pytest.approx(20.0)
    assert model(story).unpark_s == pytest.approx(5.0)
    chance = cost.chance_of_use(model(story), story.now)
    assert cost_s(story) == pytest.approx(chance * (20 - 5))


def use_and_park(story: Story, load_s: float) -> None:
    request = story.get("a")
    story.wait(load_s)
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(60)
    story.answer_drain("a")
    story.tell(events.ObjectParked(worker=story.worker("a"), model="a"))
    assert story.state("a") is State.PARKED


# Why a life ended


@pytest.mark.parametrize("ending", ["idle", "asked", "died", "evicted"])
def test_a_model_remembers_why_it_left(ending: str) -> None:
    story = Story(spec("a", idle_timeout_s=60.0), spec("b"), sizes={"a": 6, "b": 6})
    story.hot("a")
    if ending == "idle":
        story.wait(60)
        story.answer_drain("a")
    elif ending == "asked":
        story.unload("a")
        story.answer_drain("a")
    elif ending == "evicted":
        story.wait(10)
        story.get("b")
        story.answer_drain("a")
    ended = story.now
    story.exit("a", signal=9)
    left = model(story).left
    assert left is not None
    assert left.at == ended
    assert (
        left.reason
        == {
            "idle": "idle",
            "asked": "unload",
            "died": "the worker was killed by signal 9",
            "evicted": "room for b",
        }[ending]
    )


def test_a_new_life_begins_without_the_end_of_the_last_one() -> None:
    story = Story(spec("a"))
    story.hot("a")
    story.exit("a", signal=9)
    story.get("a")
    assert model(story).left is None
