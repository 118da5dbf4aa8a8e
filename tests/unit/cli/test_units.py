"""Sizes and times, to people and from them."""

from __future__ import annotations

import time

import pytest

from lazyctl.units import about, bytes_of, clock, duration, seconds_of, size


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1024, "1.0 KiB"),
        (1000, "1.0 KiB"),
        (412 * 2**20, "412 MiB"),
        (1023 * 2**20, "1.0 GiB"),
        (1.25 * 2**30, "1.2 GiB"),
        (99.99 * 2**30, "100 GiB"),
        (5 * 2**50, "5.0 PiB"),
    ],
)
def test_a_size_has_at_most_four_digits(count: float, shown: str) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ms"),
        (0.0042, "4 ms"),
        (0.61, "0.61 s"),
        (0.9999, "1.0 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (119.9, "2 min"),
        (125, "2 min 5 s"),
        (3599.7, "1 h"),
        (11520, "3 h 12 min"),
        (86399, "1 d"),
        (200000, "2 d 8 h"),
    ],
)
def test_a_duration_shows_its_two_largest_units(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.2, "0 s"), (59.7, "1 min"), (480, "8 min"), (7300, "2 h"), (2e6, "23 d")]
)
def test_a_column_shows_one_unit(seconds: float, shown: str) -> None:
    assert about(seconds) == shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("2min", 120),
        ("1h30min", 5400),
        ("1h 30min", 5400),
        ("250ms", 0.25),
        ("1.5", 1.5),
        (" 7 ", 7),
        ("0", 0),
    ],
)
def test_a_time_may_be_written_with_units_or_as_plain_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5m", "3x", "-1", "1 2", "1e9", "nan", "inf", "2 min and a bit", "1h30"])
def test_what_is_not_a_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write 30s, 2min"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8GiB", 8 * 2**30),
        ("700 MiB", 700 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("20GB", 20 * 10**9),
        ("1kB", 1000),
        ("1B", 1),
        ("8589934592", 8 * 2**30),
    ],
)
def test_a_size_may_be_written_with_its_unit_or_as_plain_bytes(text: str, count: int) -> None:
    assert bytes_of(text) == count


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a size: write 8GiB"),
        ("much", "is not a size"),
        ("99999TiB", "is larger than any device"),
        ("8G", "is not a size"),
        ("-8GiB", "is not a size"),
        ("8GiB and a bit", "is not a size"),
        ("80%", "is not a size"),
        ("8", "would be 8 bytes: write it with its unit, as 8GiB"),
        ("0GiB", "is nothing at all"),
        ("0", "would be 0 bytes"),
    ],
)
def test_what_is_not_a_size_is_refused_with_an_example(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        bytes_of(text)


def test_a_time_of_day_has_its_day_if_that_is_not_today() -> None:
    morning = time.mktime((2026, 12, 2, 9, 35, 0, 0, 0, -1))
    assert clock(morning, morning + 3600) == "09:35:00"
    assert clock(morning, morning - 86_400) == "Dec 02, 09:35:00"
