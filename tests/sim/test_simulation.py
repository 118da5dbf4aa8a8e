"""The core in a world where everything goes wrong: what must hold does, from any seed.

`SIM_EVENTS` sets how many events, `SIM_SEED` the base seed, which is printed.
"""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from lazyd.core import answers, effects, events

from . import schedules
from .invariants import INVARIANTS, NAMES
from .mutations import MUTATIONS
from .naming import Day
from .profiles import PROFILES
from .runner import ScheduleFailed, Total, run_many, run_schedule, story

EVENTS = int(os.environ.get("SIM_EVENTS", "100000"))
SLOWEST_RATE = 500
"""Events a second that any machine manages."""
A_SEED = 20240229
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(120 + EVENTS / SLOWEST_RATE)
def test_what_must_hold_holds_whatever_happens() -> None:
    base = int(os.environ.get("SIM_SEED") or random.SystemRandom().getrandbits(32))
    print(f"base seed {base}: again with SIM_SEED={base} SIM_EVENTS={EVENTS}")
    total = run_many(base, EVENTS)
    print(f"{total.events} events in {total.schedules} schedules")
    assert total.events >= EVENTS


@functools.cache
def a_few(profile: str) -> Total:
    """Schedules of one kind, the same each time."""
    return run_many(A_SEED, 3000, profile)


@pytest.mark.parametrize("profile", [profile.name for profile in PROFILES])
def test_every_kind_of_schedule_is_sound(profile: str) -> None:
    assert a_few(profile).events >= 3000


def test_every_event_effect_and_outcome_occurs() -> None:
    seen = {kind for profile in PROFILES for kind in a_few(profile.name).seen}
    day = Day(A_SEED)
    day.run()
    seen |= day.seen.keys()
    kinds = [*events.Event.__subclasses__(), *effects.Effect.__subclasses__(), *_leaves(answers.Outcome)]
    assert [kind.__name__ for kind in kinds if kind not in seen] == []


def _leaves(kind: type) -> list[type]:
    below: list[type] = kind.__subclasses__()
    return [leaf for sub in below for leaf in _leaves(sub)] if below else [kind]


def test_schedules_about_memory_are_summed_up() -> None:
    found = schedules.play_all(A_SEED, count=50)
    assert (found.schedules, found.failures, found.unaccounted_bytes) == (50, [], 0)
    assert found.admissions > 200
    assert "over budget, or on old news" in found.told()


def test_a_schedule_that_goes_wrong_is_told_of() -> None:
    mutation = next(mutation for mutation in MUTATIONS if mutation.name == "bookings are not looked at")
    with mutation.applied():
        found = schedules.play_all(A_SEED, count=10)
    assert found.count(schedules.ADMISSION) > 0
    assert "--seed" in found.failures[0]


def test_a_seed_tells_the_same_story_again() -> None:
    first, second = (run_schedule(A_SEED, 400, "everything") for _ in range(2))
    assert story(first) == story(second)


def test_a_seed_tells_the_same_story_in_another_process() -> None:
    stories = {_story_of_a_process(hash_seed) for hash_seed in ("1", "2")}
    assert len(stories) == 1


def _story_of_a_process(hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.sim", "--seed", str(A_SEED), "--events", "400", "--story"]
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "core:" in ended.stdout
    return ended.stdout


def test_a_failure_names_its_seed_and_can_be_repeated() -> None:
    mutation = next(mutation for mutation in MUTATIONS if mutation.name == "no quantum")
    with mutation.applied():
        with pytest.raises(ScheduleFailed) as first:
            run_many(A_SEED, 20_000, mutation.profile)
        with pytest.raises(ScheduleFailed) as again:
            run_schedule(first.value.seed, profile=mutation.profile)
    assert f"--seed {first.value.seed}" in str(first.value)
    assert str(again.value) == str(first.value)


def test_every_invariant_has_a_sentence_and_a_mutation_that_it_catches() -> None:
    assert all(invariant.sentence for invariant in INVARIANTS)
    assert {name for mutation in MUTATIONS for name in mutation.caught_by} == NAMES
