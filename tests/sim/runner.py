"""Many schedules from one base seed, and the story of one that fails."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from .profiles import PROFILES, Profile
from .scenario import draw
from .truth import Violation
from .world import World

EVENTS_A_SCHEDULE = 500
SHOWN_STEPS = 40
LONGEST_SCHEDULE_S = 5.0


class ScheduleFailed(AssertionError):
    """A schedule broke an invariant. The text tells how to run it again, and its last steps."""

    def __init__(self, seed: int, events: int, profile: str, violation: Violation, story: str) -> None:
        super().__init__(
            f"seed {seed} broke {violation.invariant}: {violation.detail}\n"
            f"again: python -m tests.sim --seed {seed} --events {events} --profile {profile}\n{story}"
        )
        self.seed = seed
        self.invariant = violation.invariant


@dataclass
class Total:
    """What a run of many schedules saw."""

    schedules: int = 0
    events: int = 0
    seen: Counter[type] = field(default_factory=Counter)
    profiles: Counter[str] = field(default_factory=Counter)


def profile_of(rng: random.Random) -> Profile:
    return rng.choices(PROFILES, [profile.weight for profile in PROFILES])[0]


def run_schedule(seed: int, events: int = EVENTS_A_SCHEDULE, profile: str | None = None) -> World:
    """One schedule. Raises `ScheduleFailed` with its story."""
    rng = random.Random(seed)
    chosen = profile_of(rng)
    if profile is not None:
        chosen = next(p for p in PROFILES if p.name == profile)
    world = World(draw(rng, chosen), rng)
    try:
        with time_limit(LONGEST_SCHEDULE_S + events / 1000):
            world.run(events)
    except (Violation, TookTooLongError) as found:
        violation = found if isinstance(found, Violation) else Violation("core_carries_on", str(found))
        raise ScheduleFailed(seed, events, chosen.name, violation, story(world)) from found
    return world


class TookTooLongError(Exception):
    """The core does not come back."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Seconds of work for one schedule: a core that never returns is a finding, not a hanging test."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def too_long(*_: object) -> None:
        raise TookTooLongError(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, too_long)
    timer = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *timer)
        signal.signal(signal.SIGVTALRM, before)


def run_many(base: int, events: int, profile: str | None = None, each: int = EVENTS_A_SCHEDULE) -> Total:
    """Schedules with seeds drawn from `base`, until there were so many events."""
    seeds = random.Random(base)
    total = Total()
    while total.events < events:
        world = run_schedule(seeds.getrandbits(48), each, profile)
        total.schedules += 1
        total.events += world.manager.events
        total.seen.update(world.manager.seen)
        total.profiles[world.scenario.profile.name] += 1
    return total


def story(world: World) -> str:
    """The last steps, each event with its effects, and what the core thinks."""
    lines = [f"profile {world.scenario.profile.name}, {world.manager.events} events, {world.clock.now:.4f} s"]
    for when, event, done in list(world.manager.steps)[-SHOWN_STEPS:]:
        lines.append(f"{when:11.4f}  {tell(event)}")
        lines += [f"{'':>15}-> {tell(effect)}" for effect in done]
    lines.append(f"core:    {world.manager.core!r}")
    lines.append(f"workers: {list(world.workers.values())}")
    return "\n".join(lines)


def tell(thing: object) -> str:
    """A struct without the fields that have their default, in one line."""
    if not isinstance(thing, msgspec.Struct):
        return repr(thing)
    named = msgspec.structs.fields(thing)
    shown = []
    for f in named:
        value = getattr(thing, f.name)
        if f.default is not msgspec.NODEFAULT and value == f.default:
            continue
        shown.append(f"{f.name}={tell(value)}")
    text = f"{type(thing).__name__}({', '.join(shown)})"
    return text if len(text) < 600 else f"{text[:600]}..."
