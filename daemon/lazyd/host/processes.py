"""What ``/proc`` says about processes: who descends from whom, wherever they went."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ..runtimes import MARKER

_DEAD = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table. `started` counts clock ticks since boot."""

    pid: int
    state: str
    parent: int
    session: int
    started: int

    @property
    def is_dead(self) -> bool:
        return self.state in _DEAD


def look(pid: int | str) -> Process | None:
    """One process, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces and brackets
    return Process(int(pid), fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def table() -> dict[int, Process]:
    """All processes."""
    found = (look(name) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def identity() -> str:
    """This process as nothing else on the machine was or will be called; the same after an exec."""
    process = look(os.getpid())
    return f"{os.getpid()}-{process.started if process else 0}"


def family(leader: int, marker: str, everything: dict[int, Process]) -> set[int]:
    """The living processes of a worker, itself among them.

    Those of its session, those that inherited its marker, and all their descendants. An orphan is
    found through its parent, because a worker adopts the orphans below it.
    """
    inherited = f"{MARKER}={marker}".encode()
    seeds = {
        process.pid
        for process in everything.values()
        if process.pid == leader or process.session == leader or inherited in _environment(process)
    }
    return {pid for pid in with_descendants(seeds, everything) if not everything[pid].is_dead}


def marked(ending: str) -> set[int]:
    """Living processes that inherited a marker with this ending."""
    wanted = (f"{MARKER}=".encode(), ending.encode())
    return {
        process.pid
        for process in table().values()
        if any(each.startswith(wanted[0]) and each.endswith(wanted[1]) for each in _environment(process))
    }


def with_descendants(seeds: Iterable[int], everything: dict[int, Process]) -> set[int]:
    """These processes and all below them."""
    children: dict[int, list[int]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    todo = [pid for pid in seeds if pid in everything]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, ())
    return found


def _environment(process: Process) -> list[bytes]:
    if process.is_dead:
        return []
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []  # gone, or another user's
