"""The table on the screen and the file for programs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .figure import Figure, Goal

DIGITS = {"s": 3, "ms": 1, "µs": 1, "MB": 1, "%": 1, "1/s": 2, "k/s": 1, "": 0}


def amount(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.{DIGITS.get(unit, 2)}f} {unit}".rstrip()


def goal_text(goal: Goal, unit: str) -> str:
    if goal.times is not None:
        return f"≤ {goal.times:g} ×"
    if goal.value is None:
        return ""
    return f"≤ {goal.value:g} {unit}".rstrip()


def draw(figures: Sequence[Figure]) -> None:
    """The table, at most 80 columns where the terminal has no more."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("figure", ratio=1)
    for head in ("lazyd", "floor", "ratio", "goal"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for figure in figures:
        name = Text(figure.name)
        for aside in (figure.floor_name and f"floor: {figure.floor_name}", figure.note):
            if aside:
                name.append(f"\n  {aside}", style="dim")
        table.add_row(
            name,
            Text(amount(figure.median, figure.unit), style="bold"),
            amount(figure.floor_median, figure.unit),
            f"{figure.ratio:.2f} ×" if figure.ratio is not None else "",
            goal_text(figure.goal, figure.unit),
            verdict(figure),
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(" ✓ goal met, ✗ missed. Medians; ratios of pairs measured in turn.", style="dim")


def verdict(figure: Figure) -> Text:
    if figure.goal == Goal():
        return Text("")
    return Text("✓", style="green") if figure.met else Text("✗", style="bold red")


def as_json(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": figure.median,
        "floor": figure.floor_median,
        "floorName": figure.floor_name,
        "ratio": figure.ratio,
        "goal": {"times": figure.goal.times, "value": figure.goal.value},
        "met": figure.met,
        "note": figure.note,
        "samples": list(figure.ours),
        "floorSamples": list(figure.floor),
    }


def write(figures: Sequence[Figure], path: Path) -> None:
    """``build/bench.json``: all samples, and what machine it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "loadAverage": os.getloadavg(),
    }
    content = {"schema": 1, "time": time.time(), "machine": machine, "figures": [as_json(figure) for figure in figures]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
