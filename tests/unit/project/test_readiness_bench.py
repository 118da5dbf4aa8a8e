"""What the comparison of readiness counts."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from xml.etree import ElementTree

import pytest

from lazyd.core.habits import NEVER, Habit, Window
from tests.bench.readiness import asleep, plot, policies, traces
from tests.bench.readiness.policies import Cost, Point
from tests.bench.readiness.scenarios import Result, Scenario
from tests.bench.readiness.traces import DAY_S, History

LOAD_S = 5.0
KEEP = (Window(0.0, 100.0),)
AHEAD = (Window(0.0, 10.0), Window(295.0, 305.0))


@pytest.mark.parametrize(
    ("windows", "gap_s", "cost"),
    [
        (KEEP, 60.0, Cost(0, 60.0)),
        (KEEP, 200.0, Cost(1, 100.0 + LOAD_S)),
        (NEVER, 200.0, Cost(1, LOAD_S)),
        (AHEAD, 300.0, Cost(0, 10.0 + LOAD_S + 5.0)),
        (AHEAD, 200.0, Cost(1, 10.0 + LOAD_S)),
        (AHEAD, 400.0, Cost(1, 10.0 + LOAD_S + 10.0 + LOAD_S)),
        (AHEAD, 293.0, Cost(1, 10.0 + LOAD_S)),  # in the middle of its load
    ],
)
def test_memory_counts_from_the_beginning_of_a_load(windows: tuple[Window, ...], gap_s: float, cost: Cost) -> None:
    assert policies.rest(windows, gap_s, LOAD_S, used=True) == cost


def test_what_is_held_in_vain_until_the_end_counts_and_no_use_ends_it() -> None:
    assert policies.rest(KEEP, 1000.0, LOAD_S, used=False) == Cost(0, 100.0)


def test_the_first_use_is_cold_with_any_policy() -> None:
    history = History((100.0, 150.0), LOAD_S)
    rest_of_day = DAY_S - 150.0
    assert policies.fixed(history, 1.0, [DAY_S]) == [Cost(1, LOAD_S + 50.0 + rest_of_day)]
    (learned,) = policies.learned(history, 1.0, [600.0])
    assert learned.cold == 1


def test_what_is_learned_sees_no_use_before_it_has_come() -> None:
    uses = tuple(300.0 * number for number in range(1, 100))
    cold = [policies.learned(History(uses[:count], LOAD_S), 1.0, [600.0])[0].cold for count in range(1, 99)]
    assert all(later >= sooner for sooner, later in pairwise(cold))


def test_the_default_idle_time_is_counted_as_the_daemon_keeps_it() -> None:
    random, regular = Habit(), Habit()
    for use in traces.history(traces.poisson, Random(1), 900.0, 2).uses:
        random.arrived(use)
    for use in range(0, 40_000, 3600):
        regular.arrived(float(use))
    assert policies.kept(Habit(), 600.0, 600.0, LOAD_S) == [Window(0.0, 600.0)]
    assert policies.kept(random, 600.0, 600.0, LOAD_S)[0] == Window(0.0, 600.0)
    assert policies.kept(regular, 600.0, 600.0, LOAD_S) == regular.windows(600.0, LOAD_S)
    assert regular.windows(600.0, LOAD_S)[0].end_s < 300.0


def test_while_a_sleeping_manager_is_watched_nobody_is_expected() -> None:
    now = 1e6
    known = asleep.habits(now, models=100)
    assert len(known) == 100
    for memory in known.values():
        habit = memory.habit
        assert habit is not None
        assert habit.last is not None
        since_s = now - habit.last
        assert not any(w.start_s - 60.0 < since_s + 1800.0 and since_s < w.end_s for w in habit.windows(600.0, 10.0))


def test_hindsight_is_no_worse_than_any_keep_alive() -> None:
    histories = [traces.history(traces.heavy_tailed, Random(seed), 600.0, 2) for seed in range(5)]
    bound = policies.hindsight(histories, 2)
    for keep_s in (60.0, 600.0, 3600.0):
        cost = sum((policies.fixed(history, 2, [keep_s])[0] for history in histories), Cost())
        assert policies.cold_at(bound, cost.held_s) <= cost.cold + 1
    assert policies.foreseen(histories, 2).cold == len(histories)


def test_between_two_settings_a_policy_is_on_a_straight_line() -> None:
    curve = [Point(1.0, Cost(100, 10.0)), Point(2.0, Cost(50, 20.0))]
    assert policies.cold_at(curve, 15.0) == 75.0
    assert policies.held_at(curve, 75) == 15.0
    assert policies.cold_at(curve, 40.0) == 50.0  # it needs no more


@pytest.mark.parametrize("recipe", [recipe for _, recipe in traces.MIX])
def test_a_history_is_sorted_and_the_same_for_the_same_seed(recipe: traces.Recipe) -> None:
    history = traces.history(recipe, Random(1), 600.0, 2)
    assert list(history.uses) == sorted(history.uses)
    assert history == traces.history(recipe, Random(1), 600.0, 2)
    assert 30 < len(history.uses) < 2000


def test_the_mix_has_the_rates_that_its_recipe_says() -> None:
    histories = traces.azure_like(1000, 1.0, seed=1)
    a_day = [len(history.uses) for history in histories]
    assert len(histories) == 1000
    assert 350 < sum(count <= 24 for count in a_day) < 600
    assert sum(count > 720 for count in a_day) > 150


def test_the_picture_is_well_formed() -> None:
    history = traces.history(traces.timer, Random(1), 900.0, 1)
    fixed = [Point(600.0, policies.fixed(history, 1, [600.0])[0])]
    learned = [Point(600.0, policies.learned(history, 1, [600.0])[0])]
    result = Result(Scenario("a & b", 0.4, [history], 1), fixed, learned, policies.hindsight([history], 1))
    root = ElementTree.fromstring(plot.svg([result, result]))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("a & b") == 2
