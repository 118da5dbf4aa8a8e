"""What the demo draws: steps, commands, times, the closing table. 80 columns; colour on a terminal alone."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 80
INDENT = "   "
BOLD, DIM, GREEN, RED, CYAN = "1", "2", "32", "31", "36"


def paint(text: str, *codes: str) -> str:
    """`text` in colour where that is wanted, else as it is."""
    return f"\033[{';'.join(codes)}m{text}\033[0m" if coloured() else text


def coloured() -> bool:
    """Whether standard output is a terminal that wants colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def title(text: str) -> None:
    show(paint(text, BOLD))


def step(number: int, text: str) -> None:
    """A step's headline, with room before it."""
    show(f"\n{paint(f'{number}.', BOLD, CYAN)} {paint(text, BOLD)}")


def remark(text: str) -> None:
    """A sentence or two, wrapped."""
    show(paint(textwrap.fill(text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT), DIM))


def command(*words: str) -> None:
    """The command line as a person would type it."""
    quoted = (f'"{word}"' if " " in word else word for word in words)
    show(f"{INDENT}{paint('$ ' + ' '.join(quoted), CYAN)}")


def output(text: str) -> None:
    """What a command printed."""
    for line in text.splitlines():
        show(f"{INDENT}{line}".rstrip())


class Flow:
    """An output that comes bit by bit: indented, and wrapped at white space."""

    def __init__(self) -> None:
        self.column = 0
        self.space = ""

    def add(self, text: str) -> None:
        for part in re.findall(r"\n|[^\S\n]+|\S+", text):
            if part == "\n":
                self.end()
            elif part.isspace():
                self.space = " "
            else:
                if self.column + len(self.space + part) > WIDTH:
                    self.end()
                lead = self.space if self.column else INDENT
                sys.stdout.write(lead + paint(part, BOLD))
                self.column += len(lead + part)
                self.space = ""
        sys.stdout.flush()

    def end(self) -> None:
        """Ends the line if one was begun."""
        if self.column:
            print(flush=True)
        self.column, self.space = 0, ""


def result(text: str) -> None:
    """What the step has shown; wrapped."""
    first, *others = textwrap.wrap(text, WIDTH - len(INDENT) - 2)
    show(f"{INDENT}{paint('✓', GREEN)} {first}")
    for line in others:
        show(f"{INDENT}  {line}")


def failure(text: str) -> None:
    show(f"\n{paint('✗ ' + text, BOLD, RED)}")


def show(text: str) -> None:
    print(text, flush=True)


def seconds(value: float) -> str:
    """``0.21 s``; three digits matter at most, and milliseconds below a tenth."""
    if value < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def mebibytes(value: int) -> str:
    return f"{value / 2**20:.0f} MiB"


@dataclass(frozen=True)
class Row:
    """One line of the closing table."""

    what: str
    ours: str
    beside: str


def table(heads: Row, rows: Sequence[Row]) -> None:
    """Draws three columns; the last one takes what is left of the width, and wraps."""
    everything = [heads, *rows]
    first = max(len(row.what) for row in everything)
    second = max(len(row.ours) for row in everything)
    rest = WIDTH - len(INDENT) - first - second - 4
    rule = f"{INDENT}{'─' * (WIDTH - len(INDENT))}"
    for row in everything:
        lines = textwrap.wrap(row.beside, rest) or [""]
        codes = (BOLD,) if row is heads else ()
        ours = paint(row.ours.rjust(second), *(codes or (BOLD, GREEN)))
        show(f"{INDENT}{paint(row.what.ljust(first), *codes)}  {ours}  {paint(lines[0], *(codes or (DIM,)))}".rstrip())
        for line in lines[1:]:
            show(f"{INDENT}{' ' * (first + second + 4)}{paint(line, DIM)}")
        if row is heads:
            show(rule)
