"""Small servers that speak the real protocols: a daemon's control socket, a worker's data socket.

Both run in threads of the test, answer by functions that the test gives, and record what they
were asked.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from lazyd.errors import LazydError
from lazyd.wire.frames import Frame, FrameReader, frame_parts
from lazyd.wire.values import pack, unpack
from lazyd.wire.varlink import Splitter, encode

DEADLINE_S = 10.0
"""Far more than anything here takes; a test that reaches it has failed."""


class Hangup(Exception):
    """A handler raises it to end the connection without an answer."""


class Server:
    """Listens on a Unix socket, one thread a connection."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.connections: set[socket.socket] = set()
        self.accepted = 0
        self._listener: socket.socket | None = None
        self.start()

    def start(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def kill(self) -> None:
        """As SIGKILL does it: the socket file stays, nobody is behind it, connections end."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in list(self.connections):
            self.hang_up(connection)

    def restart(self) -> None:
        self.path.unlink()
        self.start()

    def hang_up(self, connection: socket.socket) -> None:
        self.connections.discard(connection)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if self._listener is not listener:  # killed meanwhile
                connection.close()
                return
            self.connections.add(connection)
            self.accepted += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(Hangup, OSError):
                self.serve(connection)
        finally:
            self.hang_up(connection)


class FakeDaemon(Server):
    """`on["Get"] = function(parameters) -> reply`; a function that yields answers with a stream."""

    def __init__(self, path: pathlib.Path) -> None:
        self.on: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        super().__init__(path)

    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]

    def serve(self, connection: socket.socket) -> None:
        splitter = Splitter()
        while data := connection.recv(65536):
            for message in splitter.feed(data):
                method = message["method"].removeprefix("io.lazyd.")
                self.asked.append((method, message["parameters"]))
                for reply in self._replies(method, message):
                    connection.sendall(encode(reply))

    def _replies(self, method: str, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            reply = self.on[method](message["parameters"])
            if isinstance(reply, dict):
                yield {"parameters": reply}
                return
            replies = list(reply) if not message.get("more") else reply
            last: dict[str, Any] | None = None
            for each in replies:
                if last is not None:
                    yield {"parameters": last, "continues": True}
                last = each
            yield {"parameters": last}
        except LazydError as error:
            yield {"error": error.varlink_name, "parameters": error.to_parameters()}


class CallInWorker:
    """A call as a handler sees it."""

    def __init__(self, worker: FakeWorker, connection: socket.socket, frame: Frame) -> None:
        self.worker = worker
        self.connection = connection
        self.id = frame.header["id"]
        self.stream = frame.header["stream"]
        self.timeout_s = frame.header.get("timeoutSec")
        self.args = unpack(frame.header["args"], frame.buffers)
        self.kwargs = unpack(frame.header["kwargs"], frame.buffers)
        self.cancelled = threading.Event()


class FakeWorker(Server):
    """`on["run"] = function(call) -> result`, or an iterator of pieces; each call has a thread."""

    def __init__(self, path: pathlib.Path, model: str = "gemma") -> None:
        self.model = model
        self.on: dict[str, Callable[[CallInWorker], Any]] = {"echo": lambda call: call.args[0]}
        self.called: list[str] = []
        self.tokens: set[str] = set()
        self.calls: dict[tuple[socket.socket, int], CallInWorker] = {}
        self.cancels: list[int] = []
        self.draining = False
        self.in_flight = 0
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._admission = threading.Lock()
        super().__init__(path)

    def grant(self, _: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The reply of ``Get``: a new lease."""
        number = next(self._numbers)
        self.tokens.add(f"token-{number}")
        reply = {"lease": f"lease-{number}", "token": f"token-{number}", "endpoint": str(self.path)}
        return {**reply, "model": self.model, "version": "", "coldStart": False, "waitedSec": 0.0, **more}

    def revoke(self) -> None:
        """Nothing is in flight, nothing more is admitted."""
        for connection in list(self.connections):
            self._send(connection, {"revoked": True})
            self.hang_up(connection)

    def drain_and_revoke(self) -> None:
        """As a worker does it: first nothing more is admitted, then calls end, then all are told."""
        with self._admission:
            self.draining = True
        eventually(lambda: not self.in_flight)
        connections = list(self.connections)
        for connection in connections:
            with contextlib.suppress(OSError):  # a client that has just left
                self._send(connection, {"revoked": True})
            self.hang_up(connection)
        self.draining = False

    def serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        greeted = False
        while count := connection.recv_into(reader.space()):
            for frame in reader.received(count):
                if greeted:
                    self._heard(connection, frame)
                else:
                    self._greet(connection, frame)
                    greeted = True

    def _greet(self, connection: socket.socket, frame: Frame) -> None:
        assert frame.header["v"] == 1
        if frame.header["token"] not in self.tokens:
            self._send(connection, {"error": "NoSuchLease", "parameters": {"lease": ""}})
            raise Hangup
        self.tokens.remove(frame.header["token"])
        self._send(connection, {"v": 1})

    def _heard(self, connection: socket.socket, frame: Frame) -> None:
        if "cancel" in frame.header:
            self.cancels.append(frame.header["cancel"])
            self.calls[connection, frame.header["cancel"]].cancelled.set()
            return
        with self._admission:
            admitted = not self.draining
            self.in_flight += admitted
        if not admitted:
            self._send(connection, {"id": frame.header["id"], "error": "Revoked", "parameters": {"model": self.model}})
            return
        call = CallInWorker(self, connection, frame)
        self.calls[connection, call.id] = call
        self.called.append(frame.header["method"])
        threading.Thread(target=self._work, args=(call, frame.header["method"]), daemon=True).start()

    def _work(self, call: CallInWorker, method: str) -> None:
        try:
            with contextlib.suppress(Hangup, OSError):
                self._answer(call, method)
        finally:
            with self._admission:
                self.in_flight -= 1

    def _answer(self, call: CallInWorker, method: str) -> None:
        try:
            result = self.on[method](call)
            if isinstance(result, Iterator):
                for piece in list(result) if not call.stream else result:
                    self._send(call.connection, {"id": call.id, "more": True}, piece)
                self._send(call.connection, {"id": call.id, "end": True}, None)
            else:
                self._send(call.connection, {"id": call.id}, result)
        except LazydError as error:
            name = error.varlink_name.rpartition(".")[2]
            self._send(call.connection, {"id": call.id, "error": name, "parameters": error.to_parameters()})

    def _send(self, connection: socket.socket, head: dict[str, Any], *results: Any) -> None:
        buffers: list[Any] = []
        for result in results:
            head["result"], buffers = pack(result)
        with self._sending:
            for part in frame_parts(head, buffers):
                connection.sendall(part)


def eventually(condition: Callable[[], object]) -> None:
    """Waits until something that another thread does has happened."""
    waiter = threading.Event()
    for _ in range(int(DEADLINE_S * 100)):
        if condition():
            return
        waiter.wait(0.01)
    raise AssertionError("it did not happen")


def open_sockets() -> int:
    """How many sockets this process has open."""
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(os.path.exists(link) and os.readlink(link).startswith("socket:") for link in links)
