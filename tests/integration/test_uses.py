"""A model that calls another, and says so: real workers, real nested calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Client, Daemon, Refused

PIPELINE = '@pipeline uses=["det"] memory="300MiB" idle_timeout="1s"'
DET = '@det memory="300MiB" idle_timeout="100ms"'


def asks_through(client: Client, text: str) -> object:
    """A call of `pipeline` that calls `det`."""
    reply = client.call("Call", model="pipeline", method="nest", args=["det", "echo", text])
    return reply["result"]["args"]


def test_what_a_model_uses_is_there_when_it_calls_it_and_leaves_no_sooner(daemon: Daemon, tmp_path: Path) -> None:
    end = tmp_path / "end"
    daemon.configure(f"{PIPELINE}\n{DET}")
    with daemon.start() as client, daemon.client() as other:
        assert asks_through(client, "first") == ["first"]
        pid = daemon.model("det")["workers"][0]["pid"]
        other.send("Call", {"model": "pipeline", "method": "wait_for", "args": [str(end)]})
        daemon.until(lambda: daemon.model("pipeline")["inFlight"] == 1)
        daemon.until(lambda: daemon.model("det")["idleSec"] > 0.5)  # five times its own idle time
        assert daemon.model("det")["state"] == "ready"
        end.touch()
        assert other.result()["result"] == "came"
        assert asks_through(client, "again") == ["again"]
        assert daemon.model("det")["workers"][0]["pid"] == pid
        daemon.until_state("pipeline", "cold")
        daemon.until_state("det", "cold")


def test_while_there_is_no_room_for_both_neither_is_loaded(daemon: Daemon, tmp_path: Path) -> None:
    end = tmp_path / "end"
    daemon.configure(f'[budget]\nram = "900MiB"\n{PIPELINE}\n{DET}\n@hog memory="500MiB" idle_timeout="100ms"')
    with daemon.start() as client, daemon.client() as other:
        other.send("Call", {"model": "hog", "method": "wait_for", "args": [str(end)]})
        daemon.until(lambda: daemon.model("hog")["inFlight"] == 1)
        client.send("Call", {"model": "pipeline", "method": "nest", "args": ["det", "echo", 1]})
        daemon.until(lambda: daemon.model("pipeline")["waiting"] == 1)
        assert [daemon.model(name)["state"] for name in ("pipeline", "det")] == ["cold", "cold"]
        end.touch()
        assert other.result()["result"] == "came"
        assert client.result()["result"]["args"] == [1]


def test_what_can_never_be_had_together_is_told_at_once(daemon: Daemon) -> None:
    daemon.configure(f'[budget]\nram = "500MiB"\n{PIPELINE}\n{DET}')
    told = r"NoRoom.*together with det, which it uses, it needs 600 MiB of ram"
    with daemon.start() as client, pytest.raises(Refused, match=told):
        client.call("Load", model="pipeline")
