"""Real manager, host and workers on the stand-in driver: GPUs that are shared, full, slow, deaf or lost."""

from __future__ import annotations

import os
import time

import pytest

from lazyd.core.ledger import FRESH_S
from tests.fakes.nvml import GIB, MIB
from tests.fakes.nvml.driver import EVERYTHING, UNKNOWN, VERSION_MISMATCH

from .conftest import DataLine, Refused
from .gpu_machine import Machine
from .gpu_machine import machine as machine

MEMORY = "nvmlDeviceGetMemoryInfo_v2"
INIT = "nvmlInitWithFlags"
# Who holds what.


def test_a_model_is_kept_to_its_gpu_and_its_bytes_are_not_a_strangers(machine: Machine) -> None:
    machine.driver.stranger(0, GIB)
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024},
        below={"device": ["gpu1"], "size_mib": 512, "in_child": True},
    )
    for name, gpu, size in (("here", 0, GIB), ("below", 1, 512 * MIB)):
        with DataLine(client.call("Get", model=name)) as line:
            assert line.call("tell")["bytes"] == [size]
            assert line.call("tell")["gpus"] == [gpu]
    assert (machine.driver.used(0), machine.driver.used(1)) == (2 * GIB, 512 * MIB)
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == GIB)
    machine.until(lambda: machine.device("gpu1")["foreignBytes"] == 0)


SEES = """
import os
AT_IMPORT = os.environ.get("CUDA_VISIBLE_DEVICES")

class Sees:
    def tell(self):
        with open("/proc/self/environ", "rb") as file:
            executed_with = dict(one.split(b"=", 1) for one in file.read().split(b"\\0") if one)
        return [AT_IMPORT, os.environ["CUDA_DEVICE_ORDER"], executed_with[b"CUDA_VISIBLE_DEVICES"].decode()]

def make(): return Sees()
"""


def test_a_worker_is_shown_its_gpu_by_uuid_before_it_imports_anything(machine: Machine) -> None:
    (machine.daemon.root / "sees.py").write_text(SEES)
    its = {"factory": "sees:make", "python_path": [str(machine.daemon.root)], "memory": "1MiB"}
    client = machine.start(on={**its, "device": "gpu1"}, off={**its, "device": "ram"})
    for model, shown in (("on", machine.driver.uuid(1)), ("off", "")):
        with DataLine(client.call("Get", model=model)) as line:
            assert line.call("tell") == [shown, "PCI_BUS_ID", shown]


def test_a_stranger_that_comes_while_something_is_loaded_is_counted_soon(machine: Machine) -> None:
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024})
    client.call("Load", model="here")
    stranger = machine.driver.stranger(0, 3 * GIB)
    # Once a second; where nothing is booked it would be every 15 s.
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == 3 * GIB, within_s=10)
    stranger.free()
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == 0, within_s=10)


def test_what_strangers_hold_is_not_loaded_upon_and_the_refusal_says_so(machine: Machine) -> None:
    stranger = machine.driver.stranger(1, 2 * GIB)
    client = machine.start(small={"device": ["gpu1"], "size_mib": 1}, big={"device": ["gpu1"], "size_mib": 3000})
    client.call("Load", model="small")  # what is booked there is looked at every second
    with pytest.raises(Refused, match=r"other programs use 2\.0 GiB") as refused:
        client.call("Load", model="big")
    assert refused.value.name == "io.lazyd.NoRoom"
    assert machine.driver.highest(1) == 2 * GIB + MIB
    stranger.free()
    machine.until(lambda: machine.device("gpu1")["foreignBytes"] == 0)
    client.call("Load", model="big")
    assert machine.driver.refused(1) == 0


def test_a_worker_that_the_driver_does_not_show_is_no_stranger_and_is_given_back(machine: Machine) -> None:
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024, "hidden": True},
        beside={"device": ["gpu0"], "size_mib": 6144},
    )
    client.call("Load", model="here")
    client.call("Load", model="beside")  # with 1 GiB of strangers there would be no room for it
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == 0)
    client.call("Unload", models=["here"])
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 6145 * MIB)
    assert machine.device("gpu0")["quarantinedBytes"] == 0
    assert machine.device("gpu0")["foreignBytes"] == 0


def test_an_instance_of_a_divided_gpu_is_a_device_of_its_own(machine: Machine) -> None:
    one, other = machine.driver.divide(0, [2 * GIB, 4 * GIB])
    client = machine.start(
        here={"device": ["gpu1"], "size_mib": 3000},
        rest={"device": "gpu", "size_mib": 3000},
        full={"device": ["gpu0"], "size_mib": 3000},
    )
    machine.until(lambda: machine.devices().keys() == {"ram", "gpu0", "gpu1", "gpu2"})
    assert [machine.device(f"gpu{n}")["totalBytes"] for n in range(3)] == [2 * GIB, 4 * GIB, 4 * GIB]
    for model, number in (("here", other), ("rest", 1)):
        with DataLine(client.call("Get", model=model)) as line:
            assert line.call("tell")["gpus"] == [number]
    with pytest.raises(Refused, match=r"needs 2\.9 GiB of gpu0, whose budget is 2\.0 GiB"):
        client.call("Load", model="full")
    shown = machine.until(lambda: (d := machine.device("gpu1"))["bookedBytes"] == 3001 * MIB and d)
    assert shown["uuid"] == machine.driver.uuid(other)
    assert machine.driver.used(one) == 0


# What is configured, and is not so.


def test_a_budget_that_is_larger_than_its_gpu_is_said_and_counts_as_all_of_it(machine: Machine) -> None:
    client = machine.start(
        {"gpu1": "64GiB"},
        fits={"device": "gpu1", "size_mib": 4000},
        large={"device": "gpu1", "size_mib": 5000},
    )
    budget, memory = machine.until(lambda: client.call("Status")["daemon"].get("warnings"))
    where = f"{machine.daemon.config}:3: budget.gpu1: "
    assert budget.startswith(f'{where}64GiB is more than gpu1 has, and counts as "100%"; write at most "4GiB"')
    assert "models.large.memory: 5001MiB is more than gpu1 has, so it cannot be loaded" in memory
    machine.until(lambda: "gpu1" in machine.devices())
    assert machine.device("gpu1")["budgetBytes"] == 4 * GIB
    client.call("Load", model="fits")
    with pytest.raises(Refused, match=r"needs 4\.9 GiB of gpu1, whose budget is 4\.0 GiB"):
        client.call("Load", model="large")


def test_a_gpu_that_is_named_and_not_there_is_said_and_only_what_needs_it_is_refused(machine: Machine) -> None:
    client = machine.start(
        {"gpu5": "1GiB"},
        there={"device": "gpu6", "size_mib": 1},
        either={"device": ["gpu6", "gpu1"], "size_mib": 1},
    )
    warnings = machine.until(lambda: client.call("Status")["daemon"].get("warnings"))
    said = [line.split(": ", 1)[1] for line in warnings]
    assert any(line.startswith("budget.gpu5: there is no gpu5 here (devices: ") for line in said)
    assert any(line.startswith("models.there.device: there is no gpu6 here, so it cannot be loaded") for line in said)
    assert any(line.startswith("models.either.device: there is no gpu6 here; name a device") for line in said)
    with pytest.raises(Refused, match=r"no device of this machine suits it \(device = gpu6\)") as refused:
        client.call("Load", model="there")
    assert refused.value.name == "io.lazyd.NoRoom"
    client.call("Load", model="either")
    assert machine.driver.used(1) == MIB


@pytest.mark.parametrize("tier", ["on-demand", "resident"])
def test_a_model_that_uses_more_than_it_declares_is_booked_with_that_and_with_a_hard_limit_ended_when_idle(
    machine: Machine, tier: str
) -> None:
    client = machine.start(
        grows={"device": "gpu0", "size_mib": 511, "call_peak_mib": 1025, "hard_limit": True, "tier": tier}
    )
    with DataLine(client.call("Get", model="grows")) as line:
        pid = line.call("tell")["pid"]
        line.begin("run", str(machine.gate))
        shown = machine.until(lambda: (d := machine.device("gpu0"))["bookedBytes"] == 1536 * MIB and d)
        assert shown["foreignBytes"] == 0
        machine.until_logged("it uses more of gpu0 than was booked")
        machine.until_logged("it uses 3.0 times what it was booked with on gpu0")
        assert machine.daemon.model("grows")["state"] == "ready"  # a call is in flight
        machine.gate.touch()
        assert line.end()["pid"] == pid
        machine.until_logged("it has outgrown what it was booked with (hard_limit)")
    machine.until(lambda: not os.path.exists(f"/proc/{pid}"))
    if tier == "resident":
        machine.until_state("grows", "ready")
    else:
        machine.until_state("grows", "cold")
        machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 0)


# Release.


def test_the_next_load_waits_for_the_bytes_of_the_last_one_and_starts_when_they_are_seen(machine: Machine) -> None:
    machine.driver.set_release(1.5)
    client = machine.start(
        one={"device": ["gpu1"], "size_mib": 3000},
        two={"device": ["gpu1"], "size_mib": 3000},
    )
    client.call("Load", model="one")
    first = machine.daemon.model("one")["workers"][0]["pid"]
    client.send("Load", {"model": "two"})
    machine.until(lambda: machine.driver.held(1, first) == 0)  # the process is gone, and its bytes still show
    client.result()
    assert (machine.driver.refused(1), machine.driver.highest(1)) == (0, 3000 * MIB)
    assert "did not come back" not in machine.daemon.log_text()


def test_what_the_driver_still_lists_of_a_dead_process_is_its_workers(machine: Machine) -> None:
    machine.driver.list_dead()
    machine.driver.set_release(1.0)
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024})
    client.call("Load", model="here")
    client.call("Unload", models=["here"])  # answered when its bytes are seen to be free
    assert machine.driver.used(0) == 0
    assert machine.device("gpu0")["bookedBytes"] == 0


# Drivers that do not answer.


def test_a_gpu_whose_driver_hangs_takes_no_loads_and_disturbs_no_others(machine: Machine) -> None:
    client = machine.start(
        small={"device": ["gpu0"], "size_mib": 64},
        here={"device": ["gpu0"], "size_mib": 1024},
        there={"device": ["gpu1"], "size_mib": 1024},
    )
    client.call("Load", model="small")
    machine.driver.hang(MEMORY, gpu=0)
    with machine.client() as leaving, machine.client() as other:
        leaving.send("Unload", {"models": ["small"]})  # so that the GPU is asked, and what was seen before is old
        machine.until(lambda: machine.device("gpu0")["state"] == "silent")
        client.send("Load", {"model": "here"})
        other.call("Load", model="there")
        assert machine.daemon.model("here")["state"] == "cold"
        assert machine.device("gpu1")["state"] == "ok"
        machine.driver.heal()
        client.result()
    machine.until(lambda: machine.driver.used(0) == GIB)
    assert machine.device("gpu0")["state"] == "ok"


def test_a_driver_that_fails_in_the_middle_of_a_load_does_not_stop_it(machine: Machine) -> None:
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024, "gate": str(machine.gate)})
    client.send("Load", {"model": "here"})
    machine.until(lambda: machine.driver.used(0) == GIB)
    for function in (MEMORY, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses_v3"):
        machine.driver.fail(function, UNKNOWN)
    machine.gate.touch()
    client.result()
    machine.driver.heal()
    client.call("Unload", models=["here"])
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 0)


def test_a_driver_that_fails_at_every_call_admits_nothing_and_ends_nothing(machine: Machine) -> None:
    client = machine.start(
        small={"device": ["gpu0"], "size_mib": 1},
        here={"device": ["gpu0"], "size_mib": 1024},
        calm={"device": "ram", "size_mib": 0},
    )
    with DataLine(client.call("Get", model="small")) as line:
        machine.driver.fail(EVERYTHING)
        machine.until_logged("gpu0 silent: no answer: NVML: Unknown Error")
        assert machine.device("gpu0")["state"] == "silent"  # though nothing has asked for it
        time.sleep(FRESH_S)  # what was seen before that is old news then
        with machine.client() as other:
            with pytest.raises(Refused, match="Timeout") as refused:
                other.call("Load", model="here", timeoutSec=2)
            assert "gpu0" in refused.value.parameters["reason"]
            other.call("Load", model="calm")
        assert machine.daemon.model("small")["state"] == "ready"
        assert line.call("tell")["bytes"] == [MIB]
        assert machine.device("ram")["state"] == "ok"
    machine.driver.heal()
    machine.until(lambda: {device["state"] for device in machine.devices().values()} == {"ok"})
    client.call("Load", model="here")


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (EVERYTHING, UNKNOWN, "NVML: Unknown Error"),
        (INIT, UNKNOWN, "NVML: Unknown Error"),
        (INIT, VERSION_MISMATCH, "NVML: RM has detected an NVML/RM version mismatch."),
    ],
)
def test_a_driver_that_fails_from_the_start_is_said_and_ram_serves_until_it_answers(
    machine: Machine, function: str, error: int, said: str
) -> None:
    machine.driver.fail(function, error)
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024}, calm={"device": "ram", "size_mib": 0})
    machine.until_logged(f"NVIDIA driver silent: no answer: {said}")
    (warning,) = client.call("Status")["daemon"]["warnings"]
    assert warning.startswith(f"NVIDIA driver: no answer: {said.rstrip('.')}; its GPUs are used as soon as it answers")
    client.call("Load", model="calm")
    for method, given in (("Load", {"model": "here"}), ("Reserve", {"device": "gpu0", "bytes": MIB})):
        with pytest.raises(Refused, match="NoRoom") as refused:
            client.call(method, **given)
        assert said.rstrip(".") in refused.value.parameters["reason"]
        assert "correct" not in refused.value.parameters["remedy"]
    assert list(machine.devices()) == ["ram"]
    machine.driver.heal()
    machine.until(lambda: machine.devices().keys() == {"ram", "gpu0", "gpu1"})
    assert "warnings" not in client.call("Status")["daemon"]
    client.call("Load", model="here")


def test_a_driver_that_takes_its_time_at_the_start_is_waited_for_by_what_may_use_its_gpus(machine: Machine) -> None:
    machine.driver.hang(INIT, 2.0)
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024},
        either={"device": ["gpu1", "ram"], "size_mib": 512},
        calm={"device": "ram", "size_mib": 0},
    )
    with machine.client() as other, machine.client() as third, machine.client() as holder:
        client.send("Load", {"model": "here"})
        other.send("Load", {"model": "either"})
        holder.send("Reserve", {"device": "gpu1", "bytes": GIB})
        third.call("Load", model="calm")
        client.result()
        other.result()
        assert holder.result()["uuid"] == machine.driver.uuid(1)
    assert (machine.driver.used(0), machine.driver.used(1)) == (GIB, 512 * MIB)


def test_a_driver_that_hangs_at_the_start_holds_up_neither_the_daemon_nor_ram(machine: Machine) -> None:
    machine.driver.hang(INIT)
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024}, calm={"device": "ram", "size_mib": 0})
    client.call("Load", model="calm")
    assert machine.driver.hanging == 1
    machine.driver.heal()
    machine.until(lambda: "gpu0" in machine.devices())
    client.call("Load", model="here")


def test_a_machine_whose_driver_is_not_loaded_has_ram_alone(machine: Machine) -> None:
    machine.driver.unload()
    client = machine.start(here={"size_mib": 0}, there={"device": "gpu", "size_mib": 1})
    assert list(machine.devices()) == ["ram"]
    client.call("Load", model="here")
    with pytest.raises(Refused, match="no device of this machine suits it"):
        client.call("Load", model="there")
    assert "silent" not in machine.daemon.log_text()


# GPUs that are lost.


def test_a_gpu_that_falls_off_the_bus_takes_its_models_along_and_no_others(machine: Machine) -> None:
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024},
        there={"device": ["gpu1"], "size_mib": 1024},
    )
    client.call("Load", model="here")
    client.call("Load", model="there")
    machine.driver.lose(0)
    machine.until_state("here", "cold")
    assert machine.daemon.model("there")["state"] == "ready"
    with pytest.raises(Refused, match="gpu0 is lost: it has fallen off the bus"):
        client.call("Load", model="here", timeoutSec=2)
    machine.driver.find(0)
    machine.until_logged("device back")
    client.call("Load", model="here")


def test_a_gpu_that_falls_off_the_bus_ends_the_load_on_it_and_takes_loads_when_it_is_back(machine: Machine) -> None:
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024, "gate": str(machine.gate)},
        either={"device": "gpu", "size_mib": 2048, "gate": str(machine.gate)},
    )
    with machine.client() as other:
        client.send("Load", {"model": "here"})
        machine.until(lambda: machine.driver.used(0) == GIB)
        other.send("Load", {"model": "either"})
        machine.until(lambda: machine.driver.used(0) + machine.driver.used(1) == 3 * GIB)
        machine.driver.lose(0)
        with pytest.raises(Refused, match="gpu0 is lost: it has fallen off the bus") as refused:
            client.result()
        assert refused.value.name == "io.lazyd.NoRoom"
        machine.gate.touch()
        other.result()  # it was loading on the other GPU, or is loaded there now
    assert machine.device("gpu0")["state"] == "lost"
    machine.driver.find(0)
    machine.until(lambda: machine.device("gpu0")["state"] == "ok")
    client.call("Load", model="here")
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 1025 * MIB)
    assert machine.driver.used(0) == GIB


def test_a_gpu_that_is_taken_out_keeps_its_number_for_when_it_is_put_back(machine: Machine) -> None:
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024},
        there={"device": ["gpu1"], "size_mib": 1024},
    )
    client.call("Load", model="here")
    machine.driver.remove(0)
    machine.until_state("here", "cold")
    with DataLine(client.call("Get", model="there")) as line:
        assert line.call("tell")["gpus"] == [1]
    machine.driver.put_back(0)
    machine.until(lambda: machine.device("gpu0")["state"] == "ok")
    with DataLine(client.call("Get", model="here")) as line:
        assert line.call("tell")["gpus"] == [0]
