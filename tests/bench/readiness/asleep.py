"""What it costs to know when 10,000 models will be needed while none of them is: a minute in which nothing happens.

Each model has a habit, learned from a history by the recipes of `traces`, and sleeps; nobody is due within hours, but
some at a time that is known. `in_the_core` lets a minute pass in virtual time, with the samples of RAM that a manager
takes while it rests, and counts the processor's time; beside it stands the same minute with prewarming off.
`in_a_manager` has a real manager read the same habits from its file, and watches it asleep.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from random import Random

import msgspec

from demo.stage import Failed, Stage
from lazyd.core import effects, events
from lazyd.core.core import Core
from lazyd.core.events import Memory
from lazyd.core.expecting import PRICE_S, UNKNOWN_LOAD_S
from lazyd.core.habits import Habit, Window
from lazyd.core.ledger import HOST
from lazyd.core.monitoring import Past
from lazyd.core.pace import REST_S
from lazyd.core.spec import Config, ModelSpec, Prewarm, PrewarmWhen
from lazyd.manager.readiness.memories import Memories, OfHabit

from ..figure import Figure, Goal
from ..start import configuration
from .scenarios import SEED
from .traces import HOUR_S, Recipe, bursty, heavy_tailed, poisson, timer

MODELS = 10_000
MINUTE_S = 60.0
MINUTES = 7
MOST_MS = 5.0
"""Goal for the processor's time in such a minute."""
CALLERS: tuple[tuple[Recipe, float], ...] = (
    (timer, 6 * HOUR_S),
    (timer, 12 * HOUR_S),
    (timer, 24 * HOUR_S),
    (poisson, 12 * HOUR_S),
    (bursty, 6 * HOUR_S),
    (heavy_tailed, 6 * HOUR_S),
)
"""A model has one of these, with its mean gap."""
OF_EACH = 4
USES = 40
SINCE_S = (0.5 * HOUR_S, 1.5 * HOUR_S)
"""The last use of each was so long ago."""
QUIET_S = 3 * HOUR_S
"""Until so long after its last use nobody is expected."""
LOADS_S = (4.0, 5.0, 6.0)
RAM_BYTES = 64 << 30
LOOK_S, AT_REST_MS = 10.0, 20.0
"""A manager that needs less of the processor in such a time is at rest."""
REST_LIMIT_S = 300.0
GATHERED_S = 35.0
"""By then it has written down what it gathers."""


def figures() -> Iterator[Figure]:
    yield from in_the_core()
    yield from in_a_manager()


def habits(now: float, models: int = MODELS) -> dict[str, Memory]:
    """What is known of each model at `now`, by the same clock."""
    draw = Random(SEED)
    learned = [next(quiet(recipe, mean_s, draw)) for recipe, mean_s in CALLERS for _ in range(OF_EACH)]
    known: dict[str, Memory] = {}
    for number in range(models):
        habit = msgspec.json.decode(draw.choice(learned), type=Habit)
        habit.resumed(now - draw.uniform(*SINCE_S))
        known[f"m{number:05}"] = Memory(habit=habit)
    return known


def quiet(recipe: Recipe, mean_s: float, draw: Random) -> Iterator[bytes]:
    """Habits that such a caller teaches, of whom nobody is expected for hours."""
    while True:
        habit = Habit()
        for use in islice(recipe(Random(draw.random()), mean_s), USES):
            habit.arrived(use)
        if not any(SINCE_S[0] / 2 < window.end_s and window.start_s < QUIET_S for window in looked_at(habit)):
            yield msgspec.json.encode(habit)


def looked_at(habit: Habit) -> Sequence[Window]:
    return habit.windows(PRICE_S, UNKNOWN_LOAD_S)


# In virtual time.


class Asleep:
    """The real core with all models, of which none is asked for."""

    def __init__(self, prewarm: Prewarm) -> None:
        numbers = count(1)
        self.core = Core(lambda: f"{next(numbers)}")
        self.now = 1e6
        self._next_sample = self.now
        names = [f"m{number:05}" for number in range(MODELS)]
        specs = {name: ModelSpec(name=name, runtime="python", prewarm=prewarm) for name in names}
        self.tell(events.Configure(config=Config(models=specs)))
        self.tell(events.HostFound())
        memories = habits(self.now)
        pasts = {name: (specs[name].identity, Past(loads_s=LOADS_S)) for name in names}
        self.tell(events.Remembered(memories=memories, pasts=pasts))

    def tell(self, event: events.Event) -> None:
        for effect in self.core.handle(event, self.now):
            if isinstance(effect, effects.Predict | effects.StartWorker | effects.LoadObject):
                raise Failed("a model was to be loaded: this is no minute in which nothing happens")

    def wait(self, seconds: float) -> int:
        """Lets time pass, with the ticks that the core asks for, which are counted, and samples of RAM."""
        end, ticks = self.now + seconds, 0
        while True:
            due = self.core.next_deadline()
            tick = math.inf if due is None else max(due, self.now)
            self.now = min(end, tick, self._next_sample)
            if self.now == end:
                return ticks
            if self.now == self._next_sample:
                self._next_sample += REST_S
                self.tell(self._sample())
            else:
                ticks += 1
                self.tell(events.Tick())

    def _sample(self) -> events.DeviceSeen:
        return events.DeviceSeen(name="ram", kind=HOST, total_bytes=RAM_BYTES, used_bytes=0, begun=self.now)

    @property
    def expected(self) -> int:
        """Models with a time at which their load will begin."""
        return sum(("prewarm", key) in self.core.world.alarms for key in self.core.world.models)


def took_ms(asleep: Asleep, seconds: float) -> tuple[float, int]:
    """Milliseconds of the processor for a while in virtual time, and the ticks in it."""
    began = time.process_time_ns()
    ticks = asleep.wait(seconds)
    return (time.process_time_ns() - began) / 1e6, ticks


def in_the_core() -> Iterator[Figure]:
    learns, off = Asleep(Prewarm()), Asleep(Prewarm(when=PrewarmWhen.OFF))
    looking_ms, _ = took_ms(learns, MINUTE_S)
    floor_ms, _ = took_ms(off, MINUTE_S)
    what = f"{MODELS:,} habits"
    yield Figure(
        f"{what}: to look at all, after a start",
        "ms",
        Goal(),
        [looking_ms],
        [floor_ms],
        "prewarming off",
        known(learns),
    )
    gc.collect()
    gc.freeze()
    pairs = [(took_ms(learns, MINUTE_S), took_ms(off, MINUTE_S)) for _ in range(MINUTES)]
    ticks = sum(ours[1] for ours, _ in pairs)
    yield Figure(
        f"{what}: a minute in which nothing happens, core",
        "ms",
        Goal(value=MOST_MS),
        [ours[0] for ours, _ in pairs],
        [floor[0] for _, floor in pairs],
        "prewarming off",
        f"{known(learns)}; {ticks} ticks in {MINUTES} minutes",
    )


def known(asleep: Asleep) -> str:
    return f"{asleep.expected:,} will be loaded at a known time"


# By the clock.


def in_a_manager() -> Iterator[Figure]:
    """One with habits, and one without any: what a sleeping manager needs without them is the floor."""
    with Stage(configuration(MODELS)) as ours, Stage(configuration(MODELS)) as floor:
        remember(ours.root / "state")
        pids = [started(stage) for stage in (ours, floor)]
        for pid in pids:
            until_rest(pid)
        time.sleep(GATHERED_S)
        before = [spent_ms(pid) for pid in pids]
        time.sleep(MINUTE_S)
        ours_ms, floor_ms = (spent_ms(pid) - since for pid, since in zip(pids, before, strict=True))
    yield Figure(
        f"{MODELS:,} habits: a minute asleep, manager",
        "ms",
        Goal(value=MOST_MS + floor_ms),
        [ours_ms],
        [floor_ms],
        "no habits known",
        f"all threads, by the kernel's count; the goal is {MOST_MS:g} ms more than without habits",
    )


def remember(state: Path) -> None:
    """Writes what an earlier manager would have kept."""
    state.mkdir(mode=0o700, exist_ok=True)
    memories = Memories(str(state / "readiness.db"), boot="")
    rows = [OfHabit(model, memory) for model, memory in habits(time.time()).items()]
    if not memories.learn(rows):
        raise Failed("the habits could not be written")
    memories.close()


def started(stage: Stage) -> int:
    stage.start()
    stage.wait_until_running()
    assert stage.manager is not None
    return stage.manager.pid


def until_rest(pid: int) -> None:
    """Waits until it has looked at all habits, and needs next to nothing for a while."""
    give_up = time.monotonic() + REST_LIMIT_S
    before = -math.inf
    while (now := spent_ms(pid)) - before > AT_REST_MS:
        if time.monotonic() > give_up:
            raise Failed("the manager does not come to rest")
        before = now
        time.sleep(LOOK_S)


def spent_ms(pid: int) -> float:
    """What all threads of a process have had of the processor so far."""
    threads = (Path(f"/proc/{pid}/task") / thread / "schedstat" for thread in os.listdir(f"/proc/{pid}/task"))
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6
