"""What loading a model will need, found out without loading it (the effects `Predict` and `Learn`).

The runtime looks at the model's files, in a thread of its own: they may lie on a disk that is slow or gone. A
model that cannot be loaded is said to be unloadable whatever else is known of it, before a process is
started. A dry run is made once for a model and its files; whoever only looks starts none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import msgspec

from lazyd.core.effects import Learn, Predict
from lazyd.core.events import Event, Predicted, Unpredictable
from lazyd.core.needs import GPU, RAM
from lazyd.core.spec import ModelSpec
from lazyd.digest import digest_of

from ..apart import Apart
from ..fetching.fetching import Fetches
from ..processes.environment import as_told, told_with_files
from ..processes.hostlink import HostLink
from ..processes.placing import Gpus
from ..tasks import Background
from . import forecasts
from .forecasts import Told
from .learning import Learning
from .lessons import DryRun, Known, Life, Subject

log = logging.getLogger("lazyd.prediction")

DRY_RUN_S = 3.0
"""The host ends one after 2 s."""
TRIES = 3
"""So many dry runs of the same files may fail: what makes one fail, a machine that is busy say, may pass."""
MOST_LOOKS = 10_000
"""So many looks at files are remembered, for what their models will teach."""


class Look(NamedTuple):
    """What a model's files have told."""

    subject: Subject
    by_files: Told
    has_dry_run: bool


class Predictor:
    """`spec_of` finds a model's spec, a member's being its family's; `tell` gets the answers."""

    def __init__(
        self,
        spec_of: Callable[[str], ModelSpec | None],
        tell: Callable[[Event], None],
        background: Background,
        learning: Learning,
        gpus: Callable[[], Gpus],
        fetches: Fetches | None = None,
    ) -> None:
        self._spec_of = spec_of
        self._tell = tell
        self._background = background
        self._learning = learning
        self._gpus = gpus
        self._fetches = fetches
        self._link: HostLink | None = None
        self._apart = Apart()
        self._looks: dict[tuple[str, str], Look] = {}
        """By the identity of a spec and the digest of its files."""
        self._vain: dict[Subject, int] = {}
        """How many dry runs of these have told nothing."""

    def connected(self, link: HostLink) -> None:
        """Dry runs are made by this host now."""
        self._link = link

    def predict(self, effect: Predict) -> None:
        self._background.once(f"prediction of {effect.model}", self._predict(effect))

    def learn(self, effect: Learn) -> None:
        """At once: the next prediction may be asked for in the same breath. What was loaded under an earlier manager
        tells nothing of how good the estimate was, which nobody remembers."""
        if not effect.digest:
            return  # that manager was of an older version, and did not say of which files it is
        look = self._looks.get((effect.identity, effect.digest))
        subject = Subject(effect.identity, effect.digest, look.subject.runtime if look is not None else "")
        factors = forecasts.factors(effect.way, effect.peak, look.by_files) if look is not None else {}
        self._learning.learn(Life(subject, effect.way, effect.peak, effect.service, factors))

    async def foresee(self, spec: ModelSpec) -> Predicted:
        """What is thought of loading it: by way, how it can be divided, and the files that it maps.

        Raises:
            OSError: a file of the model is missing or cannot be read.
            ValueError: it is damaged, or no model of this runtime.
        """
        look = await self._look(spec)
        return _forecast(spec.key, spec, look, await self._known(spec.key, look))

    async def _predict(self, effect: Predict) -> None:
        model, number, spec = effect.model, effect.number, self._spec_of(effect.model)
        if spec is None:
            self._tell(Unpredictable(model=model, number=number, reason="it is not configured any more"))
            return
        try:
            if self._fetches is not None and await self._fetches.are_absent(model, spec):
                self._tell(await self._by_head(effect, spec))
                return
            look = await self._look(spec)
            if may_use_gpus(spec, look):
                await self._gpus().until_seen()  # or it would be loaded in RAM, or refused
            known = await self._known(model, look)
            if effect.dry_run and self._wants_dry_run(spec, look, known):
                known = msgspec.structs.replace(known, dry_run=await self._dry_run(spec, look.subject))
            predicted = _forecast(model, spec, look, known)
        except (OSError, ValueError) as error:
            self._tell(Unpredictable(model=model, number=number, reason=reason_of(error)))
        except Exception as error:
            log.exception("the runtime %s could not estimate %s", spec.runtime, model)
            reason = f"its needs could not be estimated: {error!r}"
            self._tell(Unpredictable(model=model, number=number, reason=reason))
        else:
            self._tell(msgspec.structs.replace(predicted, number=number))

    async def _by_head(self, effect: Predict, spec: ModelSpec) -> Predicted:
        """Of files that have yet to be fetched: what can be told already, which may be nothing."""
        nothing = Predicted(model=effect.model, number=effect.number, ways={}, absent=True)
        here = await self._fetches.head(spec) if self._fetches is not None else None
        if here is None:
            return nothing
        try:
            look = await self._look(here)
        except (OSError, ValueError) as error:
            log.info("the head of %s tells nothing: %s", effect.model, reason_of(error))
            return nothing
        if may_use_gpus(spec, look):
            await self._gpus().until_seen()
        predicted = _forecast(effect.model, spec, look, await self._known(effect.model, look))
        return msgspec.structs.replace(predicted, number=effect.number, absent=True)

    async def _look(self, spec: ModelSpec) -> Look:
        look = await self._apart.ask(spec.identity, partial(look_at, spec))
        if max(len(self._looks), len(self._vain)) >= MOST_LOOKS:
            self._looks.clear()
            self._vain.clear()
        self._looks[look.subject.identity, look.subject.files] = look
        return look

    async def _known(self, model: str, look: Look) -> Known:
        """A dry run that is not understood is none."""
        known = await self._learning.known(look.subject)
        if known.dry_run is not None:
            try:
                forecasts.told(known.dry_run)
            except msgspec.ValidationError as error:
                log.warning("the dry run that was kept of %s is not understood: %s", model, error)
                return msgspec.structs.replace(known, dry_run=None)
        return known

    def _wants_dry_run(self, spec: ModelSpec, look: Look, known: Known) -> bool:
        unknown = look.by_files.sides.keys() - known.ways.keys()
        return (
            look.has_dry_run
            and bool(unknown)
            and spec.memory_bytes is None
            and known.dry_run is None
            and self._vain.get(look.subject, 0) < TRIES
        )

    async def _dry_run(self, spec: ModelSpec, subject: Subject) -> dict[str, Any] | None:
        """What it tells, which is kept; None if it tells nothing. A host that goes meanwhile has not tried."""
        link = self._link
        if link is None or link.ended.is_set():
            return None
        told = await self._apart.ask(spec.identity, partial(told_with_files, spec, self._gpus().environment(())))
        answer = await link.dry_run(told, DRY_RUN_S)
        if link.ended.is_set() and answer.result is None:
            return None
        reason = answer.reason
        if answer.result is not None:
            try:
                forecasts.told(answer.result)
            except msgspec.ValidationError as error:
                reason = f"what it has told is not understood: {error}"
            else:
                self._learning.learn(DryRun(subject, answer.result))
                return answer.result
        log.info("no dry run of %s: %s", spec.key, reason)
        self._vain[subject] = self._vain.get(subject, 0) + 1
        return None


def look_at(spec: ModelSpec) -> Look:
    """What its files say. Blocks.

    Raises:
        OSError: a file of the model is missing or cannot be read.
        ValueError: it is damaged, or no model of this runtime.
    """
    from lazyd.runtimes import runtime_named

    runtime, description = runtime_named(spec.runtime), as_told(spec)
    by_files = forecasts.told(runtime.needs(description))
    subject = Subject(spec.identity, _digest(runtime.files(description)), spec.runtime)
    return Look(subject, by_files, runtime.dry_run is not None)


def may_use_gpus(spec: ModelSpec, look: Look) -> bool:
    """Whether its runtime can, and its spec does not forbid it."""
    return GPU in look.by_files.sides and (not spec.device or any(device != RAM for device in spec.device))


def describe(spec: ModelSpec) -> dict[str, Any]:
    """What the model's file says of itself. Blocks. Raises `OSError` or `ValueError` if it says nothing."""
    from lazyd.runtimes import runtime_named

    return runtime_named(spec.runtime).describe(as_told(spec))


def reason_of(error: Exception) -> str:
    """One line, without the number that an OSError begins with."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _forecast(model: str, spec: ModelSpec, look: Look, known: Known) -> Predicted:
    dry_run = forecasts.told(known.dry_run) if known.dry_run is not None else None
    predicted = forecasts.predicted(model, spec.memory_bytes, look.by_files, dry_run, known)
    return msgspec.structs.replace(predicted, digest=look.subject.files)


def _digest(files: Collection[str]) -> str:
    """Of names, sizes and times of change; a file that is not there has neither."""
    stamps: list[tuple[str, int, int]] = []
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            stamps.append((file, -1, -1))
        else:
            stamps.append((file, found.st_size, found.st_mtime_ns))
    return digest_of(msgspec.json.encode(stamps))
