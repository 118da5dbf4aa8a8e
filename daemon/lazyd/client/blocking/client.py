"""The client for threads."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from ..degraded import result_of, tell_degraded
from ..session import Session
from .driver import Driver
from .proxy import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import TracebackType

    from ...errors import LazydError
    from .. import replies
    from ..answer import Answer
    from ..requests import Request
    from .line import BlockingLine
    from .reservation import Reservation


def connect(socket: str | None = None) -> Client:
    """A client of the daemon at `socket`, else where `lazyd.places` finds it. Raises `Unavailable`."""
    client = Client(socket)
    client.connect()
    from .. import call, calling  # noqa: F401  now, not in the first call; a `Client` that only looks needs none of it
    from . import line  # noqa: F401

    return client


class Client:
    """Talks to the daemon, and to workers directly.

    Threads may share one; a forked child may go on using it, on connections of its own. Every method
    raises `LazydError`: what the daemon answered, `Unavailable`, or `ConnectionLost` where
    carrying the request out twice could do harm. A `timeout` is in seconds; None: the daemon's
    own limit.
    """

    def __init__(self, socket: str | None = None) -> None:
        """Connects to nothing yet."""
        self._session = Session(socket)
        self._driver = Driver(self.socket)
        self._reservations: weakref.WeakSet[Reservation] = weakref.WeakSet()
        _clients.add(self)

    def __repr__(self) -> str:
        return f"<Client of {self.socket}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def socket(self) -> str:
        """The path of the daemon's control socket."""
        return self._session.requests.socket

    def connect(self) -> None:
        """Makes a connection now rather than with the first request. Raises `Unavailable`."""
        self._driver.run(self._session.requests.connect())

    def close(self) -> None:
        """Ends all connections, and with them leases and reservations. Calls in other threads raise `Closed`."""
        self._session.close()
        self._driver.wake()
        for reservation in list(self._reservations):
            reservation.close()

    # Models.

    def model(
        self,
        name: str,
        *,
        timeout: float | None = None,
        idempotent: Collection[str] = (),
        sticky: str | None = None,
    ) -> Model:
        """A proxy for a model. Nothing is asked or loaded yet.

        `timeout` is the limit of its calls; `idempotent` names methods that may be repeated when a
        worker dies under them, beside those that the model's own spec lists. `sticky`: where the name
        means several models, the same one answers all calls with this key.
        """
        return Model(self, name, timeout, idempotent, sticky)

    @overload
    def call(
        self, model: str, method: str, /, *args: Any, timeout: float | None = ..., meta: Literal[True], **kwargs: Any
    ) -> Answer: ...

    @overload
    def call(
        self, model: str, method: str, /, *args: Any, timeout: float | None = ..., meta: bool = ..., **kwargs: Any
    ) -> Any: ...

    def call(
        self, model: str, method: str, /, *args: Any, timeout: float | None = None, meta: bool = False, **kwargs: Any
    ) -> Any:
        """``client.model(model).call(method, …)``."""
        answer = self.answer(model, method, args, kwargs, timeout=timeout)
        return answer if meta else result_of(model, answer)

    def answer(
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
        return self._driver.run(self._session.calling.answer(running))

    def pieces(
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
    ) -> Iterator[Any]:
        """One call, its result in pieces. It begins with the first piece that is asked for.

        If a fallback answers, `on_degraded` is told why before that; without it a warning is given.
        """
        calling = self._session.calling
        running = self._session.running(
            model, method, args, kwargs, stream=True, timeout=timeout, idempotent=idempotent, sticky=sticky
        )
        try:
            piece = self._driver.run(calling.begin(running))
            if running.degraded is not None:
                tell_degraded(model, running.degraded, on_degraded)
            while not piece.empty:
                yield piece.value
                if not piece.more:
                    break
                piece = self._driver.run(calling.next(running))
        finally:
            calling.end(running)

    # Looking: none of these loads, wakes or refreshes anything.

    def status(self, model: str | None = None) -> replies.Status:
        """Devices and models; with `model`, that one alone."""
        return self._driver.run(self._session.status(model))

    def is_ready(self, model: str) -> bool:
        """The model is loaded and serves."""
        return self._driver.run(self._session.is_ready(model))

    def health(self) -> replies.Health:
        """In one word each: the daemon and every model."""
        return self._driver.run(self._session.health())

    def describe(self, model: str) -> replies.Description:
        """A model's spec, and what its file says."""
        return self._driver.run(self._session.describe(model))

    def metrics(self) -> str:
        """Figures in Prometheus' text format."""
        return self._driver.run(self._session.metrics())

    def info(self) -> replies.Info:
        """Which daemon this is."""
        return self._driver.run(self._session.info())

    def logs(self, model: str, *, follow: bool = False) -> Iterator[str]:
        """The worker's own output, line by line; with `follow`, without end."""
        for reply in self._replies(self._session.logs(model, follow)):
            if reply.get("line") is not None:
                yield reply["line"]

    def subscribe(self) -> Iterator[replies.Event]:
        """What happens, from now on."""
        return cast("Iterator[replies.Event]", self._replies(self._session.subscribe()))

    # Loading and leases.

    def load(
        self,
        model: str,
        *,
        timeout: float | None = None,
        progress: Callable[[replies.LoadStep], object] | None = None,
    ) -> replies.LoadStep:
        """Loads a model now; returns the last step. `progress` is told of every one."""
        return self._driver.run(self._session.load(model, timeout, progress))

    def get(
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
        return self._driver.run(
            self._session.get(model, timeout, hold_s=hold_s, parent=parent, lease=lease, sticky=sticky)
        )

    def release(self, lease: str) -> None:
        """Gives a lease back. Raises `WorkerDied` if its worker did, up to 60 s later."""
        self._driver.run(self._session.release(lease))

    def unload(
        self,
        *models: str,
        all: bool = False,  # noqa: A002  the interface's word
        idle: bool = False,
        force: bool = False,
        timeout: float | None = None,
    ) -> list[str]:
        """Frees models; returns those that were loaded. Raises `Busy`."""
        return self._driver.run(self._session.unload(models, timeout, everything=all, idle=idle, force=force))

    def warm(
        self, *models: str, tier: str | None = None, wait: bool = False, timeout: float | None = None
    ) -> list[replies.ModelStatus]:
        """Brings models into memory in the background: ``"ram"`` or, by default, their ``"device"``."""
        return self._driver.run(self._session.warm(models, timeout, tier=tier, wait=wait))

    def pin(self, model: str) -> None:
        """Never evict this model. Loads nothing, outlives restarts."""
        self._driver.run(self._session.pin(model))

    def unpin(self, model: str) -> None:
        """Evict it again where its turn comes."""
        self._driver.run(self._session.unpin(model))

    def reserve(
        self,
        device: str,
        count: int,
        *,
        wait: bool = True,
        timeout: float | None = None,
        command: str | None = None,
        on_lost: Callable[[LazydError], object] | None = None,
    ) -> Reservation:
        """Memory for this program itself: ``with client.reserve("gpu0", 8 << 30) as reservation: …``.

        Entering the block waits until `count` bytes of `device` are there, `timeout` seconds at most; with
        `wait` false it raises `NoRoom` unless they are. They are given back at its end. After a restart of
        the daemon they are claimed again; should that fail, the program goes on and `on_lost` is told, in
        another thread. `command` is what ``lazyctl status`` shows, by default this program's name.
        """
        from .reservation import Reservation

        rules = self._session.reserving(device, count, wait=wait, command=command)
        reservation = Reservation(rules, timeout, on_lost)
        self._reservations.add(reservation)
        return reservation

    def versions(self, model: str | None = None) -> list[replies.Named]:
        """Names that may mean several models, and which of these answer."""
        return self._driver.run(self._session.versions(model))

    def promote(self, model: str, version: str | None = None) -> replies.Promoted:
        """The name means this version, or model, from now on; without one, what is configured.

        It goes over when that is ready, and no call fails. Outlives restarts.
        """
        return self._driver.run(self._session.promote(model, version))

    def rollback(self, model: str) -> replies.Promoted:
        """The name means what it has meant before."""
        return self._driver.run(self._session.rollback(model))

    def register(self, spec: Mapping[str, Any], *, now: bool = False) -> str:
        """Adds a model, or changes one that was added; returns its name.

        `spec` is what stands under ``[models.NAME]`` in the configuration, with the name as ``"name"``; paths are
        whole ones. It outlives restarts of the daemon. An equal one changes nothing. With `now` one that is loaded
        and changes is loaded again as soon as its calls have ended, not when it is asked for. Raises `InvalidSpec`,
        `Conflict` (a file describes it), `PermissionDenied`.
        """
        return self._driver.run(self._session.register(spec, now=now))

    def deregister(self, model: str) -> None:
        """Removes a model that was added by `register`; returns when its last call has ended and it is gone.

        Raises `Conflict` where it was not, or where others name it.
        """
        self._driver.run(self._session.deregister(model))

    def reload(self, *, now: bool = False) -> replies.Reloaded:
        """Reads the configuration again. Raises `InvalidConfig`, and then nothing has changed.

        With `now` what was loaded and has changed is loaded again as soon as its calls have ended.
        """
        return self._driver.run(self._session.reload(now=now))

    def _replies(self, request: Request) -> Iterator[dict[str, Any]]:
        requests = self._session.requests
        control, reply = self._driver.run(requests.begin(request))
        try:
            yield reply.get("parameters") or {}
            while reply.get("continues"):
                reply = self._driver.run(requests.more(control, request))
                yield reply.get("parameters") or {}
        finally:
            requests.end(control, over=not reply.get("continues"))

    def _forked(self) -> None:
        """In a child: the connections are the parent's, and stay as they are."""
        session, self._session = self._session, Session(self.socket)
        session.requests.closed = True
        self._driver.forget()
        for line in session.lines.all():
            cast("BlockingLine", line).forget()
        for reservation in list(self._reservations):
            reservation.forget()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client._forked()


os.register_at_fork(after_in_child=_after_fork)
