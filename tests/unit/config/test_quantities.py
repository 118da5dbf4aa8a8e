"""Quantities carry units."""

from __future__ import annotations

import random

import pytest

from lazyd.config.problems import Wrong
from lazyd.config.quantities import (
    parse_duration,
    parse_fraction,
    parse_size,
    show_duration,
    show_fraction,
    show_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10min", 600),
        ("0s", 0),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("1h 30min", 5400),
        ("1h30min", 5400),
        ("7d", 604800),
        (" 2 s ", 2),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [("700MiB", 700 * 2**20), ("1.5GiB", 3 * 2**29), ("2GB", 2 * 10**9), ("512B", 512)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "fraction"), [("80%", 0.8), ("100%", 1.0), ("0.5%", 0.005)])
def test_fractions(text: str, fraction: float) -> None:
    assert parse_fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10", '"10" has no unit; write a duration with its unit, as "10s"'),
        ("10m", 'unknown unit "m"; did you mean "10min"?'),
        ("10Min", 'did you mean "10min"?'),
        ("10sec", 'unknown unit "sec"'),
        ("-1s", "is not a duration"),
        ("", "is not a duration"),
        ("soon", "is not a duration"),
        ("1s x", "is not a duration"),
        ("nan s", "is not a duration"),
        ("٣s", "is not a duration"),
        ("1e9s", "unknown unit"),
        ("99999d", "longer than ten years"),
        ("9" * 400 + "s", "is not a duration"),
    ],
)
def test_a_wrong_duration_is_refused_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(Wrong) as wrong:
        parse_duration(text)
    assert says in str(wrong.value)
    assert "; " in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("700", 'has no unit; write a size with its unit, as "700MiB"'),
        ("700M", 'did you mean "700MiB"?'),
        ("1gib", 'did you mean "1GiB"?'),
        ("1GiB 2MiB", "is not a size"),
        ("80%", 'unknown unit "%"'),
        ("2000TiB", "more than a pebibyte"),
    ],
)
def test_a_wrong_size_is_refused_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(Wrong) as wrong:
        parse_size(text)
    assert says in str(wrong.value)


@pytest.mark.parametrize("text", ["80", "0%", "101%", "80 percent", "20GiB", "50% 20%", ""])
def test_a_wrong_percentage_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        parse_fraction(text)


def test_what_is_shown_reads_back_as_it_was() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        seconds = chance.choice([chance.randrange(10**6), chance.randrange(10**7) / 1000, chance.random()])
        assert parse_duration(show_duration(seconds)) == pytest.approx(seconds, abs=1e-8)
        size = chance.choice([chance.randrange(2**45), chance.randrange(2**15) * 2**20])
        assert parse_size(show_size(size)) == size
        fraction = chance.randrange(1, 1001) / 1000
        assert parse_fraction(show_fraction(fraction)) == pytest.approx(fraction)


def test_the_usual_ones_are_shown_as_people_write_them() -> None:
    assert [show_duration(s) for s in (600, 90, 3600, 86400, 0, 0.25)] == ["10min", "90s", "1h", "1d", "0s", "250ms"]
    assert [show_size(b) for b in (700 * 2**20, 2**30, 1000)] == ["700MiB", "1GiB", "1000B"]
    assert show_fraction(0.07) == "7%"
