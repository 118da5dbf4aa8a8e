"""A manager for tests of the host: it speaks the host's protocol, and a data-socket client beside it.

Everything waits for an event with a deadline; nothing sleeps and hopes.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lazyd import places
from lazyd.wire import packets, values
from lazyd.wire.frames import Frame, FrameReader, frame_parts
from lazyd.worker import link

LIMIT_S = 60.0
MODELS = Path(__file__).resolve().parents[2] / "build" / "models"
FACTORIES = Path(__file__).resolve().parent / "factories"

Message = dict[str, Any]


class Channel:
    """One end of a packet socket, as the manager holds it. Messages that were looked past are kept."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.seen: list[Message] = []
        self.is_open = True

    def send(self, message: Message, *fds: int) -> None:
        data, all_fds, ours = link.encode(message, fds)
        socket.send_fds(self.socket, [data], all_fds)
        if ours is not None:
            os.close(ours)

    def expect(self, wanted: Callable[[Message], bool] | str, limit_s: float = LIMIT_S, **fields: Any) -> Message:
        """The first message, of those seen or to come, that fits; it is taken out. Others stay."""

        def fits(message: Message) -> bool:
            if isinstance(wanted, str):
                return message.get("is") == wanted and all(message.get(k) == v for k, v in fields.items())
            return wanted(message)

        deadline = time.monotonic() + limit_s
        while True:
            for index, message in enumerate(self.seen):
                if fits(message):
                    return self.seen.pop(index)
            assert self._receive(deadline), f"{wanted} {fields} did not come; seen: {self.seen}"

    def expect_end(self, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while self._receive(deadline):
            pass
        assert not self.is_open, "the channel is still open"

    def read_dry(self) -> list[Message]:
        """What has arrived by now."""
        while self._receive(time.monotonic()):
            pass
        return self.seen

    def close(self) -> None:
        self.socket.close()

    def _receive(self, deadline: float) -> bool:
        if not self.is_open or not readable(self.socket, deadline):
            return False
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, packets.MAX_PACKET_BYTES, packets.MAX_FDS)
        except ConnectionResetError:  # it ended with something of ours unread
            data, fds = b"", []
        if not data:
            self.is_open = False
            return False
        message, _ = link.decode(data, list(fds))
        self.seen.append(message)
        return True


class Manager:
    """A manager's connection to the host, and its channels to workers."""

    def __init__(self, runtime_dir: Path) -> None:
        self.runtime_dir = runtime_dir
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        wait_until(lambda: _connects(sock, places.host_socket(str(runtime_dir))), "the host's socket")
        self.host = Channel(sock)
        self.host.send({"do": "hello", "pid": os.getpid(), "version": "test"})
        self.hello = self.host.expect("hello")
        self.host.expect("all")
        self.found = {m["report"]["worker"]: m["report"] for m in self.host.seen if m["is"] == "worker"}
        self.workers: dict[str, Channel] = {}

    def start(self, worker: str, spec: Message, **memo: Any) -> Channel:
        """Orders a worker and returns its channel at once."""
        ours, theirs = packets.pair()
        order = {"do": "start", "worker": worker, "model": spec["name"], "spec": spec, "devices": ["ram"], "memo": memo}
        self.host.send(order, theirs.fileno())
        theirs.close()
        self.workers[worker] = Channel(ours)
        return self.workers[worker]

    def attach(self, worker: str) -> Channel:
        ours, theirs = packets.pair()
        self.host.send({"do": "attach", "worker": worker}, theirs.fileno())
        theirs.close()
        self.workers[worker] = Channel(ours)
        return self.workers[worker]

    def load(self, worker: str, spec: Message, model: str | None = None) -> Channel:
        """Starts a worker and has it load; returns when it is ready."""
        channel = self.start(worker, spec)
        name = model or spec["name"]
        channel.send({"do": "load", "model": name})
        channel.expect(lambda m: m.get("is") in ("ready", "failed"))["is"]
        return channel

    def grant(self, worker: str, model: str, lease: str, **more: Any) -> str:
        """A lease; its token is the answer."""
        token = f"token-of-{lease}"
        self.workers[worker].send(
            {
                "do": "grant",
                "model": model,
                "lease": lease,
                "token": token,
                "holder": os.getuid(),
                "hold_until": more.pop("hold_until", 0.0),
                "parent": more.pop("parent", None),
            }
        )
        return token

    def connect(self, worker: str, model: str, lease: str, **more: Any) -> Client:
        """A client with a fresh lease."""
        token = self.grant(worker, model, lease, **more)
        return Client(places.data_socket(str(self.runtime_dir), worker), token)

    def connect_later(self, worker: str, model: str, lease: str) -> Client:
        """A client whose greeting has not been read yet."""
        token = self.grant(worker, model, lease)
        client = Client(places.data_socket(str(self.runtime_dir), worker), None)
        client.send({"v": 1, "token": token})
        return client

    def stop(self, worker: str, grace_s: float = 10.0) -> Message:
        self.host.send({"do": "stop", "worker": worker, "grace_s": grace_s})
        return self.host.expect("exited", worker=worker)

    def measured(self, worker: str, *only: str) -> Message:
        """What the host says of a worker in a round of all workers, or of `only` these."""
        self.host.send({"do": "measure", "workers": list(only)} if only else {"do": "measure"})
        return self.host.expect("measured", worker=worker)

    def measure(self, worker: str) -> int:
        return int(self.measured(worker)["bytes"]["ram"])

    def vanish(self) -> None:
        """As if killed: every socket is closed."""
        self.host.close()
        for channel in self.workers.values():
            channel.close()


class Client:
    """A client on a data socket."""

    def __init__(self, endpoint: str, token: str | None) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(endpoint)
        self.reader = FrameReader()
        self.frames: list[Frame] = []
        self.is_open = True
        self.number = 0
        if token is not None:
            self.send({"v": 1, "token": token})
            self.greeting = self.next().header

    def send(self, header: Message, buffers: Any = ()) -> None:
        for part in frame_parts(header, buffers):
            self.socket.sendall(part)

    def ask(self, method: str, *args: Any, stream: bool = False, **kwargs: Any) -> int:
        """Sends a call; its number is the answer."""
        self.number += 1
        packed, buffers = values.pack({"args": list(args), "kwargs": kwargs})
        self.send({"id": self.number, "method": method, "stream": stream, **packed}, buffers)
        return self.number

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """One call and its result. Raises `CallError`."""
        self.ask(method, *args, **kwargs)
        return self.answer()

    def answer(self, limit_s: float = LIMIT_S) -> Any:
        header, buffers = self.next(limit_s)
        if "error" in header:
            raise CallError(header["error"], header["parameters"])
        return values.unpack(header["result"], buffers)

    def stream(self, method: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self.ask(method, *args, stream=True, **kwargs)
        while True:
            header, buffers = self.next()
            if "error" in header:
                raise CallError(header["error"], header["parameters"])
            if not header.get("end"):
                yield values.unpack(header["result"], buffers)
            if not header.get("more"):
                return

    def next(self, limit_s: float = LIMIT_S) -> Frame:
        """The next frame. Raises `EOFError`."""
        deadline = time.monotonic() + limit_s
        while not self.frames:
            assert self.is_open, "the connection has ended"
            assert readable(self.socket, deadline), "no frame came"
            try:
                count = self.socket.recv_into(self.reader.space())
            except ConnectionResetError:
                count = 0
            if not count:
                self.is_open = False
                raise EOFError
            self.frames += self.reader.received(count)
        return self.frames.pop(0)

    def expect_end(self, limit_s: float = LIMIT_S) -> list[Message]:
        """The headers that still come before the end of the connection."""
        headers = []
        try:
            while True:
                headers.append(self.next(limit_s).header)
        except EOFError:
            return headers

    def close(self) -> None:
        self.socket.close()


class CallError(Exception):
    """A call's error as it was answered."""

    def __init__(self, name: str, parameters: Message) -> None:
        super().__init__(name, parameters)
        self.name = name
        self.parameters = parameters


class Host:
    """A host process in a private runtime directory."""

    def __init__(self, runtime_dir: Path, *, cgroups: bool = True, env: dict[str, str] | None = None) -> None:
        self.runtime_dir = runtime_dir
        command = [sys.executable, "-m", "lazyd.host", "--runtime-dir", str(runtime_dir)]
        own_env = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "SYSTEMD_EXEC_PID")}
        if not cgroups:
            command = [sys.executable, "-c", WITHOUT_CGROUPS, "--runtime-dir", str(runtime_dir)]
        self.process = subprocess.Popen(command, env={**own_env, **(env or {})}, start_new_session=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def manager(self) -> Manager:
        return Manager(self.runtime_dir)

    def log(self, name: str = "") -> str:
        path = places.worker_log(str(self.runtime_dir), name) if name else places.host_log(str(self.runtime_dir))
        return Path(path).read_text()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise


WITHOUT_CGROUPS = (
    "import sys; from lazyd.host import cgroups, main; cgroups.Cgroups.claim = classmethod(lambda cls: None); "
    "sys.exit(main.main())"
)


@contextmanager
def running_host(*, cgroups: bool = True, env: dict[str, str] | None = None) -> Iterator[Host]:
    """A host; all of it is gone at the end, or the test fails."""
    with tempfile.TemporaryDirectory(prefix="lazyd-") as directory:  # short: socket paths have 107 bytes
        host = Host(Path(directory), cgroups=cgroups, env=env)
        try:
            yield host
        finally:
            host.end()


def python_spec(factory: str, name: str = "thing", **more: Any) -> Message:
    return {
        "name": name,
        "runtime": "python",
        "factory": factory,
        "python_path": [str(FACTORIES)],
        **more,
    }


def llama_spec(model: str = "smollm2", **options: Any) -> Message:
    return {"name": model, "runtime": "llama_cpp", "path": str(MODELS / f"{model}.gguf"), "options": options}


def readable(sock: socket.socket, deadline: float) -> bool:
    return bool(select.select([sock], [], [], max(0.0, deadline - time.monotonic()))[0])


def wait_until(condition: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> Any:
    """Looks until it is so, for what no event announces to this process."""
    deadline = time.monotonic() + limit_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        select.select([], [], [], 0.005)
    return result


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _connects(sock: socket.socket, path: str) -> bool:
    try:
        sock.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True
