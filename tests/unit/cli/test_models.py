"""Models as a table."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lazyctl.models import detail_lines, in_order, model_lines
from lazyctl.terminal import Look, cells
from lazyctl.units import clock

from .samples import GIB, MIB, hot, model, worker


def columns(one: dict[str, Any], width: int = 80) -> list[str]:
    """The words of the model's line."""
    return model_lines([one], Look(width=width))[1].split()


def test_a_hot_model_shows_what_it_holds_and_when_it_leaves() -> None:
    assert columns(hot()) == ["gemma", "ready", "hot", "412", "MiB", "2", "min", "in", "8", "min", "3"]


def test_a_cold_model_shows_nothing_but_that() -> None:
    assert columns(model()) == ["gemma", "cold"]


def test_a_model_that_loads_is_on_the_devices_that_are_booked_for_it_before_anything_of_it_is_seen() -> None:
    booked, measured = {"gpu1": 3 * GIB, "ram": 256 * MIB}, {"gpu1": 0, "ram": 0}
    loading = model(state="loading", bookedBytes=booked, measuredBytes=measured)
    assert columns(loading)[1:6] == ["loading", "cold", "3.2", "GiB", "gpu1"]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"residency": "warm", "cachedFraction": 1.0}, ["gemma", "cold", "warm", "100", "%"]),
        ({"residency": "cold", "cachedFraction": 0.43}, ["gemma", "cold", "cold", "43", "%"]),
        ({"residency": "cold", "cachedFraction": 0.0}, ["gemma", "cold"]),
        (
            {"residency": "warm", "cachedFraction": 1.0, "lockedBytes": 241 * MIB, "bookedBytes": {"ram": 241 * MIB}},
            ["gemma", "cold", "warm", "100", "%", "241", "MiB", "locked"],
        ),
    ],
)
def test_of_one_that_is_not_loaded_the_table_tells_how_much_is_in_ram(fields: dict[str, Any], shown: list[str]) -> None:
    assert columns(model(**fields)) == shown


def test_details_tell_what_is_locked() -> None:
    text = "\n".join(detail_lines(model(cachedFraction=0.5, lockedBytes=241 * MIB), Look()))
    assert "files in RAM    50 %" in text
    assert "of them locked  241 MiB" in text


def test_a_model_is_named_with_its_version() -> None:
    assert columns(model("ocr", version="3"))[0] == "ocr:3"


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"idleSec": 599.9}, "now"),
        ({"idleSec": 30.0}, "in 10 min"),
        ({"idleTimeoutSec": None}, "never"),
        ({"pinned": True}, "pinned"),
        ({"tier": "resident"}, "resident"),
        ({"inFlight": 1}, "in use"),
        ({"tier": "transient", "leases": 1}, "after use"),
        ({"state": "failed", "residency": "cold", "retryAfterSec": 16.2}, "retry 16 s"),
        ({"state": "failed", "residency": "cold"}, "retry now"),
    ],
)
def test_the_table_says_when_a_model_leaves_or_why_it_does_not(fields: dict[str, Any], shown: str) -> None:
    assert f"  {shown}  " in model_lines([hot(**fields)], Look())[1]


def test_calls_in_flight_and_waiting_are_counted() -> None:
    assert "2/5" in columns(hot(inFlight=2, waiting=5))


def test_a_loading_model_shows_what_is_booked_for_it() -> None:
    loading = model(state="loading", bookedBytes={"gpu0": 700 * MIB}, waiting=4)
    assert columns(loading) == ["gemma", "loading", "cold", "700", "MiB", "gpu0", "0/4"]


def test_a_model_that_is_fetched_shows_how_far_that_is() -> None:
    assert columns(model(state="loading", phase="fetching", fraction=0.43))[1:4] == ["fetching", "43", "%"]
    assert columns(model(state="loading", phase="fetching"))[1] == "fetching"


def test_where_a_gpu_is_used_the_table_tells_which() -> None:
    both = {"ram": 300 * MIB, "gpu1": 700 * MIB}
    on_gpu = hot(bookedBytes=both, measuredBytes={"ram": 280 * MIB})
    assert columns(on_gpu)[:6] == ["gemma", "ready", "hot", "980", "MiB", "gpu1"]
    assert "gpu1,ram" in columns(on_gpu, width=120)
    assert "ON" not in model_lines([hot()], Look())[0]


def test_under_a_failed_model_stands_why() -> None:
    lines = model_lines([model(state="failed", lastError="the file\nis truncated"), model("other")], Look())
    assert lines[2] == "  the file is truncated"
    assert lines[3].startswith("other")


def test_what_is_in_memory_comes_first() -> None:
    models = [model("a"), hot("z"), model("b"), model("c", waiting=1)]
    assert [one["name"] for one in in_order(models)] == ["c", "z", "a", "b"]


@pytest.mark.parametrize("width", [80, 119, 120, 200])
def test_every_line_fits(width: int) -> None:
    models = [
        hot("strategy/momentum-with-a-very-long-name", version="2026.12", inFlight=12, waiting=345, loads=12345),
        model("语音模型" * 20, state="unloading", bookedBytes={"gpu0": 1, "gpu1": 1}, runtime="torchscript"),
        model("x", state="failed", lastError="because " * 50, retryAfterSec=299.0),
        hot(tier="transient", leases=1, idleSec=86400.0, measuredBytes={"ram": 999 * MIB}),
    ]
    assert max(cells(line) for line in model_lines(models, Look(width=width))) <= width


def test_a_wide_terminal_shows_more() -> None:
    assert columns(hot(), width=120)[5] == "ram"
    assert columns(hot(), width=120)[-3:] == ["s", "on-demand", "llama_cpp"]


def test_details_name_the_worker_and_the_whole_error() -> None:
    error = "the file is truncated: 1.2 GiB of 4.1 GiB are there; download it again, then ask once more"
    lines = detail_lines(hot(aliases=["reader"], lastError=error, workers=[worker(inFlight=1)]), Look())
    text = "\n".join(lines)
    assert "pid 4712, up 12 min 34 s, 412 MiB of ram, 1 in flight" in text
    assert "reader" in text
    assert error in " ".join(text.split())
    assert max(map(cells, lines)) <= 80


def test_a_model_that_is_expected_says_when() -> None:
    morning = time.mktime((2026, 12, 2, 9, 35, 0, 0, 0, -1))
    expected = model(expectedUse=morning, expectedUseWithinSec=2.4)
    assert f"due {clock(morning)}" in model_lines([expected], Look(width=120))[1]
    text = "\n".join(detail_lines(expected, Look()))
    assert "next use expected" in text
    assert "09:35:00 ± 2.4 s" in text
