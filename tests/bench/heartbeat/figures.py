"""The short story's figures, for the table of all benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ..figure import Figure, Goal
from . import story
from .story import at, intervals_s, seen, succeeded
from .table import HOT_GOAL_S, MEMORY_GOAL, START_GOAL_S


def figures() -> Iterator[Figure]:
    told = story.tell(story.SHORT)
    before, lazyd = told.before, told.lazyd
    alone = seen(before, lambda beat: beat.to_registered)
    yield Figure(
        "heartbeat: start of the framework",
        "s",
        Goal(value=START_GOAL_S),
        seen(lazyd, lambda beat: beat.to_registered),
        told.bare_python,
        "python -c pass",
        f"without lazyd {statistics.median(alone):.1f} s" if alone else "",
    )
    yield Figure(
        "heartbeat: first call after a commit",
        "ms",
        Goal(value=HOT_GOAL_S * 1000),
        [took * 1000 for took in seen(lazyd, lambda beat: beat.first_call)],
    )
    yield Figure(
        "heartbeat: memory in daily use",
        "MB",
        Goal(times=MEMORY_GOAL),
        [n / 1e6 for n in seen(lazyd, lambda beat: beat.bytes)],
        [n / 1e6 for n in seen(before, lambda beat: beat.bytes)],
        "everything loaded in the application",
    )
    for interval_s in intervals_s(told):
        ours, bare = at(lazyd, interval_s), at(before, interval_s)
        yield Figure(
            f"heartbeat: fails with a commit every {interval_s:.0f} s",
            "%",
            Goal(value=0),
            [100 - succeeded(ours)],
            note=f"without lazyd {100 - succeeded(bare):.0f} %",
        )
