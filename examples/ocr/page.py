"""A page to read: lines of text drawn into an image, upright or on their heads."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

SIZE = 48
"""Pixels of the letters' font, which is Pillow's own."""
GAP = 24
"""Pixels around lines."""


def drawn(lines: Sequence[str], on_their_heads: Sequence[str] = ()) -> bytes:
    """A PNG image of these lines, one below the other; those of `on_their_heads` come last."""
    strips = [strip(text) for text in lines]
    strips += [strip(text).rotate(180) for text in on_their_heads]
    width = max(one.width for one in strips) + 2 * GAP
    page = Image.new("RGB", (width, GAP + sum(one.height + GAP for one in strips)), "white")
    y = GAP
    for one in strips:
        page.paste(one, (GAP, y))
        y += one.height + GAP
    png = io.BytesIO()
    page.save(png, "PNG")
    return png.getvalue()


def strip(text: str) -> Image.Image:
    """One line of text, as large as it is."""
    font = ImageFont.load_default(SIZE)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (int(right - left) + 4, int(bottom - top) + 4), "white")
    ImageDraw.Draw(image).text((2 - left, 2 - top), text, fill="black", font=font)
    return image
