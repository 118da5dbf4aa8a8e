"""The table of where the wish for lazyd came from, with our figures beside its own."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .story import Told, at, intervals_s, seen, succeeded, up

START_GOAL_S = 0.17
HOT_GOAL_S = 0.005
MEMORY_GOAL = 0.25


@dataclass(frozen=True)
class Row:
    """One line. The origin's figures are its authors', of their machine and their 72 s of loading."""

    name: str
    origin_before: str = ""
    origin_after: str = ""
    before: str = ""
    lazyd: str = ""
    goal: str = ""
    met: bool | None = None


def seconds(samples: Sequence[float]) -> str:
    if not samples:
        return "never"
    middle = statistics.median(samples)
    return f"{middle:.3g} s" if middle >= 0.1 else f"{middle * 1000:.3g} ms"


def rows(told: Told) -> list[Row]:
    before, lazyd = told.before, told.lazyd
    starts = seen(lazyd, lambda beat: beat.to_registered)
    calls = seen(lazyd, lambda beat: beat.first_call)
    memory = seen(before, lambda beat: beat.bytes), seen(lazyd, lambda beat: beat.bytes)
    part = statistics.median(memory[1]) / statistics.median(memory[0]) if all(memory) else None
    first = seen(before, lambda beat: beat.to_first), seen(lazyd, lambda beat: beat.to_first)
    return [
        Row(
            "framework started",
            "72 s",
            "0.17 s",
            seconds(seen(before, lambda beat: beat.to_registered)),
            seconds(starts),
            f"≤ {START_GOAL_S:g} s",
            statistics.median(starts) <= START_GOAL_S,
        ),
        Row("first strategy computed", "72 s", "3–5 s", seconds(first[0]), seconds(first[1])),
        Row(
            "… its call alone, after a commit",
            before=seconds(seen(before, lambda beat: beat.first_call)),
            lazyd=seconds(calls),
            goal=f"< {HOT_GOAL_S * 1000:g} ms",
            met=statistics.median(calls) < HOT_GOAL_S,
        ),
        Row("… with nothing loaded anywhere", lazyd=seconds(seen(told.cold, lambda beat: beat.to_first))),
        Row(
            "a strategy hardly ever used",
            before=seconds(seen(before, lambda beat: beat.rare_call)),
            lazyd=seconds(seen(lazyd, lambda beat: beat.rare_call)),
        ),
        Row(
            "first heartbeat finished",
            "72 s",
            before=seconds(seen(before, lambda beat: beat.to_end)),
            lazyd=seconds(seen(lazyd, lambda beat: beat.to_end)),
        ),
        Row(
            "memory in daily use",
            "12 GB (GPU)",
            "2–3 GB (GPU)",
            amount(memory[0]),
            f"{amount(memory[1])}" + (f" ({part:.1%})" if part is not None else ""),
            f"≤ {MEMORY_GOAL:.0%}",
            part is not None and part <= MEMORY_GOAL,
        ),
        *(row for interval_s in intervals_s(told) for row in of_interval(told, interval_s)),
    ]


def of_interval(told: Told, interval_s: float) -> list[Row]:
    ours, bare = at(told.lazyd, interval_s), at(told.before, interval_s)
    every = f"{interval_s / 60:g} min" if interval_s >= 60 else f"{interval_s:g} s"
    origin = {300.0: ("", ""), 60.0: ("0 %", "100 %")}.get(interval_s, ("", ""))
    share = ("76 %", "") if interval_s == 300 else ("", "")
    return [
        Row(
            f"heartbeats that succeed, {every}",
            *origin,
            f"{succeeded(bare):.0f} % of {len(bare)}",
            f"{succeeded(ours):.0f} % of {len(ours)}",
            "100 %",
            succeeded(ours) == 100,
        ),
        Row("… time left after it", *share, f"{up(bare):.0f} %", f"{up(ours):.1f} %"),
    ]


def amount(samples: Sequence[float]) -> str:
    return f"{statistics.median(samples) / 1e6:,.0f} MB" if samples else ""


def draw(told: Told) -> None:
    """The table, then the floors and what went wrong."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("figure", ratio=1)
    for head in ("origin\nbefore", "origin\nafter", "here\nbefore", "here\nlazyd", "goal"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows(told):
        verdict = Text("") if row.met is None else Text("✓", "green") if row.met else Text("✗", "bold red")
        lazyd = Text(row.lazyd, "bold")
        table.add_row(row.name, row.origin_before, row.origin_after, row.before, lazyd, row.goal, verdict)
    console = Console(highlight=False, width=max(Console().width, 104))
    console.print(table)
    console.print(
        f" Floors: python -c pass {seconds(told.bare_python)}, import numpy {seconds(told.numpy)}. "
        "Medians; what is started or finished, from the start of the process.",
        style="dim",
    )
    for beat in (*told.before, *told.cold, *told.lazyd):
        for line in beat.wrong:
            console.print(f" wrong: {line}", style="red", markup=False)
    if not told.answers_agree():
        console.print(" The two sides did not answer alike.", style="bold red")
