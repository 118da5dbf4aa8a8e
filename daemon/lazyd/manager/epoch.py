"""The core's clock and the time of day."""

from __future__ import annotations

import time


def epoch() -> float:
    """What is to be added to the core's clock to get seconds since 1970, as things stand: it changes when somebody sets
    the clock, and by as long as the machine has slept."""
    return time.time() - time.monotonic()
