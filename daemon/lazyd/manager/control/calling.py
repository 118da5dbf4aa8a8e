"""The method `Call`: one call of a model through the daemon, for shells and small clients.

The daemon does what the client library does: it gets a lease, presents it at the worker's data
socket and calls. Programs that call often do that themselves.
"""

from __future__ import annotations

import asyncio
from time import monotonic

import msgspec

from lazyd import places
from lazyd.core import answers, events
from lazyd.core.answers import Granted, Substituted
from lazyd.errors import CallFailed, NotSendable, ProtocolError, Revoked, WorkerDied
from lazyd.varlink.call import Call
from lazyd.varlink.parameters import CallMethod

from ..driver import Driver
from .requests import Refused, Requests, as_json, deadline_of, or_refuse

GRACE_S = 0.1
"""The core has its own limit while the model loads, and says more; only then it is ours."""
POST_MORTEM_S = 2.0
"""How long after the end of a connection it may take until it is known that, and how, the worker died."""
_LOOK_AGAIN_S = 0.02


class Result(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Answers `Call`."""

    cold_start: bool
    waited_sec: float
    result: object = None
    degraded: str | None = None


class Caller:
    """Calls models for clients of the control socket."""

    def __init__(self, driver: Driver, requests: Requests, runtime: str) -> None:
        self._driver = driver
        self._requests = requests
        self._runtime = runtime

    def call(self, call: Call, given: CallMethod) -> None:
        call.run(or_refuse(call, self._call(call, given)))

    async def _call(self, call: Call, given: CallMethod) -> None:
        deadline = deadline_of(given.timeout_sec)
        limit_s = None if given.timeout_sec is None else given.timeout_sec + GRACE_S
        try:
            async with asyncio.timeout(limit_s):
                await self._until_begun(call, given, deadline)
        except TimeoutError:
            refusal = answers.Timeout(model=given.model, phase="calling", timeout_sec=given.timeout_sec or 0.0)
            raise Refused(refusal) from None

    async def _until_begun(self, call: Call, given: CallMethod, deadline: float | None) -> None:
        """Takes another lease where the first is revoked before the call begins, or its worker died a moment ago.

        Raises:
            WorkerDied: nobody was there for `POST_MORTEM_S`, or the worker died during the call.
        """
        from .bulk import Disconnected  # few daemons are ever asked for it

        pause_s, failing_since = _LOOK_AGAIN_S, None
        while True:
            try:
                if await self._try(call, given, deadline):
                    return
            except Disconnected as error:
                failing_since = failing_since or monotonic()
                if monotonic() - failing_since > POST_MORTEM_S:
                    raise WorkerDied(model=given.model, log=f"nobody is at its socket: {error}") from None
                await asyncio.sleep(pause_s)
                pause_s *= 2

    async def _try(self, call: Call, given: CallMethod, deadline: float | None) -> bool:
        """One lease and one call under it; False if the call was not begun.

        Raises:
            Disconnected: nor was it if nobody was at the worker's socket.
        """
        from .bulk import DataConnection, Disconnected

        uid = call.peer.uid
        granted = await self._requests.ask(
            lambda n: events.Get(
                request=n, model=given.model, holder=uid, deadline=deadline, parent=given.parent, sticky=given.sticky
            )
        )
        if isinstance(granted, Substituted):
            value = as_json(granted.value)
            call.reply(Result(False, granted.waited_s, value, granted.degraded))
            return True
        assert isinstance(granted, Granted)
        endpoint = granted.endpoint or places.data_socket(self._runtime, granted.worker)
        connection: DataConnection | None = None
        try:
            connection = await DataConnection.open(endpoint, granted.token)
            left_s = None if deadline is None else max(0.0, deadline - monotonic())
            results = connection.call(
                given.method, given.args or [], given.kwargs or {}, stream=call.more, timeout_s=left_s
            )
            async for value, last in results:
                result = Result(granted.cold_start, granted.waited_s, value, granted.degraded)
                call.reply(result, continues=not last)
                await call.until_writable()
        except Revoked:
            return False
        except Disconnected:
            if connection is None:
                raise
            await self._post_mortem(granted, uid)
        except (NotSendable, ProtocolError) as error:
            raise CallFailed(model=given.model, method=given.method, reason=error.reason) from None
        finally:
            if connection is not None:
                connection.close()
            else:
                self._driver.tell(
                    events.Release(request=self._requests.open(lambda _: None), lease=granted.lease, holder=uid)
                )
        return True

    async def _post_mortem(self, granted: Granted, uid: int) -> None:
        """Raises what is known about the end of the worker."""
        deadline = monotonic() + POST_MORTEM_S
        try:
            while monotonic() < deadline:
                await self._requests.ask(lambda n: events.Release(request=n, lease=granted.lease, holder=uid))
                await asyncio.sleep(_LOOK_AGAIN_S)
        except Refused as refused:
            if isinstance(refused.refusal, answers.WorkerDied):
                raise
        raise WorkerDied(model=granted.model, log="the connection to the worker was lost")
