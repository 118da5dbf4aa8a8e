"""The worker: obeys manager and host, and serves clients, all in one I/O loop.

Its day: it says hello to the host, which answers with the model's description, the listening
data socket and the manager's link. The manager orders loads and grants leases; clients present
them and call. When the host says ``leave`` the objects close and the process ends; when the host
is gone it ends at once. The loss of the manager changes nothing for clients.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from ..runtimes import MARKER
from . import dry_run, process
from .admission import Admission
from .holdings import Holdings
from .link import Link
from .loop import Loop, Timer
from .reception import Reception
from .records import Action, Drop, Emptied, Lease, Revoke, Tell
from .reporter import Reporter
from .shadows import Shadows
from .warmup import Order

if TYPE_CHECKING:
    from .calls import Call
    from .connection import Connection

FLUSH_S = 1.0
"""A worker that leaves lets clients read their last answers for so long."""


def run(fd: int, host: int) -> None:
    """Is the worker until its process ends. `fd` is its link to the host, whose pid is `host`."""
    process.die_with_host(host)
    process.set_name("lazyd:newborn")
    process.calm_signals()
    process.raise_file_limit()
    if not sys.stdout.line_buffering:
        process.open_streams()
    Worker(socket.socket(fileno=fd)).live()


def import_all() -> None:
    """Imports what a worker may need later, so that its code is of one version."""
    from ..client import import_all as import_client

    import_client()


class Worker:
    """All state of the process. Everything runs in the I/O loop."""

    def __init__(self, host: socket.socket) -> None:
        self.loop = Loop()
        self.admission = Admission()
        self.holdings = Holdings(self, self._emptied)
        self.host = Link(self.loop, host, self._host_says, lambda: os._exit(process.ORPHANED))
        self.reporter = Reporter(self.loop, self.host, self.admission)
        self.shadows = Shadows(self._compared)
        self.manager: Link | None = None
        self.reception: Reception | None = None
        self._leaving = False
        self._alarm: Timer | None = None

    def live(self) -> None:
        self.host.send({"is": "hello", "pid": os.getpid()})
        self.loop.run()

    # The host.

    def _host_says(self, message: dict[str, Any], fds: list[int]) -> None:
        what = message.get("do")
        if what == "begin":
            self._begin(message, *fds)
        elif what == "dry_run":
            dry_run.run(self.host, message["spec"], message["gpus"])
        elif what == "attach":
            self._attach(fds[0])
        elif what == "listen" and self.reception is not None:
            self.reception.listen_at(socket.socket(fileno=fds[0]))
        elif what == "leave":
            self._leave(message["drain_s"])
        elif what == "reap":
            _reap(message["pids"])

    def _begin(self, order: dict[str, Any], listener: int, manager: int) -> None:
        process.set_name(f"lazyd:{order['model']}")
        os.environ[MARKER] = order["marker"]
        if order["adopt_orphans"]:
            process.adopt_orphans()
        self.holdings.spec = order["spec"]
        self.admission.max_calls = order["spec"].get("max_calls")
        self.reporter.begin({name: order[name] for name in ("worker", "endpoint", "memo", "started")})
        self.reception = Reception(self.loop, socket.socket(fileno=listener), self)
        self._attach(manager)

    def _attach(self, fd: int) -> None:
        if self.manager is not None:
            self.manager.read()  # orders that were given before the link was replaced still hold
        if self.manager is not None:
            self.manager.close()
            self.admission.manager_lost(time.monotonic())
        self.admission.manager_found()
        self.manager = Link(self.loop, socket.socket(fileno=fd), self._manager_says, self._manager_lost)
        self.manager.send({"is": "report", "report": self.reporter.report()})
        self._settle(changed=True)

    def _leave(self, drain_s: float) -> None:
        if self._leaving:
            return
        self._leaving = True
        if self.reception is not None:
            self.reception.close()
        self.holdings.unload_all(drain_s)
        self._emptied()

    def _emptied(self) -> None:
        if self._leaving and not self.holdings:
            self._exit_when_flushed(time.monotonic() + FLUSH_S)

    def _exit_when_flushed(self, deadline: float) -> None:
        if self.reception is not None and not self.reception.is_flushed and time.monotonic() < deadline:
            self.loop.after(0.01, lambda: self._exit_when_flushed(deadline))
            return
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    # The manager.

    def _manager_says(self, message: dict[str, Any], fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)
        try:
            self._obey(message.get("do"), message.get("model", ""), message)
        except KeyError as missing:
            print(f"an order was not understood: {message.get('do')} without {missing}", file=sys.stderr, flush=True)

    def _obey(self, what: Any, model: str, message: dict[str, Any]) -> None:
        now = time.monotonic()
        if what == "grant":
            self._grant(message, now)
        elif what == "withdraw":
            self.act(self.admission.withdraw(message["lease"]))
        elif what == "revoke":
            self.act(self.admission.revoke(message["lease"]))
        elif what == "drain":
            self.act(self.admission.drain(model, message["drain"], finish=message["finish"], now=now), changed=True)
        elif what == "resume":
            self.admission.resume(model)
            self._settle(changed=True)
        elif what in ("load", "unpark") and not self._leaving:
            self.holdings.load(model, Order.of(message))
        elif what == "park":
            self.holdings.park(model)
        elif what == "unload":
            self.holdings.unload(model)

    def _manager_lost(self) -> None:
        self.admission.manager_lost(time.monotonic())
        self.manager = None
        self._settle(changed=True)

    def _grant(self, message: dict[str, Any], now: float) -> None:
        self.admission.grant(
            Lease(
                id=message["lease"],
                token=message["token"],
                model=message["model"],
                holder=message["holder"],
                granted=now,
                hold_until=message["hold_until"],
                parent=message.get("parent"),
                route=message.get("route"),
                shadow=message.get("shadow"),
            )
        )
        self._settle()

    # Clients.

    def present(self, token: str, connection: Connection) -> Lease | None:
        lease, actions = self.admission.present(token, connection)
        if lease is None and self.manager is not None:
            self.manager.read()  # the grant was written there before the client was given the token
            lease, actions = self.admission.present(token, connection)
        self.act(actions)
        return lease

    def admit(self, lease: Lease) -> bool:
        admitted, actions = self.admission.begin(lease, time.monotonic())
        self.act(actions)
        return admitted

    def submit(self, call: Call) -> None:
        call.repeat = self.shadows.repeat(call)
        self.holdings.submit(call)

    def ended(self, call: Call, *, ok: bool) -> None:
        self.holdings.ended(call)
        self.act(self.admission.end(call.lease, time.monotonic(), ok=ok))

    def disconnected(self, connection: Connection) -> None:
        assert self.reception is not None
        self.reception.connections.discard(connection)
        if connection.lease is not None:
            self.act(self.admission.closed(connection.lease, time.monotonic()))

    def cancel_calls(self, model: str) -> None:
        if self.reception is not None:
            self.reception.cancel_calls(model)

    # What the rules want done.

    def tell(self, message: dict[str, Any]) -> None:
        """To the manager, if there is one: a new one asks for everything anyway."""
        if self.manager is not None:
            self.manager.send(message)

    def _compared(self, name: str, shadow: str, counts: dict[str, int]) -> None:
        """Calls by a name were repeated on its shadow, or were not."""
        told = {"is": "shadowed", "name": name, "shadow": shadow, "compared": counts}
        self.loop.soon(lambda: self.tell(told))

    def act(self, actions: list[Action], *, changed: bool = False) -> None:
        """Does what the rules want done. `changed`: the state of an object has changed."""
        for action in actions:
            if isinstance(action, Tell):
                self.tell(action.message)
            elif isinstance(action, Revoke):
                action.connection.revoke()
            elif isinstance(action, Drop):
                if action.connection is not None:
                    action.connection.drop()
            elif isinstance(action, Emptied):
                self.holdings.emptied(action.model)
        self._settle(changed=changed)

    def _settle(self, *, changed: bool = False) -> None:
        """After every step: the next alarm, and what the host is to know."""
        self.reporter.note(at_once=changed)
        when = self.admission.next_deadline()
        if self._alarm is not None and when is not None and when < self._alarm.when:
            self._alarm.cancel()
            self._alarm = None
        if when is not None and self._alarm is None:  # one that rings too early does no harm
            self._alarm = self.loop.at(when, self._tick)

    def _tick(self) -> None:
        self._alarm = None
        self.act(self.admission.tick(time.monotonic()))


def _reap(pids: list[int]) -> None:
    """Waits for orphans that this process adopted and that have ended."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
