"""The client for asyncio."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from ..degraded import result_of, tell_degraded
from ..session import Session
from .driver import Driver
from .proxy import AsyncModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
    from types import TracebackType

    from ...errors import LazydError
    from .. import replies
    from ..answer import Answer
    from ..requests import Request
    from .reservation import AsyncReservation


async def connect_async(socket: str | None = None) -> AsyncClient:
    """A client of the daemon at `socket`, else where `lazyd.places` finds it. Raises `Unavailable`."""
    client = AsyncClient(socket)
    await client.connect()
    from .. import call, calling  # noqa: F401  now, not in the first call

    return client


class AsyncClient:
    """Talks to the daemon, and to workers directly.

    Tasks of one event loop may share one; a forked child needs one of its own. Every method raises
    `LazydError`: what the daemon answered, `Unavailable`, or `ConnectionLost` where carrying the
    request out twice could do harm. A `timeout` is in seconds; None: the daemon's own limit.
    """

    def __init__(self, socket: str | None = None) -> None:
        """Connects to nothing yet."""
        self._session = Session(socket)
        self._driver = Driver(self.socket)
        self._reservations: weakref.WeakSet[AsyncReservation] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self.socket}>"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def socket(self) -> str:
        """The path of the daemon's control socket."""
        return self._session.requests.socket

    async def connect(self) -> None:
        """Makes a connection now rather than with the first request. Raises `Unavailable`."""
        await self._driver.run(self._session.requests.connect())

    async def close(self) -> None:
        """Ends all connections, and with them leases and reservations. Calls in other tasks raise `Closed`."""
        self._session.close()
        self._driver.wake()
        for reservation in list(self._reservations):
            await reservation.close()

    # Models.

    def model(
        self,
        name: str,
        *,
        timeout: float | None = None,
        idempotent: Collection[str] = (),
        sticky: str | None = None,
    ) -> AsyncModel:
        """A proxy for a model. Nothing is asked or loaded yet.

        `timeout` is the limit of its calls; `idempotent` names methods that may be repeated when a
        worker dies under them, beside those that the model's own spec lists. `sticky`: where the name
        means several models, the same one answers all calls with this key.
        """
        return AsyncModel(self, name, timeout, idempotent, sticky)

    @overload
    async def call(
        self, model: str, method: str, /, *args: Any, timeout: float | None = ..., meta: Literal[True], **kwargs: Any
    ) -> Answer: ...

    @overload
    async def call(
        self, model: str, method: str, /, *args: Any, timeout: float | None = ..., meta: bool = ..., **kwargs: Any
    ) -> Any: ...

    async def call(
        self, model: str, method: str, /, *args: Any, timeout: float | None = None, meta: bool = False, **kwargs: Any
    ) -> Any:
        """``await client.model(model).call(method, …)``."""
        answer = await self.answer(model, method, args, kwargs, timeout=timeout)
        return answer if meta else result_of(model, answer)

    async def answer(
        self,
        model: str,
        method: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        idempotent: Collection[str] = (),
        sticky: str | None = None,
    ) -> Answer:
        """One call with one result."""
        running = self._session.running(
            model, method, args, kwargs, stream=False, timeout=timeout, idempotent=idempotent, sticky=sticky
        )
        return await self._driver.run(self._session.calling.answer(running))

    async def pieces(
        self,
        model: str,
        method: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        idempotent: Collection[str] = (),
        sticky: str | None = None,
        on_degraded: Callable[[str], object] | None = None,
    ) -> AsyncIterator[Any]:
        """One call, its result in pieces. It begins with the first piece that is asked for.

        If a fallback answers, `on_degraded` is told why before that; without it a warning is given.
        """
        calling = self._session.calling
        running = self._session.running(
            model, method, args, kwargs, stream=True, timeout=timeout, idempotent=idempotent, sticky=sticky
        )
        try:
            piece = await self._driver.run(calling.begin(running))
            if running.degraded is not None:
                tell_degraded(model, running.degraded, on_degraded)
            while not piece.empty:
                yield piece.value
                if not piece.more:
                    break
                piece = await self._driver.run(calling.next(running))
        finally:
            calling.end(running)

    # Looking: none of these loads, wakes or refreshes anything.

    async def status(self, model: str | None = None) -> replies.Status:
        """Devices and models; with `model`, that one alone."""
        return await self._driver.run(self._session.status(model))

    async def is_ready(self, model: str) -> bool:
        """The model is loaded and serves."""
        return await self._driver.run(self._session.is_ready(model))

    async def health(self) -> replies.Health:
        """In one word each: the daemon and every model."""
        return await self._driver.run(self._session.health())

    async def describe(self, model: str) -> replies.Description:
        """A model's spec, and what its file says."""
        return await self._driver.run(self._session.describe(model))

    async def metrics(self) -> str:
        """Figures in Prometheus' text format."""
        return await self._driver.run(self._session.metrics())

    async def info(self) -> replies.Info:
        """Which daemon this is."""
        return await self._driver.run(self._session.info())

    async def logs(self, model: str, *, follow: bool = False) -> AsyncIterator[str]:
        """The worker's own output, line by line; with `follow`, without end."""
        async for reply in self._replies(self._session.logs(model, follow)):
            if reply.get("line") is not None:
                yield reply["line"]

    def subscribe(self) -> AsyncIterator[replies.Event]:
        """What happens, from now on."""
        return cast("AsyncIterator[replies.Event]", self._replies(self._session.subscribe()))

    # Loading and leases.

    async def load(
        self,
        model: str,
        *,
        timeout: float | None = None,
        progress: Callable[[replies.LoadStep], object] | None = None,
    ) -> replies.LoadStep:
        """Loads a model now; returns the last step. `progress` is told of every one."""
        return await self._driver.run(self._session.load(model, timeout, progress))

    async def get(
        self,
        model: str,
        *,
        timeout: float | None = None,
        hold_s: float | None = None,
        parent: str | None = None,
        lease: str | None = None,
        sticky: str | None = None,
    ) -> replies.Grant:
        """A lease on a loaded model, with the worker's socket and a token for it.

        Calls do this themselves; it is for those who speak to the worker in their own way, and for
        holding a model loaded for `hold_s` seconds.
        """
        return await self._driver.run(
            self._session.get(model, timeout, hold_s=hold_s, parent=parent, lease=lease, sticky=sticky)
        )

    async def release(self, lease: str) -> None:
        """Gives a lease back. Raises `WorkerDied` if its worker did, up to 60 s later."""
        await self._driver.run(self._session.release(lease))

    async def unload(
        self,
        *models: str,
        all: bool = False,  # noqa: A002  the interface's word
        idle: bool = False,
        force: bool = False,
        timeout: float | None = None,
    ) -> list[str]:
        """Frees models; returns those that were loaded. Raises `Busy`."""
        return await self._driver.run(self._session.unload(models, timeout, everything=all, idle=idle, force=force))

    async def warm(
        self, *models: str, tier: str | None = None, wait: bool = False, timeout: float | None = None
    ) -> list[replies.ModelStatus]:
        """Brings models into memory in the background: ``"ram"`` or, by default, their ``"device"``."""
        return await self._driver.run(self._session.warm(models, timeout, tier=tier, wait=wait))

    async def pin(self, model: str) -> None:
        """Never evict this model. Loads nothing, outlives restarts."""
        await self._driver.run(self._session.pin(model))

    async def unpin(self, model: str) -> None:
        """Evict it again where its turn comes."""
        await self._driver.run(self._session.unpin(model))

    def reserve(
        self,
        device: str,
        count: int,
        *,
        wait: bool = True,
        timeout: float | None = None,
        command: str | None = None,
        on_lost: Callable[[LazydError], object] | None = None,
    ) -> AsyncReservation:
        """Memory for this program itself: ``async with client.reserve("gpu0", 8 << 30) as reservation: …``.

        Entering the block waits until `count` bytes of `device` are there, `timeout` seconds at most; with
        `wait` false it raises `NoRoom` unless they are. They are given back at its end. After a restart of
        the daemon they are claimed again; should that fail, the program goes on and `on_lost` is told.
        `command` is what ``lazyctl status`` shows, by default this program's name.
        """
        from .reservation import AsyncReservation

        rules = self._session.reserving(device, count, wait=wait, command=command)
        reservation = AsyncReservation(rules, timeout, on_lost)
        self._reservations.add(reservation)
        return reservation

    async def versions(self, model: str | None = None) -> list[replies.Named]:
        """Names that may mean several models, and which of these answer."""
        return await self._driver.run(self._session.versions(model))

    async def promote(self, model: str, version: str | None = None) -> replies.Promoted:
        """The name means this version, or model, from now on; without one, what is configured.

        It goes over when that is ready, and no call fails. Outlives restarts.
        """
        return await self._driver.run(self._session.promote(model, version))

    async def rollback(self, model: str) -> replies.Promoted:
        """The name means what it has meant before."""
        return await self._driver.run(self._session.rollback(model))

    async def register(self, spec: Mapping[str, Any], *, now: bool = False) -> str:
        """Adds a model, or changes one that was added; returns its name.

        `spec` is what stands under ``[models.NAME]`` in the configuration, with the name as ``"name"``; paths are
        whole ones. It outlives restarts of the daemon. An equal one changes nothing. With `now` one that is loaded
        and changes is loaded again as soon as its calls have ended, not when it is asked for. Raises `InvalidSpec`,
        `Conflict` (a file describes it), `PermissionDenied`.
        """
        return await self._driver.run(self._session.register(spec, now=now))

    async def deregister(self, model: str) -> None:
        """Removes a model that was added by `register`; returns when its last call has ended and it is gone.

        Raises `Conflict` where it was not, or where others name it.
        """
        await self._driver.run(self._session.deregister(model))

    async def reload(self, *, now: bool = False) -> replies.Reloaded:
        """Reads the configuration again. Raises `InvalidConfig`, and then nothing has changed.

        With `now` what was loaded and has changed is loaded again as soon as its calls have ended.
        """
        return await self._driver.run(self._session.reload(now=now))

    async def _replies(self, request: Request) -> AsyncIterator[dict[str, Any]]:
        requests = self._session.requests
        control, reply = await self._driver.run(requests.begin(request))
        try:
            yield reply.get("parameters") or {}
            while reply.get("continues"):
                reply = await self._driver.run(requests.more(control, request))
                yield reply.get("parameters") or {}
        finally:
            requests.end(control, over=not reply.get("continues"))
