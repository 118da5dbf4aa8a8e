"""Connected regions of a mask, and the smallest rectangle around each.

A region is kept as its runs: rows of an integer array ``(row, first, end)``, the pixels of one row
from `first` up to but not including `end`. A page of text has some hundreds of them where it has
a hundred thousand pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

ANGLES = np.deg2rad(np.arange(-45.0, 45.0))
"""Directions in which a rectangle is tried: one a degree. Further on its sides change places."""


@dataclass(frozen=True)
class Rectangle:
    """Where a line of text is, in pixels; y grows downwards. `angle` is in radians, of the side `width`."""

    x: float
    """Of its middle, as `y`."""
    y: float
    width: float
    height: float
    angle: float

    def grown(self, ratio: float) -> Rectangle:
        """Moved outwards on all sides by `ratio` × its area / its circumference."""
        by = self.width * self.height * ratio / (self.width + self.height)
        return replace(self, width=self.width + by, height=self.height + by)

    def scaled(self, across: float, down: float) -> Rectangle:
        """In an image that is so many times as wide and as high. The two are taken to be about the same."""
        mean = math.sqrt(across * down)
        return Rectangle(self.x * across, self.y * down, self.width * mean, self.height * mean, self.angle)

    def corners(self) -> list[tuple[float, float]]:
        """Top left, top right, bottom right, bottom left, as ``(x, y)``."""
        along = np.array([math.cos(self.angle), math.sin(self.angle)]) * self.width / 2
        down = np.array([-math.sin(self.angle), math.cos(self.angle)]) * self.height / 2
        middle = np.array([self.x, self.y])
        signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
        points = [middle + a * along + b * down for a, b in signs]
        return [(float(x), float(y)) for x, y in points]


def regions(mask: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """The runs of every connected region. Pixels that touch at a corner are connected."""
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, firsts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    runs = np.stack([rows, firsts, ends], axis=1)
    of_run = _connected(runs.tolist())
    return [runs[of_run == one] for one in np.unique(of_run)]


def _connected(runs: list[list[int]]) -> NDArray[np.intp]:
    """For each run, in the order of rows and columns, the first run of its region."""
    leads = list(range(len(runs)))

    def lead(run: int) -> int:
        while leads[run] != run:
            leads[run] = leads[leads[run]]
            run = leads[run]
        return run

    above = 0
    for this, (row, first, end) in enumerate(runs):
        while runs[above][0] < row - 1 or (runs[above][0] == row - 1 and runs[above][2] < first):
            above += 1
        other = above
        while runs[other][0] == row - 1 and runs[other][1] <= end:
            low, high = sorted((lead(this), lead(other)))
            leads[high] = low
            other += 1
    return np.array([lead(run) for run in range(len(runs))], np.intp)


def rectangle(runs: NDArray[np.intp]) -> Rectangle:
    """The smallest rectangle around a region, among those at whole degrees."""
    row, first, end = runs.T
    xs = np.concatenate([first, end, first, end])
    ys = np.concatenate([row, row, row + 1, row + 1])
    along = np.outer(np.cos(ANGLES), xs) + np.outer(np.sin(ANGLES), ys)
    down = np.outer(np.cos(ANGLES), ys) - np.outer(np.sin(ANGLES), xs)
    widths, heights = np.ptp(along, axis=1), np.ptp(down, axis=1)
    best = int(np.argmin(widths * heights))
    a, d = (float(one[best].min() + one[best].max()) / 2 for one in (along, down))
    cos, sin = math.cos(ANGLES[best]), math.sin(ANGLES[best])
    return Rectangle(
        x=a * cos - d * sin,
        y=a * sin + d * cos,
        width=float(widths[best]),
        height=float(heights[best]),
        angle=float(ANGLES[best]),
    )
