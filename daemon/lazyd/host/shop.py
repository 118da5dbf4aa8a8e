"""What all workers of a host share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..worker.loop import Loop
from .cgroups import Cgroups
from .place import Place
from .reaper import Reaper
from .zygotes import Zygotes

if TYPE_CHECKING:
    from .worker import Worker


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
    settled: Callable[[Worker], None]
    """Told of a worker that has begun to run, or is gone."""
