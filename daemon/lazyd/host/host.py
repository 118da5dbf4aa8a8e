"""Carries out the manager's orders. It decides nothing, and its workers outlive its managers."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from typing import Any

from .. import places
from ..worker.loop import Loop
from . import processes
from .cgroups import Cgroups
from .door import Door
from .dry_run import DryRuns
from .facts import Facts, State
from .linger import Linger
from .logs import LogFile
from .place import Place
from .presence import Presence
from .proxying import Proxying
from .reaper import Reaper
from .recipe import Recipe, base_environment
from .rounds import Rounds
from .shop import Shop
from .warming import Warming
from .worker import Worker
from .zygotes import Zygotes

VERSION = "0.1.0"
STOP_GRACE_S = 30.0
"""A host that is told to stop gives calls in flight and objects this time."""
CLOSE_S = 5.0
"""Of which objects may take this much to close."""
MAX_MISTAKES = 50
MISTAKES_WITHIN_S = 60.0
"""More faults of the host itself in this time, and it gives up."""


class Host:
    """All state of the process. Everything runs in its loop."""

    def __init__(
        self,
        loop: Loop,
        place: Place,
        lock: int,
        door: Door,
        cgroups: Cgroups | None,
        unit: str | None,
        note: Callable[[str], None],
    ) -> None:
        self.loop = loop
        self.place = place
        self.door = door
        self.note = note
        self.cgroups = cgroups
        self.started = time.monotonic()
        self.reaper = Reaper(loop)
        log = LogFile(places.host_log(place.runtime_dir), place.share)
        self.zygotes = Zygotes(loop, self.reaper, cgroups, log, note)
        self.presence = Presence(loop, place, lock, door, note, self._listen_anew, self._nobody_comes)
        self.linger = Linger(loop, self.reaper, unit, self._nobody_comes)
        self.workers: dict[str, Worker] = {}
        self.kept: Any = None
        """What the manager wants told to the next one."""
        self.deferred: list[tuple[dict[str, Any], list[int]]] = []
        """Orders that came after the one to upgrade."""
        self.is_upgrading = False
        self.is_quitting = False
        self.on_upgrade: Callable[[], None] = lambda: None
        self._rounds = Rounds(loop, self.workers, door.tell)
        self._mistakes: list[float] = []
        self.dry_runs = DryRuns(self._perhaps_go_on)
        self.shop = Shop(
            loop=loop,
            reaper=self.reaper,
            zygotes=self.zygotes,
            place=place,
            cgroups=cgroups,
            identity=processes.identity(),
            base_env=base_environment(places.control_socket(place.runtime_dir)),
            tell=door.tell,
            settled=self._settled,
        )
        self.warming = Warming(
            loop, self.reaper, cgroups, log, f"warmer@{self.shop.identity}", door.tell, note, self._perhaps_go_on
        )
        marker = f"proxy@{self.shop.identity}"
        self.proxying = Proxying(
            loop, self.reaper, log, self.shop.base_env, marker, door.tell, note, self._perhaps_go_on
        )
        loop.on_error = self._mistake
        door.on_hello, door.on_order, door.on_lost = self._hello, self.order, self._manager_lost

    def begin(self) -> None:
        """Serves, with or without a manager."""
        if self.door.manager is None:
            self._manager_lost()
        self.reaper.sweep()

    def _listen_anew(self) -> None:
        for worker in self.workers.values():
            try:
                worker.listen_anew()
            except OSError as error:
                self.note(f"the worker of {worker.facts.model} cannot be reached: {error}")

    def _manager_lost(self) -> None:
        self.linger.begin()
        self.presence.watch()

    # Orders.

    def _hello(self) -> None:
        self.linger.end()
        self.presence.rest()
        self.dry_runs.end(None)  # another manager had asked
        hello = {"is": "hello", "pid": os.getpid(), "version": VERSION, "started": self.started}
        with open("/proc/self/cgroup") as file:  # the manager may not be shown it, and reads the memory limit there
            hello |= {"cgroup": file.read(), "kept": self.kept}
        self.door.tell({**hello, "pages": self.warming.orders})
        for worker in self.workers.values():
            self.door.tell({"is": "worker", "report": worker.report()})
        self.door.tell({"is": "all"})

    def order(self, message: dict[str, Any], fds: list[int]) -> None:
        """One order of the manager's. One that is not understood is passed over."""
        if self.is_upgrading:
            self.deferred.append((message, fds))
            return
        try:
            self._carry_out(message, fds)
        except (KeyError, TypeError) as error:
            self.note(f"an order was not understood: {message.get('do')} ({error!r})")
        for fd in fds:
            os.close(fd)

    def _carry_out(self, message: dict[str, Any], fds: list[int]) -> None:
        """Descriptors that are used are taken out of `fds`."""
        what = message.get("do")
        if what == "start" and len(fds) == 1:
            self._start(message, fds)
        elif what == "attach" and len(fds) == 1 and message["worker"] in self.workers:
            self.workers[message["worker"]].attach(fds.pop())
        elif what == "stop" and message["worker"] in self.workers:
            self.workers[message["worker"]].stop(message["grace_s"])
        elif what == "measure":
            self.presence.look()
            self._rounds.make(message.get("workers"))
        elif what == "keep":
            self.kept = message["what"]
        elif what == "dry_run":
            self.dry_runs.begin(self.shop, message["id"], message["spec"])
        elif what == "warm":
            self.warming.order(message)
        elif what == "let_go":
            self.warming.let_go(message)
        elif what == "proxy":
            self.proxying.serve(message["services"])
        elif what == "prepare":
            self._prepare(message["specs"])
        elif what == "settings":
            self.zygotes.limit(message["max_zygotes"])
            self.linger.linger_s = message["linger_s"]
        elif what == "quit":
            self.quit(message["grace_s"])
        elif what == "upgrade":
            self.upgrade()

    def _start(self, message: dict[str, Any], fds: list[int]) -> None:
        if message["worker"] in self.workers:
            self.note(f"worker {message['worker']} is not started, as it exists")
            return
        if self.is_quitting:
            told = {"status": None, "signal": None, "log": "", "reason": "the worker host is stopping"}
            self.door.tell({"is": "exited", "worker": message["worker"], **told})
            return
        self.presence.look()
        facts = Facts(
            id=message["worker"],
            model=message["model"],
            spec=message["spec"],
            devices=message["devices"],
            memo=message["memo"],
            started=time.monotonic(),
        )
        worker = self.workers[facts.id] = Worker(self.shop, facts, fds.pop())
        worker.start()

    def _prepare(self, specs: list[dict[str, Any]]) -> None:
        recipes = []
        for spec in specs:
            try:
                recipes.append(Recipe.of(spec, self.shop.base_env))
            except ValueError as error:
                self.note(f"nothing is prepared for {spec.get('name')}: {error}")
        self.zygotes.prepare(recipes)

    def _settled(self, facts: Facts) -> None:
        """A worker runs now, or it is gone."""
        if facts.state is State.GONE:
            del self.workers[facts.id]
        self._perhaps_go_on()

    def _perhaps_go_on(self) -> None:
        self._perhaps_upgrade()
        self._perhaps_leave()

    # Mistakes.

    def _mistake(self, error: Exception) -> None:
        """A fault of ours ends one step, not all workers; unless it comes again and again."""
        now = time.monotonic()
        self._mistakes = [when for when in self._mistakes if when > now - MISTAKES_WITHIN_S] + [now]
        self.note("".join(traceback.format_exception(error)))
        if len(self._mistakes) > MAX_MISTAKES:
            raise error

    # Leaving.

    def quit(self, grace_s: float, drain_s: float = 0.0) -> None:
        """Stops all workers, then ends the loop."""
        self.is_quitting = True
        self.zygotes.limit(0)
        self.dry_runs.end("the worker host is stopping")
        self.warming.end()
        for worker in list(self.workers.values()):
            worker.stop(grace_s, drain_s)
        self._perhaps_leave()

    def terminate(self) -> None:
        """A stop from outside: calls in flight are drained first."""
        self.note("stopping")
        self.quit(STOP_GRACE_S, STOP_GRACE_S - CLOSE_S)

    def _nobody_comes(self, why: str) -> None:
        self.note(f"leaving: {why}")
        self.quit(STOP_GRACE_S, STOP_GRACE_S - CLOSE_S)

    def _perhaps_leave(self) -> None:
        if not self.is_quitting or self.workers or self.dry_runs or self.warming.is_alive:
            return
        if self.proxying.is_alive:
            self.proxying.end()  # requests under way went on as long as their services
        else:
            self.loop.stop()

    # Upgrading.

    def upgrade(self) -> None:
        """Becomes the version that is on disk, as soon as no worker is being started."""
        self.is_upgrading = True
        self.zygotes.retire()
        self.dry_runs.end("the worker host is being upgraded")
        self._perhaps_upgrade()

    def _perhaps_upgrade(self) -> None:
        if self.is_upgrading and not self.dry_runs and all(worker.is_settled for worker in self.workers.values()):
            self.on_upgrade()

    def upgrade_failed(self, why: str) -> None:
        """Stays what it is."""
        self.note(f"not upgraded: {why}")
        self.is_upgrading = False
        deferred, self.deferred = self.deferred, []
        for message, fds in deferred:
            self.order(message, fds)
