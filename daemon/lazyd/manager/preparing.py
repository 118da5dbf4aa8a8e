"""What the host is told of the configuration: its settings, and which zygotes are likely to be needed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable

from lazyd.core.spec import Config, ModelSpec, Tier

from .configuration import Configuration
from .environment import as_told, merged_environment
from .hostlink import HostLink
from .pins import PinKeeper
from .tasks import Background


class Preparing:
    """Tells a host when it is connected, and again when the configuration changes."""

    def __init__(self, configuration: Configuration, pins: PinKeeper, background: Background) -> None:
        self._configuration = configuration
        self._pins = pins
        self._background = background
        self._link: HostLink | None = None

    def connected(self, link: HostLink) -> None:
        self._link = link
        self.tell()

    def tell(self) -> None:
        """What is in force now. A host that has gone hears nothing."""
        link = self._link
        if link is None or link.ended.is_set():
            return
        settings = self._configuration.config.settings
        link.send({"do": "settings", "max_zygotes": settings.max_zygotes, "linger_s": settings.linger_s})
        self._background.once("zygotes", self._prepare(link))

    async def _prepare(self, link: HostLink) -> None:
        specs = []
        for spec in likely(self._configuration.config, self._pins.pins):
            with contextlib.suppress(OSError, ValueError):  # a file that cannot be read is its model's own failure
                environment = await asyncio.to_thread(merged_environment, spec) if spec.env_file else spec.env
                specs.append(as_told(spec, environment))
        link.send({"do": "prepare", "specs": specs})


def likely(config: Config, pins: frozenset[str]) -> list[ModelSpec]:
    """One spec for each zygote that models could share, residents' and pinned models' first.

    No more than `max_zygotes`: a host with more of them would end the first for the last.
    """

    def later(spec: ModelSpec) -> bool:
        return not (spec.tier is Tier.RESIDENT or spec.pin or spec.key in pins)

    found: dict[Hashable, ModelSpec] = {}
    for spec in sorted(config.models.values(), key=later):
        if len(found) >= config.settings.max_zygotes:
            break
        found.setdefault(_zygote(spec), spec)
    return list(found.values())


def _zygote(spec: ModelSpec) -> Hashable:
    """What two models must have in common to be forked from one zygote."""
    return spec.runtime, spec.python, spec.python_path, tuple(sorted(spec.env.items())), spec.env_file
