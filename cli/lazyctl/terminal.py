"""What a stream can show: how wide it is, whether colour and block characters reach it.

Where a stream is not a terminal, everything is plain and 80 columns wide, so that a mail or a
log file stays readable.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from typing import IO, NamedTuple

DEFAULT_WIDTH = 80
_HANGS = 4
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SGR = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class Look(NamedTuple):
    """How to write to one stream."""

    width: int = DEFAULT_WIDTH
    height: int | None = None
    """Lines of the terminal; ``None``: not a terminal."""
    colour: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: IO[str] | None) -> Look:
        """Look at `stream`. Obeys ``NO_COLOR`` and ``TERM=dumb``."""
        encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
        unicode = encoding.startswith("utf")
        if stream is None or not is_terminal(stream):
            return cls(width=_columns_wished() or DEFAULT_WIDTH, unicode=unicode)
        colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "dumb")
        try:
            width, height = os.get_terminal_size(stream.fileno())
        except (OSError, ValueError):
            width, height = 0, 0
        # A serial console reports 0 x 0.
        return cls(
            width=width or _columns_wished() or DEFAULT_WIDTH, height=height or 24, colour=colour, unicode=unicode
        )

    def paint(self, text: str, *styles: str) -> str:
        """`text` in the given styles, or as it is where colour does not reach."""
        codes = [_SGR[style] for style in styles if style]
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and codes and text else text


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a person looks at `stream`; a closed one (None, as Python has it) has nobody."""
    return stream is not None and not stream.closed and stream.isatty()


def _columns_wished() -> int | None:
    wished = os.environ.get("COLUMNS", "")
    return max(int(wished), 40) if wished.isascii() and wished.isdigit() else None


def one_line(text: str) -> str:
    """`text` without line breaks and control characters, so that it cannot disturb a terminal."""
    return _CONTROL.sub(" ", text).strip()


def text_only(text: str) -> str:
    """`text` without what steers a terminal: of control characters, line breaks and tabs stay."""
    return _STEERING.sub("", text)


def cells(text: str) -> int:
    """How many columns `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(character) for character in text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, width: int, look: Look) -> str:
    """`text` in at most `width` columns, with an ellipsis where something is missing."""
    if cells(text) <= width:
        return text
    return text[: _fitting(text, width - 1)] + ("…" if look.unicode else "~")


def wrapped(text: str, width: int, look: Look, most: int | None = None) -> list[str]:
    """`text` in lines of at most `width` columns, broken between words; the last of `most` is shortened."""
    lines: list[str] = []
    while cells(text) > width and (most is None or len(lines) < most - 1):
        cut = max(_fitting(text, width), 1)
        space = text.rfind(" ", 1, cut + 1)
        cut = space if space > 0 else cut
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*lines, shorten(text, width, look)]


def hanging(text: str, width: int, look: Look) -> list[str]:
    """All of `text` in lines of at most `width` columns, indented where it goes on."""
    first, *more = wrapped(text, width, look)
    rest = wrapped(" ".join(more), width - _HANGS, look) if more else []
    return [first, *(" " * _HANGS + line for line in rest)]


def for_stderr(line: str) -> list[str]:
    """One line, as it is where a program reads it, and broken between words on a terminal."""
    look = Look.of(sys.stderr)
    return [line] if look.height is None else hanging(line, look.width, look)


def _fitting(text: str, width: int) -> int:
    """How many characters of `text` fit into `width` columns."""
    used = 0
    for index, character in enumerate(text):
        used += _cells_of(character)
        if used > width:
            return index
    return len(text)
