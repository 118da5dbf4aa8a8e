"""The half of a manager that deals with the host, with a host that a test speaks for."""

from __future__ import annotations

from typing import Any

from lazyd.core.effects import StartWorker
from lazyd.core.events import Event
from lazyd.core.spec import ModelSpec
from lazyd.manager.processes import hostlink
from lazyd.manager.processes.hostkeeper import HostKeeper
from lazyd.manager.processes.keeping import Keeping
from lazyd.manager.processes.workers import Workers
from lazyd.manager.tasks import Background

from .fake_host import FakeHost
from .waiting import until


class Manager:
    """The part of a manager that deals with the host."""

    def __init__(self, runtime: str) -> None:
        self.told: list[Event] = []
        self.notes: list[str] = []
        self.links: list[hostlink.HostLink] = []
        self.keeping = Keeping()
        self.background = Background()
        self.spec = ModelSpec(name="m", runtime="python", env={"A": "1"})
        self.counted: set[str] = set()
        """The workers that the core counts with."""
        self.workers = Workers(
            self.told.append,
            lambda key: self.spec if key == "m" else None,
            self.background.once,
            lambda: self.counted,
        )
        self.host = HostKeeper(
            runtime,
            "/control.sock",
            "1",
            self.workers,
            self.told.append,
            starts_hosts=False,
            on_connected=self.connected,
            note=lambda kind, _: self.notes.append(kind),
        )

    def connected(self, link: hostlink.HostLink) -> None:
        self.links.append(link)
        self.keeping.connected(link)

    async def start(self) -> bool:
        found = await self.host.find()
        self.background.keep("host", self.host.keep)
        return found

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    def start_worker(
        self, worker: str = "w", model: str = "m", devices: tuple[str, ...] = ("ram",), **layers: int
    ) -> None:
        memo = {"booking": {"ram": 1}}
        self.workers.start(StartWorker(worker=worker, model=model, devices=devices, memo=memo, layers=layers))


async def report(host: FakeHost, worker: str, **fields: Any) -> None:
    """The worker says first what it holds."""
    await until(lambda: worker in host.channels)
    found = next(each for each in host.workers if each["worker"] == worker)
    host.say_as(worker, {"is": "report", "report": {**found, **fields}})
