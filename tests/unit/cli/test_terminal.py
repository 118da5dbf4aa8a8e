"""On a terminal: colour, bars, the size of the screen, and Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyctl.terminal import Look, cells, hanging

from ..client.fakes import DEADLINE_S, CallInWorker, FakeWorker, eventually
from .conftest import Daemon
from .samples import event, hot, model, status

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """lazyctl as the foreground program of a terminal of its own."""

    def __init__(self, socket: Path, *words: str, size: tuple[int, int] = (24, 80), **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, size)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lazyctl", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"LAZYD_SOCKET": str(socket), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment},
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def read_until(self, text: str) -> None:
        """Read until `text` was shown."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.shown:
            assert select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))[0], self.shown
            piece = self._read()
            assert piece, self.shown
            self.shown += piece

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read the rest; the exit status."""
        while piece := self._read():
            self.shown += piece
        return self._process.wait(DEADLINE_S)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    @property
    def lines(self) -> list[str]:
        return COLOUR.sub("", self.shown).split("\r\n")

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode()
        except OSError:  # how a terminal says that its program has gone
            return ""


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(socket_path: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def terminal(*words: str, **more: Any) -> Terminal:
        opened.append(Terminal(socket_path, *words, **more))
        return opened[-1]

    yield terminal
    for one in opened:
        one.close()


def test_status_is_coloured_on_a_terminal(daemon: Daemon, terminal: Open) -> None:
    daemon.answer("Status", status(hot()))
    shown = terminal("status")
    assert shown.end() == 0
    assert "\x1b[32mready\x1b[0m" in shown.shown


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(daemon: Daemon, terminal: Open, environment: dict[str, str]) -> None:
    daemon.answer("Status", status(hot()))
    shown = terminal("status", **environment)
    assert shown.end() == 0
    assert "\x1b" not in shown.shown


def test_a_wide_terminal_is_used(daemon: Daemon, terminal: Open) -> None:
    daemon.answer("Status", status(hot()))
    shown = terminal("status", size=(24, 140))
    shown.end()
    assert "RUNTIME" in shown.shown
    assert 80 < max(map(len, shown.lines)) <= 140


def test_cold_models_do_not_push_the_rest_off_the_screen(daemon: Daemon, terminal: Open) -> None:
    daemon.answer("Status", status(hot(), *(model(f"cold-{number}") for number in range(300))))
    shown = terminal("status")
    shown.end()
    assert len(shown.lines) <= 24
    assert any(line.startswith("gemma") for line in shown.lines)
    assert re.search(r"and 2\d\d more cold models: lazyctl status --all", shown.shown)


def test_all_of_them_can_be_asked_for(daemon: Daemon, terminal: Open) -> None:
    daemon.answer("Status", status(*(model(f"cold-{number}") for number in range(300))))
    shown = terminal("status", "--all")
    shown.end()
    assert len(shown.lines) > 300


def test_load_draws_its_progress_and_leaves_the_result(daemon: Daemon, terminal: Open) -> None:
    drawn = threading.Event()

    def load(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"state": "loading", "phase": "reading weights", "fraction": 0.42}
        yield {"state": "loading", "phase": "reading weights", "fraction": 0.42}
        assert drawn.wait(DEADLINE_S)
        yield {"state": "ready", "phase": "ready", "loadSec": 2.0}

    daemon.on["Load"] = load
    shown = terminal("load", "gemma")
    shown.read_until("42%")
    drawn.set()
    assert shown.end() == 0
    assert "reading weights" in shown.shown
    assert shown.shown.endswith("gemma is ready, loaded in 2.0 s\r\n")


def test_warm_in_ram_draws_how_much_is_there_and_leaves_the_table(daemon: Daemon, terminal: Open) -> None:
    drawn = threading.Event()

    def reads(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"models": [model(cachedFraction=0.4)]}
        yield {"models": [model(cachedFraction=0.4)]}
        assert drawn.wait(DEADLINE_S)
        yield {"models": [model(residency="warm", cachedFraction=1.0)], "warnings": ["gemma is warm, but not locked"]}

    daemon.on["Warm"] = reads
    screen = terminal("warm", "gemma", "--tier", "ram", "--wait")
    screen.read_until(" 40 %")
    drawn.set()
    assert screen.end() == 0
    assert daemon.last("Warm") == {"models": ["gemma"], "tier": "ram", "wait": True}
    assert any("warm 100 %" in line for line in screen.lines)
    assert any("lazyctl: gemma is warm, but not locked" in line for line in screen.lines)


def test_run_shows_the_load_then_the_text(daemon: Daemon, worker: FakeWorker, terminal: Open) -> None:
    drawn = threading.Event()

    def load(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"state": "loading", "phase": "reading weights", "fraction": 0.42}
        yield {"state": "loading", "phase": "reading weights", "fraction": 0.42}
        assert drawn.wait(DEADLINE_S)
        yield {"state": "ready", "phase": "ready", "loadSec": 2.0}

    def get(_: dict[str, Any]) -> dict[str, Any]:
        assert drawn.wait(DEADLINE_S)
        return worker.grant(coldStart=True)

    daemon.on.update({"Load": load, "Get": get})
    worker.on["complete"] = lambda _: iter(["Paris", ", of course"])
    shown = terminal("run", "gemma", "The capital of France is")
    shown.read_until("42%")
    drawn.set()
    assert shown.end() == 0
    assert next(line for line in shown.lines if "loaded in" in line).endswith("gemma was loaded in 2.0 s")
    assert shown.lines[-2:] == ["Paris, of course", ""]


def test_run_of_a_hot_model_draws_nothing(daemon: Daemon, worker: FakeWorker, terminal: Open) -> None:
    daemon.answer("Load", {"state": "ready", "phase": "ready", "loadSec": 2.0})
    worker.on["complete"] = lambda _: iter(["Paris"])
    shown = terminal("run", "gemma", "The capital of France is")
    assert shown.end() == 0
    assert shown.shown == "Paris\r\n"


def test_what_a_worker_wrote_does_not_steer_the_terminal(daemon: Daemon, terminal: Open) -> None:
    daemon.answer("Logs", {"line": "\x1b[31mred\x1b[0m\x1b[2J gone\r\x9b"}, {})
    shown = terminal("logs", "gemma")
    shown.end()
    assert shown.shown == "red gone\r\n"


def test_what_a_model_writes_does_not_steer_the_terminal(daemon: Daemon, worker: FakeWorker, terminal: Open) -> None:
    daemon.answer("Load", {"state": "ready", "phase": "ready"})
    worker.on["complete"] = lambda _: iter(["a\x1b]0;title\x07b\tc\nd"])
    shown = terminal("run", "gemma", "Hello")
    shown.end()
    assert shown.shown == "a]0;titleb\tc\r\nd\r\n"


def test_ctrl_c_cancels_the_generation(daemon: Daemon, worker: FakeWorker, terminal: Open) -> None:
    daemon.answer("Load", {"state": "ready", "phase": "ready"})

    def complete(call: CallInWorker) -> Iterator[str]:
        yield "Once upon a time"
        assert call.cancelled.wait(DEADLINE_S)

    worker.on["complete"] = complete
    shown = terminal("run", "gemma", "Tell me a story")
    shown.read_until("Once upon a time")
    shown.interrupt()
    assert shown.end() == 130
    eventually(lambda: worker.cancels == [1])
    assert "Traceback" not in shown.shown
    assert "Aborted" not in shown.shown


def test_ctrl_c_during_the_load_leaves_a_clean_terminal(daemon: Daemon, terminal: Open) -> None:
    def never(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"state": "loading", "phase": "reading weights", "fraction": 0.42}
        yield {"state": "loading", "phase": "reading weights", "fraction": 0.42}
        threading.Event().wait(DEADLINE_S)

    daemon.on["Load"] = never
    shown = terminal("load", "gemma")
    shown.read_until("42%")
    shown.interrupt()
    assert shown.end() == 130
    assert shown.shown.rindex("\x1b[?25h") > shown.shown.rindex("\x1b[?25l"), "the cursor stays hidden"
    assert "Traceback" not in shown.shown


def test_ctrl_c_ends_what_follows(daemon: Daemon, terminal: Open) -> None:
    def follow(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield event("evicted")
        yield event("ready")
        threading.Event().wait(DEADLINE_S)

    daemon.on["Subscribe"] = follow
    shown = terminal("events")
    shown.read_until("evicted")
    shown.interrupt()
    assert shown.end() == 130
    assert "Traceback" not in shown.shown


def test_a_reader_that_leaves_early_is_no_error(daemon: Daemon, socket_path: Path) -> None:
    daemon.answer("Status", status(*(model(f"m{number}") for number in range(5000))))
    pipeline = f"set -o pipefail; {sys.executable} -m lazyctl status | head -1"
    done = subprocess.run(
        ["bash", "-c", pipeline], env={**os.environ, "LAZYD_SOCKET": str(socket_path)}, capture_output=True, text=True
    )
    assert done.stdout.startswith("lazyd 0.1.0")
    assert done.stderr == ""


def test_a_locale_that_cannot_say_it_gets_ascii(daemon: Daemon, socket_path: Path) -> None:
    daemon.answer("Status", status(hot("\u8bed\u97f3")))
    environment = {**os.environ, "LAZYD_SOCKET": str(socket_path), "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "lazyctl", "status"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "#" in done.stdout


def test_closed_standard_streams_are_no_error(daemon: Daemon, socket_path: Path) -> None:
    daemon.answer("Status", status(hot()))
    command = ["bash", "-c", f"{sys.executable} -m lazyctl status >&- 2>&-"]
    assert subprocess.run(command, env={**os.environ, "LAZYD_SOCKET": str(socket_path)}, check=False).returncode == 0


@pytest.mark.parametrize("width", [20, 80])
def test_what_goes_on_is_indented_and_nothing_of_it_is_lost(width: int) -> None:
    text = "models.a.path: file.onnx is a GGUF file, not an ONNX file; as it is, no load of it succeeds"
    first, *more = hanging(text, width, Look(width=width))
    assert more
    assert all(line.startswith("    ") for line in more)
    assert max(map(cells, (first, *more))) <= width
    assert " ".join([first, *(line.strip() for line in more)]) == text
