"""How a program becomes a service, and why it does not."""

from __future__ import annotations

import os
import signal
import socket
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lazyd.runtimes import LoadAborted, service, service_ports
from lazyd.runtimes.service import RUNTIME, ServiceFailed
from lazyd.runtimes.service_model import Service

from .test_service import LIMIT_S, SERVER, ask
from .test_service import run as run


@pytest.mark.parametrize("ready", [{"port": True}, {"line": "it l.stens"}, {"http": "/text"}, None])
def test_it_is_ready_as_it_was_told(run: Callable[..., Service], ready: dict[str, Any] | None) -> None:
    assert ask(run(ready=ready), "GET", "/")["status"] == 200


@pytest.mark.parametrize(
    ("code", "ready", "says"),
    [
        (
            "import sys; print('no such model'); sys.exit(3)",
            {},
            "ended with status 3 before it was ready: no such model",
        ),
        ("import os; os.kill(os.getpid(), 9)", {}, "ended with signal 9 before it was ready"),
        ("import time; time.sleep(1000)", {}, r"has not opened its port \d+ \(load_timeout\)"),
        (
            "import socket, time; s = socket.create_server(('127.0.0.1', 0)); time.sleep(1000)",
            {},
            r"has not opened its port \d+ but \d+: does its command use \$\{port\}\?",
        ),
        (
            "import os, signal\nif os.fork(): os._exit(0)\nos.setsid(); signal.alarm(30)\n" + SERVER,
            {},
            "ended with status 0 before it was ready, and has left a process behind that has its port",
        ),
        (
            "import socket, sys, time\n"
            "s = socket.create_server(('::1', int(sys.argv[1])), family=socket.AF_INET6); time.sleep(1000)",
            {},
            r"has opened its port \d+, but not on 127\.0\.0\.1",
        ),
        ("import sys; print('\\033[31mred\\0'); sys.exit(3)", {}, "before it was ready: red$"),
        (SERVER, {"http": "/missing"}, "GET /missing is answered with 404"),
        (SERVER, {"line": "never said"}, "no line of its output was as 'never said'"),
    ],
)
def test_what_does_not_become_ready_says_why(
    run: Callable[..., Service], code: str, ready: dict[str, Any], says: str
) -> None:
    with pytest.raises(ServiceFailed, match=says):
        run(code, ready=ready, load_timeout_s=1.5)


def test_a_program_that_is_not_there_is_told_before_a_load() -> None:
    with pytest.raises(ValueError, match="the program /no/such is missing or cannot be executed"):
        RUNTIME.needs({"command": ["/no/such"]})


def test_a_strangers_port_is_never_taken_for_its_own(
    run: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port was free when it was chosen, and a stranger was quicker; the next one is free."""
    reads, writes = os.pipe()
    stranger = os.fork()  # its parent is this process, so it gets away from it first
    if stranger == 0:
        if os.fork() == 0:
            taken = socket.create_server(("127.0.0.1", 0))
            os.write(writes, f"{os.getpid()} {taken.getsockname()[1]}".encode())
            time.sleep(LIMIT_S)
        os._exit(0)
    os.waitpid(stranger, 0)
    pid, taken_port = map(int, os.read(reads, 100).split())
    try:
        ports = iter([taken_port, service_ports.free_port()])
        monkeypatch.setattr(service.service_ports, "free_port", lambda: next(ports))
        assert not run().url.endswith(f":{taken_port}")
    finally:
        os.kill(pid, signal.SIGKILL)


def test_output_is_progress_and_a_slow_start_is_waited_for(run: Callable[..., Service]) -> None:
    slow = "import time\nfor n in range(8): print(n); time.sleep(0.5)\n" + SERVER
    told: list[str] = []
    run(slow, progress=lambda phase, _: told.append(phase), load_timeout_s=2.5)
    assert len(told) > 4


def test_a_server_that_left_its_launcher_is_known_by_its_environment(run: Callable[..., Service]) -> None:
    launcher = """
        import os, signal, socket, sys
        if os.fork():
            signal.pause()  # stays, as it should
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.alarm(60)
        """
    found = run(textwrap.dedent(launcher) + SERVER)
    assert ask(found, "GET", "/")["status"] == 200


def test_a_service_that_takes_long_is_not_asked_all_the_time(run: Callable[..., Service], tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    slow = SERVER.replace(
        'if self.path == "/stream":',
        f"""if self.path == "/ready":
            open({str(asked)!r}, "a").write("x")
            self.answer(200 if time.monotonic() > self.server.begun + 4 else 503, b"")
        elif self.path == "/stream":""",
    ).replace("server.serve_forever", "server.begun = time.monotonic(); server.serve_forever")
    run(slow, ready={"http": "/ready"})
    assert len(asked.read_text()) < 65  # every 50 ms it would be 80 times


def test_a_load_that_is_not_wanted_leaves_nothing(run: Callable[..., Service], tmp_path: Path) -> None:
    def unwanted(_phase: str, _fraction: float | None) -> None:
        if (tmp_path / "pid").exists():
            raise LoadAborted

    with pytest.raises(LoadAborted):
        run(
            f"""
            import os, time
            open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
            print(1)
            time.sleep(1000)
            """,
            progress=unwanted,
        )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
