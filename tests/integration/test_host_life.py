"""The host's own life: one manager after another, none at all, another version of itself."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyd.host import processes

from .host_driver import LIMIT_S, Host, Manager, exists, is_alive, places, python_spec, running_host, wait_until

MODEL = "thing"


@pytest.fixture
def host() -> Iterator[Host]:
    with running_host() as host:
        yield host


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


# Managers.


def delete_place(host: Host) -> None:
    """Deletes the host's directory in one step: it may make it anew at any moment."""
    gone = (host.runtime_dir / "host").rename(host.runtime_dir / "gone")
    shutil.rmtree(gone)


def test_a_new_manager_finds_the_workers_as_they_are(host: Host) -> None:
    first = host.manager()
    first.load("w", python_spec("things:make"))
    first.connect("w", MODEL, "l").call("echo")
    pid = first.host.expect("started")["pid"]
    first.vanish()
    second = host.manager()
    assert second.hello["started"] == first.hello["started"]
    report = second.found["w"]
    assert (report["pid"], report["endpoint"]) == (pid, places.data_socket(str(host.runtime_dir), "w"))
    assert [(each["model"], each["state"]) for each in report["objects"]] == [(MODEL, "ready")]
    (told,) = second.attach("w").expect("report")["report"]["objects"]
    assert {**told, "lastUsed": None} == {**report["objects"][0], "lastUsed": None}
    assert second.connect("w", MODEL, "l2").call("echo", 1) == [1]


# A directory that is deleted.


def test_a_host_whose_directory_was_deleted_goes_on_and_is_found_by_the_next_manager(host: Host) -> None:
    first = host.manager()
    first.load("old", python_spec("things:make"))
    delete_place(host)
    first.load("new", python_spec("things:make"))
    assert first.connect("new", MODEL, "l").call("echo", 1) == [1]
    first.vanish()
    assert set(host.manager().found) == {"old", "new"}
    assert "made anew" in host.log()


def test_a_worker_whose_socket_was_deleted_with_its_directory_is_reached_again(host: Host) -> None:
    manager = host.manager()
    manager.load("w", python_spec("things:make"))
    open_before = manager.connect("w", MODEL, "before")
    delete_place(host)
    manager.measure("w")
    wait_until(lambda: Path(places.data_socket(str(host.runtime_dir), "w")).exists(), "the socket")
    assert manager.connect("w", MODEL, "after").call("echo", 1) == [1]
    assert open_before.call("echo", 2) == [2]


def test_a_host_without_a_manager_notices_that_its_directory_was_deleted(host: Host) -> None:
    host.manager().vanish()
    delete_place(host)
    wait_until(lambda: Path(places.host_socket(str(host.runtime_dir))).exists(), "the socket")
    assert host.manager().hello["pid"] == host.pid


def test_a_host_whose_place_was_taken_by_another_leaves_and_leaves_it_alone(host: Host) -> None:
    manager = host.manager()
    manager.load("w", python_spec("things:make"))
    worker = manager.host.expect("started")["pid"]
    delete_place(host)
    other = Host(host.runtime_dir)
    try:
        newer = other.manager()
        manager.vanish()
        assert host.process.wait(LIMIT_S) == 0
        assert not is_alive(worker)
        newer.vanish()
        assert other.manager().hello["pid"] == other.pid
    finally:
        other.end()


def test_the_memo_comes_back(host: Host) -> None:
    host.manager().start("w", python_spec("things:make"), booked={"ram": 5}, why="asked").expect("report")
    assert host.manager().found["w"]["memo"] == {"booked": {"ram": 5}, "why": "asked"}


def test_what_a_manager_has_the_host_keep_is_told_to_the_next(host: Host) -> None:
    first = host.manager()
    assert first.hello["kept"] is None
    first.host.send({"do": "keep", "what": {"reservations": [{"id": "a"}]}})
    first.load("w", python_spec("things:make"))
    first.host.send({"do": "keep", "what": {"reservations": [{"id": "b", "bytes": 2**40}]}})
    first.measured("w")  # so that has been heard
    first.vanish()
    assert host.manager().hello["kept"] == {"reservations": [{"id": "b", "bytes": 2**40}]}


def test_a_call_in_flight_outlives_its_manager(host: Host, fifo: Path) -> None:
    first = host.manager()
    first.load("w", python_spec("things:make"))
    client = first.connect("w", MODEL, "l")
    client.ask("wait_for", str(fifo))
    first.workers["w"].expect("busy")
    first.vanish()
    second = host.manager()
    (lease,) = second.attach("w").expect("report")["report"]["leases"]
    assert (lease["lease"], lease["inFlight"], lease["presented"]) == ("l", 1, True)
    fifo.write_text("go")
    assert client.answer() == "go"
    second.workers["w"].expect("idle", lease="l")


def test_a_lease_that_nobody_presented_outlives_its_manager(host: Host) -> None:
    first = host.manager()
    first.load("w", python_spec("things:make"))
    first.grant("w", MODEL, "l")
    first.workers["w"].send({"do": "drain", "model": MODEL, "drain": 1, "finish": False})
    first.workers["w"].expect("still_busy")  # so the grant has been read
    first.vanish()
    second = host.manager()
    (lease,) = second.attach("w").expect("report")["report"]["leases"]
    assert (lease["token"], lease["presented"]) == ("token-of-l", False)


def test_the_newest_manager_wins(host: Host) -> None:
    first = host.manager()
    second = host.manager()
    first.host.expect_end()
    second.load("w", python_spec("things:make"))


def test_a_connection_that_says_nothing_displaces_nobody(host: Host) -> None:
    manager = host.manager()
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    silent.connect(places.host_socket(str(host.runtime_dir)))
    manager.load("w", python_spec("things:make"))


def test_a_load_goes_on_without_a_manager(host: Host, fifo: Path) -> None:
    first = host.manager()
    first.start("w", python_spec("things:slow", options={"fifo": str(fifo)})).send({"do": "load", "model": MODEL})
    first.workers["w"].expect("progress", phase="loading")
    first.vanish()
    second = host.manager()
    channel = second.attach("w")
    assert channel.expect("report")["report"]["objects"][0]["state"] == "loading"
    fifo.write_text("go")
    channel.expect("ready", model=MODEL)


def test_another_users_connection_is_refused(host: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    wait_until(Path(places.host_socket(str(host.runtime_dir))).exists, "the host's socket")
    host.runtime_dir.chmod(0o755)
    Path(places.host_dir(str(host.runtime_dir))).chmod(0o755)
    Path(places.host_socket(str(host.runtime_dir))).chmod(0o777)
    program = (
        "import os, socket, sys\n"
        "os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1])\n"
        'try: s.send(b\'{"do":"hello"}\'); print(s.recv(1000))\n'
        "except (BrokenPipeError, ConnectionResetError): print(b'')\n"
    )
    command = [sys.executable, "-c", program, places.host_socket(str(host.runtime_dir))]
    assert subprocess.run(command, capture_output=True, check=True).stdout.strip() == b"b''"


def test_the_managers_user_may_connect_when_it_is_another() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a host for another user")
    with tempfile.TemporaryDirectory(prefix="lazyd-") as directory:
        Path(directory).chmod(0o755)
        command = [sys.executable, "-m", "lazyd.host", "--runtime-dir", directory, "--manager-user", "nobody"]
        host = subprocess.Popen(command)
        try:
            path = Path(places.host_socket(directory))
            wait_until(path.exists, "the host's socket")
            wait_until(lambda: path.stat().st_mode & 0o777 == 0o660, "the socket's mode")
            assert path.parent.stat().st_mode & 0o777 == 0o750
            program = (
                "import os, socket, sys\n"
                "os.setgid(os.stat(sys.argv[1]).st_gid); os.setuid(65534)\n"
                "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1])\n"
                's.send(b\'{"do":"hello"}\'); print(s.recv(1000).decode())\n'
            )
            said = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=True).stdout
            assert b'"is":"hello"' in said
        finally:
            host.terminate()
            host.wait()


def test_a_second_host_for_the_same_place_is_refused_and_harms_nothing(host: Host) -> None:
    manager = host.manager()
    manager.load("w", python_spec("things:make"))
    command = [sys.executable, "-m", "lazyd.host", "--runtime-dir", str(host.runtime_dir)]
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert second.stderr == f"lazyd-host: a host runs already in {host.runtime_dir}/host (pid {host.pid})\n"
    assert manager.connect("w", MODEL, "l").call("echo", 1) == [1]
    assert host.manager().found.keys() == {"w"}


def test_an_order_that_is_not_understood_harms_nothing(host: Host) -> None:
    manager = host.manager()
    manager.load("w", python_spec("things:make"))
    for order in ({"do": "stop"}, {"do": "stop", "worker": "w", "grace_s": None}, {"do": "fly"}, {"settings": 1}):
        manager.host.send(order)
    manager.workers["w"].send({"do": "drain", "model": MODEL})
    manager.workers["w"].send({"do": "grant"})
    assert manager.connect("w", MODEL, "l").call("echo", 1) == [1]
    assert manager.measure("w") > 0
    assert "an order was not understood: stop (KeyError('worker'))" in host.log()


def test_a_new_host_takes_over_the_place_of_a_dead_one(host: Host) -> None:
    host.manager().load("w", python_spec("things:make"))
    host.process.kill()
    host.process.wait()
    successor = Host(host.runtime_dir)
    try:
        assert successor.manager().found == {}
        assert list((host.runtime_dir / "host" / "w").iterdir()) == []
    finally:
        successor.end()


@pytest.mark.parametrize("cgroups", [True, False])
def test_daemons_that_outlived_a_killed_host_are_ended_by_the_next(cgroups: bool, tmp_path: Path) -> None:
    with running_host(cgroups=cgroups) as host:
        pid_file = tmp_path / "pids"
        pid_file.touch()
        manager = host.manager()
        manager.load("w", python_spec("things:with_daemons", options={"pid_file": str(pid_file)}))
        daemons = wait_until(lambda: len(p := pid_file.read_text().split()) == 4 and list(map(int, p)), "daemons")
        bystander = subprocess.Popen(["sleep", "1000"], env={"LAZYD_WORKER": "w@1-1"})
        host.process.kill()
        host.process.wait()
        successor = Host(host.runtime_dir, cgroups=cgroups)
        try:
            assert successor.manager().found == {}
            left = [pid for pid in daemons if is_alive(pid)]
            # Without cgroups one that threw away its environment leaves no trace at all.
            assert len(left) <= (0 if cgroups else 1)
            assert bystander.poll() is None
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        finally:
            bystander.kill()
            bystander.wait()
            successor.end()


# Without a manager.


def test_a_host_without_a_manager_waits_its_time_and_leaves_nothing(host: Host) -> None:
    manager = host.manager()
    manager.host.send({"do": "settings", "max_zygotes": 4, "linger_s": 0.3})
    manager.load("w", python_spec("things:make"))
    pid = manager.host.expect("started")["pid"]
    began = time.monotonic()
    manager.vanish()
    assert host.process.wait(20) == 0
    assert time.monotonic() - began >= 0.3
    assert not exists(pid)


def test_a_manager_that_comes_back_in_time_ends_the_waiting(host: Host) -> None:
    for _ in range(3):
        manager = host.manager()
        manager.host.send({"do": "settings", "max_zygotes": 4, "linger_s": 0.3})
        manager.host.send({"do": "measure"})
        manager.vanish()
    manager = host.manager()
    with pytest.raises(subprocess.TimeoutExpired):
        host.process.wait(0.6)
    manager.load("w", python_spec("things:make"))


@pytest.mark.parametrize(
    ("answer", "leaves"),
    [
        ("ActiveState=inactive", True),
        ("ActiveState=failed", True),
        ("ActiveState=failed\nJob=4711", False),
        ("ActiveState=activating", False),
        ("ActiveState=active", False),
    ],
)
def test_under_systemd_the_managers_unit_says_whether_anybody_comes_back(
    tmp_path: Path, answer: str, leaves: bool
) -> None:
    asked = tmp_path / "asked"
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> {asked}\ncat <<END\n{answer}\nEND\n')
    systemctl.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="lazyd-") as directory:
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(f"{directory}/notify")
        program = (
            "import sys; from lazyd.host import linger, main; linger.ASK_EVERY_S = 0.05; "
            "sys.argv[0] = 'x'; sys.exit(main.main())"
        )
        env = {**os.environ, "NOTIFY_SOCKET": f"{directory}/notify", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        host = subprocess.Popen([sys.executable, "-c", program, "--runtime-dir", directory], env=env)
        try:
            notify.settimeout(20)
            assert notify.recv(100) == b"READY=1"
            if leaves:
                assert host.wait(20) == 0
            else:
                wait_until(lambda: asked.exists() and len(asked.read_text().splitlines()) > 2, "questions")
                assert host.poll() is None
            assert asked.read_text().splitlines()[0] == "show --property=ActiveState,Job lazyd.service"
        finally:
            host.terminate()
            host.wait()
            notify.close()


# Upgrades.


def upgrade(manager: Manager, host: Host) -> None:
    manager.host.send({"do": "upgrade"})
    wait_until(lambda: "upgraded" in host.log(), "the upgrade")


@pytest.mark.parametrize("cgroups", [True, False])
def test_the_host_executes_itself_anew_with_a_call_in_flight(fifo: Path, cgroups: bool, tmp_path: Path) -> None:
    with running_host(cgroups=cgroups) as host:
        manager = host.manager()
        pid_file = tmp_path / "pids"
        pid_file.touch()
        manager.load("w", python_spec("things:with_daemons", options={"pid_file": str(pid_file)}))
        daemons = wait_until(lambda: len(p := pid_file.read_text().split()) == 4 and list(map(int, p)), "daemons")
        pid = manager.host.expect("started")["pid"]
        client = manager.connect("w", MODEL, "l")
        client.ask("wait_for", str(fifo))
        manager.workers["w"].expect("busy")
        upgrade(manager, host)
        assert "--state-fd" in Path(f"/proc/{host.pid}/cmdline").read_text()
        fifo.write_text("go")
        assert client.answer() == "go"
        assert processes.look(pid).parent == host.pid  # type: ignore[union-attr]
        # The same connection, the same worker, everything as before.
        assert manager.measure("w") > 0
        manager.load("after", python_spec("things:make"))
        client.ask("die", "exit")
        exited = manager.host.expect("exited", worker="w")
        assert (exited["status"], exited["log"]) == (7, "last words\n")
        assert [daemon for daemon in daemons if is_alive(daemon)] == []
        assert host.manager().found.keys() == {"after"}


def test_upgrades_can_follow_each_other(host: Host) -> None:
    manager = host.manager()
    manager.load("w", python_spec("things:make"))
    client = manager.connect("w", MODEL, "l")
    for count in range(1, 4):
        manager.host.send({"do": "upgrade"})
        wait_until(lambda count=count: host.log().count("upgraded") == count, "the upgrade")
        assert client.call("echo", count) == [count]
    assert manager.stop("w", grace_s=20)["status"] == 0


def test_what_a_manager_has_the_host_keep_outlives_an_upgrade(host: Host) -> None:
    manager = host.manager()
    manager.host.send({"do": "keep", "what": {"reservations": []}})
    upgrade(manager, host)
    assert host.manager().hello["kept"] == {"reservations": []}


def test_a_signal_upgrades_as_an_order_does(host: Host) -> None:
    manager = host.manager()
    manager.load("w", python_spec("things:make"))
    client = manager.connect("w", MODEL, "l")
    os.kill(host.pid, signal.SIGUSR2)
    wait_until(lambda: "upgraded" in host.log(), "the upgrade")
    assert client.call("echo", 1) == [1]


def test_a_reserve_does_not_outlive_an_upgrade(host: Host) -> None:
    manager = host.manager()
    manager.load("w", python_spec("things:make"))

    def names() -> dict[str, int]:
        children = [each.pid for each in processes.table().values() if each.parent == host.pid and not each.is_dead]
        return {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in children}

    reserve = wait_until(lambda: names().get("lazyd:newborn"), "a process in reserve")
    upgrade(manager, host)
    wait_until(lambda: not exists(reserve), "the end of the reserve")
    wait_until(lambda: list(names()) == ["lazyd:thing"], "the end of all but the worker")
    manager.load("after", python_spec("things:make"))


def test_orders_that_come_during_an_upgrade_are_carried_out_after_it(host: Host) -> None:
    manager = host.manager()
    manager.host.send({"do": "upgrade"})
    channel = manager.start("w", python_spec("things:make"))
    channel.send({"do": "load", "model": MODEL})
    channel.expect("ready")
    assert "upgraded" in host.log()


def test_an_upgrade_waits_for_workers_that_are_being_started(host: Host) -> None:
    manager = host.manager()
    channel = manager.start("w", python_spec("things:make"))
    channel.send({"do": "load", "model": MODEL})
    upgrade(manager, host)
    channel.expect("ready")
    assert manager.stop("w", grace_s=20)["status"] == 0


def test_a_version_that_does_not_start_is_not_upgraded_to(tmp_path: Path) -> None:
    """Else a broken package on disk would take all workers with it."""
    flag = tmp_path / "broken"
    program = (
        f"import os, sys\nif os.path.exists({str(flag)!r}): sys.exit('it is broken')\n"
        "from lazyd.host import main; sys.exit(main.main())"
    )
    with tempfile.TemporaryDirectory(prefix="lazyd-") as directory:
        host = Host.__new__(Host)
        host.runtime_dir = Path(directory)
        host.process = subprocess.Popen([sys.executable, "-c", program, "--runtime-dir", directory])
        try:
            manager = host.manager()
            manager.load("w", python_spec("things:make"))
            flag.touch()
            manager.host.send({"do": "upgrade"})
            wait_until(lambda: "not upgraded: the new version does not start: it is broken" in host.log(), "refusal")
            assert manager.connect("w", MODEL, "l").call("echo", 1) == [1]
            manager.load("after", python_spec("things:make"))
        finally:
            host.end()


def test_a_stop_that_was_ordered_before_an_upgrade_keeps_its_deadline(host: Host, tmp_path: Path) -> None:
    manager = host.manager()
    flag = tmp_path / "flag"
    channel = manager.start("w", python_spec("things:stuck", options={"flag": str(flag)}))
    channel.send({"do": "load", "model": MODEL})
    wait_until(flag.exists, "the load")
    manager.host.send({"do": "stop", "worker": "w", "grace_s": 2.0})
    upgrade(manager, host)
    assert manager.host.expect("exited", worker="w")["signal"] == signal.SIGKILL
