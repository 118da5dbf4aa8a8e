"""What the host is told of the configuration: its settings, and which zygotes are likely to be needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

from lazyd.core.needs import GPU, RAM
from lazyd.core.spec import Config, ModelSpec, Tier

from ..apart import Apart, NoAnswer
from ..configuration import Configuration
from ..pins import PinKeeper
from ..tasks import Background
from .environment import as_told, told_with_files
from .hostlink import HostLink
from .placing import ALL, Gpus

log = logging.getLogger("lazyd.preparing")


class Preparing:
    """Tells a host when it is connected, and again when the configuration changes.

    `look` blocks until the GPUs have been found, or for a while at most.
    """

    def __init__(
        self,
        configuration: Configuration,
        pins: PinKeeper,
        background: Background,
        gpus: Gpus,
        look: Callable[[], object],
    ) -> None:
        self._configuration = configuration
        self._pins = pins
        self._background = background
        self._gpus = gpus
        self._look = look
        self._apart = Apart()
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
        await asyncio.to_thread(self._look)
        question = partial(likely, self._configuration.config, self._pins.pins, self._gpus)
        try:
            specs = await self._apart.ask("zygotes", question)
        except NoAnswer as error:
            log.warning("no zygotes are prepared before they are needed: of one of the models %s", error)
        else:
            link.send({"do": "prepare", "specs": specs})


def likely(config: Config, pins: frozenset[str], gpus: Gpus) -> list[dict[str, Any]]:
    """One spec, as the host is told it, for each zygote that models could share, residents' and pinned models' first.

    No more than `max_zygotes`: a host with more of them would end the first for the last. Blocks, as files are read.
    """

    def later(spec: ModelSpec) -> bool:
        return not (spec.tier is Tier.RESIDENT or spec.pin or spec.key in pins)

    shown = Shown(gpus)
    found: dict[Hashable, dict[str, Any]] = {}
    for spec in sorted(config.models.values(), key=later):
        if len(found) >= config.settings.max_zygotes:
            break
        with contextlib.suppress(OSError, ValueError):  # a file that cannot be read is its model's own failure
            variables = shown.to(spec)
            zygote = *_made_from(spec), tuple(variables.items())
            if zygote not in found:
                found[zygote] = told_with_files(spec, variables)
    return list(found.values())


class Shown:
    """Guesses which GPUs a model's worker will be shown, as that must be known before its library is imported.

    One that can be loaded on a GPU is most likely loaded on the first that it may use, and others in RAM. A zygote
    for each GPU would cost more than the import that it saves.
    """

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._known: dict[Hashable, Mapping[str, str]] = {}
        """By what the answer depends on: there may be thousands of models, and a runtime reads files for its answer."""

    def to(self, spec: ModelSpec) -> Mapping[str, str]:
        """The variables that say so. Raises `OSError` or `ValueError` if the model cannot be loaded at all."""
        kind = *_made_from(spec), spec.device
        if kind not in self._known:
            self._known[kind] = self._gpus.environment((self._device(spec),))
        return self._known[kind]

    def _device(self, spec: ModelSpec) -> str:
        named = [device for device in spec.device if device != RAM]
        if spec.device and not named:
            return RAM
        gpu = self._gpus.first(named if named and GPU not in named else ALL)
        return gpu if gpu is not None and _can_use_gpus(spec) else RAM


def _can_use_gpus(spec: ModelSpec) -> bool:
    from lazyd.runtimes import runtime_named

    return runtime_named(spec.runtime).needs(as_told(spec))[GPU] is not None


def _made_from(spec: ModelSpec) -> tuple[Hashable, ...]:
    """What two models must have in common to be forked from one zygote."""
    return spec.runtime, spec.python, spec.python_path, spec.imports, tuple(sorted(spec.env.items())), spec.env_file
