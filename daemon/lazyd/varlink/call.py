"""One call under way: who calls, and how it is answered.

A handler may answer at once, keep the call and answer later, or hand it a coroutine. It is
answered once, by `reply` or `fail`; before the last reply of a stream there may be others with
``continues``. When the client closes its connection the call is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from lazyd.errors import CallFailed, ExpectedMore, LazydError, NotSendable

from .peer import Peer

log = logging.getLogger("lazyd.varlink")

if TYPE_CHECKING:
    from typing import Protocol

    class Client(Protocol):
        """Who calls: what a call needs of the connection that it came on."""

        peer: Peer
        role: str
        clogged: bool

        def until_closed(self, then: Callable[[], None]) -> None: ...

        def send_reply(self, call: Call, parameters: Any, *, continues: bool) -> None: ...

        def send_error(self, call: Call, name: str, parameters: Any) -> None: ...


class Call:
    """One call of a client.

    Set `on_gone` to learn that the client has left, and `on_writable` to learn that it has read
    what was sent.
    """

    __slots__ = ("_connection", "_task", "ended", "method", "more", "on_gone", "on_writable", "oneway")

    def __init__(self, connection: Client, method: str, more: bool, oneway: bool) -> None:
        self._connection = connection
        self._task: asyncio.Task[None] | None = None
        self.method = method
        """The method's full name."""
        self.more = more
        self.oneway = oneway
        self.ended = False
        self.on_gone: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    @property
    def peer(self) -> Peer:
        return self._connection.peer

    @property
    def role(self) -> str:
        return self._connection.role

    @property
    def writable(self) -> bool:
        """Whether the client reads as fast as it is sent to."""
        return not self._connection.clogged

    def reply(self, parameters: Any = None, *, continues: bool = False) -> None:
        """Sends a reply; without `continues` it is the last. After the end nothing is sent.

        Raises:
            NotSendable: it is no JSON; the call goes on and can still be told so.
        """
        if self.ended:
            return
        if continues:
            if not self.more:
                raise ExpectedMore()
            self._connection.send_reply(self, parameters, continues=True)
            return
        self.ended = True
        try:
            self._connection.send_reply(self, parameters, continues=False)
        except NotSendable:
            self.ended = False
            raise

    def fail(self, name: str, parameters: Any = None) -> None:
        """Ends the call with an error of this full varlink name."""
        if not self.ended:
            self.ended = True
            self._connection.send_error(self, name, parameters)

    def fail_with(self, error: LazydError) -> None:
        self.fail(error.varlink_name, error.to_parameters())

    def fail_inside(self, error: BaseException) -> None:
        """Ends the call after a bug of the daemon, which is logged."""
        log.error("%s failed inside lazyd", self.method, exc_info=error)
        name = self.method.rpartition(".")[2]
        self.fail_with(CallFailed(model="", method=name, reason=f"a bug in lazyd: {error!r}", traceback=""))

    def gone(self) -> None:
        """The client has closed the connection: the call is cancelled."""
        if self.ended:
            return
        self.ended = True
        if self._task is not None:
            self._task.cancel()
        if self.on_gone is not None:
            self.on_gone()

    def until_closed(self, then: Callable[[], None]) -> None:
        """Has `then` called when the client's connection ends, which may be long after this call."""
        self._connection.until_closed(then)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Lets a coroutine answer the call. It is cancelled when the client leaves."""
        self._task = asyncio.create_task(work, name=self.method)
        self._task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, LazydError):
            self.fail_with(error)
        elif error is not None:
            self.fail_inside(error)
        elif not self.ended:
            self.reply()

    async def until_writable(self) -> None:
        """Waits until the client has read enough that more may be sent."""
        if self.writable or self.ended:
            return
        writable = asyncio.Event()
        self.on_writable = writable.set
        try:
            await writable.wait()
        finally:
            self.on_writable = None
