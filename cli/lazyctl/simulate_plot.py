"""Two replays over time, drawn in a terminal: what was held, and cold starts."""

from __future__ import annotations

from collections.abc import Sequence

from lazyd.replay.course import Course
from lazyd.replay.outcome import Outcome

from .simulate_axes import bytes_axis, round_above, step_name, ticks, whole_above
from .simulate_input import Played
from .terminal import Look, cells, one_line, shorten

HEIGHT = 3
"""Lines of one chart."""
WIDEST = 96
"""Columns of a chart: wider tells no more."""
LEAST = 20
STYLES = ("blue", "yellow")
_NAME = 14
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:|"
_LABEL = 12
"""Columns for a label of time."""


def plot_lines(played: Played, outcomes: tuple[Outcome, Outcome], look: Look) -> list[str]:
    """Both, one above the other on the same axes."""
    names = [shorten(one_line(side.name), _NAME, look) for side in played.sides]
    gutter = max(map(cells, names)) + 7
    width = min(look.width - gutter - 2, WIDEST)
    if width < LEAST:
        return []
    courses = [outcome.course.in_steps(width) for outcome in outcomes]
    by, unit = bytes_axis(held for course in courses for held in course.held_bytes)
    held = [[value / by for value in course.held_bytes] for course in courses]
    cold = [[float(count) for count in course.cold] for course in courses]
    step = step_name(courses[0].step_s)
    chart = _Chart(names, gutter, width, look)
    return [
        look.paint(f"memory held, {unit}", "bold"),
        *chart.lines(held, round_above(max(map(max, held)))),
        look.paint(f"cold starts per {step}", "bold"),
        *chart.lines(cold, whole_above(max(map(max, cold)))),
        *chart.axis(courses[0]),
    ]


class _Chart:
    def __init__(self, names: Sequence[str], gutter: int, width: int, look: Look) -> None:
        self._names = names
        self._gutter = gutter
        self._width = width
        self._look = look

    def lines(self, sides: Sequence[Sequence[float]], top: float) -> list[str]:
        found: list[str] = []
        for name, values, style in zip(self._names, sides, STYLES, strict=True):
            rows = drawn(self._stretched(values), top, self._look)
            for row, text in enumerate(rows):
                label = f"{top:g}" if row == 0 else "0" if row == HEIGHT - 1 else ""
                head = name if row == 0 else ""
                gap = " " * (self._gutter - cells(head) - len(label))
                mark = ("┤" if label else "│") if self._look.unicode else ("+" if label else "|")
                painted = self._look.paint(head, style)
                found.append(f"{painted}{gap}{label} {mark}{self._look.paint(text.rstrip(), style)}")
        return found

    def _stretched(self, values: Sequence[float]) -> list[float]:
        """One for each column."""
        return [values[column * len(values) // self._width] for column in range(self._width)]

    def axis(self, course: Course) -> list[str]:
        """Labels of time, each where its moment is."""
        end = course.start + course.step_s * len(course.cold)
        line = ""
        for moment, label in ticks(course.start, end, max(2, self._width // _LABEL)):
            column = int((moment - course.start) / (end - course.start) * self._width)
            if column + len(label) <= self._width:
                line = line.ljust(column) + label
        return [self._look.paint(" " * (self._gutter + 2) + line, "dim")] if line else []


def drawn(values: Sequence[float], top: float, look: Look) -> list[str]:
    """Columns of blocks, the highest row first; what is not nothing can be seen."""
    glyphs = _EIGHTHS if look.unicode else _ASCII
    full = len(glyphs) - 1
    heights = [max(1, round(value / top * HEIGHT * full)) if value > 0 else 0 for value in values]
    return [
        "".join(glyphs[min(full, max(0, height - row * full))] for height in heights) for row in reversed(range(HEIGHT))
    ]
