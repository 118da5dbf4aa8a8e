"""The methods of io.lazyd that ask something of the core. Each turns a call into an event and its answer into a reply."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic

import msgspec

from lazyd.core import events
from lazyd.core.answers import Done, Granted, Loaded, Outcome, Refusal, Unloaded
from lazyd.core.effects import Progress
from lazyd.errors import InvalidParameter, PermissionDenied
from lazyd.varlink import parameters as given_for
from lazyd.varlink.call import Call

from .calling import Caller
from .configuration import Configuration
from .driver import Driver
from .looking import Looking
from .pins import PinKeeper
from .requests import Requests, error_name
from .roles import Role

UNLOAD_S = 30.0
"""How long an unload waits for calls in flight, unless the client says otherwise."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the replies; what is absent is left out."""


class Lease(Reply, frozen=True):
    """Answers `Get`."""

    lease: str
    model: str
    version: str
    endpoint: str | None
    token: str
    cold_start: bool
    waited_sec: float


class Step(Reply, frozen=True):
    """Answers `Load`, once or with every step."""

    state: str
    phase: str
    fraction: float | None = None
    load_sec: float | None = None


def deadline_of(timeout_s: float | None) -> float | None:
    """A client's time limit as the time when it ends."""
    return None if timeout_s is None else monotonic() + timeout_s


class Methods:
    """One handler a method. `endpoint_of` finds a worker's data socket."""

    def __init__(
        self,
        driver: Driver,
        requests: Requests,
        looking: Looking,
        caller: Caller,
        pins: PinKeeper,
        configuration: Configuration,
    ) -> None:
        self._driver = driver
        self._requests = requests
        self._looking = looking
        self._caller = caller
        self._pins = pins
        self._configuration = configuration

    def get(self, call: Call, given: given_for.Get) -> None:
        number = self._requests.open(partial(self._granted, call))
        self._driver.tell(
            events.Get(
                request=number,
                model=given.model,
                holder=call.peer.uid,
                deadline=deadline_of(given.timeout_sec),
                hold_s=given.hold_sec or 0.0,
                parent=given.parent,
                lease=given.lease,
            )
        )
        self._give_up_with(call, number)

    def load(self, call: Call, given: given_for.Load) -> None:
        number = self._requests.open(partial(self._loaded, call), partial(self._progress, call) if call.more else None)
        self._driver.tell(events.Load(request=number, model=given.model, deadline=deadline_of(given.timeout_sec)))
        self._give_up_with(call, number)

    def release(self, call: Call, given: given_for.Release) -> None:
        number = self._requests.open(partial(self._done, call))
        self._driver.tell(events.Release(request=number, lease=given.lease, holder=call.peer.uid))

    def unload(self, call: Call, given: given_for.Unload) -> None:
        if sum(bool(choice) for choice in (given.models, given.all, given.idle)) != 1:
            raise InvalidParameter(parameter="models")
        if given.force and call.role != Role.ADMIN:
            raise PermissionDenied(method="Unload with force", role=call.role)
        number = self._requests.open(partial(self._unloaded, call))
        self._driver.tell(
            events.Unload(
                request=number,
                deadline=monotonic() + (UNLOAD_S if given.timeout_sec is None else given.timeout_sec),
                models=tuple(given.models or ()),
                all=bool(given.all),
                idle=bool(given.idle),
                force=bool(given.force),
            )
        )
        self._give_up_with(call, number)

    def warm(self, call: Call, given: given_for.Warm) -> None:
        if given.tier not in (None, "device"):
            raise InvalidParameter(parameter="tier" if given.tier != "ram" else "tier: ram is not built yet, use device")
        shown = [self._looking.model(name) for name in given.models]  # an unknown name loads none of the others
        deadline = deadline_of(given.timeout_sec)
        if given.wait:
            call.run(self._warm_and_wait(call, given.models, deadline))
            return
        for name in given.models:
            number = self._requests.open(lambda _: None)  # a failure is in the model's state and in the events
            self._driver.tell(events.Load(request=number, model=name, deadline=deadline))
        call.reply({"models": [self._looking.model(model.name_and_version) for model in shown]})

    async def _warm_and_wait(self, call: Call, models: list[str], deadline: float | None) -> None:
        """Waits for all loads. A client that leaves ends none of them."""
        outcomes = await asyncio.gather(
            *(
                self._requests.ask(lambda n, name=name: events.Load(request=n, model=name, deadline=deadline))
                for name in models
            )
        )

    def pin(self, call: Call, given: given_for.OfModel) -> None:
        call.run(self._pin(call, given.model, pinned=True))

    def unpin(self, call: Call, given: given_for.OfModel) -> None:
        call.run(self._pin(call, given.model, pinned=False))
