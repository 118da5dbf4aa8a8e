"""The life of a manager: start, stop, signals, what systemd is told, and what it costs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import LAZYD, LIMIT_S, Daemon, DataLine, Refused, gone


class Systemd:
    """Stands in for the service manager: takes what it is told."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.told: list[tuple[float, str]] = []

    @property
    def environment(self) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.path}

    def until(self, word: str, within_s: float = LIMIT_S) -> str:
        """The next message with this beginning."""
        deadline = time.monotonic() + within_s
        while True:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            message = self.socket.recv(65536).decode("ascii")
            self.told.append((time.monotonic(), message))
            if message.startswith(word):
                return message

    def waiting(self) -> list[str]:
        """What has been told by now and was not read yet."""
        self.socket.setblocking(False)
        messages = []
        with contextlib.suppress(BlockingIOError):
            while True:
                messages.append(self.socket.recv(65536).decode("ascii"))
        return messages


@pytest.fixture
def systemd(daemon: Daemon) -> Iterator[Systemd]:
    systemd = Systemd(str(daemon.root / "notify"))
    yield systemd
    systemd.socket.close()


# Start.


def test_without_a_host_status_is_answered_at_once_and_a_host_is_started(daemon: Daemon) -> None:
    with daemon.start() as client:
        assert client.call("Status")["daemon"]["state"] in ("starting", "running")
        daemon.until(lambda: client.call("Status")["daemon"]["state"] == "running")
        host = daemon.host_pid()
        assert host is not None
        assert os.getsid(host) == host
        assert os.getsid(host) != os.getsid(client.call("Status")["daemon"]["pid"])


def test_the_manager_imports_no_model_library_and_no_ssl(daemon: Daemon) -> None:
    """Nothing heavy is mapped, whatever it was asked: the libraries are in the workers alone."""
    with daemon.start() as client:
        client.call("Call", model="echo", method="echo")
        client.call("Describe", model="echo")
        client.call("Reload")
        assert daemon.process is not None
        maps = Path(f"/proc/{daemon.process.pid}/maps").read_text()
    for library in ("llama", "ggml", "onnx", "torch", "paddle", "numpy", "libcuda", "libssl", "_ssl"):
        assert library not in maps


EVERY_MODULE = """
import importlib, pkgutil, sys
import lazyd.manager
from lazyd.config.keys import BUILT_RUNTIMES
from lazyd.runtimes import runtime_named
for found in pkgutil.iter_modules(lazyd.manager.__path__):
    importlib.import_module(f"lazyd.manager.{found.name}")
for name in BUILT_RUNTIMES:
    try:
        runtime_named(name).describe({"path": "/nonexistent", "factory": "nothing:at_all", "command": ["nothing"]})
    except OSError:
        pass
heavy = {"llama_cpp", "numpy", "torch", "onnxruntime", "paddle", "pynvml", "psutil", "rich", "click"}
print(sorted(heavy & set(sys.modules)))
"""


def test_no_module_of_the_manager_imports_a_model_library() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_MODULE], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version_and_check_need_no_daemon(daemon: Daemon) -> None:
    version = subprocess.run([LAZYD, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    assert version.stdout.startswith("lazyd ")
    right = subprocess.run(
        [LAZYD, "--check", "--config", daemon.config], stdout=subprocess.PIPE, text=True, check=False
    )
    assert right.returncode == 0
    daemon.configure("@echo idle_timeout=5\n[models.b]\nruntime='nonsense'")
    wrong = subprocess.run(
        [LAZYD, "--check", "--config", daemon.config], stdout=subprocess.PIPE, text=True, check=False
    )
    assert wrong.returncode == 1
    assert "idle_timeout" in wrong.stdout
    assert "nonsense" in wrong.stdout
    usage = subprocess.run([LAZYD, "--nonsense"], stderr=subprocess.PIPE, text=True, check=False)
    assert usage.returncode == 2


# Stop.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_without_systemd_a_signal_frees_everything_and_leaves_no_process(daemon: Daemon, number: int) -> None:
    with daemon.start() as client:
        client.call("Call", model="echo", method="pid")
        assert len(daemon.processes()) >= 3
        assert daemon.signal(number) == 0
    assert daemon.processes() == []
    assert not os.path.exists(daemon.socket)


def test_a_stop_before_the_host_is_up_leaves_no_process(daemon: Daemon) -> None:
    daemon.start().close()
    assert daemon.signal(signal.SIGTERM) == 0
    daemon.until(lambda: daemon.processes() == [])


def test_a_stop_waits_for_calls_and_turns_waiters_away(daemon: Daemon) -> None:
    gate, never = daemon.root / "gate", daemon.root / "never"
    daemon.configure(f'@echo\n@slow options.gate="{never}"')
    with daemon.start() as client, daemon.client() as waits, DataLine(client.call("Get", model="echo")) as line:
        line.begin("wait_for", str(gate))
        daemon.until(lambda: daemon.model("echo")["inFlight"] == 1)
        waits.send("Get", {"model": "slow"})
        daemon.until_state("slow", "loading")
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGTERM)
        with pytest.raises(Refused, match="ShuttingDown"):
            waits.result()
        assert client.call("Status")["daemon"]["state"] == "stopping"
        with pytest.raises(Refused, match="ShuttingDown"):
            client.call("Get", model="echo")
        gate.touch()
        assert line.end() == "came"
        assert daemon.process.wait(LIMIT_S) == 0
    assert daemon.processes() == []


def test_a_second_signal_ends_calls(daemon: Daemon) -> None:
    with daemon.start() as client, DataLine(client.call("Get", model="echo")) as line:
        line.begin("wait_for", "/nonexistent")
        daemon.until(lambda: daemon.model("echo")["inFlight"] == 1)
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGINT)
        daemon.until(lambda: client.call("Status")["daemon"]["state"] == "stopping")
        began = time.monotonic()
        assert daemon.signal(signal.SIGINT) == 0
        assert time.monotonic() - began < 10
    assert daemon.processes() == []


def test_hang_up_reloads(daemon: Daemon) -> None:
    with daemon.start() as client:
        daemon.configure("@echo\n@more")
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: {model["name"] for model in client.call("Status")["models"]} == {"echo", "more"})


def test_a_control_socket_that_was_removed_is_made_anew_and_who_is_connected_stays_so(daemon: Daemon) -> None:
    with daemon.start() as client:
        os.unlink(daemon.socket)
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: os.path.exists(daemon.socket))
        with daemon.client() as another:
            assert another.call("Health")["live"]
        assert client.call("Health")["live"]
    assert daemon.signal(signal.SIGTERM) == 0
    assert not os.path.exists(daemon.socket)


def test_hang_up_stops_when_the_terminal_has_gone(daemon: Daemon) -> None:
    terminal, inside = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(inside, termios.TIOCSCTTY, 0)

    daemon.start(preexec_fn=take_terminal).close()
    os.close(inside)
    os.close(terminal)  # the window is closed: the kernel sends SIGHUP
    assert daemon.process is not None
    daemon.process.wait(LIMIT_S)
    daemon.until(lambda: daemon.processes() == [])


def test_idle_unload_ends_the_worker_and_not_the_service(daemon: Daemon) -> None:
    """`os._exit` on idle ends the service: the process that answers stays."""
    daemon.configure('@echo idle_timeout="300ms"')
    with daemon.start() as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        daemon.until(lambda: gone(pid))
        daemon.until_state("echo", "cold")
        assert client.call("Status")["models"][0]["bookedBytes"] == {}
        assert client.call("Call", model="echo", method="pid")["result"] != pid
        assert daemon.process is not None
        assert daemon.process.poll() is None


# A unit.


def test_ready_is_told_when_the_socket_answers(daemon: Daemon, systemd: Systemd) -> None:
    daemon.spawn(env=systemd.environment)
    systemd.until("READY=1")
    with daemon.client() as client:
        assert client.call("Health")["live"]
    assert daemon.host_pid() is None, "as a unit the host is systemd's to start"


def test_the_status_is_words_in_ascii(daemon: Daemon, systemd: Systemd) -> None:
    daemon.spawn(env=systemd.environment)
    assert systemd.until("STATUS=").startswith("STATUS=starting: 0 of 1 models loaded, ram 0 bytes of ")


def test_as_a_unit_sigterm_ends_the_manager_alone_and_at_once(daemon: Daemon, systemd: Systemd) -> None:
    daemon.start().close()
    daemon.until(lambda: daemon.host_pid())
    daemon.kill()
    with daemon.start(env=systemd.environment) as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        with DataLine(client.call("Get", model="echo")) as line:
            line.begin("wait_for", str(daemon.root / "gate"))
            daemon.until(lambda: daemon.model("echo")["inFlight"] == 1)
            assert daemon.signal(signal.SIGTERM) == 0
            (daemon.root / "gate").touch()
            assert line.end() == "came"
    assert not gone(pid)


def test_as_a_unit_sigusr1_announces_a_stop_and_sigterm_does_not_cut_it_short(daemon: Daemon, systemd: Systemd) -> None:
    daemon.start().close()
    daemon.until(lambda: daemon.host_pid())
    daemon.kill()
    with daemon.start(env=systemd.environment) as client, DataLine(client.call("Get", model="echo")) as line:
        pid = line.call("pid")
        line.begin("wait_for", str(daemon.root / "gate"))
        daemon.until(lambda: daemon.model("echo")["inFlight"] == 1)
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGUSR1)
        systemd.until("STOPPING=1")
        daemon.process.send_signal(signal.SIGTERM)
        with pytest.raises(Refused, match="ShuttingDown"):
            client.call("Get", model="echo")
        (daemon.root / "gate").touch()
        assert line.end() == "came"
        assert daemon.process.wait(LIMIT_S) == 0
    assert gone(pid)
    host = daemon.host_pid()
    assert host is not None
    assert not gone(host), "the host is a unit of its own, and systemd's to stop"


def test_reloading_is_told_and_ready_again(daemon: Daemon, systemd: Systemd) -> None:
    with daemon.start(env=systemd.environment) as client:
        systemd.until("READY=1")
        client.call("Reload")
        assert "MONOTONIC_USEC=" in systemd.until("RELOADING=1")
        systemd.until("READY=1")


def test_the_watchdog_is_fed_only_while_the_loop_turns(daemon: Daemon, systemd: Systemd) -> None:
    daemon.spawn(env={**systemd.environment, "WATCHDOG_USEC": "300000"})
    systemd.until("READY=1")
    first = [time.monotonic()]
    for _ in range(3):
        systemd.until("WATCHDOG=1", within_s=5)
        first.append(time.monotonic())
    assert daemon.process is not None
    os.kill(daemon.process.pid, signal.SIGSTOP)
    systemd.waiting()
    with pytest.raises(TimeoutError):
        systemd.until("WATCHDOG=1", within_s=1.0)
    os.kill(daemon.process.pid, signal.SIGCONT)
    systemd.until("WATCHDOG=1")


def test_without_a_watchdog_nothing_is_fed(daemon: Daemon, systemd: Systemd) -> None:
    with daemon.start(env=systemd.environment) as client:
        systemd.until("READY=1")
        client.call("Status")
        assert not [message for message in systemd.waiting() if message.startswith("WATCHDOG")]


AS_SYSTEMD_DOES = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_an_inherited_socket_is_served_and_left_behind(daemon: Daemon) -> None:
    path = str(daemon.root / "systemd.sock")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-c",
                AS_SYSTEMD_DOES,
                str(listening.fileno()),
                str(LAZYD),
                "--config",
                str(daemon.config),
            ),
            *("--runtime-dir", str(daemon.runtime), "--state-dir", str(daemon.state)),
        ],
        pass_fds=[listening.fileno()],
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "LAZYD_SOCKET"},
    )
    daemon.process, daemon.socket = process, path
    with daemon.client() as client:
        assert client.call("Health")["live"]
        assert client.call("Status")["daemon"]["pid"] == process.pid
    assert daemon.signal(signal.SIGTERM) == 0
    assert os.path.exists(path)
    listening.close()


# What it costs.


def test_an_idle_manager_is_small_and_asleep(daemon: Daemon) -> None:
    """At most 35 MB resident and one wake-up a second."""
    with daemon.start() as client:
        daemon.until(lambda: client.call("Status")["daemon"]["state"] == "running")
        client.call("Call", model="echo", method="echo")
        client.call("Unload", all=True)
        assert daemon.process is not None
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        resident = int(status.split("VmRSS:")[1].split()[0]) * 1024
        assert resident <= 35_000_000
        daemon.until(lambda: sleeps(daemon.process.pid))  # as soon as what the call has taught is written down


def sleeps(pid: int) -> bool:
    """Whether a process wakes up no more than once a second. Takes 4 s."""
    before = wakeups(pid)
    time.sleep(4)
    return wakeups(pid) - before <= 4


def wakeups(pid: int) -> int:
    """How often the threads of a process went to sleep of themselves."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
        except FileNotFoundError:  # it has just ended
            continue
        total += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total
