"""The method ``History``: what was used when, and what has to be known to play it again (see `lazyd.replay`).

Secrets stay here: of a spec only what the core decides by is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from time import time
from typing import Any

import msgspec

from lazyd.core.core import Core
from lazyd.core.events import Predicted
from lazyd.core.ledger import SLOTS
from lazyd.core.middle import median
from lazyd.core.records import Model, Prediction
from lazyd.core.spec import Config, ModelSpec
from lazyd.replay.facts import DeviceFacts, Facts, ModelFacts, Told, Use
from lazyd.varlink import parameters as given_for
from lazyd.varlink.call import Call

from ..readiness.history import History
from .looking import Foresee

log = logging.getLogger("lazyd.recorded")

FORESEE_S = 3.0
"""So long the files of models are looked at, all together. Of the rest nothing is told."""
AT_ONCE = 8
"""So many are looked at at the same time."""


class Recorded:
    """`foresee` finds out what a load needs, `config` is the one in force."""

    def __init__(self, core: Core, config: Callable[[], Config], history: History, foresee: Foresee) -> None:
        self._core = core
        self._config = config
        self._history = history
        self._foresee = foresee

    def history(self, call: Call, given: given_for.History) -> None:
        since = float("-inf") if given.since_sec is None else time() - given.since_sec
        call.run(self._tell(call, since))

    async def _tell(self, call: Call, since: float) -> None:
        call.reply(await self._known(), continues=True)
        problems: list[str] = []
        try:
            async for page in self._history.pages():
                uses = [Use(use.began, use.model, use.busy_s) for use in page if use.began >= since]
                if uses:
                    call.reply({"uses": uses}, continues=True)
                    await call.until_writable()
        except TimeoutError as error:
            problems = [str(error)]
        call.reply({"problems": problems + self._history.problems})

    async def _known(self) -> Told:
        config, world = self._config(), self._core.world
        foreseen = await self._all_foreseen(config)
        return Told(
            config=without_secrets(config),
            pins=tuple(model.key for model in world.models.values() if model.pinned and not model.spec.pin),
            kept=config.settings.history,
            facts=Facts(devices=self._devices(), models=facts(config, world.models, foreseen)),
        )

    def _devices(self) -> tuple[DeviceFacts, ...]:
        return tuple(
            DeviceFacts(name=device.name, kind=device.kind, total_bytes=device.total_bytes, alone=device.alone)
            for device in self._core.world.ledger.devices.values()
            if device.kind != SLOTS
        )

    async def _all_foreseen(self, config: Config) -> dict[str, Predicted]:
        """What the loads of models need, by the key of their spec, as far as it can be found out in time."""
        found: dict[str, Predicted] = {}
        gate = asyncio.Semaphore(AT_ONCE)

        async def look(spec: ModelSpec) -> None:
            record = self._core.world.models.get(spec.key)
            known = record.prediction if record is not None else None
            if isinstance(known, Prediction):
                found[spec.key] = Predicted(model=spec.key, ways=known.ways, layers=known.layers, files=known.files)
                return
            async with gate:
                try:
                    found[spec.key] = await self._foresee(spec)
                except (OSError, ValueError) as error:
                    log.info("what %s needs is not told with the history: %s", spec.key, error)
                except Exception:
                    log.exception("the runtime %s could not estimate %s", spec.runtime, spec.key)

        looks = [asyncio.create_task(look(spec)) for spec in config.models.values()]
        if looks:
            _, late = await asyncio.wait(looks, timeout=FORESEE_S)
            for task in late:
                task.cancel()
        return found


def facts(config: Config, records: Mapping[str, Model], foreseen: Mapping[str, Predicted]) -> dict[str, ModelFacts]:
    """By model, or, for what holds for all members, by family; nothing of those of which nothing is known."""
    told: dict[str, ModelFacts] = {}
    for key in config.models.keys() | {
        key for key, record in records.items() if record is record.first and not record.retired
    }:
        known = {**_times(records.get(key)), **_needs(foreseen.get(key))}
        if known:
            told[key] = ModelFacts(**known)
    return told


def _times(record: Model | None) -> dict[str, Any]:
    """How long its loads took. A warm-up that is not configured is the model's own, and a part of its load."""
    if record is None or not (record.past.loads_s or record.expected_load_s is not None):
        return {}
    warmup_s = median(record.past.warmups_s) if record.past.warmups_s else 0.0
    if not record.past.loads_s:
        return {"load_sec": record.expected_load_s}
    load_s = median(record.past.loads_s)
    if record.spec.warmup is None:
        return {"load_sec": load_s + warmup_s}
    return {"load_sec": load_s, "warmup_sec": warmup_s}


def _needs(predicted: Predicted | None) -> dict[str, Any]:
    if predicted is None:
        return {}
    return {"ways": predicted.ways, "layers": predicted.layers, "files": predicted.files}


def without_secrets(config: Config) -> Config:
    """The same for the core, without what only a load needs: variables, arguments, options, files."""
    models = {key: _bare(spec) for key, spec in config.models.items()}
    return msgspec.structs.replace(config, models=models)


def _bare(spec: ModelSpec) -> ModelSpec:
    replace = msgspec.structs.replace
    warmup = spec.warmup and replace(spec.warmup, method=None, args=(), kwargs={}, expect={})
    fallback = spec.fallback and replace(spec.fallback, value=None)
    return replace(
        spec,
        path=None,
        factory=None,
        warmup=warmup,
        fallback=fallback,
        idempotent=(),
        env={},
        env_file=None,
        python=None,
        python_path=(),
        options={},
        source="",
    )
