"""What leaks is restarted without anybody's noticing, what crashes says how, and no factory harms another model."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyd

from .conftest import LIMIT_S, Daemon, gone

MIB = 1024 * 1024
FACTORIES = Path(__file__).parent / "factories"


def table(name: str, factory: str, **keys: str) -> str:
    lines = [f"{key} = {value}" for key, value in keys.items()]
    head = [
        f"[models.{name}]",
        'runtime = "python"',
        f'factory = "troubles:{factory}"',
        f'python_path = ["{FACTORIES}"]',
    ]
    return "\n".join([*head, *lines, ""])


CONFIGURATION = "".join(
    [
        table("bystander", "plain"),
        table("counted", "plain", max_calls="20", max_wait='"100ms"'),
        table("leaking", "plain", max_growth='"64MiB"', idle_timeout='"1h"'),
        *(table(name, "plain") for name in ("crashing", "aborting", "leaving", "leaving_at_once", "again")),
        table("talks", "talks", options="{megabytes = 20}"),
        *(table(name, name) for name in ("forks", "moves", "closes_files", "catches_sigterm", "has_threads")),
        *(table(f"factory_{name}", name) for name in ("leaves", "leaves_at_once")),
    ]
)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="lazyd-") as root:
        daemon = Daemon(Path(root))
        daemon.configure(CONFIGURATION)
        try:
            daemon.start().close()
            yield daemon
        finally:
            daemon.clean_up()


@pytest.fixture
def client(daemon: Daemon) -> Iterator[lazyd.Client]:
    with lazyd.connect(daemon.socket) as client:
        yield client


@pytest.fixture(autouse=True)
def a_bystander_stays(client: lazyd.Client, daemon: Daemon) -> Iterator[None]:
    """Whatever a model does, another one goes on in its process."""
    pid = client.call("bystander", "pid")
    yield
    assert client.call("bystander", "pid") == pid
    assert daemon.process is not None
    assert daemon.process.poll() is None


def pids(daemon: Daemon, name: str) -> list[int]:
    return [worker["pid"] for worker in daemon.model(name)["workers"]]


def test_after_max_calls_it_is_restarted_under_calls_without_a_pause_and_none_fails(daemon: Daemon) -> None:
    seen: set[int] = set()
    wrong: list[Exception] = []
    enough = threading.Event()

    def calls() -> None:
        try:
            with lazyd.connect(daemon.socket) as client:
                while not enough.is_set():
                    seen.add(client.call("counted", "pid", timeout=LIMIT_S))
        except lazyd.LazydError as error:
            wrong.append(error)

    threads = [threading.Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    daemon.until(lambda: len(seen) >= 3 or wrong)
    enough.set()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not wrong


def test_what_has_grown_is_restarted_when_idle_and_is_hot_again(daemon: Daemon, client: lazyd.Client) -> None:
    first = client.call("leaking", "pid")
    daemon.until(lambda: client.call("leaking", "leak", 2 * MIB) != first)
    again: dict[str, Any] = daemon.until_state("leaking", "ready")
    assert again["loads"] >= 2
    daemon.until(lambda: gone(first))


@pytest.mark.parametrize(
    ("model", "method", "how", "words"),
    [
        (
            "crashing",
            "crash",
            11,
            ("about to read what is not there", "Fatal Python error: Segmentation fault", "in crash"),
        ),
        ("aborting", "abort", 6, ("about to give up", "Fatal Python error: Aborted", "in abort")),
    ],
)
def test_a_native_crash_comes_with_the_last_lines_of_its_log(
    client: lazyd.Client, model: str, method: str, how: int, words: tuple[str, ...]
) -> None:
    with pytest.raises(lazyd.WorkerDied) as died:
        client.call(model, method)
    assert died.value.signal == how
    for each in words:
        assert each in died.value.log


def test_the_first_crash_is_an_accident_and_two_in_a_row_pause_it(daemon: Daemon, client: lazyd.Client) -> None:
    with pytest.raises(lazyd.WorkerDied):
        client.call("again", "abort")
    assert daemon.until(lambda: daemon.model("again")["state"] == "cold")
    with pytest.raises(lazyd.WorkerDied):
        client.call("again", "abort")
    daemon.until_state("again", "failed")
    with pytest.raises(lazyd.LoadFailed, match="killed by signal 6: Fatal Python error: Aborted"):
        client.call("again", "pid")


def test_a_call_that_exits_fails_and_the_model_stays(client: lazyd.Client) -> None:
    pid = client.call("leaving", "pid")
    with pytest.raises(lazyd.CallFailed, match="SystemExit: 3"):
        client.call("leaving", "leave")
    assert client.call("leaving", "pid") == pid


def test_a_call_that_ends_the_process_is_told_with_its_status(client: lazyd.Client) -> None:
    with pytest.raises(lazyd.WorkerDied) as died:
        client.call("leaving_at_once", "leave_at_once")
    assert died.value.status == 4
    assert "about to leave" in died.value.log
    assert client.call("leaving_at_once", "pid")


@pytest.mark.parametrize(
    ("model", "reason"),
    [("factory_leaves", "SystemExit: 3"), ("factory_leaves_at_once", "the worker exited with status 4")],
)
def test_a_factory_that_exits_is_a_failed_load(client: lazyd.Client, model: str, reason: str) -> None:
    with pytest.raises(lazyd.LoadFailed, match=reason):
        client.call(model, "pid")


def test_a_factory_that_prints_megabytes_serves_and_its_log_stays_small(daemon: Daemon, client: lazyd.Client) -> None:
    assert client.call("talks", "pid")
    kept = sum(path.stat().st_size for path in daemon.root.rglob("*") if path.is_file())
    assert kept < 10 * MIB


def test_a_factory_that_changes_directory_moves_itself_alone(client: lazyd.Client) -> None:
    assert client.call("moves", "where") == "/usr"
    assert client.call("bystander", "where") != "/usr"


@pytest.mark.parametrize("model", ["forks", "catches_sigterm", "has_threads"])
def test_what_a_factory_has_started_or_caught_leaves_with_it(daemon: Daemon, client: lazyd.Client, model: str) -> None:
    pid = client.call(model, "pid")
    before = set(daemon.processes())
    client.unload(model)
    daemon.until(lambda: gone(pid))
    daemon.until(lambda: len(set(daemon.processes())) < len(before))
    assert client.call(model, "pid") != pid


def test_a_factory_that_closes_all_files_ends_its_worker_and_is_told_of_it(
    daemon: Daemon, client: lazyd.Client
) -> None:
    with pytest.raises(lazyd.LoadFailed) as failed:
        client.call("closes_files", "pid", timeout=LIMIT_S)
    assert "the worker" in failed.value.reason
    daemon.until(lambda: not pids(daemon, "closes_files"))
