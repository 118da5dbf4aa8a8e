"""What the text says: lines cut out, turned the right way up, and read (PP-OCRv4).

Both networks look at strips of one height. Strips that go through a network together are filled
up on the right to the width of the widest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .detection import planes
from .regions import Rectangle

HEIGHT = 48
"""Pixels of a strip."""
DIRECTION_WIDTH = 192
READING_WIDTHS = (320, 3200)
"""The least and the most that the recognition network is given."""
HALF = np.full(3, 0.5, np.float32)
"""Mean and deviation of these two networks."""
UPRIGHT_ABOVE = 1.5
"""What is so many times as high as wide is text that goes from the bottom to the top."""
IS_TURNED = 0.9
"""A line stands on its head if this is at least so likely."""


def cut(image: Image.Image, line: Rectangle) -> Image.Image:
    """The line out of the image, straightened."""
    size = (max(1, round(line.width)), max(1, round(line.height)))
    top_left, top_right, bottom_right, bottom_left = line.corners()
    four = (*top_left, *bottom_left, *bottom_right, *top_right)
    strip = image.transform(size, Image.Transform.QUAD, four, Image.Resampling.BILINEAR)
    return strip.transpose(Image.Transpose.ROTATE_90) if size[1] >= UPRIGHT_ABOVE * size[0] else strip


def strips(lines: Sequence[Image.Image], least: int, most: int) -> NDArray[np.float32]:
    """Lines as one input: float32[lines, 3, `HEIGHT`, width], its width in pixels from `least` to `most`."""
    widths = [min(most, max(1, round(HEIGHT * line.width / line.height))) for line in lines]
    batch = np.zeros((len(lines), 3, HEIGHT, max(least, *widths)), np.float32)
    for line, width, place in zip(lines, widths, batch, strict=True):
        resized = line.resize((width, HEIGHT), Image.Resampling.BILINEAR)
        place[:, :, :width] = planes(resized, HALF, HALF)
    return batch


def turned(likelihood: NDArray[np.float32]) -> list[bool]:
    """Which lines stand on their heads. `likelihood` is float32[lines, 2]: upright, turned by half a circle."""
    return [bool(one) for one in likelihood[:, 1] >= IS_TURNED]


def alphabet(characters: str) -> list[str]:
    """What the recognition network's classes mean: none, the lines of `characters`, and the space."""
    return ["", *characters.removesuffix("\n").split("\n"), " "]


def read(likelihood: NDArray[np.float32], classes: Sequence[str]) -> list[tuple[str, float]]:
    """Each line's text, and how sure the network is of it, from 0 to 1.

    `likelihood` is float32[lines, steps, classes]. At each step the likeliest class counts; the same one
    several times in a row is one character, and class 0 between two keeps them apart.
    """
    best, sure = likelihood.argmax(axis=2), likelihood.max(axis=2)
    new = np.diff(best, axis=1, prepend=0) != 0
    kept = new & (best > 0)
    return [
        ("".join(classes[one] for one in steps[keep]).strip(), float(certain[keep].mean()) if keep.any() else 0.0)
        for steps, certain, keep in zip(best, sure, kept, strict=True)
    ]
