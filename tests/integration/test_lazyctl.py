"""lazyctl against a real daemon: what a person types, and what comes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import LAZYCTL, LIMIT_S, Daemon

TALKER = '''
"""Writes text, a word whenever a test lets it."""
import os, time

class Talker:
    def complete(self, prompt, max_tokens=None, pace=None):
        for number, word in enumerate(prompt.split()):
            gate = os.environ.get("GATE")
            while gate and number and not os.path.exists(gate):
                time.sleep(0.01)
            yield word + " "

def talker(): return Talker()
'''

Lazyctl = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def lazyctl(daemon: Daemon) -> Iterator[Lazyctl]:
    """Start one command against the daemon of the test."""
    started: list[subprocess.Popen[str]] = []

    def lazyctl(*words: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [LAZYCTL, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "LAZYD_SOCKET": daemon.socket, "COLUMNS": "80"},
            )
        )
        return started[-1]

    yield lazyctl
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


def ended(command: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit status, standard output and standard error."""
    out, err = command.communicate(timeout=LIMIT_S)
    return command.returncode, out, err


def done(command: subprocess.Popen[str]) -> str:
    """Its standard output; nothing went wrong."""
    status, out, err = ended(command)
    assert (status, err) == (0, "")
    return out


def refused(command: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status, and the one line that says why."""
    status, out, err = ended(command)
    assert out == ""
    assert err.count("\n") == 1, err
    return status, err


@pytest.fixture
def talker(daemon: Daemon) -> Path:
    """A model `talker`. After the first word it waits for the file that this returns."""
    gate = daemon.root / "gate"
    (daemon.root / "talking.py").write_text(TALKER)
    daemon.configure(f"""
        [models.talker]
        runtime = "python"
        factory = "talking:talker"
        python_path = ["{daemon.root}"]
        env = {{GATE = "{gate}"}}
    """)
    return gate


def test_a_model_is_loaded_shown_and_unloaded(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    daemon.until(lambda: ended(lazyctl("health")) == (0, "ready: 1 pending\n", ""))
    assert done(lazyctl("load", "echo")).startswith("echo is ready, loaded in ")
    table = done(lazyctl("status"))
    assert [line.split()[:3] for line in table.splitlines() if line.startswith("echo")] == [["echo", "ready", "hot"]]
    assert max(map(len, table.splitlines())) <= 80
    assert done(lazyctl("health", "echo")) == "echo: loaded\n"
    assert done(lazyctl("unload", "echo")) == "unloaded echo\n"
    assert ended(lazyctl("health", "echo")) == (3, "echo: pending\n", "")


def test_json_is_the_daemons_own_reply(daemon: Daemon, lazyctl: Lazyctl) -> None:
    client = daemon.start()
    shown = json.loads(done(lazyctl("--json", "status")))
    reply = client.call("Status")
    assert shown["schema"] == 1
    assert shown["models"] == reply["models"]
    assert [device["name"] for device in shown["devices"]] == [device["name"] for device in reply["devices"]]


def test_a_call_loads_on_first_use(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    assert json.loads(done(lazyctl("call", "echo", "echo", '[1, "two"]'))) == {"args": [1, "two"], "kwargs": {}}
    first = json.loads(done(lazyctl("--json", "call", "echo", "echo", '{"x": 1}')))
    assert first["result"] == {"args": [], "kwargs": {"x": 1}}
    assert first["coldStart"] is False


def test_run_prints_the_text_as_it_comes(daemon: Daemon, lazyctl: Lazyctl, talker: Path) -> None:
    daemon.start()
    command = lazyctl("run", "talker", "once upon a time")
    assert command.stdout is not None
    assert os.read(command.stdout.fileno(), 100) == b"once "
    talker.touch()
    assert done(command) == "upon a time \n"


def test_ctrl_c_ends_the_generation_in_the_worker(daemon: Daemon, lazyctl: Lazyctl, talker: Path) -> None:
    daemon.start()
    command = lazyctl("run", "talker", "once upon a time")
    assert command.stdout is not None
    os.read(command.stdout.fileno(), 100)
    daemon.until(lambda: daemon.model("talker")["inFlight"] == 1)
    command.send_signal(signal.SIGINT)
    assert ended(command)[0] == 130
    talker.touch()
    daemon.until(lambda: daemon.model("talker")["inFlight"] == 0)
    assert daemon.model("talker")["state"] == "ready"


def test_text_goes_on_while_the_manager_is_killed_and_started(daemon: Daemon, lazyctl: Lazyctl, talker: Path) -> None:
    daemon.start()
    command = lazyctl("run", "talker", "once upon a time")
    assert command.stdout is not None
    os.read(command.stdout.fileno(), 100)
    daemon.kill()
    daemon.start()
    talker.touch()
    assert done(command) == "upon a time \n"


def test_a_load_is_answered_by_the_next_manager(daemon: Daemon, lazyctl: Lazyctl) -> None:
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    daemon.start()
    command = lazyctl("load", "slow")
    daemon.until_it_loads("slow", gate)
    daemon.kill()
    daemon.start()
    gate.touch()
    assert done(command).startswith("slow is ready")


def test_a_time_limit_is_124(daemon: Daemon, lazyctl: Lazyctl) -> None:
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    daemon.start()
    status, line = refused(lazyctl("load", "slow", "--timeout", "200ms"))
    assert (status, "0.2 s" in line) == (124, True), line


def test_a_busy_model_is_75_and_goes_on_serving(daemon: Daemon, lazyctl: Lazyctl, talker: Path) -> None:
    daemon.start()
    talking = lazyctl("run", "talker", "once upon a time")
    assert talking.stdout is not None
    os.read(talking.stdout.fileno(), 100)
    status, line = refused(lazyctl("unload", "talker", "--timeout", "200ms"))
    assert (status, "busy" in line) == (75, True), line
    talker.touch()
    assert done(talking) == "upon a time \n"


@pytest.mark.usefixtures("talker")
def test_force_ends_the_call(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    talking = lazyctl("run", "talker", "once upon a time")
    assert talking.stdout is not None
    os.read(talking.stdout.fileno(), 100)
    assert done(lazyctl("unload", "talker", "--force")) == "unloaded talker\n"
    status, _, err = ended(talking)
    assert status == 1
    assert err.count("\n") == 1
    assert "talker" in err


def test_an_unknown_model_is_4_and_the_nearest_is_named(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    for words in (["load", "ehco"], ["call", "ehco", "echo"], ["show", "ehco"], ["health", "ehco"], ["logs", "ehco"]):
        status, line = refused(lazyctl(*words))
        assert (status, "did you mean echo?" in line) == (4, True), line


@pytest.mark.parametrize(
    ("words", "expected", "told"),
    [
        (["call", "echo", "sing"], 2, "no method sing"),
        (["call", "echo", "fail", '["because"]'], 1, "ValueError: because"),
        (["call", "echo", "exit", "[7]"], 1, "exited with status 7"),
        (["load", "broken"], 1, "this model cannot be made"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_one_line(
    daemon: Daemon, lazyctl: Lazyctl, words: list[str], expected: int, told: str
) -> None:
    daemon.configure('@echo\n@broken factory="actors:broken"')
    daemon.start()
    status, line = refused(lazyctl(*words))
    assert (status, told in line) == (expected, True), line


def test_a_pinned_model_is_left_alone_unless_it_is_named(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    done(lazyctl("pin", "echo"))
    done(lazyctl("load", "echo"))
    assert "pinned" in done(lazyctl("status"))
    assert done(lazyctl("unload", "--all")) == "nothing to unload\n"
    assert done(lazyctl("unload", "echo")) == "unloaded echo\n"
    done(lazyctl("unpin", "echo"))
    assert "pinned" not in done(lazyctl("status"))


def test_warm_waits_if_asked(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    assert "ready" in done(lazyctl("warm", "echo", "--wait"))
    assert daemon.model("echo")["state"] == "ready"


def test_what_a_worker_writes_can_be_read_and_followed(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    done(lazyctl("call", "echo", "say", '["one", "two"]'))
    assert done(lazyctl("logs", "echo")).splitlines()[-2:] == ["one", "two"]
    following = lazyctl("logs", "-f", "echo")
    assert following.stdout is not None
    until_line(following, "two")
    done(lazyctl("call", "echo", "say", '["three"]'))
    until_line(following, "three")
    following.send_signal(signal.SIGINT)
    assert ended(following)[0] == 130


def test_events_are_followed(daemon: Daemon, lazyctl: Lazyctl) -> None:
    client = daemon.start()
    following = lazyctl("--json", "events")
    # Until it is seen to follow, something must happen again and again.
    out = following.stdout
    assert out is not None
    os.set_blocking(out.fileno(), False)

    def heard() -> Any:
        client.call("Load", model="echo")
        client.call("Unload", models=["echo"])
        return [event for event in map(json.loads, out.readlines()) if event.get("model") == "echo"]

    assert daemon.until(heard)[0]["kind"] in ("loading", "ready", "draining", "unloading", "cold")
    following.send_signal(signal.SIGINT)
    assert ended(following)[0] == 130


def until_line(command: subprocess.Popen[str], line: str) -> None:
    assert command.stdout is not None
    for shown in command.stdout:
        if shown.rstrip("\n") == line:
            return
    raise AssertionError(f"{line!r} was not shown")


def test_reload_says_what_has_changed_or_what_is_wrong(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    daemon.configure("@echo\n@more")
    assert done(lazyctl("reload")) == "configuration re-read: added more\n"
    daemon.configure('@echo teir="resident"')
    status, line = refused(lazyctl("reload"))
    assert status == 1
    assert "did you mean tier?" in line
    assert json.loads(done(lazyctl("--json", "health")))["models"].keys() == {"echo", "more"}


def test_a_stopped_daemon_is_69(daemon: Daemon, lazyctl: Lazyctl) -> None:
    status, line = refused(lazyctl("status"))
    assert (status, daemon.socket in line) == (69, True), line


def test_who_waits_while_the_daemon_is_stopped_is_told_so(daemon: Daemon, lazyctl: Lazyctl) -> None:
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    daemon.start()
    command = lazyctl("load", "slow")
    daemon.until_it_loads("slow", gate)
    daemon.signal(signal.SIGTERM)
    status, line = refused(command)
    assert (status, "stopped" in line) == (69, True), line


def test_show_loads_nothing(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    assert "actors:actor" in done(lazyctl("show", "echo"))
    assert daemon.model("echo")["loads"] == 0


def test_the_versions_are_told(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.start()
    client, of_daemon = (line.split()[1] for line in done(lazyctl("version")).splitlines())
    assert client == of_daemon
