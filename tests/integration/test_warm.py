"""Warm in RAM: real files, read by a real process of a real host."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lazyd import places
from lazyd.manager.pages.sampling import cached_fraction

from .conftest import Client, Daemon, Refused, gone

MIB = 1 << 20
SMALL = 4 * MIB
"""May be locked by anybody: the usual limit is 8 MiB."""
DROP_S = 2.0
"""How long it is tried to drop a file from the page cache."""
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
IDLE = 3 << 13
PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14


def file_of(daemon: Daemon, name: str, size: int = SMALL) -> Path:
    """A file of a model, with something in it, and on its disk."""
    path = daemon.root / f"{name}.bin"
    with path.open("wb") as file:
        for _ in range(0, size, MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())
    return path


def drop(path: Path) -> None:
    """Out of the page cache. Skips the test where that is not possible, or cannot be seen."""
    deadline = time.monotonic() + DROP_S
    while True:  # a page that another process has in hand just now stays
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        part = cached_fraction([str(path)])
        if part == 0.0 or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    if part != 0.0:
        pytest.skip(f"{path.parent} does not let files be dropped from memory, or does not say so (cached: {part})")


def configure(daemon: Daemon, *names: str, **settings: str) -> None:
    more = "".join(f" {key}={value}" for key, value in settings.items())
    daemon.configure("\n".join(f'@{name} path="{daemon.root}/{name}.bin"{more}' for name in names))


def warmer(daemon: Daemon) -> int:
    """The process that reads."""
    found = [pid for pid in daemon.processes() if b"lazyd.host.warmer" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    (pid,) = found
    return pid


def halted(daemon: Daemon, client: Client, warmed: str) -> int:
    """The process that reads, halted before anything else is asked of it. It is there for a while after its work."""
    client.call("Warm", models=[warmed], tier="ram", wait=True)
    pid = warmer(daemon)
    os.kill(pid, signal.SIGSTOP)
    return pid


def before_a(daemon: Daemon, **settings: str) -> tuple[Client, int]:
    """A daemon that has read the file of `s`, and not that of `a`: the process that reads is halted. A client, and its
    pid."""
    file_of(daemon, "s")
    drop(file_of(daemon, "a"))
    configure(daemon, "a", "s", **settings)
    client = daemon.start()
    return client, halted(daemon, client, "s")


def waits(daemon: Daemon, name: str) -> Client:
    """A client that waits for a model to be warm. What others ask after this comes after it."""
    client = daemon.client()
    client.call("Health")  # it is let in
    client.send("Warm", {"models": [name], "tier": "ram", "wait": True})
    with daemon.client() as other:
        other.call("Health")
    return client


def locked_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmLck:"))


def ram(client: Client) -> dict[str, Any]:
    device: dict[str, Any] = next(d for d in client.call("Status")["devices"] if d["name"] == "ram")
    return device


def test_files_are_read_into_memory(daemon: Daemon) -> None:
    path = file_of(daemon, "a", 64 * MIB)
    drop(path)
    configure(daemon, "a")
    client = daemon.start()
    (model,) = client.call("Warm", models=["a"], tier="ram", wait=True)["models"]
    assert (model["state"], model["residency"], model["cachedFraction"]) == ("cold", "warm", 1.0)
    assert (cached_fraction([str(path)]) or 0.0) > 0.9
    assert model["bookedBytes"] == {}


def test_without_wait_it_is_answered_at_once_and_goes_on(daemon: Daemon) -> None:
    client, pid = before_a(daemon)
    (model,) = client.call("Warm", models=["a"], tier="ram")["models"]
    assert model["residency"] == "cold"
    os.kill(pid, signal.SIGCONT)
    daemon.until(lambda: daemon.model("a")["residency"] == "warm")


def test_with_more_it_tells_how_far_it_is(daemon: Daemon) -> None:
    path = daemon.root / "a.bin"
    path.touch()
    os.truncate(path, 1024 * MIB)  # a hole: read without a disk, and in more than one step on any machine
    configure(daemon, "a")
    client = daemon.start()
    steps = [
        reply["models"][0].get("cachedFraction") for reply in client.stream("Warm", models=["a"], tier="ram", wait=True)
    ]
    assert len(steps) > 1
    assert steps == sorted(steps)
    assert steps[-1] == 1.0


def test_a_model_that_left_is_warm_and_cold_once_its_files_are_dropped(daemon: Daemon) -> None:
    path = file_of(daemon, "a")
    configure(daemon, "a")
    client = daemon.start()
    client.call("Load", model="a")
    assert daemon.model("a")["residency"] == "hot"
    client.call("Unload", models=["a"])
    daemon.until(lambda: daemon.model("a")["residency"] == "warm")
    drop(path)
    daemon.until(lambda: daemon.model("a")["residency"] == "cold")
    assert daemon.model("a")["cachedFraction"] < 0.5


def test_two_that_want_the_same_have_it_read_once(daemon: Daemon) -> None:
    client, pid = before_a(daemon)
    events = daemon.client()
    events.call("Status")
    events.send("Subscribe", more=True)
    clients = [waits(daemon, "a") for _ in range(3)]
    os.kill(pid, signal.SIGCONT)
    for each in clients:
        assert each.result()["models"][0]["residency"] == "warm"
    client.call("Load", model="s")
    kinds = []
    while "ready" not in kinds:
        kinds.append(events.result()["kind"])
    assert kinds.count("warm") == 1


def test_unload_by_name_ends_the_reading(daemon: Daemon) -> None:
    client, pid = before_a(daemon)
    with waits(daemon, "a") as waiting:
        client.call("Unload", models=["a"])
        with pytest.raises(Refused) as refused:
            waiting.result()
    assert refused.value.name == "io.lazyd.Cancelled"
    os.kill(pid, signal.SIGCONT)
    (model,) = client.call("Warm", models=["a"], tier="ram", wait=True)["models"]
    assert model["residency"] == "warm"


def test_a_client_that_leaves_takes_nothing_along(daemon: Daemon) -> None:
    client, pid = before_a(daemon)
    with waits(daemon, "a"):
        client.call("Warm", models=["a"], tier="ram")
    os.kill(pid, signal.SIGCONT)
    daemon.until(lambda: daemon.model("a")["residency"] == "warm")


def test_a_time_limit_ends_the_wait_alone(daemon: Daemon) -> None:
    client, pid = before_a(daemon)
    with pytest.raises(Refused) as refused:
        client.call("Warm", models=["a"], tier="ram", wait=True, timeoutSec=0.1)
    assert (refused.value.name, refused.value.parameters["phase"]) == ("io.lazyd.Timeout", "reading")
    os.kill(pid, signal.SIGCONT)
    daemon.until(lambda: daemon.model("a")["residency"] == "warm")


@pytest.mark.parametrize("wait", [True, False])
def test_a_file_that_is_missing_is_named(daemon: Daemon, wait: bool) -> None:
    path = file_of(daemon, "a")
    configure(daemon, "a")
    client = daemon.start()
    path.unlink()
    with pytest.raises(Refused) as refused:
        client.call("Warm", models=["a"], tier="ram", wait=wait)
    assert refused.value.name == "io.lazyd.LoadFailed"
    assert f"{path}: {os.strerror(errno.ENOENT)}" in refused.value.parameters["reason"]


def test_a_file_that_changes_before_it_is_read_is_not_taken_for_the_one_that_was_wanted(daemon: Daemon) -> None:
    file_of(daemon, "s")
    path = file_of(daemon, "a")
    configure(daemon, "a", "s")
    client = daemon.start()
    pid = halted(daemon, client, "s")
    client.call("Warm", models=["a"], tier="ram")
    path.write_bytes(b"shorter")
    with waits(daemon, "a") as waiting:
        os.kill(pid, signal.SIGCONT)
        with pytest.raises(Refused) as refused:
            waiting.result()
    assert refused.value.parameters["reason"] == f"{path} has changed meanwhile"


@pytest.mark.parametrize(
    ("name", "reason"), [("plain", "no files"), ("family/*", "is a family"), ("family/x", "no files")]
)
def test_what_has_no_files_says_so(daemon: Daemon, name: str, reason: str) -> None:
    daemon.configure("@plain\n@family/*")
    client = daemon.start()
    with pytest.raises(Refused) as refused:
        client.call("Warm", models=[name], tier="ram", wait=True)
    assert refused.value.name == "org.varlink.service.InvalidParameter"
    assert reason in refused.value.parameters["parameter"]


def test_one_unknown_name_and_nothing_is_read(daemon: Daemon) -> None:
    file_of(daemon, "a")
    configure(daemon, "a")
    client = daemon.start()
    with pytest.raises(Refused):
        client.call("Warm", models=["a", "nobody"], tier="ram", wait=True)
    assert not [pid for pid in daemon.processes() if b"lazyd.host.warmer" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_file_larger_than_what_is_available_is_not_read(daemon: Daemon) -> None:
    path = daemon.root / "a.bin"
    path.touch()
    os.truncate(path, 1 << 42)
    configure(daemon, "a")
    client = daemon.start()
    with pytest.raises(Refused) as refused:
        client.call("Warm", models=["a"], tier="ram")
    assert (refused.value.name, refused.value.parameters["neededBytes"]) == ("io.lazyd.NoRoom", 1 << 42)
    assert "are available" in refused.value.parameters["reason"]


def test_files_are_locked_and_booked_until_they_are_unloaded(daemon: Daemon) -> None:
    file_of(daemon, "a")
    configure(daemon, "a", ram_lock="true")
    client = daemon.start()
    before = ram(client)["bookedBytes"]
    (model,) = client.call("Warm", models=["a"], tier="ram", wait=True)["models"]
    assert (model["lockedBytes"], model["bookedBytes"]) == (SMALL, {"ram": SMALL})
    assert ram(client)["bookedBytes"] == before + SMALL
    pid = warmer(daemon)
    assert locked_bytes(pid) == SMALL
    assert client.call("Unload", models=["a"])["unloaded"] == ["a"]
    daemon.until(lambda: ram(client)["bookedBytes"] == before)
    daemon.until(lambda: gone(pid) or locked_bytes(pid) == 0)


def test_a_configuration_without_ram_lock_unlocks(daemon: Daemon) -> None:
    file_of(daemon, "a")
    configure(daemon, "a", ram_lock="true")
    client = daemon.start()
    client.call("Warm", models=["a"], tier="ram", wait=True)
    configure(daemon, "a")
    client.call("Reload")
    daemon.until(lambda: "lockedBytes" not in daemon.model("a"))


def test_locks_outlive_the_manager(daemon: Daemon) -> None:
    file_of(daemon, "a")
    configure(daemon, "a", ram_lock="true")
    client = daemon.start()
    client.call("Warm", models=["a"], tier="ram", wait=True)
    pid = warmer(daemon)
    daemon.kill()
    client = daemon.start()
    assert daemon.model("a")["lockedBytes"] == SMALL
    assert locked_bytes(pid) == SMALL
    client.call("Unload", models=["a"])
    daemon.until(lambda: gone(pid) or locked_bytes(pid) == 0)


def test_reading_outlives_the_manager(daemon: Daemon) -> None:
    client, pid = before_a(daemon, ram_lock="true")
    client.call("Warm", models=["a"], tier="ram")
    daemon.kill()
    client = daemon.start()
    assert ram(client)["bookedBytes"] == 2 * SMALL
    client.send("Warm", {"models": ["a"], "tier": "ram", "wait": True})
    os.kill(pid, signal.SIGCONT)
    assert client.result()["models"][0]["lockedBytes"] == SMALL
    assert locked_bytes(pid) == 2 * SMALL


def test_reading_is_ordered_again_where_the_host_dies(daemon: Daemon) -> None:
    client, _ = before_a(daemon, ram_lock="true")
    with waits(daemon, "a") as waiting:
        daemon.until(lambda: ram(client)["bookedBytes"] == 2 * SMALL)
        host = daemon.host_pid()
        assert host is not None
        os.kill(host, signal.SIGKILL)
        assert waiting.result()["models"][0]["lockedBytes"] == SMALL
    assert "lockedBytes" not in daemon.model("s")  # its lock was the host's


def test_locks_outlive_an_upgrade_of_the_host(daemon: Daemon) -> None:
    file_of(daemon, "s")
    file_of(daemon, "a")
    configure(daemon, "a", "s", ram_lock="true")
    client = daemon.start()
    client.call("Warm", models=["a"], tier="ram", wait=True)
    pid, host = warmer(daemon), daemon.host_pid()
    assert host is not None
    log = Path(places.host_log(str(daemon.runtime)))
    os.kill(host, signal.SIGUSR2)
    daemon.until(lambda: " upgraded" in log.read_text(), 60)
    assert daemon.host_pid() == host
    assert locked_bytes(pid) == SMALL
    client.call("Warm", models=["s"], tier="ram", wait=True)
    assert warmer(daemon) == pid
    assert locked_bytes(pid) == 2 * SMALL
    client.call("Unload", models=["a", "s"])
    daemon.until(lambda: gone(pid) or locked_bytes(pid) == 0)


def without_the_right(limit: int) -> Callable[[], None]:
    """What a process does that may lock no more than `limit`, even if it is root."""

    def limited() -> None:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))

    return limited


def test_a_refusal_of_the_kernel_leaves_the_model_warm_and_says_so(daemon: Daemon) -> None:
    file_of(daemon, "a")
    configure(daemon, "a", ram_lock="true")
    client = daemon.start(preexec_fn=without_the_right(MIB))
    reply = client.call("Warm", models=["a"], tier="ram", wait=True)
    assert reply["models"][0]["residency"] == "warm"
    assert "LimitMEMLOCK is 1.0 MiB" in reply["warnings"][0]
    daemon.until(lambda: ram(client)["bookedBytes"] == 0)


def test_the_death_of_the_process_that_reads_is_told_and_the_next_order_starts_another(daemon: Daemon) -> None:
    file_of(daemon, "a")
    configure(daemon, "a", ram_lock="true")
    client = daemon.start()
    client.call("Warm", models=["a"], tier="ram", wait=True)
    os.kill(warmer(daemon), signal.SIGKILL)
    daemon.until(lambda: "lockedBytes" not in daemon.model("a"))
    (model,) = client.call("Warm", models=["a"], tier="ram", wait=True)["models"]
    assert model["lockedBytes"] == SMALL


def test_a_stop_leaves_nothing(daemon: Daemon) -> None:
    file_of(daemon, "a")
    configure(daemon, "a", ram_lock="true")
    client = daemon.start()
    client.call("Warm", models=["a"], tier="ram", wait=True)
    assert daemon.signal(signal.SIGTERM) == 0
    daemon.until(lambda: not daemon.processes())


def test_it_reads_at_the_lowest_priority_in_a_cgroup_of_its_own(daemon: Daemon) -> None:
    file_of(daemon, "s")
    file_of(daemon, "a")
    configure(daemon, "a", "s")
    client = daemon.start()
    pid = halted(daemon, client, "s")
    host = daemon.host_pid()
    if platform.machine() in IOPRIO_GET:
        assert ctypes.CDLL(None).syscall(IOPRIO_GET[platform.machine()], 1, pid) == IDLE
    cgroups = [Path(f"/proc/{each}/cgroup").read_text().splitlines()[-1] for each in (pid, host)]
    os.kill(pid, signal.SIGCONT)
    if not cgroups[1].endswith("/host"):
        pytest.skip("the host may not make cgroups here")
    assert cgroups[0] == cgroups[1].removesuffix("/host") + "/warm"
