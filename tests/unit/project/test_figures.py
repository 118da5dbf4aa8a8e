"""What the benchmarks say of what they measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.figure import Figure, Goal, pairs
from tests.bench.report import goal_text, write


def test_a_ratio_is_that_of_the_pairs_so_that_a_slow_moment_hits_both() -> None:
    assert Figure("", "s", Goal(), ours=[1, 20, 3], floor=[1, 10, 1]).ratio == 2


def test_a_figure_without_a_floor_has_no_ratio() -> None:
    assert Figure("", "s", Goal(), ours=[1]).ratio is None


@pytest.mark.parametrize(
    ("goal", "ours", "floor", "met"),
    [
        (Goal(times=1.5), 3.0, 2.0, True),
        (Goal(times=1.5), 3.1, 2.0, False),
        (Goal(value=30), 30, 1, True),
        (Goal(value=30), 31, 1, False),
        (Goal(value=0), 0, 1, True),
        (Goal(), 10, 1, True),
    ],
)
def test_goal_is_met(goal: Goal, ours: float, floor: float, met: bool) -> None:
    assert Figure("", "s", goal, [ours], [floor]).met is met


def test_pairs_are_measured_in_turn_after_one_unmeasured_run_of_each() -> None:
    order: list[str] = []

    def take(name: str) -> float:
        order.append(name)
        return float(len(order))

    ours, floor = pairs(2, lambda: take("ours"), lambda: take("floor"))
    assert order == ["ours", "floor"] * 3
    assert (ours, floor) == ([3.0, 5.0], [4.0, 6.0])


def test_file_for_programs_has_every_sample_and_whether_the_goal_is_met(tmp_path: Path) -> None:
    write([Figure("hot Get", "µs", Goal(times=1.5), [40, 42], [30, 31], "an echo")], tmp_path / "build" / "bench.json")
    (figure,) = json.loads((tmp_path / "build" / "bench.json").read_text())["figures"]
    assert (figure["samples"], figure["floorSamples"], figure["met"]) == ([40, 42], [30, 31], True)
    assert goal_text(Goal(times=1.5), "µs") == "≤ 1.5 ×"
