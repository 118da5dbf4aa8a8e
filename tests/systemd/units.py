"""The three units, of the system or of a user, as the tests see them."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .machine import Machine, eventually

MANAGER, HOST, SOCKET = "lazyd.service", "lazyd-host.service", "lazyd.socket"
ALL = (MANAGER, HOST, SOCKET)
ACTIVE = dict.fromkeys(ALL, "active")
INACTIVE = dict.fromkeys(ALL, "inactive")
_NUMBER = itertools.count(10)


@dataclass(frozen=True)
class Units:
    """The units in a booted system; with an owner, those of this user's own systemd."""

    machine: Machine
    owner: str = ""

    @property
    def runtime(self) -> str:
        """The directory of the sockets."""
        return f"/run/user/{self._uid}/lazyd" if self.owner else "/run/lazyd"

    @property
    def configuration(self) -> str:
        """The file with the configuration."""
        return f"/home/{self.owner}/.config/lazyd/lazyd.toml" if self.owner else "/etc/lazyd/lazyd.toml"

    @property
    def state_directory(self) -> str:
        return f"/home/{self.owner}/.local/state/lazyd" if self.owner else "/var/lib/lazyd"

    @property
    def _uid(self) -> int:
        return int(self.machine.answer("id", "-u", self.owner))

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command as the owner: root or the user."""
        if not self.owner:
            return self.machine.run(*command, check=check)
        return self.machine.run("env", f"XDG_RUNTIME_DIR=/run/user/{self._uid}", *command, user=self.owner, check=check)

    def systemctl(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs systemctl for the system or for the owner."""
        return self.run("systemctl", *(["--user"] if self.owner else []), *words, check=check)

    def show(self, unit: str, what: str) -> str:
        """A property of a unit."""
        return self.systemctl("show", "--value", "--property", what, unit).stdout.strip()

    def pid(self, unit: str = MANAGER) -> int:
        """The main process of a unit; 0 without one."""
        return int(self.show(unit, "MainPID"))

    def state(self) -> dict[str, str]:
        """The state of each unit, in systemd's words."""
        shown = self.systemctl("show", "--value", "--property=ActiveState", *ALL).stdout.split()
        return dict(zip(ALL, shown, strict=True))

    def pids(self, unit: str) -> set[int]:
        """The processes in a unit's cgroup and below."""
        cgroup = self.show(unit, "ControlGroup")
        if not cgroup:
            return set()
        found = self.machine.answer("sh", "-c", f"find /sys/fs/cgroup{cgroup} -name cgroup.procs -exec cat {{}} +")
        return {int(line) for line in found.split()}

    def kill(self, unit: str = MANAGER, signal: str = "KILL") -> int:
        """Sends a signal to the main process of a unit. Returns its pid."""
        pid = self.pid(unit)
        self.machine.run("kill", f"-{signal}", str(pid))
        return pid

    def started_anew(self, unit: str, after: int) -> None:
        """Waits until a unit runs another process than `after`."""
        eventually(lambda: self.pid(unit) not in (0, after) and self.state()[unit] == "active", 20, f"a new {unit}")

    def nothing_left(self) -> None:
        """Waits until the units are stopped, without a process and without a socket."""
        eventually(lambda: set(self.state().values()) <= {"inactive", "failed"}, 15, "all units stopped")
        assert self.pids(MANAGER) | self.pids(HOST) == set()
        assert self.machine.answer("find", self.runtime, "-type", "s") == ""

    def reset(self) -> None:
        """Stops all and waits until nothing is left."""
        self.systemctl("stop", *ALL)
        self.systemctl("reset-failed")
        self.nothing_left()

    @contextmanager
    def drop_in(self, unit: str, text: str) -> Iterator[None]:
        """Changes a unit's `[Service]` for a while."""
        where = f"/home/{self.owner}/.config/systemd/user" if self.owner else "/etc/systemd/system"
        file = f"{where}/{unit}.d/{next(_NUMBER)}.conf"
        self.write(file, f"[Service]\n{text}\n")
        self.systemctl("daemon-reload")
        try:
            yield
        finally:
            self.run("rm", file)
            self.systemctl("daemon-reload")

    def write(self, path: str, text: str) -> None:
        """Writes a file as the owner."""
        self.machine.write(path, text, user=self.owner or "root")
