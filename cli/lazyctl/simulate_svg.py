"""The same as a picture: an SVG file that follows the light or dark theme of who looks at it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from lazyd.replay.course import Course
from lazyd.replay.outcome import Outcome

from .simulate_axes import bytes_axis, round_above, step_name, ticks, whole_above
from .simulate_input import Played
from .simulate_report import heading
from .terminal import Look, one_line, shorten

WIDTH, HEIGHT = 800, 520
LEFT, RIGHT = 70, 20
PANELS = ((96, 180), (330, 140))
"""Top and height of each."""
MOST_LINES = 240
MOST_BARS = 60
_TICKS = 8
_LINES = 4
"""Of a grid, above the axis."""

LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "quiet": "#656d76", "grid": "#d8dee4", "first": "#2563eb", "second": "#d97706"
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "quiet": "#8d96a0", "grid": "#30363d", "first": "#6ea8fe", "second": "#f0a541"
}  # fmt: skip
SHAPES = """
    svg { font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; font-size: 12px }
    .title { font-size: 15px; font-weight: 600 }
    .grid, .axis { stroke-width: 1 }
    .line0, .line1 { fill: none; stroke-width: 1.6; stroke-linejoin: round }
    .fill0, .fill1 { fill-opacity: 0.12 }
"""
COLOURS = """
    .paper {{ fill: {paper} }} text {{ fill: {quiet} }} .title, .name {{ fill: {ink} }}
    .grid {{ stroke: {grid} }} .axis {{ stroke: {quiet} }} .line0 {{ stroke: {first} }} .line1 {{ stroke: {second} }}
    .fill0, .bar0 {{ fill: {first} }} .fill1, .bar1 {{ fill: {second} }}
"""


def style() -> str:
    """Colours are written out, as not all that shows SVG knows variables; what knows no themes is light."""
    dark = COLOURS.format(**DARK)
    return f"{SHAPES}{COLOURS.format(**LIGHT)}    @media (prefers-color-scheme: dark) {{{dark}    }}\n"


def svg(played: Played, outcomes: tuple[Outcome, Outcome]) -> str:
    """The whole file."""
    first = outcomes[0].course
    end = first.start + first.step_s * len(first.cold)
    names = [shorten(one_line(side.name), 40, Look()) for side in played.sides]
    title = heading(played, outcomes[0])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        f' role="img" aria-label="{escape(title)}">',
        f"  <style>{style()}  </style>",
        f'  <rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        _text(LEFT - 50, 30, title, "title"),
        *_legend(names, outcomes),
        *_held(outcomes, first.start, end),
        *_cold(outcomes, first.start, end),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _legend(names: Sequence[str], outcomes: Sequence[Outcome]) -> Iterable[str]:
    x = LEFT - 50
    for side, (name, outcome) in enumerate(zip(names, outcomes, strict=True)):
        told = f"{name}: {outcome.cold:,} cold starts, {outcome.held_gib_h:,.1f} GiB·h"
        yield f'  <rect class="bar{side}" x="{x}" y="46" width="12" height="12" rx="2"/>'
        yield _text(x + 18, 56, told, "name")
        x += 18 + 7 * len(told) + 24


def _held(outcomes: Sequence[Outcome], start: float, end: float) -> Iterable[str]:
    courses = [outcome.course.in_steps(MOST_LINES) for outcome in outcomes]
    by, unit = bytes_axis(held for course in courses for held in course.held_bytes)
    sides = [[held / by for held in course.held_bytes] for course in courses]
    panel = _Panel(*PANELS[0], start, end, round_above(max(map(max, sides))))
    yield from panel.frame(f"memory held ({unit})", labels_time=False)
    for side, (course, values) in enumerate(zip(courses, sides, strict=True)):
        path = panel.stairs(course, values)
        yield f'  <path class="fill{side}" d="{path} V{panel.bottom} H{LEFT} Z"/>'
        yield f'  <path class="line{side}" d="{path}"/>'


def _cold(outcomes: Sequence[Outcome], start: float, end: float) -> Iterable[str]:
    courses = [outcome.course.in_steps(MOST_BARS) for outcome in outcomes]
    top = whole_above(max(max(course.cold) for course in courses))
    panel = _Panel(*PANELS[1], start, end, top)
    yield from panel.frame(f"cold starts per {step_name(courses[0].step_s)}", labels_time=True)
    for side, course in enumerate(courses):
        for step, count in enumerate(course.cold):
            if count:
                yield panel.bar(side, course, step, count)


class _Panel:
    """A part of the picture with its own axes."""

    def __init__(self, top: int, height: int, start: float, end: float, most: float) -> None:
        self.top = top
        self.bottom = top + height
        self._start = start
        self._end = end
        self._most = most

    def x(self, moment: float) -> float:
        part = (min(moment, self._end) - self._start) / (self._end - self._start)
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(self.bottom - value / self._most * (self.bottom - self.top), 1)

    def frame(self, title: str, *, labels_time: bool) -> Iterable[str]:
        yield _text(LEFT - 50, self.top - 12, title, "name")
        for line in range(_LINES + 1):
            value = self._most * line / _LINES
            if self._most < _LINES and self._most == int(self._most) and value != int(value):
                continue  # there is no half of a cold start
            y = self.y(value)
            kind = "grid" if line else "axis"
            yield f'  <line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
            yield _text(LEFT - 8, y + 4, f"{value:,.4g}", anchor="end")
        for moment, label in ticks(self._start, self._end, _TICKS):
            x = self.x(moment)
            yield f'  <line class="axis" x1="{x}" x2="{x}" y1="{self.bottom}" y2="{self.bottom + 5}"/>'
            if labels_time:
                yield _text(x, self.bottom + 20, label, anchor="middle")

    def stairs(self, course: Course, values: Sequence[float]) -> str:
        """A line that is level during each step."""
        parts = [f"M{LEFT} {self.y(values[0])}"]
        for step, value in enumerate(values):
            parts.append(f"V{self.y(value)} H{self.x(course.start + (step + 1) * course.step_s)}")
        return " ".join(parts)

    def bar(self, side: int, course: Course, step: int, count: int) -> str:
        begin = self.x(course.start + step * course.step_s)
        width = (self.x(course.start + (step + 1) * course.step_s) - begin) * 0.42
        x, y = round(begin + width * (0.19 + side), 1), self.y(count)
        return (
            f'  <rect class="bar{side}" x="{x}" y="{y}" width="{max(0.8, round(width, 1))}"'
            f' height="{round(self.bottom - y, 1)}"/>'
        )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'  <text x="{x}" y="{y}"{attributes}>{escape(text)}</text>'
