"""A model with several workers: calls run at once, one of them dies, the manager goes and comes, all are freed."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lazyd

from .conftest import LAZYCTL, LIMIT_S, Client, Daemon, DataLine, gone

CROWD = f'''
"""A model whose calls wait for each other."""
import os, time
from actors import Actor

class Crowd(Actor):
    def meet(self, place, n):
        """Comes back when calls in `n` processes are here at once: their ids."""
        open(os.path.join(place, str(os.getpid())), "w").close()
        deadline = time.monotonic() + {LIMIT_S}
        while len(os.listdir(place)) < n:
            assert time.monotonic() < deadline, "nobody else has come"
            time.sleep(0.01)
        return sorted(map(int, os.listdir(place)))

def crowd(**options): return Crowd(**options)
'''


class Held(DataLine):
    """A call that waits for a gate."""

    def __init__(self, lease: dict[str, Any], gate: Path) -> None:
        super().__init__(lease)
        self.endpoint: str = lease["endpoint"]
        self.begin("wait_for", str(gate))


def busy(daemon: Daemon, client: Client, gate: Path, workers: int) -> list[Held]:
    """Calls that wait for a gate, until so many workers have some; one more is loaded as all others are busy."""
    held: list[Held] = []
    while len({each.endpoint for each in held}) < workers:
        held.append(Held(client.call("Get", model="crowd"), gate))
        daemon.until(lambda: daemon.model("crowd")["inFlight"] == len(held))
        daemon.until(lambda: daemon.model("crowd")["loads"] >= min(workers, len(held)))
    return held


def pids(daemon: Daemon) -> set[int]:
    return {worker["pid"] for worker in daemon.model("crowd")["workers"]}


def meet(daemon: Daemon, n: int) -> set[int]:
    """So many calls at once, each in another worker."""
    place = daemon.root / f"meeting {os.urandom(4).hex()}"
    place.mkdir()

    def call(_: int) -> Any:
        with lazyd.connect(daemon.socket) as client:
            return client.call("crowd", "meet", str(place), n)

    with ThreadPoolExecutor(n) as pool:
        (found,) = {tuple(met) for met in pool.map(call, range(n))}
    return set(found)


def lazyctl(daemon: Daemon, *arguments: str) -> str:
    command = [str(LAZYCTL), "--socket", daemon.socket, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout


def test_three_workers_run_three_calls_at_once_and_live_and_die_by_themselves(daemon: Daemon) -> None:
    (daemon.root / "crowd.py").write_text(CROWD)
    daemon.configure('@crowd factory="crowd:crowd" replicas=3 idle_timeout="never"')
    gate = daemon.root / "gate"
    with daemon.start() as client:
        lines = busy(daemon, client, gate, 3)
        assert lines[0].endpoint == lines[1].endpoint, "nobody waits for another worker"
        assert "ready x3" in lazyctl(daemon, "status")
        gate.touch()
        for line in lines:
            with line:
                assert line.end() == "came"

        everyone = pids(daemon)
        assert meet(daemon, 3) == everyone
        assert len(everyone) == 3

        gate.unlink()
        calls = busy(daemon, client, gate, 3)
        killed = next(w["pid"] for w in daemon.model("crowd")["workers"] if w["id"] in calls[-1].endpoint)
        os.kill(killed, signal.SIGKILL)
        with calls.pop() as dead, pytest.raises(ConnectionError):
            dead.end()
        daemon.until(lambda: len(pids(daemon) - {killed}) >= 2 and killed not in pids(daemon))

        daemon.kill()
    with daemon.start() as client:
        assert everyone - {killed} <= pids(daemon)
        assert daemon.model("crowd")["inFlight"] == len(calls)
        gate.touch()
        for line in calls:
            with line:
                assert line.end() == "came"
        assert everyone - {killed} <= meet(daemon, len(pids(daemon)))

        left = pids(daemon)
        with lazyd.connect(daemon.socket) as other:
            other.call("crowd", "say", "a word")
        assert "a word" in lazyctl(daemon, "logs", "crowd")
        with pytest.raises(lazyd.ModelNotFound), lazyd.connect(daemon.socket) as other:
            other.call("crowd#2", "pid")
        assert client.call("Unload", models=["crowd"])["unloaded"] == ["crowd"]
        daemon.until(lambda: all(map(gone, left)))
        assert daemon.model("crowd")["bookedBytes"] == {}
