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

from ..runtimes import member_of, runtime_named
from . import process
from .admission import Action, Admission, Drop, Emptied, Lease, Revoke, Tell
from .connection import Connection
from .link import Link
from .loop import Loop, Timer
from .objects import ModelThread
from .reporter import Reporter

if TYPE_CHECKING:
    from ..runtimes import LoadedModel, Progress
    from .calls import Call

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
        self.objects: dict[str, ModelThread] = {}
        self.connections: set[Connection] = set()
        self.spec: dict[str, Any] = {}
        self.host = Link(self.loop, host, self._host_says, lambda: os._exit(process.ORPHANED))
        self.manager: Link | None = None
        self.reporter = Reporter(self.loop, self.host, self.admission)
        self._load_again: set[str] = set()
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
        elif what == "attach":
            self._attach(fds[0])
        elif what == "leave":
            self._leave(message.get("drain_s", 0.0))
        elif what == "reap":
            _reap(message["pids"])

    def _begin(self, order: dict[str, Any], listener: int, manager: int) -> None:
        self.spec = order["spec"]
        process.set_name(f"lazyd:{order['model']}")
        os.environ["LAZYD_WORKER"] = order["marker"]
        if order["adopt_orphans"]:
            process.adopt_orphans()
        self.reporter.begin({name: order[name] for name in ("worker", "endpoint", "memo", "started")})
        self._listener = socket.socket(fileno=listener)
        self._listener.setblocking(False)
        self.loop.watch(self._listener, read=self._accept)
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
        self.loop.watch(self._listener)
        self._listener.close()
        for model in list(self.objects):
            self._unload(model, drain_s)
        self._perhaps_exit()

    # The manager.

    def _manager_says(self, message: dict[str, Any], fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)
        what, model, now = message.get("do"), message.get("model", ""), time.monotonic()
        if what == "grant":
            self._grant(message, now)
        elif what == "withdraw":
            self._act(self.admission.withdraw(message["lease"]))
        elif what == "drain":
            self._act(self.admission.drain(model, message["drain"], finish=message["finish"], now=now), changed=True)
        elif what == "resume":
            self.admission.resume(model)
            self._settle(changed=True)
        elif what == "load":
            self._load(model)
        elif what == "unload":
            self._unload(model, 0.0)

    def _manager_lost(self) -> None:
        self.admission.manager_lost(time.monotonic())
        self.manager = None
        self._settle(changed=True)

    def _tell(self, message: dict[str, Any]) -> None:
        if self.manager is not None:
            self.manager.send(message)

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
            )
        )
        self._settle()

    # Objects.

    def _load(self, model: str) -> None:
        known = self.admission.objects.get(model)
        if known is not None or self._leaving:
            if known is not None and known.state == "unloading":
                self._load_again.add(model)
            elif known is not None and known.state == "ready":
                self._tell({"is": "ready", "model": model})
            return
        member = member_of(self.spec["name"], model.partition(":")[0])

        def load(progress: Progress) -> LoadedModel:
            return runtime_named(self.spec["runtime"]).load(self.spec, member, progress)

        thread = ModelThread(model, load, self.loop, self)
        thread.lease_variable = _lease_variable()
        thread.lease_in_environment = member is None
        self.admission.loading(model, time.monotonic())
        self.objects[model] = thread
        self._settle(changed=True)
        thread.start()

    def _unload(self, model: str, drain_s: float) -> None:
        known = self.admission.objects.get(model)
        self._load_again.discard(model)
        if known is None:
            self._tell({"is": "unloaded", "model": model})
        elif known.state == "unloading":
            self._cancel_calls(model)
        else:
            loaded = known.state == "ready"
            actions = self.admission.unloading(model, time.monotonic())
            if not loaded:
                self.objects[model].close()
            elif drain_s:
                self.loop.after(drain_s, lambda: self._cancel_calls(model))
            else:
                self._cancel_calls(model)
            self._act(actions if loaded else [], changed=True)

    def _cancel_calls(self, model: str) -> None:
        for connection in list(self.connections):
            if connection.lease is not None and connection.lease.model == model:
                connection.cancel_all()

    def progressed(self, model: str, phase: str, fraction: float | None) -> None:
        self._tell({"is": "progress", "model": model, "phase": phase, "fraction": fraction})

    def loaded(self, model: str) -> None:
        if self.admission.objects[model].state == "loading":
            self.admission.loaded(model, time.monotonic())
            self._tell({"is": "ready", "model": model})
            self._settle(changed=True)

    def failed(self, model: str, reason: str, trace: str) -> None:
        print(trace, end="", file=sys.stderr, flush=True)
        self._forget(model, {"is": "failed", "model": model, "reason": reason, "traceback": trace})

    def closed(self, model: str) -> None:
        self._forget(model, {"is": "unloaded", "model": model})

    def _forget(self, model: str, message: dict[str, Any]) -> None:
        del self.objects[model]
        self.admission.gone(model)
        self._tell(message)
        self._settle(changed=True)
        if model in self._load_again:
            self._load_again.discard(model)
            self._load(model)
        self._perhaps_exit()

    # Clients.

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # nobody waits any more, has gone again, or no descriptor is left
                return
            self.connections.add(Connection(self.loop, client, self))

    def present(self, token: str, connection: Connection) -> Lease | None:
        lease, actions = self.admission.present(token, connection)
        if lease is None and self.manager is not None:
            self.manager.read()  # the grant was written there before the client was given the token
            lease, actions = self.admission.present(token, connection)
        self._act(actions)
        return lease

    def admit(self, lease: Lease) -> bool:
        admitted, actions = self.admission.begin(lease, time.monotonic())
        self._act(actions)
        return admitted

    def submit(self, call: Call) -> None:
        self.objects[call.lease.model].submit(call)

    def ended(self, call: Call, *, ok: bool) -> None:
        self._act(self.admission.end(call.lease, time.monotonic(), ok=ok))

    def disconnected(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if connection.lease is not None:
            self._act(self.admission.closed(connection.lease, time.monotonic()))

    # What the rules want done.

    def _act(self, actions: list[Action], *, changed: bool = False) -> None:
        for action in actions:
            if isinstance(action, Tell):
                self._tell(action.message)
            elif isinstance(action, Revoke):
                action.connection.revoke()
            elif isinstance(action, Drop):
                if action.connection is not None:
                    action.connection.drop()
            elif isinstance(action, Emptied):
                self.objects[action.model].close()
        self._settle(changed=changed)

    def _settle(self, *, changed: bool = False) -> None:
        """After every step: the next alarm, and what the host is to know."""
        self.reporter.note(at_once=changed)
        when = self.admission.next_deadline()
        if self._alarm is not None and self._alarm.when != when:
            self._alarm.cancel()
            self._alarm = None
        if when is not None and self._alarm is None:
            self._alarm = self.loop.at(when, self._tick)

    def _tick(self) -> None:
        self._alarm = None
        self._act(self.admission.tick(time.monotonic()))

    def _perhaps_exit(self) -> None:
        if self._leaving and not self.objects:
            self._exit_when_flushed(time.monotonic() + FLUSH_S)

    def _exit_when_flushed(self, deadline: float) -> None:
        if time.monotonic() < deadline and not all(connection.is_flushed for connection in self.connections):
            self.loop.after(0.01, lambda: self._exit_when_flushed(deadline))
            return
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _lease_variable() -> Any:
    """Where the client library looks for the lease under which it is used, if it is there at all."""
    try:
        from ..client.context import current_lease
    except ImportError:
        return None
    return current_lease


def _reap(pids: list[int]) -> None:
    """Waits for orphans that this process adopted and that have ended."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
