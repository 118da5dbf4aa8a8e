"""Loads that find no memory, through a real daemon: told apart, learned from, tried once more, then refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB, MIB

from .conftest import Client, Daemon, Refused
from .gpu_machine import Machine, machine
from .host_driver import MODELS

__all__ = ["machine"]

SLOW_S = 120.0

MANNERS = ["torch", "cuda", "abort"]


def started(machine: Machine) -> int:
    """How many processes were started for the model "greedy"."""
    roll = machine.daemon.root / "roll"
    return len(roll.read_text().splitlines()) if roll.exists() else 0


def greedy(machine: Machine, **words: Any) -> dict[str, Any]:
    """A model that needs more of a GPU of 8 GiB than it declares, slowly enough to be watched."""
    roll = str(machine.daemon.root / "roll")
    return {"device": ["gpu0"], "memory": "1GiB", "load_s": 1.5, "steps": 30, "roll": roll, **words}


def foreseen(client: Client, model: str = "greedy") -> dict[str, Any]:
    prediction: dict[str, Any] = client.call("Describe", model=model)["prediction"]["gpu"]
    return prediction


@pytest.mark.parametrize("error", MANNERS)
def test_a_load_that_needs_more_than_was_booked_makes_room_and_is_tried_once_more(machine: Machine, error: str) -> None:
    slowly = {"load_s": 4.0, "steps": 60}  # seen with nearly all that there was, though samples come late
    client = machine.start(
        idle={"device": ["gpu0"], "size_mib": 3000}, greedy=greedy(machine, size_mib=6000, error=error, **slowly)
    )
    client.socket.settimeout(SLOW_S)
    client.call("Load", model="idle")
    client.call("Load", model="greedy")
    assert started(machine) == 2
    assert machine.driver.refused(0) == 1
    assert machine.daemon.model("idle")["evictions"] == 1
    learned = foreseen(client)
    assert learned["source"] == "learned"
    assert learned["peakBytes"]["gpu"] > 4 * GIB
    assert "it is tried once more" in machine.daemon.log_text()


@pytest.mark.parametrize("error", MANNERS)
def test_the_second_time_it_is_refused_and_everything_comes_back(machine: Machine, error: str) -> None:
    client = machine.start(greedy=greedy(machine, size_mib=9000, memory="7GiB", error=error))
    client.socket.settimeout(SLOW_S)
    with pytest.raises(Refused) as refused:
        client.call("Load", model="greedy")
    assert refused.value.name == "io.lazyd.NoRoom"
    assert started(machine) <= 2
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 0)
    machine.until(lambda: machine.driver.used(0) == 0)
    with machine.daemon.client() as other:
        assert other.call("Status")["daemon"].get("problems", []) == []


def test_what_a_stranger_took_meanwhile_is_no_lesson_and_takes_nobody_along(machine: Machine) -> None:
    client = machine.start(
        idle={"device": ["gpu0"], "size_mib": 1000},
        greedy=greedy(machine, size_mib=6000, memory="6100MiB", load_s=3.0),
    )
    client.socket.settimeout(SLOW_S)
    client.call("Load", model="idle")
    client.send("Load", {"model": "greedy"})
    machine.until(lambda: machine.driver.used(0) > 2000 * MIB)
    machine.driver.stranger(0, 4 * GIB - 200 * MIB)
    with pytest.raises(Refused, match=r"other programs use 3\.8 GiB") as refused:
        client.result()
    assert refused.value.name == "io.lazyd.NoRoom"
    assert started(machine) == 1
    assert machine.driver.refused(0) == 1
    assert foreseen(client)["source"] == "declared"
    assert machine.daemon.model("idle")["state"] == "ready"


def test_a_failure_of_another_kind_is_not_repeated_and_takes_nobody_along(machine: Machine) -> None:
    says = "CUDA error: an illegal memory access was encountered"
    client = machine.start(
        idle={"device": ["gpu0"], "size_mib": 4000}, greedy=greedy(machine, size_mib=2000, memory="2100MiB", fails=says)
    )
    client.socket.settimeout(SLOW_S)
    client.call("Load", model="idle")
    with pytest.raises(Refused, match="illegal memory access") as refused:
        client.call("Load", model="greedy")
    assert refused.value.name == "io.lazyd.LoadFailed"
    assert started(machine) == 1
    idle = machine.daemon.model("idle")
    assert (idle["state"], idle["evictions"]) == ("ready", 0)
    assert foreseen(client)["source"] == "declared"
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == idle["bookedBytes"]["gpu0"])


LIMITED = """
import os, resource

def limit():
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (100 << 20),) * 2)

class Model:
    def works(self): return True

def make(roll):
    with open(roll, "a") as file: file.write("once\\n")
    limit()
    bytearray(1 << 30)
    return Model()
"""


def test_a_load_in_ram_that_raises_memory_error_is_tried_once_more_and_then_refused(daemon: Daemon) -> None:
    (daemon.root / "limited.py").write_text(LIMITED)
    roll = daemon.root / "roll"
    daemon.configure(f'@echo\n@greedy factory="limited:make" options.roll="{roll}"')
    with daemon.start() as client:
        client.call("Load", model="echo")
        with pytest.raises(Refused, match="it ran out of memory twice: MemoryError") as refused:
            client.call("Load", model="greedy")
        assert refused.value.name == "io.lazyd.NoRoom"
        assert refused.value.parameters["device"] == "ram"
        assert roll.read_text().splitlines() == ["once", "once"]
        assert daemon.model("echo")["state"] == "ready"


LIMITED_LLAMA = """
import functools, sys
sys.path.append({root!r})
import limited
del sys.modules["llama_cpp"]
sys.path.remove({folder!r})
import llama_cpp
make = llama_cpp.Llama.__init__
@functools.wraps(make)
def limited_make(*args, **kwargs):
    if open("/proc/self/comm").read().strip() != "lazyd:dry run":
        limited.limit()
    make(*args, **kwargs)
llama_cpp.Llama.__init__ = limited_make
"""


@pytest.mark.skipif(not (MODELS / "smollm2.gguf").exists(), reason=f"{MODELS} has no models (make setup)")
@pytest.mark.parametrize(("use_mmap", "n_ctx"), [("true", 8192), ("false", 512)], ids=["cache", "weights"])
def test_llama_cpp_itself_says_that_it_finds_no_memory(daemon: Daemon, use_mmap: str, n_ctx: int) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (make setup)")
    (daemon.root / "limited.py").write_text(LIMITED)
    folder = daemon.root / "limits" / "llama_cpp"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(LIMITED_LLAMA.format(root=str(daemon.root), folder=str(folder.parent)))
    daemon.configure(llama(folder.parent, use_mmap, n_ctx))
    with daemon.start() as client:
        client.socket.settimeout(SLOW_S)
        with pytest.raises(Refused, match="it ran out of memory twice") as refused:
            client.call("Load", model="smol")
        assert refused.value.name == "io.lazyd.NoRoom"


def llama(folder: Path, use_mmap: str, n_ctx: int) -> str:
    options = f"{{ n_ctx = {n_ctx}, use_mmap = {use_mmap}, n_threads = 1, n_threads_batch = 1 }}"
    return f"""
[models.smol]
runtime = "llama_cpp"
path = "{MODELS / "smollm2.gguf"}"
python_path = ["{folder}"]
options = {options}
"""
