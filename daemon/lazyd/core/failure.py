"""How long a model that failed is left alone.

A failed load pauses the model for 1 s, and twice as long after each further failure, up to
5 minutes. A worker that dies while it serves is an accident the first time and pauses nothing;
the second death in a row counts like a failed load. No room and cancelling never pause.
A call that ended well, or a regular unload, forgets what was.
"""

from __future__ import annotations

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0


def pause_s(failures: int) -> float:
    """The pause after so many failures in a row, in seconds."""
    if failures <= 0:
        return 0.0
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30))
