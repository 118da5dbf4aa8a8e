"""What is drawn for schedules about readiness: who comes when, what is expected, what an earlier day has left."""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec.structs import replace

from lazyd.core.events import Memory
from lazyd.core.habits import Habit
from lazyd.core.monitoring import Past
from lazyd.core.records import Waste
from lazyd.core.spec import ModelSpec, Prewarm, PrewarmWhen, Tier

from .callers import JITTER_S, Caller
from .clock import START

PERIODS_S = (35.0, 240.0)
IDLE_S = (8.0, 30.0, 60.0, 600.0)
WRITTEN = 0.4
"""Chance that an idle time is written down."""


def expected(rng: random.Random, spec: ModelSpec, chance: float) -> ModelSpec:
    """The same model, which may be loaded before it is asked for."""
    if spec.tier is Tier.TRANSIENT:
        spec = replace(spec, idle_timeout_s=20.0)
    if rng.random() >= chance:
        return spec
    when = rng.choice((PrewarmWhen.LEARNED, PrewarmWhen.LEARNED, PrewarmWhen.SCHEDULE))
    spec = replace(spec, prewarm=Prewarm(when=when))
    if spec.tier is not Tier.ON_DEMAND:
        return spec
    return replace(spec, idle_timeout_s=rng.choice(IDLE_S), idle_written=rng.random() < WRITTEN)


def callers(rng: random.Random, names: Iterable[str], count: int) -> tuple[Caller, ...]:
    """Who comes at a period."""
    found = []
    known = list(names)
    for _ in range(count):
        period_s = rng.uniform(*PERIODS_S)
        found.append(Caller(rng.choice(known), period_s, START + rng.uniform(0.0, period_s)))
    return tuple(found)


def remembered(rng: random.Random, come: Iterable[Caller], models: dict[str, ModelSpec]) -> dict[str, Memory]:
    """Habits of an earlier day, and what wrong guesses have cost then."""
    found = {}
    for caller in come:
        if caller.model not in models or rng.random() < 0.3:
            continue
        habit = Habit()
        for step in range(rng.randrange(1, 14), 0, -1):
            habit.arrived(caller.first - step * caller.period_s + rng.uniform(0.0, JITTER_S))
        memory = Memory(habit=habit)
        if rng.random() < 0.5:
            wrong = rng.randrange(5)
            left_s = rng.choice((rng.uniform(-20.0, 60.0), rng.uniform(60.0, 900.0)))
            at = START - rng.uniform(0.0, 7200.0)
            memory = Memory(habit=habit, waste=Waste(left_s=left_s, at=at, guesses=wrong + 1, wrong=wrong))
        found[caller.model] = memory
    return found


def pasts(rng: random.Random, specs: Iterable[ModelSpec]) -> dict[str, tuple[str, Past]]:
    """How loads went on an earlier day, of these models or of what they were then."""
    found = {}
    for spec in specs:
        if spec.is_family or rng.random() < 0.5:
            continue
        loads_s = tuple(rng.uniform(0.1, 3.0) for _ in range(rng.randrange(1, 6)))
        past = Past(loads_s=loads_s, fell_back=rng.choice((None, None, "a load was slow")))
        found[spec.key] = (rng.choice((spec.identity, spec.identity, "another")), past)
    return found
