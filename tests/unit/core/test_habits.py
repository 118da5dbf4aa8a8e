"""When a model will be needed, learned from its uses in virtual time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from random import Random

import msgspec
import pytest

from lazyd.core.habits import NEVER, VISIT_S, Habit, Window

PRICE_S = 600.0
LOAD_S = 5.0
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def of(uses: Iterable[float]) -> Habit:
    habit = Habit()
    for use in uses:
        habit.arrived(use)
    return habit


def every(period_s: float, times: int, jitter_s: float = 0.0, start: float = 1000.0, seed: int = 1) -> list[float]:
    random = Random(seed)
    return [start + number * period_s + random.uniform(-jitter_s, jitter_s) for number in range(times)]


def at_random(gap_s: float, times: int, seed: int = 1) -> list[float]:
    random, now = Random(seed), 0.0
    return [now := now + random.expovariate(1 / gap_s) for _ in range(times)]


def windows(habit: Habit, price_s: float = PRICE_S) -> tuple[Window, ...]:
    return habit.windows(price_s, LOAD_S)


def is_hot(habit: Habit, age_s: float) -> bool:
    return any(window.start_s <= age_s <= window.end_s for window in windows(habit))


def held_s(habit: Habit, until_s: float) -> float:
    """How long it is held until then, with its loads."""
    held = 0.0
    for window in windows(habit):
        begin = max(0.0, window.start_s - LOAD_S)
        held += max(0.0, min(window.end_s, until_s) - begin)
    return held


def cold_uses(uses: list[float], first: int) -> list[int]:
    """Which uses, from the first of these on, meet a cold model."""
    habit, cold = Habit(), list[int]()
    for number, (use, following) in enumerate(pairwise(uses), 1):
        habit.arrived(use)
        if number >= first and not is_hot(habit, following - use):
            cold.append(number)
    return cold


def test_nothing_is_known_of_a_model_that_was_used_once_or_twice() -> None:
    assert windows(of([])) == ()
    assert windows(of([10.0])) == ()
    assert windows(of([10.0, 310.0])) == ()


def test_a_model_that_is_used_every_five_minutes_is_hot_from_the_third_time_on() -> None:
    uses = every(300.0, 60, jitter_s=2.0)
    assert cold_uses(uses, first=3) == []


def test_it_is_freed_in_between() -> None:
    habit = of(every(300.0, 3, jitter_s=2.0))
    assert held_s(habit, 300.0) < 150.0
    assert not is_hot(habit, 200.0)
    habit = of(every(300.0, 20, jitter_s=2.0))
    assert held_s(habit, 300.0) < 60.0


def test_its_next_use_is_told() -> None:
    habit = of(every(300.0, 12, jitter_s=2.0))
    expected = habit.expected(1000.0 + 11 * 300.0)
    assert expected is not None
    assert expected[0] == pytest.approx(1000.0 + 12 * 300.0, abs=3.0)
    assert 2.0 <= expected[1] <= 10.0
    (window,) = [window for window in windows(habit) if window.start_s <= 300.0 <= window.end_s]
    assert habit.last is not None
    assert window.expected_s == pytest.approx(expected[0] - habit.last)


def test_the_lateness_of_the_last_use_does_not_move_the_next() -> None:
    uses = every(300.0, 12)
    uses[-1] += 6.0
    expected = of(uses).expected(uses[-1])
    assert expected is not None
    assert expected[0] == pytest.approx(1000.0 + 12 * 300.0, abs=1.0)


def test_a_program_that_sleeps_between_its_turns_is_followed() -> None:
    random, now = Random(3), 0.0
    uses = [now := now + 900.0 + random.uniform(-8.0, 8.0) for _ in range(60)]
    assert len(cold_uses(uses, first=4)) <= 2


def test_one_missing_use_does_not_end_a_beat() -> None:
    uses = every(300.0, 20, jitter_s=2.0)
    del uses[12]
    assert cold_uses(uses, first=3) == []
    assert of(uses).expected(uses[-1]) is not None


def test_what_was_missed_is_expected_the_next_time_and_not_for_ever() -> None:
    uses = every(300.0, 12)
    found = [of(uses).expected(uses[-1] + later_s) for later_s in (350.0, 950.0, 1550.0)]
    assert [None if at is None else round(at[0] - uses[-1]) for at in found] == [600, 1200, None]


def test_a_clock_that_was_ahead_leaves_no_visit_behind() -> None:
    habit = Habit(last=9e9, began=9e9, visits=[300.0, 300.0])
    habit.arrived(1000.0)
    habit.arrived(1300.0)
    assert habit.visits == [300.0, 300.0, 300.0]


def test_uses_in_between_do_not_end_a_beat() -> None:
    uses = sorted([*every(600.0, 20), 1000.0 + 17 * 600.0 + 77.0, 1000.0 + 18 * 600.0 + 333.0])
    expected = of(uses).expected(uses[-1])
    assert expected is not None
    assert expected[0] == pytest.approx(1000.0 + 20 * 600.0, abs=1.0)


def test_a_period_that_changes_is_learned_anew() -> None:
    old = every(300.0, 40)
    new = every(420.0, 6, start=old[-1] + 420.0)
    uses = old + new
    assert [number for number in cold_uses(uses, first=3) if number > len(old) + 2] == []
    expected = of(uses).expected(uses[-1])
    assert expected is not None
    assert expected[0] == pytest.approx(uses[-1] + 420.0, abs=1.0)


def test_a_beat_that_has_ended_is_no_longer_waited_for() -> None:
    habit = of(every(3600.0, 20))
    assert windows(habit)[-1].end_s < 6 * 3600.0


def test_two_timers_on_one_model_are_both_foreseen() -> None:
    uses = sorted([*every(2700.0, 40), *every(3600.0, 30, start=1500.0)])
    assert len(cold_uses(uses, first=20)) <= 2


def test_the_calls_of_one_run_are_one_visit() -> None:
    random = Random(5)
    uses = [turn + late for turn in every(1800.0, 20) for late in sorted(random.uniform(0, 20) for _ in range(6))]
    habit = of(uses)
    assert min(habit.visits) > 1700.0
    assert len(cold_uses(uses, first=25)) <= 1


def test_a_night_costs_one_cold_start() -> None:
    uses = [day * DAY_S + turn for day in range(5) for turn in every(1800.0, 16, start=9 * HOUR_S)]
    assert len(cold_uses(uses, first=4)) <= 4


def test_a_model_that_is_used_at_random_and_often_is_kept() -> None:
    habit = of(at_random(100.0, 400))
    assert windows(habit)[0].start_s == 0.0
    assert windows(habit)[0].end_s > 200.0
    assert not windows(habit, price_s=20.0)[0].end_s > 60.0


def test_a_model_that_is_used_at_random_and_rarely_is_soon_let_go() -> None:
    assert held_s(of(at_random(4 * HOUR_S, 300)), 12 * HOUR_S) < 600.0


def test_the_more_a_cold_start_is_worth_the_longer_it_is_held() -> None:
    habit = of(at_random(HOUR_S, 300))
    held = [sum(w.end_s - w.start_s for w in windows(habit, price_s)) for price_s in (60.0, 600.0, 6000.0, 60000.0)]
    assert held == sorted(held)
    assert held[-1] > held[0]


def test_a_model_is_kept_while_a_session_lasts_and_no_longer() -> None:
    random, now, uses = Random(7), 0.0, list[float]()
    for _ in range(60):
        now += random.uniform(4 * HOUR_S, 9 * HOUR_S)
        for _ in range(10):
            now += random.uniform(31.0, 90.0)
            uses.append(now)
    first = windows(of(uses))[0]
    assert first.start_s == 0.0
    assert 85.0 <= first.end_s <= 300.0


DEFAULT_S = 600.0


@pytest.mark.parametrize(
    ("uses", "may"),
    [
        (every(HOUR_S, 4), True),
        (every(300.0, 6, jitter_s=2.0), True),
        (at_random(900.0, 200), False),
        (at_random(HOUR_S, 200), False),
        (at_random(12 * HOUR_S, 200), True),
        (at_random(12 * HOUR_S, 5), False),
    ],
    ids=["each hour", "every five minutes", "random, 15 min", "random, 1 h", "random, 12 h", "random, known of late"],
)
def test_who_comes_at_a_period_or_is_surely_not_back_soon_may_leave_before_the_default_time(
    uses: list[float], may: bool
) -> None:
    assert of(uses).may_leave_within(DEFAULT_S) is may


def test_a_period_that_no_longer_brings_the_uses_is_not_relied_on() -> None:
    uses = every(HOUR_S, 10)
    assert of(uses).may_leave_within(DEFAULT_S)
    last = uses[-1]
    assert not of([*uses, *(last + use for use in at_random(900.0, 40))]).may_leave_within(DEFAULT_S)


def test_calls_of_one_run_do_not_count_as_coming_back() -> None:
    runs = [begin + 5.0 * call for begin in at_random(12 * HOUR_S, 40) for call in range(5)]
    assert of(runs).may_leave_within(DEFAULT_S)


def test_the_chance_of_a_return_is_that_of_the_gaps_that_became_so_old() -> None:
    gaps = Habit().gaps
    for gap_s in [5.0, 100.0, 5.0, 5000.0, 5000.0] * 10:
        gaps.add(gap_s)
    assert gaps.chance(VISIT_S, DEFAULT_S) == pytest.approx(10.5 / 31, abs=0.02)
    assert Habit().gaps.chance(VISIT_S, DEFAULT_S) == 0.5


def test_gaps_with_a_long_tail_are_held_while_they_are_young() -> None:
    random, now = Random(8), 0.0
    habit = of([now := now + random.lognormvariate(5.0, 2.0) for _ in range(500)])
    first = windows(habit)[0]
    assert first.start_s == 0.0
    assert 60.0 < first.end_s < 2 * HOUR_S


def test_what_is_never_worth_holding_is_not_unknown() -> None:
    habit = of([0.0, 9 * HOUR_S, 33 * HOUR_S, 90 * HOUR_S, 101 * HOUR_S])
    assert habit.windows(1.0, LOAD_S) == NEVER
    assert not NEVER[0].end_s


def test_chance_is_not_taken_for_a_beat() -> None:
    habit = of(at_random(HOUR_S, 300))
    assert habit.trust < 0.2
    assert held_s(habit, HOUR_S) < 300.0


def test_a_habit_survives_a_restart_with_another_clock() -> None:
    habit = of(every(300.0, 12, jitter_s=2.0))
    copy = msgspec.json.decode(msgspec.json.encode(habit), type=Habit)
    assert copy == habit
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(habit), type=Habit) == habit
    assert copy.last is not None
    copy.resumed(50.0)
    assert copy.last == 50.0
    for moved, kept in zip(windows(copy), windows(habit), strict=True):
        assert (moved.start_s, moved.end_s) == pytest.approx((kept.start_s, kept.end_s))


@pytest.mark.parametrize("row", ["AAA=", "AADAfw==", "AACAvw==", "AACAfw==", "A" * 4000])
def test_a_damaged_histogram_is_refused(row: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(f'{{"gaps": {{"ended": "{row}"}}}}', type=Habit)


def test_its_memory_is_bounded() -> None:
    habit = of(at_random(600.0, 20_000))
    assert len(msgspec.json.encode(habit)) < 4096
    row = sys.getsizeof(habit.gaps.ended) + sys.getsizeof(habit.gaps.foretold)
    assert row < 1500
    assert len(habit.visits) <= 16


def histories(random: Random) -> Iterator[float]:
    """Uses of any kind, one after the other: the same moment, seconds, periods, days."""
    now = random.uniform(0, 1e6)
    for _ in range(random.randint(0, 60)):
        yield now
        kind = random.randrange(5)
        if kind == 0:
            now += random.choice((0.0, 0.5, 1.0, 29.999, VISIT_S))
        elif kind == 1:
            now += random.expovariate(1 / 10 ** random.uniform(0, 6))
        elif kind == 2:
            now += 300.0
        elif kind == 3:
            now += 3600.0 + random.gauss(0, 10)
        else:
            now += random.choice((DAY_S, 7 * DAY_S, 400 * DAY_S))


@pytest.mark.parametrize("seed", range(200))
def test_windows_are_sorted_disjoint_and_finite_whatever_has_been(seed: int) -> None:
    random = Random(seed)
    habit = Habit()
    for use in histories(random):
        habit.arrived(use)
        found = habit.windows(10 ** random.uniform(-1, 6), random.choice((0.0, 0.1, 5.0, 600.0)))
        assert all(0.0 <= w.start_s <= w.end_s and math.isfinite(w.end_s) for w in found)
        assert all(one.end_s < other.start_s for one, other in pairwise(found))
        for window in found:
            assert window.expected_s is None or window.start_s <= window.expected_s <= window.end_s
            assert math.isfinite(window.within_s)
            assert window.within_s >= 0.0
        assert habit.windows(600.0, 5.0) == habit.windows(600.0, 5.0)
        assert 0.0 <= habit.trust <= 1.0
