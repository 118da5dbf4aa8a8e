"""Cold starts against memory x time as an SVG that follows the light or dark theme of who looks at it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from .policies import FIXED_S, Cost
from .scenarios import Result

WIDTH, HEIGHT = 920, 400
TOP, BOTTOM, LEFT, BETWEEN = 92, 64, 66, 22
MOST, LEAST = 100.0, 0.05
"""Per cent of uses that are cold: the ends of the axis."""
SIDES = (0.01, 4.0)
"""Memory x time beside that of the fixed keep-alive: the ends of the axis."""
PER_CENT = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
LARGE, SMALL = 5.0, 2.5
TIMES = (0.03, 0.1, 0.3, 1.0, 3.0)

SHAPES = """
    svg { font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; font-size: 12px }
    .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 }
    .grid, .axis { stroke-width: 1; fill: none } .equal { stroke-width: 1; stroke-dasharray: 4 4 }
    .line { fill: none; stroke-width: 2; stroke-linejoin: round }
"""
COLOURS = """
    .paper {{ fill: {paper} }} text {{ fill: {quiet} }} .title, .head {{ fill: {ink} }}
    .grid {{ stroke: {grid} }} .axis, .equal {{ stroke: {quiet} }} .fixed.line {{ stroke: {fixed} }}
    .learned.line {{ stroke: {learned} }} .bound.line {{ stroke: {quiet}; stroke-dasharray: 2 3 }}
    .ahead.line {{ stroke: none }} .ahead.dot {{ fill: {paper}; stroke: {quiet}; stroke-width: 2 }}
    .fixed.dot {{ fill: {fixed} }} .learned.dot {{ fill: {learned} }}
"""
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "quiet": "#656d76", "grid": "#d8dee4",
    "fixed": "#b45309", "learned": "#2563eb"
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "quiet": "#8d96a0", "grid": "#30363d",
    "fixed": "#f0a541", "learned": "#6ea8fe"
}  # fmt: skip
LEGEND = (
    ("fixed", "fixed keep-alive (large: 10 min)"),
    ("learned", "learned (large: as it is in lazyd)"),
    ("bound", "hindsight, holding only"),
    ("ahead", "hindsight, loading ahead"),
)


@dataclass(frozen=True)
class Panel:
    """Where one comparison stands, and its scales."""

    result: Result
    left: float
    width: float

    @property
    def uses(self) -> int:
        return sum(len(history.uses) for history in self.result.scenario.histories)

    def x(self, times: float) -> float:
        low, high = map(math.log, SIDES)
        part = (math.log(min(max(times, SIDES[0]), SIDES[1])) - low) / (high - low)
        return self.left + self.width * part

    def y(self, per_cent: float) -> float:
        part = math.log(MOST / max(per_cent, LEAST)) / math.log(MOST / LEAST)
        return TOP + (HEIGHT - TOP - BOTTOM) * part

    def at(self, cost: Cost) -> tuple[float, float]:
        return self.x(cost.held_s / self.result.base.held_s), self.y(100 * cost.cold / self.uses)


def svg(results: Sequence[Result]) -> str:
    """The whole file, a panel for each comparison."""
    title = "Cold starts against memory × time"
    width = (WIDTH - LEFT - BETWEEN * len(results)) / len(results)
    panels = [Panel(result, LEFT + number * (width + BETWEEN), width) for number, result in enumerate(results)]
    dark = COLOURS.format(**DARK)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        f' role="img" aria-label="{title}">',
        f"<style>{SHAPES}{COLOURS.format(**LIGHT)}    @media (prefers-color-scheme: dark) {{{dark}    }}\n</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        text(LEFT, 24, title, "title"),
        *legend(),
        f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        "uses that meet a cold model</text>",
        text(
            WIDTH / 2, HEIGHT - 14, "memory × time, as a multiple of that of a fixed keep-alive of 10 min", middle=True
        ),
    ]
    for number, panel in enumerate(panels):
        parts += axes(panel, with_names=number == 0)
        parts += curves(panel)
    return "\n".join([*parts, "</svg>"]) + "\n"


def legend() -> Iterator[str]:
    x = float(LEFT)
    for kind, words in LEGEND:
        yield f'<line class="{kind} line" x1="{x:.1f}" x2="{x + 22:.1f}" y1="46" y2="46"/>'
        if kind != "bound":
            yield dot(kind, x + 11, 46, LARGE)
        yield text(x + 28, 50, words)
        x += 46 + 5.9 * len(words)


def axes(panel: Panel, *, with_names: bool) -> Iterator[str]:
    end = panel.left + panel.width
    yield text(panel.left, TOP - 12, panel.result.scenario.name, "head")
    for per_cent in PER_CENT:
        y = panel.y(per_cent)
        yield f'<line class="grid" x1="{panel.left:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        if with_names:
            yield f'<text x="{panel.left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{per_cent:g} %</text>'
    for times in TIMES:
        x = panel.x(times)
        kind = "equal" if times == 1 else "grid"
        yield f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        yield text(x, HEIGHT - BOTTOM + 18, f"{times:g} ×", middle=True)
    yield f'<path class="axis" d="M{panel.left:.1f} {TOP}V{HEIGHT - BOTTOM}H{end:.1f}"/>'


def curves(panel: Panel) -> Iterator[str]:
    result = panel.result
    yield path("bound", [point.cost for point in result.bound], panel.at)
    for kind, curve in (("fixed", result.fixed), ("learned", result.learned)):
        yield path(kind, [point.cost for point in curve], panel.at)
        for point in curve:
            yield dot(kind, *panel.at(point.cost), LARGE if point.setting == FIXED_S else SMALL)
    yield dot("ahead", *panel.at(result.foreseen), LARGE)


def dot(kind: str, x: float, y: float, radius: float) -> str:
    return f'<circle class="{kind} dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def path(kind: str, costs: Sequence[Cost], at: Callable[[Cost], tuple[float, float]]) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, costs))
    return f'<polyline class="{kind} line" points="{points}"/>'


def text(x: float, y: float, words: str, kind: str = "", *, middle: bool = False) -> str:
    look = (f' class="{kind}"' if kind else "") + (' text-anchor="middle"' if middle else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}>{escape(words)}</text>'
