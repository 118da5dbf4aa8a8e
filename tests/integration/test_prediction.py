"""What a daemon foresees of a real model: from its file, from a dry run, from what it learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Client, Daemon
from .host_driver import MODELS

MIB = 1024 * 1024

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (make setup)")
if not (MODELS / "smollm2.gguf").exists():
    pytest.skip(f"{MODELS} has no models (make setup)", allow_module_level=True)

SMOL = f"""
[models.smol]
runtime = "llama_cpp"
path = "{MODELS / "smollm2.gguf"}"
options = {{ n_ctx = 512 }}
"""


def foreseen(client: Client, model: str = "smol") -> dict[str, Any]:
    prediction: dict[str, Any] = client.call("Describe", model=model)["prediction"]
    return prediction


def source(client: Client, model: str = "smol") -> str:
    return str(foreseen(client, model)["ram"]["source"])


def use(client: Client) -> None:
    client.call("Call", model="smol", method="complete", args=["Once upon a time"], kwargs={"max_tokens": 4})


def unload(daemon: Daemon, client: Client) -> None:
    client.call("Unload", models=["smol"])
    daemon.until_state("smol", "cold")


def test_each_load_is_foreseen_better_than_the_one_before(daemon: Daemon) -> None:
    daemon.configure(SMOL)
    with daemon.start() as client:
        assert source(client) == "file size"
        use(client)
        assert source(client) == "dry run"
        foretold = foreseen(client)["ram"]["peakBytes"]["ram"]
        unload(daemon, client)
        daemon.until(lambda: source(client) == "learned")
        learned = foreseen(client)["ram"]
        assert learned["serviceBytes"]["ram"] <= learned["peakBytes"]["ram"]
        assert 0.4 * foretold < learned["peakBytes"]["ram"] < 1.15 * foretold  # it was hardly used
    daemon.signal(15)
    with daemon.start() as client:
        assert source(client) == "learned"
        use(client)


def test_a_damaged_file_of_what_was_learned_is_said_and_set_aside(daemon: Daemon) -> None:
    daemon.configure(SMOL)
    learned = Path(daemon.state) / "learned.db"
    learned.parent.mkdir(parents=True, exist_ok=True)
    learned.write_bytes(b"nonsense" * 1000)
    with daemon.start() as client, daemon.client() as follower:
        follower.send("Subscribe", more=True)
        use(client)
        (problem,) = client.call("Status")["daemon"]["problems"]
        assert "learned.db was damaged" in problem
        assert (learned.parent / "learned.db.corrupt-1").exists()
        while (event := follower.receive()["parameters"])["kind"] != "learned needs":
            pass
        assert event["reason"] == problem
        unload(daemon, client)
        daemon.until(lambda: source(client) == "learned")


def test_where_nothing_can_be_kept_models_load_all_the_same(daemon: Daemon) -> None:
    daemon.configure(SMOL)
    (Path(daemon.state) / "learned.db").mkdir(parents=True)
    with daemon.start() as client:
        use(client)
        unload(daemon, client)
        daemon.until(lambda: source(client) == "learned")
        (problem,) = client.call("Status")["daemon"]["problems"]
        assert problem.startswith("what loads need cannot be kept in")


def test_what_a_worker_learned_last_is_kept_by_a_daemon_that_stops(daemon: Daemon) -> None:
    daemon.configure(SMOL)
    with daemon.start() as client:
        use(client)
    daemon.signal(15)
    with daemon.start() as client:
        assert source(client) == "learned"
