"""lazyctl simulate against a real daemon that was used."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from .conftest import LAZYCTL, LIMIT_S, Daemon, DataLine, Refused


def lazyctl(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LAZYD_SOCKET": daemon.socket, "COLUMNS": "80"}
    return subprocess.run(
        [LAZYCTL, *words], capture_output=True, text=True, timeout=2 * LIMIT_S, env=environment, check=False
    )


def use(daemon: Daemon, model: str) -> None:
    with daemon.client() as client, DataLine(client.call("Get", model=model)) as line:
        line.call("echo", 1)


def recorded(daemon: Daemon) -> list[dict[str, Any]]:
    with daemon.client() as client:
        return [one for reply in client.stream("History") for one in reply.get("uses", [])]


def test_what_was_used_is_played_again(daemon: Daemon) -> None:
    daemon.configure("""
        @echo
        @other memory="64MiB"
        @unused
    """)
    daemon.start()
    for model in ("echo", "other"):
        use(daemon, model)
    daemon.until(lambda: len(recorded(daemon)) == 2)
    shown = lazyctl(daemon, "simulate", "--svg", str(daemon.root / "a.svg"))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "2 uses of 2 models in " in shown.stdout
    assert "TODAY'S  FIXED TIMES" in shown.stdout
    assert (daemon.root / "a.svg").read_text().startswith("<svg ")
    told = json.loads(lazyctl(daemon, "--json", "simulate").stdout)
    assert (told["today"]["coldStarts"], told["today"]["loads"], told["today"]["refused"]) == (2, 2, 0)
    assert told["today"]["waitSec"]["max"] > 0
    assert told["today"]["mostBytes"]["ram"] > 64 * 2**20


def test_the_history_outlives_the_daemon_and_knows_how_long_loads_took(daemon: Daemon) -> None:
    daemon.start()
    use(daemon, "echo")
    daemon.until(lambda: recorded(daemon))
    daemon.kill()
    client = daemon.start()
    (known, page, last) = client.stream("History")
    assert [one["model"] for one in page["uses"]] == ["echo"]
    assert known["facts"]["models"]["echo"]["loadSec"] > 0
    assert last == {"problems": []}


def test_a_daemon_that_was_never_used_or_keeps_nothing_has_nothing_to_play(daemon: Daemon) -> None:
    client = daemon.start()
    shown = lazyctl(daemon, "simulate")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "no uses are recorded yet" in shown.stderr
    daemon.config.write_text("[daemon]\nhistory = 0\n" + daemon.config.read_text())
    client.call("Reload")
    use(daemon, "echo")
    assert "history = 0 in [daemon] switches that off" in lazyctl(daemon, "simulate").stderr


def test_history_is_told_as_a_stream_only(daemon: Daemon) -> None:
    client = daemon.start()
    with pytest.raises(Refused, match="ExpectedMore"):
        client.call("History")


def test_a_damaged_history_is_said(daemon: Daemon) -> None:
    daemon.state.mkdir()
    (daemon.state / "history.db").write_bytes(b"no database at all" * 100)
    daemon.start()
    shown = lazyctl(daemon, "simulate")
    assert shown.returncode == 1
    assert "no uses can be read: " in shown.stderr
    assert "was damaged" in shown.stderr
