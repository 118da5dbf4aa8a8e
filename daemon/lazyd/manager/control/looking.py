"""The methods of io.lazyd that look. None of them loads, wakes or refreshes anything, or waits for a load."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import msgspec

from lazyd.core import view
from lazyd.core.core import Core
from lazyd.core.events import Predicted
from lazyd.core.names import model_key
from lazyd.core.records import Prediction
from lazyd.core.shown import Device, Model, Stranger
from lazyd.core.spec import ModelSpec
from lazyd.core.why import why
from lazyd.errors import InvalidParameter, ModelNotFound
from lazyd.varlink import parameters as given_for
from lazyd.varlink.call import Call

from ..apart import Apart
from ..configuration import Configuration
from ..epoch import epoch
from ..fitting import Fit
from ..journal import Journal
from ..memory.holders import name_of
from ..memory.measuring import Measuring
from ..pages.known import Known
from ..phase import Phase
from ..prediction import foretold
from ..prediction.predictor import describe, reason_of
from . import metrics
from .logs import Logs

SCHEMA = 1
STRANGERS = 5
"""So many processes of others are named, for each device."""
LOG_LOOK_S = 0.2
"""How often the log that a client follows is looked at."""

Foresee = Callable[[ModelSpec], Awaitable[Predicted]]
"""Raises `OSError` or `ValueError` where a model cannot be loaded."""
Head = Callable[[ModelSpec], Awaitable[ModelSpec | None]]
"""Of a model whose files have yet to be fetched, one with what can be read of them already; None of any other."""


class Looking:
    """`foresee` tells what a load needs, `head` where to read of what is not here; `phase` says what the daemon is
    doing, `clients` how many are connected, `deaths` what went wrong inside, `problems` what is wrong with files."""

    def __init__(
        self,
        core: Core,
        configuration: Configuration,
        fit: Fit,
        foresee: Foresee,
        head: Head,
        known: Known,
        journal: Journal,
        measuring: Measuring,
        runtime: str,
        version: str,
        *,
        phase: Callable[[], Phase],
        clients: Callable[[], int],
        deaths: Mapping[str, int],
        problems: Callable[[], list[str]],
    ) -> None:
        self._core = core
        self._configuration = configuration
        self._fit = fit
        self._foresee = foresee
        self._head = head
        self._known = known
        self._journal = journal
        self._measuring = measuring
        self._runtime = runtime
        self._version = version
        self._phase = phase
        self._clients = clients
        self._deaths = deaths
        self._problems = problems
        self._apart = Apart()
        self._started = monotonic()

    def key(self, name: str) -> str:
        """The full key of the model that a name means.

        Raises:
            ModelNotFound: it means none.
        """
        return self.find(name)[0]

    def find(self, name: str) -> tuple[str, ModelSpec]:
        """The key and the spec of the model that a name means; of a family, the pattern itself.

        Raises:
            ModelNotFound: it means none.
        """
        found = view.key_and_spec(self._core.world, name)
        if found is not None:
            return found
        family = self._configuration.config.models.get(name)
        if family is None:
            raise self._not_found(name)
        return name, family

    def keys_of(self, names: Sequence[str]) -> list[str]:
        """The keys of those of these names that mean a model; of a family, of all its members."""
        found: list[str] = []
        for name in names:
            with contextlib.suppress(ModelNotFound):
                key, spec = self.find(name)
                is_pattern = spec.is_family and key == spec.key
                members = (k for k, m in self._core.world.models.items() if m.spec.key == spec.key)
                found += members if is_pattern else [key]
        return found

    def loaded(self) -> dict[str, str]:
        """The models that are in memory or on their way there, with the keys of their specs."""
        loaded = (instance.model for instance in self._core.world.instances())
        return {model_key(model.key): model_key(model.spec.key) for model in loaded}

    def model(self, name: str) -> Model:
        """A model as `Status` shows it.

        Raises:
            ModelNotFound: the name means none.
        """
        found = view.model(self._core, name, monotonic(), epoch(), self._known.fractions)
        if found is None:
            raise self._not_found(name)
        return found

    def status(self, call: Call, given: given_for.Status) -> None:
        if given.why and given.model is None:
            raise InvalidParameter(parameter="why (it is about one model: name it)")
        self._look_at_pages(given.model)
        call.reply(
            {
                "schema": SCHEMA,
                "daemon": self._daemon(),
                "devices": self._devices(),
                "models": self._models_and_why(given.model) if given.why else self._models(given.model),
                "reservations": view.reservations(self._core),
                "wishes": view.wishes(self._core, monotonic()),
            }
        )

    def _devices(self) -> list[Device]:
        """As the core knows them, with what it is not told: by whom they are used unasked, and, if it has not asked for
        it, that one does not answer."""
        silent, strangers = self._measuring.silent, self._measuring.strangers
        shown = []
        for device in view.devices(self._core):
            if device.state == "ok" and device.name in silent:
                device = msgspec.structs.replace(device, state="silent")
            elif device.state == "ok" and (using := strangers.get(device.name)):
                device = msgspec.structs.replace(device, strangers=largest(using))
            shown.append(device)
        return shown

    def health(self, call: Call, _: given_for.Parameters) -> None:
        phase = self._phase()
        settled = phase is Phase.RUNNING and view.residents_ready(self._core)
        status = "ready" if settled else "loading" if phase is Phase.RUNNING else str(phase)
        call.reply({"status": status, "live": True, "ready": settled, "models": view.health(self._core)})

    def metrics(self, call: Call, _: given_for.Parameters) -> None:
        call.reply({"text": metrics.text(self._core, monotonic() - self._started, self._deaths, self._clients())})

    def describe(self, call: Call, given: given_for.OfModel) -> None:
        key, spec = self.find(given.model)
        call.run(self._describe(call, key, spec))

    async def _describe(self, call: Call, key: str, spec: ModelSpec) -> None:
        shown = await asyncio.to_thread(_shown, spec)
        spec = await self._head(spec) or spec
        metadata = await self._metadata(spec)
        prediction = await self._foretold(key, spec)
        call.reply({"model": self.model(key), "spec": shown, "metadata": metadata, "prediction": prediction})

    async def _metadata(self, spec: ModelSpec) -> dict[str, Any]:
        """What the model's file says of itself. A file that says nothing is told as ``error``."""
        try:
            return await self._apart.ask(spec.identity, partial(describe, spec))
        except (OSError, ValueError) as error:
            return {"error": reason_of(error)}

    async def _foretold(self, key: str, spec: ModelSpec) -> dict[str, Any]:
        """What a load would need: as the core counts on it, or, where no load has asked yet, found out now."""
        record = self._core.world.models.get(key)
        known = record.prediction if record is not None else None
        if isinstance(known, Prediction):
            return foretold.shown(known.ways, known.files)
        try:
            found = await self._foresee(spec)
            return foretold.shown(found.ways, found.files)
        except (OSError, ValueError) as error:
            return {"error": reason_of(error)}

    def logs(self, call: Call, given: given_for.Logs) -> None:
        _, spec = self.find(given.model)
        call.run(self._logs(call, spec, follow=bool(given.follow)))

    async def _logs(self, call: Call, spec: ModelSpec, *, follow: bool) -> None:
        reader = await asyncio.to_thread(Logs, self._runtime, spec.key, spec.replicas)
        try:
            while lines := await self._more(reader, follow=follow):
                for line in lines:
                    call.reply({"line": line}, continues=True)
                    await call.until_writable()
            for line in reader.rest():
                call.reply({"line": line}, continues=True)
        finally:
            reader.close()
        call.reply()

    async def _more(self, reader: Logs, *, follow: bool) -> list[str]:
        """The next lines; only who follows waits for them."""
        while not (lines := await asyncio.to_thread(reader.more)) and follow:  # noqa: ASYNC110  # a file tells nobody
            await asyncio.sleep(LOG_LOOK_S)
        return lines

    def subscribe(self, call: Call, _: given_for.Parameters) -> None:
        self._journal.follow(call)

    def _not_found(self, name: str) -> ModelNotFound:
        return ModelNotFound(model=name, nearest=self._core.world.nearest(name))

    def _look_at_pages(self, name: str | None) -> None:
        """For the next one who asks: nobody waits for a disk."""
        if name is None:
            self._known.look_at_all()
        for key in self.keys_of(() if name is None else (name,)):
            self._known.look(key)

    def _all(self) -> list[Model]:
        return view.models(self._core, monotonic(), epoch(), self._known.fractions)

    def _models(self, name: str | None) -> list[Model]:
        if name is None:
            return self._all()
        if "*" in name and name in self._configuration.config.models:
            return [model for model in self._all() if model.family == name]
        return [self.model(name)]

    def _models_and_why(self, name: str | None) -> list[Model]:
        return [msgspec.structs.replace(model, why=self._why(model)) for model in self._models(name)]

    def _why(self, model: Model) -> list[str]:
        world = self._core.world
        key = f"{model.name}:{model.version}" if model.version else model.name
        return why(world, world.models.get(key))

    def _daemon(self) -> dict[str, Any]:
        daemon = {
            "version": self._version,
            "pid": os.getpid(),
            "uptimeSec": monotonic() - self._started,
            "state": str(self._phase()),
        }
        if problems := self._problems():
            daemon["problems"] = problems
        if warnings := [*self._configuration.warnings, *self._fit.warnings, *self._measuring.warnings]:
            daemon["warnings"] = warnings
        return daemon


def largest(using: Mapping[int, int]) -> list[Stranger]:
    """Those processes that use most, by name."""
    ordered = sorted(using.items(), key=lambda one: -one[1])[:STRANGERS]
    return [Stranger(pid=pid, bytes=used, name=name_of(pid)) for pid, used in ordered]


def _shown(spec: ModelSpec) -> dict[str, object]:
    """The spec as people write it."""
    from lazyd.config.shown import shown  # the table of all keys: needed for nothing else

    return shown(spec)
