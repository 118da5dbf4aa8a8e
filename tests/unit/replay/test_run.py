"""Small histories with answers that can be worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lazyd.core.needs import GPU, RAM, Forecast, Need
from lazyd.core.spec import GIB, Config, Fallback, ModelSpec, Prewarm, PrewarmWhen, Settings, Tier, Warmup, WarmupMode
from lazyd.replay.facts import DeviceFacts, Facts, ModelFacts, Use
from lazyd.replay.outcome import Outcome
from lazyd.replay.run import QUIET_S, Run

T0 = 1_800_000_000.0
"""Friday, 2027-01-15 08:00:00 UTC."""
LOAD_S = 4.0
EXIT_S = 0.1
RAM_GIB = 10


def spec(name: str, **fields: Any) -> ModelSpec:
    """One whose idle time of 60 s was written down."""
    return ModelSpec(**{"name": name, "runtime": "python", "idle_timeout_s": 60.0, "idle_written": True, **fields})


def config(*specs: ModelSpec, **settings: Any) -> Config:
    return Config(settings=Settings(budget={}, **settings), models={spec.key: spec for spec in specs})


def need(ram_gib: float, gpu_gib: float | None = None) -> dict[str, Forecast]:
    if gpu_gib is not None:
        return {GPU: Forecast(peak=Need(ram_bytes=int(ram_gib * GIB), gpu_bytes=(int(gpu_gib * GIB),)))}
    return {RAM: Forecast(peak=Need(ram_bytes=int(ram_gib * GIB)))}


def facts(*gpus_gib: float, models: Mapping[str, ModelFacts] | None = None) -> Facts:
    """10 GiB of RAM. Every model takes one of it and loads in 4 s, but for those in `models`."""
    ram = DeviceFacts(name="ram", kind="host", total_bytes=RAM_GIB * GIB)
    gpus = (
        DeviceFacts(name=f"gpu{number}", kind="cuda", total_bytes=int(gib * GIB)) for number, gib in enumerate(gpus_gib)
    )
    return Facts(devices=(ram, *gpus), models=dict(models or {}), otherwise=takes())


def takes(ram_gib: float = 1, load_sec: float = LOAD_S, **fields: Any) -> ModelFacts:
    return ModelFacts(load_sec=load_sec, ways=need(ram_gib), **fields)


def play(config: Config, *uses: tuple[float, str] | tuple[float, str, float], known: Facts | None = None) -> Outcome:
    """`uses` are seconds after `T0`, a model, and how long it is busy."""
    history = [Use(T0 + use[0], use[1], use[2] if len(use) > 2 else 0.0) for use in uses]
    return Run(config, known or facts()).play(history)


def test_a_model_is_cold_at_first_then_hot_then_cold_again_after_its_idle_time() -> None:
    outcome = play(config(spec("a")), (0, "a"), (30, "a"), (200, "a"))
    assert (outcome.uses, outcome.cold, outcome.loads, outcome.refused) == (3, 2, 2, 0)
    assert outcome.waits_s == [LOAD_S, 0.0, LOAD_S]
    assert (outcome.wait_s(50), outcome.wait_s(99)) == (LOAD_S, LOAD_S)


def test_what_is_held_is_what_was_booked_from_the_order_to_load_to_the_end_of_the_process() -> None:
    outcome = play(config(spec("a")), (0, "a", 10.0))
    held_s = LOAD_S + 10 + 60 + EXIT_S
    assert outcome.held_gib_h == pytest.approx(held_s / 3600)
    assert outcome.most_bytes == {"ram": GIB}
    assert outcome.span_s == QUIET_S
    assert sum(outcome.course.held_byte_s) == pytest.approx(held_s * GIB)


def test_cold_starts_are_told_over_time() -> None:
    outcome = play(config(spec("a")), (0, "a"), (1800, "a"))
    course = outcome.course
    at = [course.start + step * course.step_s for step, count in enumerate(course.cold) if count]
    assert at == [T0, T0 + 1800]


def test_uses_that_overlap_share_a_load_and_the_last_one_begins_the_idle_time() -> None:
    outcome = play(config(spec("a")), (0, "a", 100.0), (1, "a", 5.0), (50, "a", 1.0), (155, "a"))
    assert (outcome.loads, outcome.cold) == (1, 2)
    assert outcome.waits_s == [LOAD_S, 3.0, 0.0, 0.0]


def test_a_transient_model_leaves_with_its_last_use() -> None:
    outcome = play(config(spec("a", tier=Tier.TRANSIENT)), (0, "a", 10.0), (5, "a", 1.0), (20, "a"))
    assert outcome.loads == 2
    assert outcome.held_gib_h == pytest.approx((LOAD_S + 10 + EXIT_S + LOAD_S + EXIT_S) / 3600)


def test_a_resident_model_is_hot_from_the_first_use_on_and_always_held() -> None:
    outcome = play(config(spec("a", tier=Tier.RESIDENT)), (0, "a"))
    assert (outcome.cold, outcome.loads) == (0, 1)
    assert outcome.held_gib_h == pytest.approx(QUIET_S / 3600)


def test_a_model_pinned_by_hand_does_not_leave() -> None:
    history = [Use(T0, "a"), Use(T0 + 3000, "a")]
    outcome = Run(config(spec("a")), facts(), pins=["a"]).play(history)
    assert outcome.cold == 1


def test_who_does_not_fit_beside_another_has_it_evicted() -> None:
    known = facts(models={"a": takes(6), "b": takes(6)})
    outcome = play(config(spec("a"), spec("b")), (0, "a"), (20, "b"), (40, "a"), known=known)
    assert (outcome.evictions, outcome.cold, outcome.loads) == (2, 3, 3)
    assert outcome.most_bytes["ram"] == 6 * GIB


def test_what_fits_nowhere_is_refused() -> None:
    outcome = play(config(spec("a")), (0, "a"), known=facts(models={"a": takes(11)}))
    assert (outcome.refusals, outcome.waits_s, outcome.refused) == ({"NoRoom": 1}, [], 1)


def test_who_waits_longer_than_a_first_call_may_is_refused() -> None:
    known = facts(models={"a": takes(load_sec=50.0)})
    outcome = play(config(spec("a"), first_call_timeout_s=20.0), (0, "a"), (45, "a"), known=known)
    assert outcome.refusals == {"Timeout": 1}
    assert outcome.waits_s == [5.0]


def test_without_a_limit_a_use_waits_for_ever() -> None:
    known = facts(models={"a": takes(load_sec=5000.0)})
    outcome = play(config(spec("a"), first_call_timeout_s=None), (0, "a"), (5000, "a"), known=known)
    assert outcome.waits_s == [5000.0, 0.0]


def test_a_load_that_took_longer_than_load_timeout_went_on_all_the_time() -> None:
    known = facts(models={"a": takes(load_sec=250.0)})
    outcome = play(config(spec("a", load_timeout_s=100.0)), (0, "a"), known=known)
    assert outcome.waits_s == [250.0]


def test_a_model_that_is_not_configured_is_refused() -> None:
    assert play(config(spec("a")), (0, "b")).refusals == {"ModelNotFound": 1}


def test_no_uses_come_to_nothing() -> None:
    outcome = play(config(spec("a")))
    assert (outcome.uses, outcome.held_gib_h, outcome.cold_part, outcome.wait_s(99)) == (0, 0, 0, 0)


# Families.


def test_members_are_objects_in_one_process_each_with_its_own_load_and_idle_time() -> None:
    family = spec("s/*")
    known = facts(models={"s/*": takes(2), "s/b": ModelFacts(load_sec=9.0)})
    outcome = play(config(family), (0, "s/a"), (10, "s/b"), (40, "s/a"), known=known)
    assert outcome.waits_s == [LOAD_S, 9.0, 0.0]
    assert (outcome.loads, outcome.most_bytes["ram"]) == (2, 2 * GIB)
    assert outcome.held_gib_h == pytest.approx(2 * (40 + 60 + EXIT_S) / 3600)


def test_the_member_used_least_recently_leaves_where_there_is_no_place() -> None:
    outcome = play(config(spec("s/*", max_loaded=2)), (0, "s/a"), (10, "s/b"), (20, "s/c"), (30, "s/b"), (40, "s/a"))
    assert outcome.waits_s[3] == 0
    assert outcome.cold == 4
    assert outcome.evictions == 2


# Warm-ups.


@pytest.mark.parametrize(
    ("mode", "waits"),
    [
        (WarmupMode.SYNC, [7.0, 7.0]),
        (WarmupMode.ASYNC, [4.0, 4.0]),
        (WarmupMode.ON_DEMAND, [7.0, 4.0]),
    ],
)
def test_a_warm_up_is_waited_for_as_its_mode_says(mode: WarmupMode, waits: list[float]) -> None:
    known = facts(models={"a": takes(warmup_sec=3.0)})
    outcome = play(config(spec("a", warmup=Warmup(mode=mode))), (0, "a"), (500, "a"), known=known)
    assert outcome.waits_s == waits


def test_without_a_warm_up_none_is_waited_for() -> None:
    outcome = play(config(spec("a")), (0, "a"), known=facts(models={"a": takes(warmup_sec=3.0)}))
    assert outcome.waits_s == [LOAD_S]


# What is loaded before it is asked for.


def test_a_schedule_is_followed_by_the_clock_of_the_history() -> None:
    nine = Prewarm(when=PrewarmWhen.SCHEDULE, schedule=("0 9 * * *",), time_zone="UTC")
    uses = [(3600 + day * 86_400 + 1, "a") for day in range(3)]
    outcome = play(config(spec("a", prewarm=nine)), (0, "a"), *uses)
    assert (outcome.prewarms, outcome.wrong, outcome.cold) == (3, 0, 1)
    off = play(config(spec("a", prewarm=Prewarm(when=PrewarmWhen.OFF))), (0, "a"), *uses)
    assert (off.prewarms, off.cold) == (0, 4)


def test_who_comes_every_half_hour_is_expected_and_not_held_in_between() -> None:
    uses = [(1800.0 * beat, "a") for beat in range(40)]
    learned = play(config(spec("a", idle_timeout_s=600.0, idle_written=False)), *uses)
    assert learned.cold < 8
    assert learned.prewarms >= 32
    assert learned.held_gib_h < 40 * 300 / 3600


# GPUs and fallbacks.


def test_what_is_held_is_told_by_device() -> None:
    known = facts(8, models={"a": ModelFacts(load_sec=LOAD_S, ways=need(1, 4))})
    outcome = play(config(spec("a", device=("gpu",))), (0, "a"), (30, "a"), known=known)
    assert outcome.most_bytes == {"ram": GIB, "gpu0": 4 * GIB}
    assert outcome.held_byte_s["gpu0"] == pytest.approx(4 * outcome.held_byte_s["ram"], rel=0.01)


def test_a_gpu_that_is_full_is_made_free_for_the_next_model() -> None:
    known = facts(8, models={name: ModelFacts(load_sec=LOAD_S, ways=need(1, 5)) for name in "ab"})
    specs = [spec(name, device=("gpu",)) for name in "ab"]
    outcome = play(config(*specs), (0, "a"), (20, "b"), (40, "a"), known=known)
    assert (outcome.evictions, outcome.refused) == (2, 0)
    assert outcome.most_bytes["gpu0"] == 5 * GIB


def test_a_fallback_that_is_ready_serves_in_time_and_so_does_a_value() -> None:
    known = facts(models={"big": takes(load_sec=60.0), "small": takes(load_sec=1.0)})
    small = spec("big", fallback=Fallback(model="small", after_s=5.0))
    outcome = play(config(small, spec("small")), (0, "big"), (100, "big"), known=known)
    assert (outcome.degraded, outcome.refused) == (1, 0)
    assert 5.0 <= outcome.waits_s[0] <= 6.0
    value = spec("big", fallback=Fallback(value=0, after_s=5.0))
    outcome = play(config(value), (0, "big"), known=known)
    assert (outcome.degraded, outcome.waits_s, outcome.loads) == (1, [5.0], 1)


# Whatever the history.


def a_history(chance: random.Random) -> tuple[Config, Facts, list[Use]]:
    """A few models of all kinds on a small machine, and people who use them as they like."""
    specs, known = [], {}
    for name in "abcdef":
        tier = chance.choice([*Tier, Tier.ON_DEMAND, Tier.ON_DEMAND])
        warmup = Warmup(mode=chance.choice(list(WarmupMode))) if chance.random() < 0.3 else None
        written = chance.random() < 0.5
        idle_s = chance.choice([None, 5.0, 60.0, 600.0]) if written else 600.0
        specs.append(spec(name, tier=tier, warmup=warmup, idle_timeout_s=idle_s, idle_written=written))
        known[name] = takes(chance.choice([0.5, 2, 4, 7, 12]), chance.uniform(0.1, 40), warmup_sec=chance.uniform(0, 5))
    specs.append(spec("s/*", max_loaded=chance.choice([None, 2])))
    names = [*"abcdef", "s/x", "s/y", "s/z", "nobody"]
    uses = []
    for _ in range(120):
        busy_s = chance.choice([0.0, chance.expovariate(1 / 20)])
        uses.append(Use(T0 + chance.uniform(0, 20_000), chance.choice(names), busy_s))
    settings = {"first_call_timeout_s": chance.choice([None, 10.0, 300.0])}
    return config(*specs, **settings), facts(models=known), uses


@pytest.mark.parametrize("seed", range(25))
def test_every_use_is_served_or_refused_and_the_budget_holds(seed: int) -> None:
    chance = random.Random(seed)
    configured, known, uses = a_history(chance)
    parts: list[float] = []
    outcome = Run(configured, known, parts.append).play(uses)
    assert outcome.uses == len(uses) == len(outcome.waits_s) + outcome.refused
    assert all(wait >= 0 for wait in outcome.waits_s)
    assert outcome.cold <= len(outcome.waits_s)
    assert outcome.wrong <= outcome.prewarms <= outcome.loads
    assert outcome.most_bytes["ram"] <= RAM_GIB * GIB
    assert 0 <= outcome.held_gib_h <= RAM_GIB * outcome.span_s / 3600
    assert sum(outcome.course.held_byte_s) == pytest.approx(sum(outcome.held_byte_s.values()))
    assert sum(outcome.course.cold) == outcome.cold
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_the_same_history_comes_to_the_same_in_whatever_order_it_is_given(seed: int) -> None:
    chance = random.Random(seed)
    configured, known, uses = a_history(chance)
    first = Run(configured, known).play(uses)
    shuffled: Sequence[Use] = chance.sample(uses, len(uses))
    assert Run(configured, known).play(shuffled) == first
