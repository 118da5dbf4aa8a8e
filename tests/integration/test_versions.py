"""Versions behind one name, with real workers: swaps under calls, promotions, shares, sticky keys, shadows."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lazyd

from .conftest import Client, Daemon, Refused

FACTORY = """
import time

class Answering:
    def __init__(self, version): self.version = version
    def version_of(self): time.sleep(0.001); return self.version
    def score(self, x): return [x * (1.0 if self.version == "4" else 1.5), self.version != "6"]
    def warmup(self):
        if self.version == "5": raise ValueError("nothing but zeros")

def load(version, pause=0.0):
    time.sleep(pause)
    return Answering(version)
"""


def ocr(root: Path, version: str, more: str = "") -> str:
    """One version, whose methods say which one it is."""
    return f"""
[models."ocr:{version}"]
runtime = "python"
factory = "versions:load"
python_path = ["{root}"]
options = {{version = "{version}", pause = 0.3}}
{more}
"""


def write(daemon: Daemon, *versions: str, more: str = "") -> None:
    (daemon.root / "versions.py").write_text(FACTORY)
    daemon.config.write_text("".join(ocr(daemon.root, version) for version in versions) + more)


def answers(daemon: Daemon, name: str = "ocr") -> str:
    """The model that requests by a name go to."""
    with daemon.client() as client:
        (named,) = client.call("Versions", model=name)["names"]
    return str(named["answers"])


def events(client: Client) -> Iterator[dict[str, Any]]:
    yield from client.stream("Subscribe")


class Callers:
    """Threads that call a name all the time, with connections of their own, and count what answers."""

    def __init__(self, daemon: Daemon, name: str, threads: int, pause_s: float) -> None:
        self.seen: list[tuple[float, str]] = []
        self.failed: list[BaseException] = []
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._call, args=(daemon.socket, name, pause_s)) for _ in range(threads)
        ]

    def _call(self, socket: str, name: str, pause_s: float) -> None:
        with lazyd.connect(socket) as client:
            model = client.model(name)
            while not self._end.is_set():
                try:
                    self.seen.append((time.monotonic(), model.version_of()))
                except BaseException as error:
                    self.failed.append(error)
                self._end.wait(pause_s)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in self._threads:
                thread.join()

    def until(self, version: str, daemon: Daemon) -> None:
        daemon.until(lambda: self.seen and self.seen[-1][1] == version)


def test_a_version_is_swapped_under_calls_and_none_fails(daemon: Daemon) -> None:
    write(daemon, "3")
    callers = Callers(daemon, "ocr", threads=4, pause_s=0.04)
    with daemon.start() as client, callers.at_work():
        callers.until("3", daemon)
        write(daemon, "3", "4")
        client.call("Reload")
        callers.until("4", daemon)
        daemon.until(lambda: answers(daemon) == "ocr:4")
        daemon.until_state("ocr:3", "cold")
        client.call("Rollback", model="ocr")
        callers.until("3", daemon)
        daemon.until_state("ocr:4", "cold")
        write(daemon, "4")  # the one that answers is configured no more
        client.call("Reload")
        callers.until("4", daemon)
    assert callers.failed == []
    order = [version for _, version in sorted(callers.seen)]
    swaps = sum(one != other for one, other in itertools.pairwise(order))
    assert swaps < 30, "clients move one by one, and each only once"


def test_a_version_that_fails_its_warm_up_never_answers_and_is_told(daemon: Daemon) -> None:
    write(daemon, "3")
    callers = Callers(daemon, "ocr", threads=2, pause_s=0.02)
    with daemon.start() as client, daemon.client() as listener, callers.at_work():
        listener.send("Subscribe", more=True)
        callers.until("3", daemon)
        write(daemon, "3", "5")
        client.call("Reload")
        while (event := listener.result())["kind"] != "swap failed":
            pass
        assert "ocr stays with ocr:3" in event["reason"]
        assert "nothing but zeros" in event["reason"]
        assert "nothing but zeros" in daemon.model("ocr:5")["lastError"]
        assert answers(daemon) == "ocr:3"
    assert callers.failed == []
    assert {version for _, version in callers.seen} == {"3"}


def test_promotions_outlive_the_manager_however_it_ends_and_are_taken_back(daemon: Daemon) -> None:
    write(daemon, "3", "4", more='[aliases]\nreader = "ocr:4"\n')
    with daemon.start() as client:
        assert client.call("Promote", model="ocr", version="3") == {
            "model": "ocr:3",
            "before": "ocr:4",
            "answers": "ocr:3",
        }
        client.call("Promote", model="reader", version="ocr:3")
        daemon.kill()
    with daemon.start() as client:
        by_name = {named["name"]: named for named in client.call("Versions")["names"]}
        assert [by_name[name]["means"] for name in ("ocr", "reader")] == ["ocr:3", "ocr:3"]
        assert by_name["ocr"]["promoted"]
        assert abs(by_name["ocr"]["since"] - time.time()) < 600
        assert client.call("Rollback", model="ocr")["model"] == "ocr:4"
        assert client.call("Promote", model="reader")["model"] == "ocr:4"
        with pytest.raises(Refused, match="means nothing else; name it without its version, as ocr"):
            client.call("Promote", model="ocr:3", version="4")
        with pytest.raises(Refused, match=r'ModelNotFound.*"nearest": "ocr:4"'):
            client.call("Promote", model="ocr", version="44")
        with pytest.raises(Refused, match="nothing is known that ocr has meant before"):
            client.call("Rollback", model="ocr")
        with pytest.raises(Refused, match="ModelNotFound"):
            client.call("Versions", model="orc")


def test_a_new_manager_goes_on_with_a_swap_that_it_finds_under_way(daemon: Daemon) -> None:
    write(daemon, "3")
    callers = Callers(daemon, "ocr", threads=2, pause_s=0.02)
    with daemon.start(), callers.at_work():
        callers.until("3", daemon)
        write(daemon, "3", "4")
        daemon.kill()
        with daemon.start():
            callers.until("4", daemon)
    assert callers.failed == []


def test_shares_sticky_keys_and_a_shadow(daemon: Daemon) -> None:
    shares = '[aliases]\nreader = {"ocr:3" = 3, "ocr:4" = 1, "ocr:6" = "shadow"}\n'
    write(daemon, "3", "4", "6", more=shares)
    with daemon.start() as control, lazyd.connect(daemon.socket) as client:
        control.call("Warm", models=["ocr:3", "ocr:4", "ocr:6"], wait=True)
        reader = client.model("reader")
        assert Counter(reader.version_of() for _ in range(20)) == {"3": 15, "4": 5}
        for key in ("ann", "bob", "eve"):
            assert len({client.model("reader", sticky=key).version_of() for _ in range(5)}) == 1
        for x in range(8):
            reader.score(x)
        shadow = daemon.until(lambda: (found := shadow_of(control)) and total(found) >= 43 and found)
        assert shadow["equal"] == 0, "the shadow says that it is another version, and scores otherwise"
        assert shadow["different"] + shadow["skipped"] >= 43
        assert shadow["different"] > 0
        calls = {version["model"]: version["calls"] for version in versions(control)}
        assert calls["ocr:3"] + calls["ocr:4"] == 43
        metrics = control.call("Metrics")["text"]
        assert 'lazyd_shadow_calls_total{name="reader",shadow="ocr:6",outcome="different"}' in metrics


def versions(client: Client) -> list[dict[str, Any]]:
    (named,) = client.call("Versions", model="reader")["names"]
    found: list[dict[str, Any]] = named["versions"]
    return found


def shadow_of(client: Client) -> dict[str, Any] | None:
    found = next(version for version in versions(client) if version["shadow"])
    return found if "equal" in found else None


def total(shadow: dict[str, Any]) -> int:
    return sum(shadow[outcome] for outcome in ("equal", "different", "shadowFailed", "skipped"))


def test_stop_first_loads_the_new_version_when_the_old_one_has_left(daemon: Daemon) -> None:
    write(daemon, "3")
    callers = Callers(daemon, "ocr", threads=2, pause_s=0.02)
    both: list[bool] = []

    def in_memory() -> int:
        return sum(bool(daemon.model(name)["workers"]) for name in ("ocr:3", "ocr:4"))

    with daemon.start() as client, callers.at_work():
        callers.until("3", daemon)
        write(daemon, "3")
        daemon.config.write_text(daemon.config.read_text() + ocr(daemon.root, "4", 'swap = "stop-first"'))
        client.call("Reload")
        look: Callable[[], Any] = lambda: both.append(in_memory() > 1) or callers.seen[-1][1] == "4"  # noqa: E731
        daemon.until(look)
    assert callers.failed == []
    assert not any(both)
