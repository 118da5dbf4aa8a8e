"""A host without processes: it keeps the protocol, and a test speaks for its workers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

from lazyd import places

from .waiting import until


class FakeHost:
    """Listens where the host of a runtime directory does."""

    def __init__(self, runtime: str, *, started: float = 1.0) -> None:
        self.path = places.host_socket(runtime)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.started = started
        self.workers: list[dict[str, Any]] = []
        self.heard: list[dict[str, Any]] = []
        self.channels: dict[str, socket.socket] = {}
        """The workers' ends of their manager channels."""
        self.mute = False
        self.kept: Any = None
        """What an earlier manager had it keep."""
        self._loop = asyncio.get_running_loop()
        self._manager: socket.socket | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen()
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def add(self, worker: str, **report: Any) -> None:
        self.workers.append(
            {"worker": worker, "pid": 1, "started": 1.0, "endpoint": f"/{worker}", "memo": {"model": "m"}, **report}
        )

    def say(self, message: dict[str, Any]) -> None:
        """To the manager."""
        assert self._manager is not None
        self._manager.send(json.dumps(message).encode())

    def say_as(self, worker: str, message: dict[str, Any]) -> None:
        """To the manager, over the worker's channel."""
        self.channels[worker].send(json.dumps(message).encode())

    async def told(self, deed: str) -> dict[str, Any]:
        """The last message of this kind, once there is one."""
        await until(lambda: any(message["do"] == deed for message in self.heard))
        return [message for message in self.heard if message["do"] == deed][-1]

    def drop_manager(self) -> None:
        """Closes the connection alone; the host lives."""
        assert self._manager is not None
        self._loop.remove_reader(self._manager.fileno())
        self._manager.close()
        self._manager = None

    def close(self) -> None:
        """The host dies, and all workers with it."""
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        os.unlink(self.path)
        for channel in self.channels.values():
            channel.close()
        self.channels.clear()
        if self._manager is not None:
            self.drop_manager()

    def _accept(self) -> None:
        self._manager, _ = self._listener.accept()
        self._manager.setblocking(False)
        self._loop.add_reader(self._manager.fileno(), self._read)

    def _read(self) -> None:
        assert self._manager is not None
        data, fds, _, _ = socket.recv_fds(self._manager, 1 << 20, 4)
        if not data:
            self.drop_manager()
            return
        message = json.loads(data)
        self.heard.append(message)
        if message["do"] == "hello" and not self.mute:
            self.say({"is": "hello", "pid": os.getpid(), "version": "1", "started": self.started, "kept": self.kept})
            for report in self.workers:
                self.say({"is": "worker", "report": report})
            self.say({"is": "all"})
        elif message["do"] in ("start", "attach"):
            self.channels[message["worker"]] = socket.socket(fileno=fds[0])
