"""A model with several workers: calls run at once, one of them dies, the manager goes and comes, all are freed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lazyd
from lazyd.runtimes.service_ports import free_port

from .conftest import LAZYCTL, LIMIT_S, Client, Daemon, DataLine, gone
from .test_services import WEB, Browser

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
        with Held(client.call("Get", model="crowd"), gate) as first, lazyd.connect(daemon.socket) as other:
            daemon.until(lambda: daemon.model("crowd")["inFlight"] == 1)
            with pytest.raises(lazyd.NoSuchMethod) as refused:
                other.call("crowd", "nothing")  # of its second worker
            assert refused.value.model == "crowd"
            gate.touch()
            assert first.end() == "came"
        gate.unlink()
        daemon.until(lambda: daemon.model("crowd")["leases"] == 0)
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


def test_each_worker_of_a_service_has_a_port_and_the_proxy_asks_the_least_busy(daemon: Daemon) -> None:
    proxy, gate, weights = free_port(), daemon.root / "gate", daemon.root / "weights.bin"
    (daemon.root / "web.py").write_text(WEB)
    weights.write_bytes(b"weights" * 1000)
    daemon.configure(f"""
        [models.web]
        runtime = "service"
        command = [{json.dumps(sys.executable)}, "web.py", "${{port}}"]
        directory = {json.dumps(str(daemon.root))}
        path = "file://{weights}"
        proxy = {proxy}
        replicas = 2
        concurrency = 1
    """)
    with daemon.start() as client:
        lasting = Browser(proxy).begin("GET", f"/stream?gate={gate}")
        assert lasting.readline() == b"data: 0\n"
        lease = client.call("Get", model="web")["lease"]
        daemon.until(lambda: daemon.model("web")["loads"] == 2)
        client.call("Release", lease=lease)
        second = Browser(proxy).get("/")  # while the first one is busy
        gate.touch()
        assert lasting.read() == b"\ndata: 1\n\n"
        daemon.until(lambda: daemon.model("web")["leases"] == 0)
        first = Browser(proxy).get("/")
        assert first["port"] != second["port"]
        assert lazyctl(daemon, "fetched").count(str(weights)) == 1
        client.call("Unload", models=["web"])
        daemon.until(lambda: gone(first["pid"]) and gone(second["pid"]))
