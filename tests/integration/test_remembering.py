"""What is known of models' loads outlives the manager, however it ends."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from typing import Any

import pytest

from .conftest import Client, Daemon, Refused

LOAD_S = 1.0
"""At least; a machine that is busy takes longer."""


def load_and_unload(daemon: Daemon, client: Client) -> float:
    """One load that takes `LOAD_S` at least; how long it took."""
    gate = daemon.root / "gate"
    client.send("Load", {"model": "slow"})
    daemon.until_it_loads("slow", gate)
    time.sleep(LOAD_S)
    gate.touch()
    client.result()
    took_s: float = daemon.model("slow")["lastLoadSec"]
    client.call("Unload", models=["slow"])
    daemon.until_state("slow", "cold")
    gate.unlink()
    return took_s


def is_written_down(daemon: Daemon) -> bool:
    """How the load went is in the manager's file, which it writes beside its work."""
    path = daemon.state / "readiness.db"
    if not path.exists():
        return False
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as kept:
        try:
            return bool(kept.execute("SELECT count(*) FROM pasts").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return False


def refusal(client: Client) -> dict[str, Any]:
    with pytest.raises(Refused) as caught:
        client.call("Get", model="slow", timeoutSec=0.05)
    assert caught.value.name == "io.lazyd.Timeout"
    return caught.value.parameters


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_new_manager_knows_how_long_a_load_takes_before_it_has_seen_one(daemon: Daemon, is_killed: bool) -> None:
    daemon.configure(f'@slow options.gate="{daemon.root}/gate"')
    client = daemon.start()
    assert "expectedLoadSec" not in daemon.model("slow")
    took_s = load_and_unload(daemon, client)
    assert took_s >= LOAD_S
    if is_killed:
        daemon.until(lambda: is_written_down(daemon))
        daemon.kill()
    else:
        daemon.signal(signal.SIGTERM)
    client = daemon.start()
    daemon.until(lambda: daemon.model("slow").get("expectedLoadSec"))
    assert daemon.model("slow")["expectedLoadSec"] == pytest.approx(took_s, abs=0.01)
    told = refusal(client)
    assert 0 < told["expectedSec"] <= took_s
