"""How recent loads and warm-ups went, and when that makes warm-ups synchronous."""

from __future__ import annotations

from lazyd.core import monitoring
from lazyd.core.monitoring import KEPT, RECOVERED, Past


def loads(*seconds: float) -> Past:
    past = Past()
    for one in seconds:
        past = monitoring.loaded(past, one)
    return past


def test_only_recent_loads_count() -> None:
    past = loads(*[100.0] * 5, *[1.0] * KEPT)
    assert past.loads_s == (1.0,) * KEPT
    assert monitoring.middle(past.loads_s) == 1.0


def test_nothing_known_has_neither_median_nor_p95() -> None:
    assert monitoring.middle(()) is None
    assert monitoring.p95(()) is None
    assert Past().success is None


def test_p95_is_what_nineteen_of_twenty_did_not_exceed() -> None:
    assert monitoring.p95(tuple(map(float, range(1, 21)))) == 19.0
    assert monitoring.p95((1.0, 2.0, 3.0)) == 3.0


def test_a_load_is_slow_beyond_a_multiple_of_the_median_of_those_before() -> None:
    assert monitoring.slow(loads(1, 1, 10), 3.0, 3.0) is None
    reason = monitoring.slow(loads(1, 1, 10), 3.1, 3.0)
    assert reason is not None
    assert "3 times the usual 1.0 s" in reason


def test_with_two_loads_known_none_is_slow() -> None:
    assert monitoring.slow(loads(1, 1), 100.0, 3.0) is None


def test_warm_ups_are_unreliable_when_more_than_their_part_has_failed() -> None:
    past = Past()
    for _ in range(4):
        past = monitoring.warmed(past, 0.5)
    past = monitoring.warmup_failed(past)
    assert past.success == 0.8
    assert monitoring.unreliable(past, 0.2) is None
    past = monitoring.warmup_failed(past)
    reason = monitoring.unreliable(past, 0.2)
    assert reason is not None
    assert reason.startswith("2 of the last 6 warm-ups failed")


def test_a_fallback_ends_with_so_many_good_loads_in_a_row_and_the_past_is_not_held_against_it() -> None:
    past = monitoring.went_wrong(monitoring.warmup_failed(Past()), "it failed")
    for _ in range(RECOVERED - 1):
        past = monitoring.went_well(monitoring.warmed(past, 1.0))
    assert past.fell_back == "it failed"
    past = monitoring.went_wrong(past, None)
    assert past.fell_back == "it failed", "its first reason stays"
    for _ in range(RECOVERED):
        past = monitoring.went_well(monitoring.warmed(past, 1.0))
    assert past.fell_back is None
    assert past.outcomes == (True,) * RECOVERED
