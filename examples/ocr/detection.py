"""Where the text is: what the detection network (PP-OCRv4) is given, and what its answer means.

The network gives each pixel the likelihood that it belongs to the core of a line of text: the
line, shrunk, so that neighbours stay apart. Regions above a threshold are lines; each rectangle
around one is grown back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .regions import Rectangle, rectangle, regions

LONGEST_SIDE = 960
"""Pixels; larger images are made smaller before they are looked at."""
STEP = 32
"""The network halves its input five times, so sides are multiples of this."""
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
"""What it was trained with, plane by plane; `DEVIATION` alike."""
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
IS_TEXT = 0.3
"""A pixel of text is at least so likely one."""
IS_LINE = 0.6
"""A line's pixels are on average at least so likely text."""
LEAST_SIDE = 3
"""Pixels; what is smaller is a speck."""
GROWTH = 2.2
"""How far a line's core is moved outwards to be the line again, in areas by circumference."""


def planes(image: Image.Image, mean: NDArray[np.float32], deviation: NDArray[np.float32]) -> NDArray[np.float32]:
    """An image as the networks want it: float32[3, height, width], blue first, normalised."""
    pixels = np.asarray(image.convert("RGB"), np.float32)[:, :, ::-1] / 255
    return np.ascontiguousarray(((pixels - mean) / deviation).transpose(2, 0, 1), np.float32)


def looked_at(image: Image.Image) -> NDArray[np.float32]:
    """The detection network's input: float32[1, 3, H, W], both sides multiples of `STEP`."""
    smaller = min(1.0, LONGEST_SIDE / max(image.size))
    width, height = (max(STEP, round(side * smaller / STEP) * STEP) for side in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return planes(resized, MEAN, DEVIATION)[None]


def found(likelihood: NDArray[np.float32], size: tuple[int, int]) -> list[Rectangle]:
    """The lines in an image of `size` (width, height), from the top; the network saw it at its own size.

    `likelihood` is float32[height, width], the network's output.
    """
    height, width = likelihood.shape
    sums = np.pad(np.cumsum(likelihood, axis=1, dtype=np.float64), ((0, 0), (1, 0)))
    lines = []
    for runs in regions(likelihood > IS_TEXT):
        row, first, end = runs.T
        core = rectangle(runs)
        mean = (sums[row, end] - sums[row, first]).sum() / (end - first).sum()
        if mean >= IS_LINE and min(core.width, core.height) >= LEAST_SIDE:
            lines.append(core.grown(GROWTH).scaled(size[0] / width, size[1] / height))
    return in_reading_order(lines)


def in_reading_order(lines: list[Rectangle]) -> list[Rectangle]:
    """From the top, and from the left among those whose middles are at about the same height."""
    rows: list[list[Rectangle]] = []
    for line in sorted(lines, key=lambda line: line.y):
        if rows and line.y - rows[-1][0].y < rows[-1][0].height / 2:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: line.x)]
