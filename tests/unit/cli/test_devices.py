"""Devices as bars."""

from __future__ import annotations

import pytest

from lazyctl.devices import apportion, device_lines
from lazyctl.terminal import Look, cells

from .samples import GIB, device


def bar(line: str) -> str:
    return "".join(character for character in line if character in "█▒░·")


def test_a_bar_is_divided_as_the_device_is() -> None:
    line = device_lines([device(bookedBytes=8 * GIB, foreignBytes=4 * GIB, freeBytes=4 * GIB)], Look(width=79))[1]
    drawn = bar(line)
    assert len(drawn) == 20
    assert (drawn.count("█"), drawn.count("▒"), drawn.count("·")) == (10, 5, 5)
    assert drawn == "".join(sorted(drawn, key="█▒░·".index))


def test_a_little_is_still_seen() -> None:
    line = device_lines([device(totalBytes=80 * GIB, bookedBytes=2**20, foreignBytes=0, freeBytes=79 * GIB)], Look())[1]
    assert bar(line).count("█") == 1


def test_what_the_budget_leaves_out_is_blank() -> None:
    line = device_lines(
        [device(bookedBytes=0, foreignBytes=0, budgetBytes=8 * GIB, freeBytes=8 * GIB)], Look(width=79)
    )[1]
    assert bar(line) == "·" * 10


def test_the_headings_are_the_legend() -> None:
    assert device_lines([device()], Look())[0].split("  ")[0] == "DEVICE"
    for glyph, title in (("█", "BOOKED"), ("▒", "FOREIGN"), ("░", "MARGIN"), ("·", "FREE")):
        assert f"{glyph} {title}" in device_lines([device()], Look())[0]


def test_without_unicode_bars_are_drawn_in_ascii() -> None:
    lines = device_lines([device()], Look(unicode=False))
    assert all(line.isascii() for line in lines)
    assert "#" in lines[1]


@pytest.mark.parametrize("width", [60, 80, 99, 100, 132, 250])
def test_every_line_fits(width: int) -> None:
    devices = [
        device(),
        device("gpu0", totalBytes=99 * GIB, budgetBytes=99 * GIB),
        device("gpu15", freeBytes=999 * 2**20),
    ]
    assert max(cells(line) for line in device_lines(devices, Look(width=width))) <= max(width, 68)


def test_a_wide_terminal_shows_the_total_too() -> None:
    assert "TOTAL" not in device_lines([device()], Look(width=99))[0]
    assert "16.0 GiB" in device_lines([device()], Look(width=100))[1]


def test_memory_that_never_came_back_is_named() -> None:
    assert device_lines([device(quarantinedBytes=GIB)], Look())[-1].startswith("ram: 1.0 GiB of FOREIGN was lazyd's")


@pytest.mark.parametrize("amounts", [[0, 0, 0], [1, 1, 1], [1, 0, 10**12], [5, 5, 0], [1] * 30])
def test_the_parts_of_a_bar_add_up(amounts: list[int]) -> None:
    counts = apportion(amounts, 20)
    assert sum(counts) == max(20, sum(1 for amount in amounts if amount))
    assert all(count > 0 for count, amount in zip(counts, amounts, strict=True) if amount)
