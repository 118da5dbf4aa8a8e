"""Which strategies there are, which are used when, and what they must answer.

Needs the standard library alone, so that an application which has its strategies elsewhere starts without numpy.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

NAMES = tuple(f"s{number:03}" for number in range(200))
HOT = NAMES[::10]
"""Used by every heartbeat."""
RARE = tuple(name for name in NAMES if name not in HOT)
"""Each heartbeat uses one of them, in turn."""

MINUTE = 19_000
"""The minute of the price series that heartbeats compute for."""
QUESTION = "The capital of France is"
ANSWER = "Paris"
TOKENS = 3
N_CTX = 512

EXPECTED: dict[str, float] = json.loads(Path(__file__).with_name("expected.json").read_text())
"""By strategy: its signal at `MINUTE`. A test computes some of them anew, without numpy and without tables."""


def rare(beat: int) -> str:
    """The strategy that a heartbeat uses besides the hot ones."""
    return RARE[beat * 7 % len(RARE)]


def is_right(name: str, signal: float) -> bool:
    """Whether it is what was expected, up to what processors differ in when they add in another order."""
    return math.isclose(signal, EXPECTED[name], rel_tol=1e-6, abs_tol=1e-9)
