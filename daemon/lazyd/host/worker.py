"""One worker as the host sees it, from the order to start it until its last trace is gone.

    starting ── hello ──▶ running ── stop ──▶ leaving ──┐
        │                    │                          ├── killed, exited ──▶ ending ── nothing left ──▶ gone
        └────────────────────┴──────────────────────────┘

Whatever way it ends, all its descendants end with it, and it is gone only when they are: its
memory is free then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal as signals
import socket
import time
from typing import Any

from .. import places
from ..worker.link import Link
from ..worker.loop import Timer
from . import oom
from .cgroups import Cgroup
from .ending import end_family
from .facts import Facts, State
from .logs import LogFile, LogPipe
from .newborn import Newborn
from .recipe import Recipe
from .shop import Shop
from .starting import Starting

BROKEN_LINK_S = 2.0
"""A worker that has closed its link to the host but lives on cannot be led any more, and is ended."""


class Worker:
    """One worker."""

    def __init__(self, shop: Shop, facts: Facts, manager_fd: int | None) -> None:
        self.facts = facts
        self.link: Link | None = None
        self.log: LogPipe | None = None
        self.cgroup: Cgroup | None = None
        self._shop = shop
        self._manager_fd = manager_fd
        self._listener: socket.socket | None = None
        self._starting: Starting | None = None
        self._newborn: Newborn | None = None
        self._alarm: Timer | None = None
        self._ending_begun = False
        self._is_reaped = False
        self._is_empty = False

    def __repr__(self) -> str:
        return f"<worker {self.id} of {self.facts.model} {self.facts.state} pid {self.facts.pid}>"

    @property
    def id(self) -> str:
        return self.facts.id

    @property
    def marker(self) -> str:
        """What its descendants inherit. The host's identity in it keeps other hosts' workers apart."""
        return f"{self.id}@{self._shop.identity}"

    @property
    def endpoint(self) -> str:
        return places.data_socket(self._shop.place.runtime_dir, self.id)

    @property
    def is_settled(self) -> bool:
        """Nothing is under way that an upgrade of the host would interrupt."""
        return self.facts.state is not State.STARTING

    # Starting.

    def start(self) -> None:
        """Starts it. What goes wrong becomes the reason of its exit."""
        try:
            recipe = Recipe.of(self.facts.spec, self._shop.base_env)
            self._listener = self._shop.place.listen(self.endpoint, socket.SOCK_STREAM)
            self._starting = Starting(self._shop, recipe, self)
            self._starting.begin()
        except (OSError, ValueError) as error:
            self.facts.out_of_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
            self.stillborn(str(error))

    def listen_anew(self) -> None:
        """If its socket's file was deleted, makes another, through which clients reach it. Raises `OSError`."""
        if self.facts.state not in (State.STARTING, State.RUNNING) or os.path.exists(self.endpoint):
            return
        listener = self._shop.place.listen(self.endpoint, socket.SOCK_STREAM)
        if self._listener is not None:
            self._listener.close()
            self._listener = listener
            return
        if self.link is not None:
            self.link.send({"do": "listen"}, [listener.fileno()])
        listener.close()

    def expect(self, newborn: Newborn) -> None:
        if self.link is not None:
            self.link.close()
        if self.log is not None:
            self.log.finish()
        if self._newborn is not None and self._newborn.cgroup is not None:
            self._newborn.cgroup.remove()
        self._newborn = newborn
        self.link = self.new_link(newborn.link)
        self.log = LogPipe(self._shop.loop, newborn.log, self._log_file())
        self.facts.memory_kills = oom.kills(newborn.cgroup)

    def born(self, pid: int) -> None:
        self.facts.pid = pid
        self.cgroup = self._newborn.cgroup if self._newborn is not None else None
        self.facts.cgroup = self.cgroup.path.name if self.cgroup is not None else None
        self._shop.reaper.watch(pid, self._exited)
        self._shop.tell({"is": "started", "worker": self.id, "pid": pid})
        if self._ending_begun:
            self._ending_begun = False
            self.kill()

    def stillborn(self, reason: str | None) -> None:
        self.facts.reason = self.facts.reason or reason
        if self._newborn is not None:
            self.cgroup = self._newborn.cgroup
        self._is_reaped = self._is_empty = self._ending_begun = True
        self._shop.loop.soon(self._perhaps_gone)

    def is_wanted(self) -> bool:
        return not self._ending_begun

    # What it says.

    def _says(self, message: dict[str, Any], fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)
        if message.get("is") == "report":
            self.facts.report = message["report"]
        elif message.get("is") == "hello":
            if self._starting is not None:
                self._starting.heard_from(message["pid"])
            self._begin()

    def _begin(self) -> None:
        if self.facts.state is not State.STARTING or self._listener is None or self._manager_fd is None:
            return
        assert self.link is not None
        self.facts.state = State.RUNNING
        order = {
            "do": "begin",
            "worker": self.id,
            "model": self.facts.model,
            "spec": self.facts.spec,
            "devices": self.facts.devices,
            "memo": self.facts.memo,
            "endpoint": self.endpoint,
            "started": self.facts.started,
            "marker": self.marker,
            "adopt_orphans": self.cgroup is None,
        }
        self.link.send(order, [self._listener.fileno(), self._manager_fd])
        self._listener.close()
        self._listener = None
        self._close_manager_fd()
        self._shop.settled(self.facts)

    def _link_ended(self) -> None:
        if self.facts.pid is not None:  # else a zygote has dropped it, which tells so itself
            self._shop.loop.after(BROKEN_LINK_S, self.kill)

    def attach(self, fd: int) -> None:
        """A new manager's channel; it is closed here if the worker takes none any more."""
        if self.facts.state is State.STARTING:
            self._close_manager_fd()
            self._manager_fd = fd
            return
        if self.facts.state is State.RUNNING and self.link is not None:
            self.link.send({"do": "attach"}, [fd])
        os.close(fd)

    def report(self) -> dict[str, Any]:
        """What a new manager is told: its own last report, as far as it counts any more."""
        return self.facts.as_report(self.endpoint)

    def reap(self, pids: list[int]) -> None:
        """Orphans that the worker adopted have ended, and wait for it."""
        if self.link is not None and self.facts.state is State.RUNNING:
            self.link.send({"do": "reap", "pids": pids})

    # Ending.

    def stop(self, grace_s: float, drain_s: float = 0.0) -> None:
        """Asks it to leave, and kills everything of it after `grace_s`. The earlier of two deadlines counts.

        Calls under way are given `drain_s` to end by themselves.
        """
        deadline = time.monotonic() + grace_s
        if grace_s <= 0 or self.facts.state is State.STARTING:
            self.kill()
            return
        if self.facts.state is State.RUNNING and self.link is not None:
            self.facts.state = State.LEAVING
            self.link.send({"do": "leave", "drain_s": drain_s})
        if self.facts.deadline is None or deadline < self.facts.deadline:
            self.facts.deadline = deadline
            self._set_alarm()

    def kill(self) -> None:
        """Ends it and all its descendants now."""
        if self.facts.state is not State.GONE and not self._ending_begun:
            self.facts.killed = True
            self._end()

    def _exited(self, status: int | None, signal: int | None) -> None:
        self.facts.status, self.facts.signal = status, signal
        self._is_reaped = True
        self._explain()
        self._end()
        self._perhaps_gone()

    def _explain(self) -> None:
        """Why it has ended, unless it was told to."""
        facts = self.facts
        if facts.killed:
            return
        if self.log is not None:
            self.log.catch_up()
        lines = self.log.kept_lines if self.log is not None else ""
        if facts.signal == signals.SIGKILL:
            facts.out_of_memory = oom.kills(self.cgroup) > facts.memory_kills
        else:
            facts.out_of_memory = oom.is_told(facts.spec["runtime"], facts.status, facts.signal, lines)
        if facts.reason is None and facts.signal == signals.SIGKILL and facts.out_of_memory:
            facts.reason = "the kernel killed it: the machine or its cgroup had no memory left"
        elif facts.reason is None and facts.state is State.STARTING:
            facts.reason = lines.strip().rpartition("\n")[2] or None

    def _end(self) -> None:
        if self._ending_begun:
            return
        self._ending_begun = True
        self.facts.state = State.ENDING
        if self.facts.pid is None and not self._is_reaped:
            if self._starting is not None:
                self._starting.withdraw()
            return  # it is being forked, or never will be: `born` or `stillborn` goes on
        if self.facts.pid is not None:
            self._shop.reaper.kill(self.facts.pid)
        end_family(self._shop.loop, self._shop.reaper, self.cgroup, self.facts.pid, self.marker, self._emptied)

    def _emptied(self) -> None:
        self._is_empty = True
        self._perhaps_gone()

    def _perhaps_gone(self) -> None:
        if not (self._is_reaped and self._is_empty) or self.facts.state is State.GONE:
            return
        self.facts.state = State.GONE
        if self._alarm is not None:
            self._alarm.cancel()
        self._close_manager_fd()
        if self._listener is not None:
            self._listener.close()
        if self.link is not None:
            self.link.read()  # a last report makes no difference, but lets the socket end clean
            self.link.close()
        if self.log is not None:
            self.log.finish()
        with contextlib.suppress(OSError):
            os.unlink(self.endpoint)
        if self.cgroup is not None:
            self.cgroup.remove()
        self._shop.tell(self.facts.as_exited(self.log.last_lines if self.log is not None else ""))
        self._shop.settled(self.facts)

    # Parts.

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self.facts.deadline is not None:
            self._alarm = self._shop.loop.at(self.facts.deadline, self.kill)

    def _log_file(self) -> LogFile:
        return LogFile(places.worker_log(self._shop.place.runtime_dir, self.facts.model), self._shop.place.share)

    def _close_manager_fd(self) -> None:
        if self._manager_fd is not None:
            os.close(self._manager_fd)
            self._manager_fd = None

    # Across an upgrade of the host.

    def adopt(self, link: Link | None, log_fd: int, pidfd: int | None, tail: bytes) -> None:
        """Goes on with a worker that an earlier self of the host had started."""
        self.link = link
        self.log = LogPipe(self._shop.loop, log_fd, self._log_file(), tail)
        if self._shop.cgroups is not None and self.facts.cgroup is not None:
            self.cgroup = self._shop.cgroups.find(self.facts.cgroup)
        if self.facts.pid is not None and pidfd is not None:
            self._shop.reaper.watch(self.facts.pid, self._exited, pidfd)
        else:
            self._is_reaped = True
        if self.facts.state is State.ENDING:
            self._end()
        self._set_alarm()

    def new_link(self, sock: socket.socket) -> Link:
        """The host's end of its link."""
        return Link(self._shop.loop, sock, self._says, self._link_ended)
