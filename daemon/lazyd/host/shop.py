"""What all workers of a host share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..worker.loop import Loop
from .cgroups import Cgroups
from .facts import Facts
from .place import Place
from .reaper import Reaper
from .zygotes import Zygotes


@dataclass(frozen=True)
class Shop:
    """The host's parts, as far as a worker needs them."""

    loop: Loop
    reaper: Reaper
    zygotes: Zygotes
    place: Place
    cgroups: Cgroups | None
    identity: str
    """See `processes.identity`."""
    base_env: dict[str, str]
    tell: Callable[[dict[str, Any]], None]
    """Sends to the manager, if there is one."""
    settled: Callable[[Facts], None]
    """Told of a worker that has begun to run, or is gone."""
