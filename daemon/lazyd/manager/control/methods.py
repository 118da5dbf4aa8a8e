"""The methods of io.lazyd that want something done: each turns a call into an event, and its answer into a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from time import monotonic

import msgspec

from lazyd import places
from lazyd.config import Changes
from lazyd.core import events
from lazyd.core.answers import Granted, Loaded, Outcome, Refusal, Substituted, Unloaded
from lazyd.core.effects import Progress
from lazyd.errors import InvalidParameter, NotKept, PermissionDenied
from lazyd.varlink import parameters as given_for
from lazyd.varlink.call import Call

from ..configuration import Configuration
from ..driver import Driver
from ..fitting import Fit
from ..pages.warming import Warming
from ..pins import PinKeeper
from ..registering import Registering
from . import ram
from .looking import Looking
from .requests import Requests, as_json, deadline_of, or_refuse, refuse
from .roles import Role

UNLOAD_S = 30.0
"""How long an unload waits for calls in flight, unless the client says otherwise."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the replies; what is absent is left out."""


class Lease(Reply, frozen=True):
    """Answers `Get`."""

    model: str
    version: str
    cold_start: bool
    waited_sec: float
    lease: str | None = None
    """None: a fallback's value is the answer."""
    endpoint: str | None = None
    token: str | None = None
    url: str | None = None
    takes_turns: bool = False
    degraded: str | None = None
    value: object = None


class Step(Reply, frozen=True):
    """Answers `Load`, once or with every step."""

    state: str
    phase: str
    fraction: float | None = None
    load_sec: float | None = None


class Methods:
    """One handler a method."""

    def __init__(
        self,
        driver: Driver,
        requests: Requests,
        looking: Looking,
        pins: PinKeeper,
        configuration: Configuration,
        registering: Registering,
        fit: Fit,
        warming: Warming,
        runtime: str,
    ) -> None:
        self._driver = driver
        self._requests = requests
        self._looking = looking
        self._pins = pins
        self._configuration = configuration
        self._registering = registering
        self._fit = fit
        self._warming = warming
        self._runtime = runtime

    def get(self, call: Call, given: given_for.Get) -> None:
        number = self._requests.open(partial(self._granted, call))
        event = events.Get(
            request=number,
            model=given.model,
            holder=call.peer.uid,
            deadline=deadline_of(given.timeout_sec),
            hold_s=given.hold_sec or 0.0,
            parent=given.parent,
            lease=given.lease,
            sticky=given.sticky,
        )
        self._tell(call, number, event)

    def load(self, call: Call, given: given_for.Load) -> None:
        number = self._requests.open(partial(_loaded, call), partial(_step, call) if call.more else None)
        event = events.Load(request=number, model=given.model, deadline=deadline_of(given.timeout_sec))
        self._tell(call, number, event)

    def release(self, call: Call, given: given_for.Release) -> None:
        number = self._requests.open(partial(_done, call))
        self._tell(call, number, events.Release(request=number, lease=given.lease, holder=call.peer.uid))

    def unload(self, call: Call, given: given_for.Unload) -> None:
        if sum(map(bool, (given.models, given.all, given.idle))) != 1:
            raise InvalidParameter(parameter="models", reason="give either models, or all, or idle")
        if given.force and call.role != Role.ADMIN:
            raise PermissionDenied(method="Unload with force", role=call.role)
        number = self._requests.open(partial(_unloaded, call))
        event = events.Unload(
            request=number,
            deadline=monotonic() + (UNLOAD_S if given.timeout_sec is None else given.timeout_sec),
            models=tuple(given.models or ()),
            all=bool(given.all),
            idle=bool(given.idle),
            force=bool(given.force),
        )
        for key in self._looking.keys_of(given.models or ()):
            self._warming.cancel(key)
        self._tell(call, number, event)

    def warm(self, call: Call, given: given_for.Warm) -> None:
        if given.tier == "ram":
            ram.check(self._looking, given.models)
            call.run(or_refuse(call, ram.warm(call, given, self._looking, self._warming)))
            return
        if given.tier not in (None, "device"):
            raise InvalidParameter(parameter="tier")
        keys = [self._looking.key(name) for name in given.models]  # one unknown name, and none of them is loaded
        deadline = deadline_of(given.timeout_sec)
        if given.wait:
            call.run(or_refuse(call, self._warm_and_wait(call, keys, deadline)))
            return
        for key in keys:
            number = self._requests.open(lambda _: None)  # how it ends, the model's state and the events tell
            self._driver.tell(events.Load(request=number, model=key, deadline=deadline))
        call.reply({"models": [self._looking.model(key) for key in keys]})

    async def _warm_and_wait(self, call: Call, keys: list[str], deadline: float | None) -> None:
        """Answers when all are ready, or one has failed. The loads go on whatever happens to the call."""

        async def load(key: str) -> None:
            await self._requests.ask(lambda n: events.Load(request=n, model=key, deadline=deadline))

        loads = [asyncio.create_task(load(key), name=f"warm {key}") for key in keys]
        try:
            for done in loads:
                await done
        finally:
            for left in loads:
                left.cancel()
        call.reply({"models": [self._looking.model(key) for key in keys]})

    def pin(self, call: Call, given: given_for.OfModel) -> None:
        call.run(or_refuse(call, self._pin(given.model, pinned=True)))

    def unpin(self, call: Call, given: given_for.OfModel) -> None:
        call.run(or_refuse(call, self._pin(given.model, pinned=False)))

    async def _pin(self, model: str, *, pinned: bool) -> None:
        """Answers when the change would outlive a restart. Raises `NotKept`: it is made, but would not."""
        await self._requests.ask(lambda n: events.Pin(request=n, model=model, pinned=pinned))
        await self._pins.settled()
        if self._pins.problem is not None:
            raise NotKept(model=model, change="pinned" if pinned else "unpinned", reason=self._pins.problem)

    def reload(self, call: Call, given: given_for.Reload) -> None:
        call.run(self._reload(call, now=bool(given.now)))

    async def _reload(self, call: Call, *, now: bool) -> None:
        loaded = self._looking.loaded()
        changes = await self._configuration.reload()
        if now:
            self._load_again(loaded, changes)
        await self._fit.settle()
        warnings = [*self._configuration.warnings, *self._fit.warnings]
        call.reply({**changes._asdict(), **({"warnings": warnings} if warnings else {})})

    def register(self, call: Call, given: given_for.Register) -> None:
        call.run(self._register(call, given))

    async def _register(self, call: Call, given: given_for.Register) -> None:
        from ..adding import key_of

        key, table = key_of(given.spec)
        loaded = self._looking.loaded()
        changes = await self._registering.register(key, table)
        if given.now:
            self._load_again(loaded, changes)
        call.reply({"model": key})

    def deregister(self, call: Call, given: given_for.OfModel) -> None:
        call.run(self._registering.deregister(given.model))

    def _load_again(self, loaded: Mapping[str, str], changes: Changes) -> None:
        """What was loaded and has changed has begun to leave, and is loaded again as soon as it is gone."""
        for key, spec in loaded.items():
            if spec in changes.changed:
                number = self._requests.open(lambda _: None)  # how it ends, the events tell
                self._driver.tell(events.Load(request=number, model=key, deadline=None))

    def _tell(self, call: Call, number: int, event: events.Event) -> None:
        """Tells the core of a request, which ends with its client."""
        self._driver.tell(event)
        if not call.ended:
            call.on_gone = partial(self._requests.cancel, number)

    def _granted(self, call: Call, outcome: Outcome) -> None:
        if isinstance(outcome, Substituted):
            call.reply(
                Lease(
                    model=outcome.model,
                    version=outcome.version,
                    cold_start=False,
                    waited_sec=outcome.waited_s,
                    degraded=outcome.degraded,
                    value=as_json(outcome.value),
                )
            )
            return
        if not isinstance(outcome, Granted):
            refuse(call, outcome)
            return
        call.reply(
            Lease(
                lease=outcome.lease,
                model=outcome.model,
                version=outcome.version,
                endpoint=outcome.endpoint or places.data_socket(self._runtime, outcome.worker),
                token=outcome.token,
                url=outcome.url,
                cold_start=outcome.cold_start,
                waited_sec=outcome.waited_s,
                degraded=outcome.degraded,
                takes_turns=outcome.takes_turns,
            )
        )


def _loaded(call: Call, outcome: Outcome) -> None:
    if isinstance(outcome, Loaded):
        call.reply(Step(state=outcome.state, phase=outcome.state, fraction=1.0, load_sec=outcome.load_s))
    else:
        refuse(call, outcome)


def _step(call: Call, progress: Progress) -> None:
    """A client that reads slowly gets fewer steps."""
    if call.writable:
        call.reply(Step(state=progress.state, phase=progress.phase, fraction=progress.fraction), continues=True)


def _done(call: Call, outcome: Outcome) -> None:
    if isinstance(outcome, Refusal):
        refuse(call, outcome)
    else:
        call.reply()


def _unloaded(call: Call, outcome: Outcome) -> None:
    if isinstance(outcome, Unloaded):
        call.reply({"unloaded": outcome.unloaded})
    else:
        refuse(call, outcome)
