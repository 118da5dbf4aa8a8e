"""A booted systemd to test units in: this machine's files below an overlay, processes in namespaces of their own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil

CHECKOUT = Path(__file__).resolve().parents[2]
CGROUP = "lazyd-test"
LONGEST_S = 300
"""What anything may take: other tests keep the machine busy meanwhile."""

T = TypeVar("T")


class Refused(Exception):
    """No systemd can be booted here; says why."""


class Machine:
    """A booted system. Commands run in it as root, or as another of its users."""

    def __init__(self, init: int) -> None:
        self.init = init
        """Its first process, as this machine numbers it."""

    def start(self, *command: str, user: str = "root") -> subprocess.Popen[str]:
        """Starts a command in the system; its output is read through the pipes."""
        enter = ["nsenter", "--target", str(self.init), "--all"]
        if user != "root":
            enter += ["runuser", "-u", user, "--"]
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        return subprocess.Popen(
            [*enter, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(
        self, *command: str, user: str = "root", check: bool = True, timeout_s: float = LONGEST_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end. Raises AssertionError with its output if it fails and `check` is set."""
        process = self.start(*command, user=user)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{' '.join(command)}: not done in {timeout_s} s\n{out}{err}") from None
        if check and process.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit status {process.returncode}\n{out}{err}")
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def answer(self, *command: str) -> str:
        """What a command prints, whatever its exit status, without the line's end."""
        return self.run(*command, check=False).stdout.strip()

    def write(self, path: str, text: str, user: str = "root") -> None:
        """Writes a file, and the directories above it."""
        process = self.start("sh", "-c", 'mkdir -p "$(dirname "$0")" && cat > "$0"', path, user=user)
        _, error = process.communicate(text, timeout=LONGEST_S)
        assert process.returncode == 0, error


def eventually(look: Callable[[], T], within_s: float = LONGEST_S, what: str = "") -> T:
    """Looks until the answer is true, and returns it. Raises AssertionError after `within_s`."""
    deadline = time.monotonic() + within_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what or look}; last seen: {seen!r}")
        time.sleep(0.05)
    return seen


@contextmanager
def booted() -> Iterator[Machine]:
    """Boots a system and ends it, with all that ran in it. Raises Refused where that is not possible."""
    if os.geteuid() != 0:
        raise Refused("needs root, to boot a systemd")
    if missing := [name for name in ("systemd-nspawn", "nsenter", "setpriv", "unshare") if not shutil.which(name)]:
        raise Refused(f"needs {', '.join(missing)} (Debian packages systemd-container, util-linux)")
    scratch = CHECKOUT / "build" / "systemd"
    scratch.mkdir(parents=True, exist_ok=True)
    with open(scratch.parent / "systemd.log", "w+") as log, one_at_a_time():
        boot = [str(Path(__file__).with_name("boot.sh")), str(scratch), str(CHECKOUT), CGROUP]
        namespaces = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        outer = subprocess.Popen(
            # Ends with this process, even if this one is killed.
            ["setpriv", "--pdeathsig=KILL", *namespaces, *boot],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            machine = Machine(init_below(outer, lambda: last_line(log.name)))
            eventually(lambda: machine.answer("systemctl", "is-system-running", "--wait") == "running", what="boot")
            yield machine
        finally:
            end(outer)
            eventually(remove_cgroups, 10, "the end of everything booted")


def init_below(outer: subprocess.Popen[bytes], reason: Callable[[], str]) -> int:
    """The pid of the booted system's first process. Raises Refused if there will be none."""
    deadline = time.monotonic() + 60
    while outer.poll() is None and time.monotonic() < deadline:
        for process in psutil.Process(outer.pid).children(recursive=True):
            try:
                parent = process.parent()
                if process.name() == "systemd" and parent is not None and parent.name() == "systemd-nspawn":
                    return process.pid
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.02)
    raise Refused(f"no systemd can be booted here: {reason()}")


def end(outer: subprocess.Popen[bytes]) -> None:
    """Ends the first process in the namespaces, and with it all others there."""
    for first in psutil.Process(outer.pid).children() if outer.poll() is None else []:
        first.kill()
    try:
        outer.wait(timeout=10)
    except subprocess.TimeoutExpired:
        outer.kill()
        outer.wait()


def last_line(log: str) -> str:
    """The last line that booting wrote."""
    lines = Path(log).read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")


def remove_cgroups() -> bool:
    """Removes the cgroups that the booted system left; false while something in them still runs."""
    for mount in cgroup_mounts():
        for path, _, _ in os.walk(mount / CGROUP, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                return False
    return True


def cgroup_mounts() -> list[Path]:
    """Where this machine shows the unified hierarchy."""
    fields = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(target) for _, target, kind, *_ in fields if kind == "cgroup2"]


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Waits for another run of these tests on this machine."""
    with open("/run/lock/lazyd-test.lock", "w") as lock:
        deadline = time.monotonic() + 90
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refused("another run of these tests is under way") from None
                time.sleep(0.2)
        yield
