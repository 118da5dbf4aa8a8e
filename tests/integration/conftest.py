"""A real lazyd of a test's own: manager, host and workers in a temporary directory, none of them mocked."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LAZYD = Path(sys.executable).with_name("lazyd")
LAZYCTL = Path(sys.executable).with_name("lazyctl")
LIMIT_S = 60.0
"""How long anything may take before a test fails."""

ACTORS = '''
"""Models for tests: what they do is what a test asks of them."""
import os, time

class Actor:
    def __init__(self, member=None, **options):
        self.member, self.options = member, options
    def echo(self, *args, **kwargs): return {"args": list(args), "kwargs": kwargs}
    def pid(self): return os.getpid()
    def count(self, n):
        for i in range(n): yield i
    def wait_for(self, path):
        while not os.path.exists(path): time.sleep(0.01)
        return "came"
    def say(self, *lines):
        for line in lines: print(line, flush=True)
    def fail(self, text): raise ValueError(text)
    def nest(self, model, method, *args):
        import lazyd
        with lazyd.connect() as client: return client.call(model, method, *args)
    def exit(self, status): os._exit(status)
    def bytes(self, n): return b"x" * n

def actor(*member, gate=None, **options):
    """Loads at once, or when the file `gate` is there; it says that it waits by a file beside it."""
    if gate is not None: open(gate + ".waiting", "w").close()
    while gate is not None and not os.path.exists(gate): time.sleep(0.01)
    return Actor(*member, **options)

def broken(**options): raise RuntimeError("this model cannot be made")
def leaves(**options): os._exit(7)
'''


class Refused(Exception):
    """The daemon answered with an error."""

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__(json.dumps(reply))
        self.name: str = reply["error"]
        self.parameters: dict[str, Any] = reply["parameters"]


class Client:
    """A varlink client without comfort: what is sent and received is what a test says."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(path)
        self._rest = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, method: str, parameters: dict[str, Any] | None = None, **flags: bool) -> None:
        message = {"method": f"io.lazyd.{method}", "parameters": parameters or {}, **flags}
        self.socket.sendall(json.dumps(message).encode() + b"\0")

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the daemon has closed the connection")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        reply: dict[str, Any] = json.loads(message)
        return reply

    def result(self) -> dict[str, Any]:
        """The next reply's parameters. Raises `Refused`."""
        reply = self.receive()
        if "error" in reply:
            raise Refused(reply)
        parameters: dict[str, Any] = reply["parameters"]
        return parameters

    def call(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        self.send(method, parameters)
        return self.result()

    def stream(self, method: str, /, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Every reply's parameters, the last one's too."""
        self.send(method, parameters, more=True)
        while True:
            reply = self.receive()
            if "error" in reply:
                raise Refused(reply)
            yield reply["parameters"]
            if not reply.get("continues"):
                return


class DataLine:
    """A connection to a worker under a lease."""

    def __init__(self, lease: dict[str, Any]) -> None:
        self.lease: str = lease["lease"]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(lease["endpoint"])
        self._send({"v": 1, "token": lease["token"]})
        assert self._receive() == {"v": 1}
        self._calls = 0

    def __enter__(self) -> DataLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def begin(self, method: str, *args: Any) -> None:
        self._calls += 1
        self._send({"id": self._calls, "method": method, "args": list(args), "kwargs": {}, "stream": False})

    def end(self) -> Any:
        """The result of the call that was begun."""
        reply = self._receive()
        assert reply.get("id") == self._calls, reply
        assert "error" not in reply, reply
        return reply["result"]

    def call(self, method: str, *args: Any) -> Any:
        self.begin(method, *args)
        return self.end()

    def _send(self, header: dict[str, Any]) -> None:
        data = json.dumps(header).encode()
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def _receive(self) -> dict[str, Any]:
        (size,) = struct.unpack(">I", self._exactly(4))
        header: dict[str, Any] = json.loads(self._exactly(size))
        return header

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the worker has closed the connection")
            data += piece
        return data


class Daemon:
    """One lazyd in a directory of its own. Only processes that name this directory are ever ended."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "lazyd.toml"
        self.runtime = root / "run"
        self.state = root / "state"
        self.socket = str(root / "control.sock")
        self.log = root / "lazyd.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[Client] = []
        (root / "actors.py").write_text(ACTORS)

    def configure(self, text: str) -> None:
        """Writes the configuration. `@` at the start of a line is a model of actors.py: ``@name key=value …``."""
        self.config.write_text("\n".join(self._expanded(line) for line in text.strip().splitlines()) + "\n")

    def _expanded(self, line: str) -> str:
        if not line.strip().startswith("@"):
            return line
        name, *settings = line.strip()[1:].split(" ")
        table = {"runtime": '"python"', "factory": '"actors:actor"', "python_path": json.dumps([str(self.root)])}
        options = {}
        for setting in settings:
            key, _, value = setting.partition("=")
            if key.startswith("options."):
                options[key.removeprefix("options.")] = value
            else:
                table[key] = value
        lines = [f'[models."{name}"]', *(f"{key} = {value}" for key, value in table.items())]
        if options:
            lines += [f'[models."{name}".options]', *(f"{key} = {value}" for key, value in options.items())]
        return "\n".join(lines)

    def spawn(self, *arguments: str, env: dict[str, str] | None = None, **popen: Any) -> subprocess.Popen[bytes]:
        """Starts a manager and does not wait for it."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LAZYD_SOCKET", "WATCHDOG_USEC")
        }
        with self.log.open("ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(
                [
                    str(LAZYD),
                    *("--config", str(self.config), "--socket", self.socket),
                    *("--runtime-dir", str(self.runtime), "--state-dir", str(self.state)),
                    *arguments,
                ],
                env={**environment, **(env or {})},
                **{**streams, **popen},
            )
        return self.process

    def start(self, *arguments: str, **options: Any) -> Client:
        """Starts a manager and waits until it answers."""
        process = self.spawn(*arguments, **options)
        deadline = time.monotonic() + LIMIT_S
        while True:
            with contextlib.suppress(OSError):
                client = self.client()
                if client.call("Status")["daemon"]["pid"] == process.pid:
                    return client
            assert process.poll() is None, f"lazyd ended with {process.returncode}:\n{self.log_text()}"
            assert time.monotonic() < deadline, f"lazyd does not answer:\n{self.log_text()}"
            time.sleep(0.005)

    def client(self) -> Client:
        client = Client(self.socket)
        self._clients.append(client)
        return client

    def model(self, name: str) -> dict[str, Any]:
        """What `Status` says of one model."""
        with self.client() as client:
            (model,) = client.call("Status", model=name)["models"]
        found: dict[str, Any] = model
        return found

    def until(self, condition: Callable[[], Any], within_s: float = LIMIT_S) -> Any:
        """Waits until something is so, and returns it."""
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, f"it did not come to be:\n{self.log_text()}"
            time.sleep(0.01)
        return found

    def until_state(self, name: str, state: str) -> dict[str, Any]:
        found: dict[str, Any] = self.until(lambda: (m := self.model(name))["state"] == state and m)
        return found

    def until_it_loads(self, name: str, gate: Path) -> int:
        """Waits until the worker of a model with a gate stands before it. Its pid."""
        self.until(lambda: gate.with_name(gate.name + ".waiting").exists())
        pid: int = self.until(lambda: self.model(name)["workers"][0]["pid"])
        return pid

    def kill(self) -> None:
        """SIGKILL to the manager; host and workers stay."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def signal(self, number: int) -> int:
        """Sends a signal to the manager and waits for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)

    def host_pid(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self.runtime / "host" / "host.pid").read_text())
        return None

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def processes(self) -> list[int]:
        """All processes that mention this daemon's directory in their command line or environment."""
        found = []
        mark = str(self.root).encode()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                with contextlib.suppress(OSError):
                    texts = [Path(f"/proc/{entry}/{name}").read_bytes() for name in ("cmdline", "environ")]
                    if any(mark in text for text in texts) and not is_zombie(int(entry)):
                        found.append(int(entry))
        return found

    def clean_up(self) -> None:
        for client in self._clients:
            client.close()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.3)
                self.process.send_signal(signal.SIGINT)  # no test waits for calls that it has left behind
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.processes():  # a host whose manager was killed
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)


def is_zombie(pid: int) -> bool:
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return is_zombie(pid)
    except OSError:
        return True


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon that is not started yet."""
    daemon = Daemon(Path(tempfile.mkdtemp(prefix="lz-", dir="/tmp")))  # a short path: a socket's has 107 bytes
    daemon.configure("@echo")
    yield daemon
    daemon.clean_up()
