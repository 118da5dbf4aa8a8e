"""How workers come and go: by fork or exec, whole, with the host and not with the manager."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyd.host import processes

from .host_driver import (
    Host,
    Manager,
    exists,
    is_alive,
    places,
    python_spec,
    running_host,
    wait_until,
)

MODEL = "thing"
MIB = 1024 * 1024


@pytest.fixture(params=["with cgroups", "without cgroups"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Where this machine lets nobody make cgroups both forms are the same."""
    with running_host(cgroups=request.param == "with cgroups") as host:
        yield host


@pytest.fixture
def manager(host: Host) -> Manager:
    return host.manager()


def pids_in(path: Path, count: int) -> list[int]:
    return wait_until(lambda: len(p := path.read_text().split()) == count and list(map(int, p)), "daemons' pids")


# Ending.


@pytest.mark.parametrize("how", ["leaves", "is killed", "crashes"])
def test_grandchildren_end_with_their_worker_wherever_they_went(manager: Manager, tmp_path: Path, how: str) -> None:
    pid_file = tmp_path / "pids"
    pid_file.touch()
    manager.load("w", python_spec("things:with_daemons", options={"pid_file": str(pid_file)}))
    pid = manager.host.expect("started")["pid"]
    daemons = pids_in(pid_file, 4)
    assert all(map(is_alive, daemons))
    if how == "crashes":
        os.kill(pid, signal.SIGSEGV)
        exited = manager.host.expect("exited", worker="w")
        assert exited["signal"] == signal.SIGSEGV
    else:
        exited = manager.stop("w", grace_s=20 if how == "leaves" else 0)
    assert [daemon for daemon in daemons if is_alive(daemon)] == []
    assert not exists(pid)


def test_ending_one_worker_leaves_the_others_and_their_children(manager: Manager, tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for name, file in zip("ab", files, strict=True):
        file.touch()
        manager.load(name, python_spec("things:with_daemons", options={"pid_file": str(file)}))
    first, second = (pids_in(file, 4) for file in files)
    assert manager.stop("a", grace_s=0)["signal"] == signal.SIGKILL
    assert [pid for pid in first if is_alive(pid)] == []
    assert [pid for pid in second if not is_alive(pid)] == []
    assert manager.connect("b", MODEL, "l").call("echo") == []


def test_a_worker_that_leaves_closes_its_objects_first(manager: Manager) -> None:
    manager.load("w", python_spec("things:make"))
    exited = manager.stop("w", grace_s=20)
    assert (exited["status"], exited["signal"]) == (0, None)
    assert exited["log"] == "closed thing\n"


def test_native_code_that_holds_the_interpreter_is_killed_at_the_deadline(manager: Manager, tmp_path: Path) -> None:
    begin_to_hang(manager, "w", tmp_path / "flag")
    assert manager.stop("w", grace_s=0.2)["signal"] == signal.SIGKILL


def test_a_load_in_python_code_that_reports_nothing_can_be_aborted(manager: Manager) -> None:
    channel = manager.start("w", python_spec("things:busy"))
    channel.send({"do": "load", "model": MODEL})
    channel.expect("progress", phase="loading")
    channel.send({"do": "unload", "model": MODEL})
    channel.expect("unloaded", model=MODEL)
    assert manager.stop("w", grace_s=20)["status"] == 0


def test_a_worker_can_be_stopped_before_it_runs(manager: Manager) -> None:
    manager.start("w", python_spec("things:make"))
    assert manager.stop("w", grace_s=20)["worker"] == "w"


def test_the_socket_of_a_worker_goes_with_it(manager: Manager) -> None:
    manager.load("w", python_spec("things:make"))
    path = Path(places.data_socket(str(manager.runtime_dir), "w"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    manager.stop("w", grace_s=0)
    assert not path.exists()


def test_workers_die_with_a_host_that_is_killed(host: Host, manager: Manager, tmp_path: Path) -> None:
    manager.load("ready", python_spec("things:make"))
    begin_to_hang(manager, "stuck", tmp_path / "flag")
    pids = [manager.host.expect("started", worker=name)["pid"] for name in ("ready", "stuck")]
    zygotes = [each.pid for each in processes.table().values() if each.parent == host.pid]
    host.process.kill()
    host.process.wait()
    manager.host.expect_end()
    for pid in {*pids, *zygotes}:
        wait_until(lambda pid=pid: not is_alive(pid), f"the end of {pid}")


def test_a_host_that_is_told_to_stop_stops_everything(host: Host, manager: Manager) -> None:
    manager.load("w", python_spec("things:make"))
    pid = manager.host.expect("started")["pid"]
    host.process.send_signal(signal.SIGTERM)
    assert manager.host.expect("exited", worker="w")["status"] == 0
    assert host.process.wait(20) == 0
    assert not exists(pid)
    assert not Path(places.host_socket(str(host.runtime_dir))).exists()


def test_quit_stops_all_workers_and_then_the_host(host: Host, manager: Manager) -> None:
    manager.load("w", python_spec("things:make"))
    manager.host.send({"do": "quit", "grace_s": 20})
    assert manager.host.expect("exited", worker="w")["status"] == 0
    manager.host.expect_end()
    assert host.process.wait(20) == 0


def test_calls_in_flight_are_drained_when_the_host_is_told_to_stop(
    host: Host, manager: Manager, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    manager.load("w", python_spec("things:make"))
    client = manager.connect("w", MODEL, "l")
    client.ask("wait_for", str(fifo))
    manager.workers["w"].expect("busy")
    host.process.send_signal(signal.SIGTERM)
    fifo.write_text("go")
    assert client.answer() == "go"
    assert manager.host.expect("exited", worker="w")["status"] == 0


def test_a_start_that_comes_while_the_host_stops_is_answered(manager: Manager, tmp_path: Path) -> None:
    begin_to_hang(manager, "w", tmp_path / "flag")
    manager.host.send({"do": "quit", "grace_s": 0.5})
    manager.start("late", python_spec("things:make"))
    assert manager.host.expect("exited", worker="late")["reason"] == "the worker host is stopping"
    manager.host.expect("exited", worker="w")


# Measuring.


def test_a_workers_own_memory_is_told_apart_from_the_files_that_it_maps(manager: Manager, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(os.urandom(MIB) * 100)
    manager.load("w", python_spec("things:make"))
    client = manager.connect("w", MODEL, "l")
    before = manager.measured("w")
    client.call("map", str(weights))
    client.call("grow", 50 * MIB)
    after = manager.measured("w")
    assert 48 < (after["bytes"]["ram"] - before["bytes"]["ram"]) / MIB < 60
    assert 98 < (after["files"] - before["files"]) / MIB < 110


def test_all_processes_of_a_worker_are_named_wherever_they_went(manager: Manager, tmp_path: Path) -> None:
    pid_file = tmp_path / "pids"
    pid_file.touch()
    manager.load("w", python_spec("things:with_daemons", options={"pid_file": str(pid_file)}))
    pid = manager.host.expect("started")["pid"]
    daemons = pids_in(pid_file, 4)
    assert {pid, *daemons} <= set(manager.measured("w")["pids"])


def test_one_worker_is_measured_alone_if_it_alone_is_asked_for(manager: Manager) -> None:
    for name in ("one", "other", "third"):
        manager.load(name, python_spec("things:make"))
    assert manager.measured("one", "one", "gone")["bytes"]["ram"] > 0
    manager.stop("third")
    assert [said["worker"] for said in manager.host.seen if said["is"] == "measured"] == []


def test_a_worker_is_measured_while_it_loads(manager: Manager, tmp_path: Path) -> None:
    begin_to_hang(manager, "w", tmp_path / "flag")
    said = manager.measured("w", "w")
    assert said["bytes"]["ram"] > 0
    assert manager.host.expect("started")["pid"] in said["pids"]
    manager.stop("w", grace_s=0)


def test_zombies_of_daemons_that_a_worker_adopted_are_buried(manager: Manager) -> None:
    """Without cgroups a worker adopts the orphans below it, and nobody else can wait for them."""
    manager.load("w", python_spec("things:make"))
    zombie = manager.connect("w", MODEL, "l").call("leave_a_zombie")

    def is_buried() -> bool:
        manager.measure("w")
        return not exists(zombie)

    wait_until(is_buried, "the end of the zombie")


# The environment.


def test_workers_that_are_shown_other_gpus_are_no_forks_of_one_zygote(manager: Manager) -> None:
    """The variable must be there before the library is imported."""
    shown = {"a": "GPU-a", "b": "GPU-b,GPU-a", "none": ""}
    for name, visible in shown.items():
        manager.load(name, python_spec("things:make", env={"CUDA_VISIBLE_DEVICES": visible}))
    for name, visible in shown.items():
        client = manager.connect(name, MODEL, name)
        assert client.call("environment", "CUDA_VISIBLE_DEVICES") == visible
        at_start = Path(f"/proc/{client.call('who')['pid']}/environ").read_bytes().split(b"\0")
        assert f"CUDA_VISIBLE_DEVICES={visible}".encode() in at_start


# What went wrong is told.


def test_a_factory_that_raises_fails_the_load_and_not_the_worker(manager: Manager) -> None:
    channel = manager.start("w", python_spec("things:raises"))
    channel.send({"do": "load", "model": MODEL})
    failed = channel.expect("failed")
    assert failed["reason"] == "ValueError: the factory does not like this"
    assert "in raises" in failed["traceback"]
    channel.send({"do": "load", "model": MODEL})
    channel.expect("failed")


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("nowhere:make", "ModuleNotFoundError: No module named 'nowhere'"),
        ("things:nothing", "AttributeError: module 'things' has no attribute 'nothing'"),
        ("things", "ValueError: the factory 'things' is not of the form module:attribute"),
    ],
)
def test_a_factory_that_is_not_there_is_said_so(manager: Manager, factory: str, reason: str) -> None:
    channel = manager.start("w", python_spec(factory))
    channel.send({"do": "load", "model": MODEL})
    assert channel.expect("failed")["reason"] == reason


def test_a_factory_that_ends_the_process_is_reported_with_its_last_words(manager: Manager) -> None:
    channel = manager.start("w", python_spec("things:leaves"))
    channel.send({"do": "load", "model": MODEL})
    exited = manager.host.expect("exited")
    assert (exited["status"], exited["signal"], exited["log"]) == (3, None, "about to leave\n")


@pytest.mark.parametrize(("how", "status", "number"), [("exit", 7, None), ("SIGKILL", None, 9), ("SIGABRT", None, 6)])
def test_a_worker_that_dies_in_a_call_is_reported_and_the_client_sees_the_end(
    manager: Manager, how: str, status: int | None, number: int | None
) -> None:
    manager.load("w", python_spec("things:make"))
    client = manager.connect("w", MODEL, "l")
    client.ask("die", how)
    assert client.expect_end() == []
    exited = manager.host.expect("exited")
    assert (exited["status"], exited["signal"]) == (status, number)
    assert exited["log"].startswith("last words\n")


def test_a_worker_that_the_kernel_killed_for_memory_says_so(manager: Manager) -> None:
    manager.host.send({"do": "settings", "max_zygotes": 0, "linger_s": 600})
    manager.load("w", python_spec("things:make"))
    pid = manager.host.expect("started")["pid"]
    with memory_limit(pid, 60 * 1024 * 1024):
        client = manager.connect("w", MODEL, "l")
        client.ask("grow", 500_000_000)
        assert client.expect_end() == []
        exited = manager.host.expect("exited", worker="w")
    assert exited["signal"] == signal.SIGKILL
    assert exited["reason"] == "the kernel killed it: the machine or its cgroup had no memory left"


def test_a_worker_that_somebody_killed_gives_no_reason(manager: Manager) -> None:
    manager.load("w", python_spec("things:make"))
    os.kill(manager.host.expect("started")["pid"], signal.SIGKILL)
    assert manager.host.expect("exited")["reason"] is None


def test_an_interpreter_that_is_not_there_is_the_reason_of_the_exit(manager: Manager) -> None:
    manager.start("w", python_spec("things:make", python="/no/such/python"))
    exited = manager.host.expect("exited", worker="w")
    assert exited["reason"] == "the interpreter /no/such/python is missing or cannot be executed"
    assert (exited["status"], exited["signal"]) == (None, None)


def test_an_interpreter_that_is_none_is_the_reason_of_the_exit(manager: Manager, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    manager.start("w", python_spec("things:make", python=str(broken)))
    exited = manager.host.expect("exited", worker="w")
    assert exited["reason"] == f"{broken} cannot be executed: No such file or directory"


def test_an_unknown_runtime_is_the_reason_of_the_exit(manager: Manager) -> None:
    manager.start("w", {"name": "x", "runtime": "crystal_ball"})
    assert manager.host.expect("exited")["reason"] == "there is no runtime 'crystal_ball'"


# Zygotes and interpreters.


def test_workers_of_one_recipe_come_from_one_zygote(host: Host, manager: Manager) -> None:
    for name in ("a", "b"):
        manager.load(name, python_spec("things:make"))
    pids = [manager.host.expect("started", worker=name)["pid"] for name in ("a", "b")]
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    assert all(b'"role": "zygote"' in command for command in commands)
    assert [processes.look(pid).parent for pid in pids] == [host.pid, host.pid]  # type: ignore[union-attr]
    assert [processes.look(pid).session for pid in pids] == pids  # type: ignore[union-attr]


def test_without_zygotes_workers_are_executed_plainly(manager: Manager) -> None:
    manager.host.send({"do": "settings", "max_zygotes": 0, "linger_s": 600})
    manager.load("w", python_spec("things:make"))
    pid = manager.host.expect("started")["pid"]
    wait_until(lambda: is_plain(pid), "the program of the worker")
    assert manager.connect("w", MODEL, "l").call("echo", 1) == [1]


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "1 unknown threads"),
        ("import socket; pair = socket.socketpair()", "is open after the imports"),
        ("raise ImportError('half installed')", "half installed"),
    ],
)
def test_a_library_that_may_not_be_forked_is_executed_plainly(
    host: Host, manager: Manager, tmp_path: Path, does: str, reason: str
) -> None:
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text(f"class Llama: pass\n{does}\n")
    (package / "llama_cpp.py").write_text("")
    manager.start("w", {"name": "w", "runtime": "llama_cpp", "path": "/nowhere", "python_path": [str(tmp_path)]})
    pid = manager.host.expect("started")["pid"]
    wait_until(lambda: is_plain(pid), "the program of the worker")
    wait_until(lambda: reason in host.log(), "the reason in the host's log")
    manager.workers["w"].expect("report")


def test_the_zygote_used_longest_ago_leaves(host: Host, manager: Manager) -> None:
    manager.host.send({"do": "settings", "max_zygotes": 2, "linger_s": 600})
    for i in range(3):
        manager.load(f"w{i}", python_spec("things:make", env={"WHICH": str(i)}))
        assert manager.connect(f"w{i}", MODEL, f"l{i}").call("environment", "WHICH") == str(i)
    assert wait_until(lambda: len(zygotes_of(host)) == 2 and zygotes_of(host), "two zygotes")


def test_prepared_zygotes_are_there_before_they_are_needed(host: Host, manager: Manager) -> None:
    manager.host.send({"do": "settings", "max_zygotes": 2, "linger_s": 600})
    specs = [python_spec("things:make", env={"WHICH": str(i)}) for i in range(3)]
    manager.host.send({"do": "prepare", "specs": specs})
    wait_until(lambda: len(zygotes_of(host)) == 2, "two zygotes")


def test_a_zygote_is_replaced_when_its_packages_change(host: Host, manager: Manager, tmp_path: Path) -> None:
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("class Llama: pass\n")
    (package / "llama_cpp.py").write_text("")
    spec = {"name": "w", "runtime": "llama_cpp", "path": "/nowhere", "python_path": [str(tmp_path)]}
    manager.start("a", spec).expect("report")
    before = zygotes_of(host)
    assert len(before) == 1
    (package / "__init__.py").write_text("class Llama: version = 2\n")
    manager.start("b", spec).expect("report")
    wait_until(lambda: zygotes_of(host) and zygotes_of(host) != before, "another zygote")
    assert "its zygote is replaced" in host.log()


def test_a_worker_waits_in_reserve_and_is_another_ones_at_once(host: Host, manager: Manager) -> None:
    manager.load("a", python_spec("things:make", options={"for": "a"}))
    (reserve,) = wait_until(lambda: newborns_of(host), "a process in reserve")
    manager.load("b", python_spec("things:make", options={"for": "b"}))
    who = manager.connect("b", MODEL, "l").call("who")
    assert (who["pid"], who["options"]) == (reserve, {"for": "b"})
    assert Path(f"/proc/{reserve}/comm").read_text() == "lazyd:thing\n"
    assert manager.measure("b") > 1_000_000
    assert manager.stop("b", grace_s=20)["log"] == "closed thing\n"


def test_a_reserve_that_dies_is_replaced_when_it_is_needed(host: Host, manager: Manager) -> None:
    manager.load("a", python_spec("things:make"))
    (reserve,) = wait_until(lambda: newborns_of(host), "a process in reserve")
    os.kill(reserve, signal.SIGKILL)
    wait_until(lambda: not exists(reserve), "the end of the reserve")
    manager.load("b", python_spec("things:make"))
    assert manager.connect("b", MODEL, "l").call("echo", 1) == [1]


@pytest.mark.skipif(not Path("/usr/bin/pypy3").exists(), reason="pypy3 is not installed (Debian package pypy3)")
def test_a_model_may_name_another_interpreter(manager: Manager, tmp_path: Path) -> None:
    """It sees lazyd, and nothing else of lazyd's environment."""
    spec = python_spec("things:make", python="/usr/bin/pypy3")
    manager.load("w", spec)
    client = manager.connect("w", MODEL, "l")
    assert "PyPy" in client.call("who")["python"]
    assert client.call("echo", [1, {"a": "b"}]) == [[1, {"a": "b"}]]
    assert list(client.stream("count", 3)) == [0, 1, 2]
    (tmp_path / "looks.py").write_text(
        "class Looks:\n"
        "    def sees(self, name):\n"
        "        import importlib.util\n"
        "        return importlib.util.find_spec(name) is not None\n"
    )
    manager.load("looks", python_spec("looks:Looks", python="/usr/bin/pypy3", python_path=[str(tmp_path)]))
    looks = manager.connect("looks", MODEL, "l2")
    assert looks.call("sees", "lazyd")
    assert looks.call("sees", "lazyd.wire")
    assert not looks.call("sees", "msgspec")
    assert not looks.call("sees", "boot")
    assert manager.stop("w", grace_s=20)["status"] == 0


def test_the_environment_is_the_models_own(manager: Manager) -> None:
    manager.load("w", python_spec("things:make", env={"OMP_NUM_THREADS": "2"}))
    client = manager.connect("w", MODEL, "l")
    assert client.call("environment", "OMP_NUM_THREADS") == "2"
    assert client.call("environment", "ORT_DISABLE_TELEMETRY") == "1"
    assert client.call("environment", "LAZYD_SOCKET") == places.control_socket(str(manager.runtime_dir))


# Logs.


def test_what_a_worker_writes_is_in_its_log_and_bounded(host: Host, manager: Manager, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "class Loud:\n    def shout(self, n):\n        for i in range(n): print(i, 'x' * 1000)\n"
    )
    manager.load("w", python_spec("loud:Loud", name="loud/one:2", python_path=[str(tmp_path)]))
    manager.connect("w", "loud/one:2", "l").call("shout", 1500)
    manager.stop("w", grace_s=20)
    log = host.runtime_dir / "host" / "logs" / "loud%2Fone%3A2.log"
    assert log.read_text().endswith("1499 " + "x" * 1000 + "\n")
    assert log.stat().st_size < 1024 * 1024
    assert 900_000 < Path(f"{log}.1").stat().st_size <= 1024 * 1024


def test_a_full_disk_loses_the_log_and_nothing_else(host: Host, manager: Manager) -> None:
    logs = host.runtime_dir / "host" / "logs"
    (logs / "thing.log").symlink_to("/dev/full")
    manager.load("w", python_spec("things:make"))
    client = manager.connect("w", MODEL, "l")
    client.ask("die", "exit")
    assert manager.host.expect("exited")["log"] == "last words\n"


@contextlib.contextmanager
def memory_limit(pid: int, limit: int) -> Iterator[None]:
    """Puts a process where the kernel kills it for want of memory: a cgroup of the first version, as the
    host's own are of the second."""
    group = Path(f"/sys/fs/cgroup/memory/lazyd-test-{pid}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        pytest.skip(f"memory cannot be limited here: {error}")
    yield
    group.rmdir()


def begin_to_hang(manager: Manager, worker: str, flag: Path) -> None:
    """A worker whose load is inside native code that holds the interpreter's lock."""
    channel = manager.start(worker, python_spec("things:stuck", options={"flag": str(flag)}))
    channel.send({"do": "load", "model": MODEL})
    wait_until(flag.exists, "the load")


def is_plain(pid: int) -> bool:
    """Executed as a worker, and not forked from a zygote."""
    return b'"role": "worker"' in Path(f"/proc/{pid}/cmdline").read_bytes()


def zygotes_of(host: Host) -> set[int]:
    return {pid for pid, name in children_of(host) if name.startswith("lazyd-z:")}


def newborns_of(host: Host) -> set[int]:
    """Processes in reserve that the host knows of: a moment after they are there it holds a pidfd of each."""
    known = set()
    for info in Path(f"/proc/{host.pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            known |= {int(line.split()[1]) for line in info.read_text().splitlines() if line.startswith("Pid:")}
    return {pid for pid, name in children_of(host) if name == "lazyd:newborn" and pid in known}


def children_of(host: Host) -> list[tuple[int, str]]:
    """The host's children with the names that they gave themselves."""
    children = [each.pid for each in processes.table().values() if each.parent == host.pid and not each.is_dead]
    named = []
    for pid in children:
        with contextlib.suppress(OSError):
            named.append((pid, Path(f"/proc/{pid}/comm").read_text().strip()))
    return named
