"""Clients that leave, give up or have a load ended at each of its stages, through real sockets and processes.

After each of them all that was booked comes back, no process is left, and who else waits is served. All
combinations are gone through in tests/unit/core/test_cancelled_loads.py.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import MIB

from .conftest import Client, Daemon, DataLine, Refused, gone
from .gpu_machine import Machine, machine
from .host_driver import MODELS

__all__ = ["machine"]

SLOW_S = 120.0
GPU = "gpu1"
"""Of 4 GiB, for models of 3000 MiB: there is room for one."""


def big(machine: Machine, **words: Any) -> dict[str, Any]:
    roll = str(machine.daemon.root / "roll")
    return {"device": [GPU], "size_mib": 3000, "roll": roll, **words}


def births(machine: Machine, model: str) -> list[int]:
    """The processes that were started for a model which calls itself so in its roll."""
    path = machine.daemon.root / "roll"
    entries = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [int(own) for _, own, called in (entry for entry in entries if len(entry) == 3) if called == model]


def free_of_all(machine: Machine, client: Client) -> None:
    """Once nobody wants anything any more, nothing is booked or held, and no process is left."""
    machine.gate.touch()  # a zygote may wait for it
    client.socket.settimeout(SLOW_S)
    client.call("Unload", all=True, force=True)
    machine.until(lambda: [device["bookedBytes"] for device in machine.devices().values()] == [0, 0, 0])
    machine.until(lambda: machine.driver.used(0) == machine.driver.used(1) == 0)
    assert [device["quarantinedBytes"] for device in machine.devices().values()] == [0, 0, 0]
    nothing_runs(machine.daemon)


def nothing_runs(daemon: Daemon) -> None:
    """Of models: no worker, no dry run, and nothing that they have started."""
    assert daemon.process is not None
    ours = {daemon.process.pid, daemon.host_pid()}

    def others() -> list[str]:
        return [name for pid in daemon.processes() if pid not in ours and (name := name_of(pid)) not in IDLE]

    daemon.until(lambda: not others())


IDLE = ("", "lazyd:newborn", "lazyd-z:python", "lazyd-z:llama_c")
"""What is kept for later: zygotes, and processes that are nobody's yet. Names have 15 bytes."""


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    return ""


@contextlib.contextmanager
def asking(machine: Machine, model: str, **parameters: Any) -> Iterator[Client]:
    """Somebody who waits for a model, and leaves at the end of this."""
    with machine.daemon.client() as client:
        client.socket.settimeout(SLOW_S)
        client.send("Load", {"model": model, **parameters})
        yield client


@contextlib.contextmanager
def in_use(machine: Machine, client: Client, model: str) -> Iterator[None]:
    """A call is under way within this."""
    gate = machine.daemon.root / f"call of {model}"
    with DataLine(client.call("Get", model=model)) as line:
        line.begin("run", str(gate))
        machine.until(lambda: machine.daemon.model(model)["inFlight"] == 1)
        yield
        gate.touch()
        line.end()


def waits(machine: Machine, model: str) -> bool:
    return bool(machine.daemon.model(model)["waiting"])


# Before there is a process.


def test_one_that_waits_in_line_is_not_begun_and_the_next_in_line_is_served(machine: Machine) -> None:
    client = machine.start(
        holder=big(machine, called="holder"), mine=big(machine, called="mine"), rival=big(machine, called="rival")
    )
    with in_use(machine, client, "holder"):
        with asking(machine, "mine") as mine:
            machine.until(lambda: waits(machine, "mine"))
            rival = machine.daemon.client()
            rival.socket.settimeout(SLOW_S)
            rival.send("Load", {"model": "rival"})
            machine.until(lambda: waits(machine, "rival"))
        mine.close()
        machine.until(lambda: not waits(machine, "mine"))
        booked = machine.device(GPU)["bookedBytes"]
        assert booked == machine.daemon.model("holder")["bookedBytes"][GPU]
    rival.result()
    assert births(machine, "mine") == []
    free_of_all(machine, client)


def test_one_whose_deadline_passes_in_line_is_answered_and_not_begun(machine: Machine) -> None:
    client = machine.start(holder=big(machine, called="holder"), mine=big(machine, called="mine"))
    with in_use(machine, client, "holder"), asking(machine, "mine", timeoutSec=0.3) as mine:
        with pytest.raises(Refused) as refused:
            mine.result()
        assert refused.value.name == "io.lazyd.Timeout"
        assert not waits(machine, "mine")
    assert machine.daemon.model("holder")["state"] == "ready"
    assert births(machine, "mine") == []
    free_of_all(machine, client)


def test_one_that_waits_for_bytes_that_the_driver_still_shows_is_not_begun(machine: Machine) -> None:
    machine.driver.set_release(3.0)
    client = machine.start(holder=big(machine, called="holder"), mine=big(machine, called="mine"))
    client.call("Load", model="holder")
    (pid,) = births(machine, "holder")
    with asking(machine, "mine"):
        machine.until(lambda: gone(pid))
        assert machine.driver.used(1) == 3000 * MIB
        assert waits(machine, "mine")
    machine.until(lambda: not waits(machine, "mine"))
    machine.until(lambda: machine.driver.used(1) == 0)
    machine.until(lambda: machine.device(GPU)["bookedBytes"] == 0)
    assert births(machine, "mine") == []
    free_of_all(machine, client)


@pytest.mark.skipif(not (MODELS / "smollm2.gguf").exists(), reason=f"{MODELS} has no models (make setup)")
@pytest.mark.parametrize("unload", [False, True], ids=["its client leaves", "it is unloaded"])
def test_one_whose_dry_run_is_under_way_is_not_begun(daemon: Daemon, unload: bool) -> None:
    (daemon.root / "hangs" / "llama_cpp").mkdir(parents=True)
    (daemon.root / "hangs" / "llama_cpp" / "__init__.py").write_text("import time; time.sleep(600)")
    daemon.configure(f"""
@echo
[models.smol]
runtime = "llama_cpp"
path = "{MODELS / "smollm2.gguf"}"
python_path = ["{daemon.root / "hangs"}"]
[daemon]
max_zygotes = 0
""")
    with daemon.start() as client:
        with daemon.client() as mine:
            mine.send("Load", {"model": "smol"})
            daemon.until(lambda: any(name_of(pid).startswith("lazyd:") for pid in daemon.processes()))
            assert daemon.model("smol")["state"] == "cold"
            assert ram_booked(client) > 0
            client.call("Call", model="echo", method="count", args=[1])  # nobody else is held up
            if unload:
                client.call("Unload", models=["smol"])
                with pytest.raises(Refused, match="Cancelled"):
                    mine.result()
        client.call("Unload", all=True)
        daemon.until(lambda: ram_booked(client) == 0)
        nothing_runs(daemon)
        assert daemon.model("smol")["state"] == "cold"
        assert "smol loading" not in daemon.log_text()


def ram_booked(client: Client) -> int:
    return next(int(device["bookedBytes"]) for device in client.call("Status")["devices"] if device["name"] == "ram")


# While there is a process.


def starting(machine: Machine) -> dict[str, Any]:
    """Its interpreter does not come to its first line before the gate is there."""
    python = machine.daemon.root / "slow-python"
    python.write_text(
        f'#!/bin/sh\nwhile [ ! -e "{machine.gate}" ]; do sleep 0.05; done\nexec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return {"python": str(python)}


def loading(machine: Machine) -> dict[str, Any]:
    return {"gate": str(machine.gate)}


STAGES = [starting, loading]
Stage = Callable[[Machine], dict[str, Any]]


def is_there(machine: Machine, stage: Stage) -> bool:
    """The load has come to that stage."""
    if stage is starting:
        has_interpreter = any(name_of(pid) == "slow-python" for pid in machine.daemon.processes())
        return has_interpreter and machine.daemon.model("mine")["state"] == "loading"
    return machine.driver.used(1) == 3000 * MIB


@pytest.mark.parametrize("stage", STAGES)
def test_a_load_that_its_client_leaves_goes_on_and_the_next_client_has_it(machine: Machine, stage: Stage) -> None:
    client = machine.start(mine=big(machine, called="mine", **stage(machine)))
    with asking(machine, "mine"):
        machine.until(lambda: is_there(machine, stage))
    machine.until(lambda: not waits(machine, "mine"))
    assert machine.daemon.model("mine")["state"] == "loading"
    with asking(machine, "mine") as other:
        machine.gate.touch()
        other.result()
    assert len(births(machine, "mine")) == 1
    free_of_all(machine, client)


@pytest.mark.parametrize("stage", STAGES)
def test_a_load_that_nobody_waits_for_leaves_for_another(machine: Machine, stage: Stage) -> None:
    client = machine.start(mine=big(machine, called="mine", **stage(machine)), rival=big(machine, called="rival"))
    with asking(machine, "mine"):
        machine.until(lambda: is_there(machine, stage))
    machine.until(lambda: not waits(machine, "mine"))
    client.socket.settimeout(SLOW_S)
    client.call("Load", model="rival")
    assert all(map(gone, births(machine, "mine")))
    assert machine.driver.refused(1) == 0
    assert machine.daemon.model("mine")["state"] == "cold"
    free_of_all(machine, client)


@pytest.mark.parametrize("stage", STAGES)
def test_a_load_that_somebody_waits_for_goes_on_though_another_leaves_and_a_rival_comes(
    machine: Machine, stage: Stage
) -> None:
    client = machine.start(mine=big(machine, called="mine", **stage(machine)), rival=big(machine, called="rival"))
    with asking(machine, "mine") as stays:
        with asking(machine, "mine"):
            machine.until(lambda: machine.daemon.model("mine")["waiting"] == 2)
            machine.until(lambda: is_there(machine, stage))
        with asking(machine, "rival") as rival:
            machine.until(lambda: waits(machine, "rival"))
            assert machine.daemon.model("mine")["state"] == "loading"
            machine.gate.touch()
            stays.result()
            rival.result()
    assert len(births(machine, "mine")) == 1
    assert machine.driver.refused(1) == 0
    free_of_all(machine, client)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_an_unload_ends_a_load_and_its_process_at_once(machine: Machine, stage: Stage, force: bool) -> None:
    client = machine.start(mine=big(machine, called="mine", **stage(machine)))
    client.socket.settimeout(SLOW_S)
    with asking(machine, "mine") as mine:
        machine.until(lambda: is_there(machine, stage))
        assert client.call("Unload", models=["mine"], force=force)["unloaded"] == ["mine"]
        with pytest.raises(Refused, match="Cancelled"):
            mine.result()
    machine.until(lambda: machine.daemon.model("mine")["state"] == "cold")
    free_of_all(machine, client)


@pytest.mark.parametrize("stage", STAGES)
def test_a_deadline_that_passes_during_a_load_is_answered_and_the_load_goes_on(machine: Machine, stage: Stage) -> None:
    client = machine.start(mine=big(machine, called="mine", **stage(machine)))

    def gives_up_during_the_load() -> bool:
        with asking(machine, "mine", timeoutSec=0.5) as mine, pytest.raises(Refused) as refused:
            mine.result()
        assert refused.value.name == "io.lazyd.Timeout"
        return is_there(machine, stage)

    machine.until(gives_up_during_the_load)
    machine.gate.touch()
    machine.daemon.until_state("mine", "ready")
    assert len(births(machine, "mine")) == 1
    free_of_all(machine, client)


# The second try, and the way back.


RUNS_OUT = """
import os, time

class Model:
    def works(self): return True

def make(roll, gate):
    with open(roll, "a") as file: file.write(f"{os.getpid()}\\n")
    if len(open(roll).readlines()) == 1: raise MemoryError
    while not os.path.exists(gate): time.sleep(0.01)
    return Model()
"""


@pytest.mark.parametrize("ending", ["its client leaves", "it is unloaded"])
def test_the_second_try_after_a_want_of_memory(daemon: Daemon, ending: str) -> None:
    (daemon.root / "runs_out.py").write_text(RUNS_OUT)
    roll, gate = daemon.root / "roll", daemon.root / "gate"
    daemon.configure(f'@mine factory="runs_out:make" options.roll="{roll}" options.gate="{gate}"')
    with daemon.start() as client:
        with daemon.client() as mine:
            mine.send("Load", {"model": "mine"})
            daemon.until(lambda: roll.exists() and len(roll.read_text().splitlines()) == 2)
            if ending == "it is unloaded":
                assert client.call("Unload", models=["mine"])["unloaded"] == ["mine"]
                with pytest.raises(Refused, match="Cancelled"):
                    mine.result()
        if ending == "its client leaves":
            daemon.until(lambda: daemon.model("mine")["waiting"] == 0)
            gate.touch()
            daemon.until_state("mine", "ready")
            client.call("Unload", models=["mine"])
        daemon.until(lambda: ram_booked(client) == 0)
        assert all(gone(int(pid)) for pid in roll.read_text().split())
        nothing_runs(daemon)


@pytest.mark.parametrize("ending", ["its client leaves", "it is unloaded", "a rival comes"])
def test_one_on_its_way_back_from_being_parked(machine: Machine, ending: str) -> None:
    client = machine.start(
        mine=big(machine, called="mine", load_s=3.0, steps=60, idle_timeout="0.1s"), rival=big(machine, called="rival")
    )
    client.socket.settimeout(SLOW_S)
    with DataLine(client.call("Get", model="mine")) as line:
        line.call("tell")
    machine.daemon.until_state("mine", "parked")
    machine.until(lambda: machine.device(GPU)["bookedBytes"] == 0)
    (pid,) = births(machine, "mine")
    with asking(machine, "mine") as mine:
        machine.daemon.until_state("mine", "loading")
        machine.until(lambda: machine.driver.held(1, pid) > 0)
        if ending == "it is unloaded":
            assert client.call("Unload", models=["mine"])["unloaded"] == ["mine"]
            with pytest.raises(Refused, match="Cancelled"):
                mine.result()
    machine.until(lambda: not waits(machine, "mine"))
    if ending == "its client leaves":
        machine.until(lambda: machine.driver.held(1, pid) == 3000 * MIB)
        assert births(machine, "mine") == [pid]
    if ending == "a rival comes":
        client.call("Load", model="rival")
        assert machine.driver.refused(1) == 0
    free_of_all(machine, client)
    assert gone(pid)


def test_a_client_that_is_killed_is_one_that_leaves(machine: Machine) -> None:
    client = machine.start(holder=big(machine, called="holder"), mine=big(machine, called="mine"))
    with in_use(machine, client, "holder"):
        child = os.fork()
        if child == 0:
            try:
                with machine.daemon.client() as mine:
                    mine.send("Load", {"model": "mine"})
                    mine.receive()
            finally:
                os._exit(0)
        machine.until(lambda: waits(machine, "mine"))
        os.kill(child, 9)
        os.waitpid(child, 0)
        machine.until(lambda: not waits(machine, "mine"))
    assert births(machine, "mine") == []
    free_of_all(machine, client)
