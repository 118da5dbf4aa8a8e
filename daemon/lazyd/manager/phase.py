"""What the daemon is doing, as `Status` says it."""

from __future__ import annotations

import enum


class Phase(enum.StrEnum):
    STARTING = "starting"
    """There is no host yet: requests that need a load wait for it."""
    RUNNING = "running"
    STOPPING = "stopping"
