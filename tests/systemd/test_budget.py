"""The ledger of the installed daemon, under the units' restrictions: the stand-in for NVIDIA's driver has two GPUs,
and the manager, the workers and the programs of reservations are four different users."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest

from tests.fakes.nvml.build import library

from .conftest import USER
from .daemon import PYTHON, Daemon
from .machine import CHECKOUT, LONGEST_S, Machine, eventually
from .units import HOST, MANAGER, Units

GIB = 1 << 30
PLACE = "/opt/lazyd-gpus"
DRIVER = f"{PLACE}/state/driver"
VARIABLES = f"STANDIN_DRIVER={DRIVER}", f"LD_LIBRARY_PATH={PLACE}/build/fakes"
CONFIGURATION = f"""
[models.voice]
runtime = "python"
factory = "tests.fakes.gpu_model:make"
python_path = ["{PLACE}"]
device = ["gpu0"]
memory = "4GiB"
options = {{ size_mib = 3072 }}
"""
MAKE = f"""
import sys
sys.path.insert(0, "{PLACE}")
from tests.fakes.nvml import GIB, StandIn
StandIn("{DRIVER}", gpus=[22 * GIB, 22 * GIB], release_s=0)
"""
PROGRAM = f"""
import os, sys
sys.path.insert(0, "{PLACE}")
from tests.fakes.nvml import GIB, StandIn
driver = StandIn("{DRIVER}")
*_, gpu = driver.visible(os.environ.get("CUDA_VISIBLE_DEVICES"))
held = driver.allocate(gpu, int(sys.argv[1]) * GIB), bytearray(300 << 20)
print(os.getpid(), flush=True)
sys.stdin.read()
"""
"""Holds so many GiB of the last GPU that it sees, and 300 MiB of RAM, until its input ends."""
AS_MANAGER = """
import json, os, sys
from lazyd.devices.pressure import STALL_US, WINDOW_US
from lazyd.devices.ram import Ram
from lazyd.manager.memory.holders import private_bytes, tree

program, host = map(int, sys.argv[1:])
pids = tree(program)
file = os.open(Ram(host).pressure_file(), os.O_RDWR | os.O_NONBLOCK)
try:
    os.write(file, f"some {STALL_US} {WINDOW_US}\\0".encode())
    rings = True
except PermissionError:  # before Linux 6.4
    rings = False
print(json.dumps({"programs": len(pids), "bytes": private_bytes(pids), "rings": rings}))
"""
AS_HOST = """
import json, sys
from pathlib import Path
from lazyd.host.cgroups import Cgroup
from lazyd.host.measure import counted, proportional
from lazyd.host.oom import kills

worker, cgroup = int(sys.argv[1]), Cgroup(Path("/sys/fs/cgroup" + sys.argv[2]))
seen = {"proportional": proportional(worker), "counted": counted(worker), "kills": kills(cgroup)}
print(json.dumps({**seen, "pids": cgroup.pids(), "has_memory": Path(cgroup.path, "memory.stat").exists(),
                  "charged": cgroup.memory_bytes()}))
"""


@pytest.fixture(scope="module")
def daemon(machine: Machine) -> Iterator[Daemon]:
    """The system's daemon on a machine with two GPUs, running."""
    units = Units(machine)
    before = units.run("cat", units.configuration).stdout
    units.reset()
    library()
    for folder in ("tests/fakes", "build/fakes"):
        machine.run("mkdir", "-p", f"{PLACE}/{folder}")
        machine.run("cp", "-a", f"{CHECKOUT}/{folder}/.", f"{PLACE}/{folder}")
    machine.run("chmod", "-R", "a+rX", PLACE)
    machine.run("mkdir", f"{PLACE}/state")
    machine.run(PYTHON, "-I", "-c", MAKE)
    machine.run("chmod", "a+rw", DRIVER)
    units.write(units.configuration, CONFIGURATION)
    settings = "\n".join([f"ReadWritePaths={PLACE}/state", *(f"Environment={each}" for each in VARIABLES)])
    with ExitStack() as drop_ins:
        for unit in (MANAGER, HOST):
            drop_ins.enter_context(units.drop_in(unit, settings))
        units.systemctl("start", MANAGER)
        yield Daemon(units, USER)
        units.reset()
    units.write(units.configuration, before)
    machine.run("rm", "-r", PLACE)


@contextmanager
def program(daemon: Daemon, gib: int, *before: str) -> Iterator[int]:
    """A user's program that has its memory, started by the command `before`. Yields its pid."""
    file = f"{PLACE}/program.py"
    daemon.machine.write(file, PROGRAM)
    started = daemon.start("env", *VARIABLES, *before, PYTHON, "-I", file, str(gib))
    assert started.stdout is not None
    line = started.stdout.readline()
    try:
        assert line, started.communicate()[1]
        yield int(line)
    finally:
        _, error = started.communicate("", timeout=LONGEST_S)
    assert started.returncode == 0, error


def reserved(daemon: Daemon, where: str, gib: int) -> AbstractContextManager[int]:
    """A program in a reservation of 8 GiB. A shell stays its parent, so it is not a child of lazyctl."""
    eventually(lambda: device(daemon, where), 20, f"{where} is known")
    return program(daemon, gib, "lazyctl", "reserve", where, "8GiB", "--", "sh", "-c", '"$@"; exit $?', "sh")


def device(daemon: Daemon, name: str) -> dict[str, Any]:
    """What `Status` says of a device; nothing before it is known."""
    devices = json.loads(daemon.lazyctl("--json", "status").stdout)["devices"]
    return next((dict(each) for each in devices if each["name"] == name), {})


def probe(daemon: Daemon, unit: str, user: str, script: str, *arguments: object) -> dict[str, Any]:
    """Runs a script as a process of a unit would run: with its user, its view of files, and no capability."""
    nobody = ["--init-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    enter = ["nsenter", "--target", str(daemon.units.pid(unit)), "--mount"]
    identity = ["setpriv", f"--reuid={user}", f"--regid={user}", *nobody]
    out = daemon.machine.run(*enter, *identity, PYTHON, "-I", "-c", script, *map(str, arguments)).stdout
    found: dict[str, Any] = json.loads(out)
    return found


def test_what_a_reserved_program_of_another_user_holds_is_not_foreign(daemon: Daemon) -> None:
    with reserved(daemon, "gpu1", 6), program(daemon, 2):  # the sample that has the second has the first, too
        seen = eventually(lambda: (d := device(daemon, "gpu1"))["foreignBytes"] and d, 20, "the stranger")
        assert (seen["bookedBytes"], seen["reservedBytes"], seen["foreignBytes"]) == (8 * GIB, 8 * GIB, 2 * GIB)
    eventually(lambda: device(daemon, "gpu1")["bookedBytes"] == 0, 20, "the end of the reservation")


def test_what_a_worker_holds_is_measured(daemon: Daemon) -> None:
    assert daemon.lazyctl("load", "voice").returncode == 0
    held = eventually(lambda: daemon.shown("voice")["measuredBytes"].get("gpu0"), 20, "a measurement")
    assert held == 3 * GIB
    (worker,) = daemon.workers("voice")
    cgroup = daemon.machine.run("cat", f"/proc/{worker}/cgroup").stdout.strip().rpartition("0::")[2]
    seen = probe(daemon, HOST, "lazyd-worker", AS_HOST, worker, cgroup)
    assert seen["pids"] == [worker]
    private, files = seen["proportional"]
    assert 0 < private <= seen["counted"][0]
    assert files > 0
    assert (seen["charged"] is not None) == seen["has_memory"]
    assert seen["kills"] == 0 or not seen["has_memory"]  # without a cgroup the whole machine's are counted
    assert daemon.shown("voice")["measuredBytes"]["ram"] > 0
    assert daemon.lazyctl("unload", "voice").returncode == 0
    assert device(daemon, "gpu0")["bookedBytes"] == 0


def test_the_manager_may_see_what_reservations_hold_of_ram_and_hear_of_pressure(daemon: Daemon) -> None:
    with reserved(daemon, "gpu1", 1) as pid:
        seen = probe(daemon, MANAGER, "lazyd", AS_MANAGER, pid, daemon.units.pid(HOST))
    assert seen["programs"] == 1
    assert seen["bytes"] > 300 << 20
    assert seen["rings"] or kernel() < (6, 4)


def kernel() -> tuple[int, int]:
    major, minor, *_ = re.split(r"\D+", os.uname().release)
    return int(major), int(minor)


def test_a_reservation_outlives_the_manager_and_its_bytes_stay_its_own(daemon: Daemon) -> None:
    with reserved(daemon, "gpu1", 6):
        for end in (lambda: daemon.units.systemctl("restart", MANAGER), daemon.units.kill):
            before = daemon.units.pid(MANAGER)
            end()
            daemon.units.started_anew(MANAGER, after=before)
            with program(daemon, 2):
                seen = eventually(lambda: (d := device(daemon, "gpu1")).get("foreignBytes") and d, 20, "the stranger")
                assert (seen["reservedBytes"], seen["foreignBytes"]) == (8 * GIB, 2 * GIB)
            eventually(lambda: device(daemon, "gpu1")["foreignBytes"] == 0, 20, "its end")
    eventually(lambda: device(daemon, "gpu1")["bookedBytes"] == 0, 20, "the end of the reservation")


def test_what_one_user_has_reserved_does_not_count_for_another(daemon: Daemon) -> None:
    with reserved(daemon, "gpu1", 1):
        refused = daemon.lazyctl("reserve", "--no-wait", "gpu1", "9GiB", "--", "true")
        assert refused.returncode == 75
        assert "max_reserved" in refused.stderr
        daemon.machine.run("lazyctl", "reserve", "gpu1", "9GiB", "--", "true")
