"""What was seen: everything that happened, by the clock, and what lazyd showed of itself."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.integration.conftest import Client, Refused

EVERY_S = 0.03
AGAIN_S = 0.02


@dataclass(frozen=True)
class Happened:
    """One thing. `who` is an actor, ``lazyd`` or ``driver``."""

    at: float
    """Seconds of the monotonic clock."""
    who: str
    what: str
    event: dict[str, Any] | None = None
    """Of lazyd's: the whole event."""


@dataclass(frozen=True)
class Snapshot:
    """What `Status` has answered; it was asked at `asked`, and had answered at `at`."""

    asked: float
    at: float
    devices: dict[str, dict[str, Any]]
    workers: dict[str, dict[str, Any]]
    """By id, each with its ``model`` and that model's ``state``."""
    reservations: dict[str, dict[str, Any]]


class Record:
    """All of it, from any thread."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        """When the daemon served."""
        self.happened: list[Happened] = []
        self.snapshots: list[Snapshot] = []
        self.violations: list[str] = []
        self._lock = threading.Lock()

    def note(self, who: str, what: str, event: dict[str, Any] | None = None, at: float | None = None) -> None:
        with self._lock:
            self.happened.append(Happened(time.monotonic() if at is None else at, who, what, event))

    def violation(self, text: str) -> None:
        self.note("VIOLATION", text)
        with self._lock:
            self.violations.append(text)

    def events(self, *kinds: str) -> list[Happened]:
        """What lazyd told, of these kinds."""
        return [h for h in list(self.happened) if h.event is not None and h.event["kind"] in kinds]


class Watcher:
    """Follows lazyd's events, and looks at its status again and again, whoever serves the socket just now."""

    def __init__(self, client: Callable[[], Client], record: Record) -> None:
        self._client = client
        self._record = record
        self._ended = threading.Event()
        self._clock = time.time() - time.monotonic()
        self._threads = [
            threading.Thread(target=self._again_and_again, args=[each], daemon=True)
            for each in (self._follow, self._look)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)

    def _again_and_again(self, watch: Callable[[Client], None]) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(OSError, Refused), self._client() as client:  # it is being killed, or started
                watch(client)
            time.sleep(AGAIN_S)

    def _follow(self, client: Client) -> None:
        client.socket.settimeout(0.5)
        client.send("Subscribe", more=True)
        while not self._ended.is_set():
            try:
                event = client.result()
            except TimeoutError:
                continue
            about = " ".join(filter(None, (event.get("model"), event.get("device"), event["kind"])))
            text = ": ".join(filter(None, (about, event.get("reason"))))
            self._record.note("lazyd", text, event, at=event["time"] - self._clock)
            if event.get("dropped"):
                self._record.note("lazyd", f"{event['dropped']} events were missed")

    def _look(self, client: Client) -> None:
        while not self._ended.is_set():
            self._record.snapshots.append(look(client))
            self._ended.wait(EVERY_S)


def look(client: Client) -> Snapshot:
    asked = time.monotonic()
    status = client.call("Status")
    return Snapshot(
        asked=asked,
        at=time.monotonic(),
        devices={device["name"]: device for device in status["devices"]},
        workers={
            worker["id"]: {**worker, "model": model["name"], "state": model["state"]}
            for model in status["models"]
            for worker in model["workers"]
        },
        reservations={reservation["id"]: reservation for reservation in status["reservations"]},
    )
