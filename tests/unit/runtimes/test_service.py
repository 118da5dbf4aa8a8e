"""A program as a service: what it answers, how it parks, and how it ends."""

from __future__ import annotations

import json
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyd.runtimes import MARKER, CallCancelled, Cancellation, service_model
from lazyd.runtimes.service import RUNTIME
from lazyd.runtimes.service_model import Service

LIMIT_S = 60.0

SERVER = """
import http.server, json, os, pathlib, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, status, data, kind="application/json"):
        self.send_response(status)
        if kind: self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        if self.path == "/stream":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for n in range(2):
                self.wfile.write(b"6\\r\\nid: %d\\n\\r\\n" % n)
                time.sleep(0.05)
            self.wfile.write(b"0\\r\\n\\r\\n")
        elif self.path == "/never": time.sleep(1000)
        elif self.path == "/die": os._exit(9)
        elif self.path == "/bytes": self.answer(200, b"\\xff\\0", None)
        elif self.path == "/text": self.answer(200, b"words", "text/plain")
        elif self.path == "/missing": self.answer(404, b'{"error": "no"}')
        elif self.path == "/queue":
            self.answer(200, json.dumps({"now": {"running": [1] * os.path.exists(sys.argv[2])}}).encode())
        else: self.answer(200, json.dumps({"env": os.environ.get("THING"), "cwd": os.getcwd()}).encode())
    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, json.dumps([self.headers["Content-Type"], data.decode()]).encode())

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("it listens", flush=True)
server.serve_forever()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """``run(code, **spec)``: a program in Python, as a service, which ends with the test."""
    monkeypatch.setenv(MARKER, str(tmp_path))
    running: list[Service] = []

    def start(
        code: str = SERVER, progress: Callable[[str, float | None], None] = lambda *_: None, **spec: Any
    ) -> Service:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(code))
        command = [sys.executable, "-u", str(path), "${port}", str(tmp_path / "works")]
        found = RUNTIME.load({"name": "m", "command": command, "load_timeout_s": LIMIT_S, **spec}, None, progress)
        found._program.when_ended(None)  # else this process would end with it
        running.append(found)
        return found

    yield start
    for each in running:
        each.close()


def ask(service: Service, *args: Any, stream: bool = False, cancelled: Cancellation | None = None) -> Any:
    return service.call("request", args, {}, stream=stream, cancelled=cancelled or Cancellation())


def test_a_request_answers_with_status_headers_and_a_body_by_its_kind(run: Callable[..., Service]) -> None:
    found = run(env={"THING": "on ${port} by ${device}${other}"}, directory="/tmp", placement={"on": "ram"})
    port = found.url.rpartition(":")[2]
    answer = ask(found, "GET", "/")
    assert answer["status"] == 200
    assert answer["headers"]["content-type"] == "application/json"
    assert answer["body"] == {"env": f"on {port} by cpu${{other}}", "cwd": "/tmp"}
    assert ask(found, "get", "/text")["body"] == "words"
    assert ask(found, "GET", "/bytes")["body"] == b"\xff\0"
    assert ask(found, "GET", "/missing")["status"] == 404
    assert ask(found, "POST", "/", {"a": 1})["body"] == ["application/json", json.dumps({"a": 1})]
    assert ask(found, "POST", "/", "a=1", {"Content-Type": "text/x"})["body"] == ["text/x", "a=1"]
    with pytest.raises(ValueError, match="does not begin with /"):
        ask(found, "GET", "http://elsewhere")


def test_a_stream_is_the_head_and_then_what_comes(run: Callable[..., Service]) -> None:
    head, *pieces = ask(run(), "GET", "/stream", stream=True)
    assert head["status"] == 200
    assert "".join(pieces) == "id: 0\nid: 1\n"
    assert len(pieces) == 2


def test_a_request_is_cut_when_its_call_is_cancelled(run: Callable[..., Service]) -> None:
    found, cancelled = run(), Cancellation()
    threading.Timer(0.2, cancelled.cancel).start()
    with pytest.raises(CallCancelled):
        ask(found, "GET", "/never", cancelled=cancelled)


def test_a_warmup_of_a_failing_path_fails(run: Callable[..., Service]) -> None:
    found = run()
    assert found.output_of("request", ask(found, "GET", "/text")) == "words"
    with pytest.raises(ValueError, match="answered with 404"):
        found.output_of("request", ask(found, "GET", "/missing"))


def test_a_program_that_closes_its_port_and_goes_on_is_ended(
    run: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(service_model, "LOOK_AT_PORT_S", 0.05)
    enough = tmp_path / "enough"
    closes = f"""
        import os, threading
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while not os.path.exists({str(enough)!r}):
            time.sleep(0.01)
        server.shutdown()
        server.server_close()
        time.sleep(1000)
        """
    found = run(SERVER.replace("server.serve_forever()", textwrap.dedent(closes)))
    ended = threading.Event()
    found._program.when_ended(lambda _: ended.set())
    enough.touch()
    assert ended.wait(LIMIT_S)
    assert found._program.status == -signal.SIGKILL
    assert f"its port {found._port} is closed: it is ended" in capfd.readouterr().out


def test_what_ignores_the_signal_is_killed_after_its_grace(run: Callable[..., Service]) -> None:
    found = run("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER, stop={"grace_s": 0.3})
    found.close()
    assert found._program.status == -signal.SIGKILL


def test_a_command_stops_it_first(run: Callable[..., Service], tmp_path: Path) -> None:
    told = tmp_path / "told"
    found = run(stop={"command": ["/bin/sh", "-c", f"echo ${{port}} > {told}"]})
    found.close()
    assert told.read_text().strip() == found.url.rpartition(":")[2]
    assert found._program.status == -signal.SIGTERM


def test_megabytes_of_output_hold_up_nobody(run: Callable[..., Service], capfd: pytest.CaptureFixture[str]) -> None:
    found = run("print('x' * 5_000_000)\n" + SERVER)
    assert ask(found, "GET", "/")["status"] == 200
    assert len(capfd.readouterr().out) > 5_000_000
    assert len(found._program.last_lines) < 5000


def test_parking_asks_and_a_refusal_is_told(run: Callable[..., Service]) -> None:
    assert run().parks is False
    found = run(park={"http": {"path": "/free", "json": {}}}, unpark={"http": {"method": "GET", "path": "/missing"}})
    assert found.parks is True
    found.park()
    with pytest.raises(OSError, match="GET /missing was answered with 404"):
        found.unpark()


def test_a_service_that_does_not_answer_when_it_is_to_park_is_given_up(
    run: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_model, "PARK_S", 0.2)
    found = run(park={"http": {"method": "GET", "path": "/never"}})
    with pytest.raises(OSError, match=r"GET /never was not answered within 0\.2 s"):
        found.park()


def test_a_hold_tells_where_it_is_and_lasts_as_long_as_the_service_works(
    run: Callable[..., Service], tmp_path: Path
) -> None:
    found = run(busy={"http": "/queue", "fields": ["now.running"]})
    works = tmp_path / "works"
    works.touch()
    cancelled = Cancellation()
    held = found.call("hold", [], {}, stream=True, cancelled=cancelled)
    assert next(held) == {"url": found.url}
    cancelled.cancel()
    ended = threading.Event()

    def end() -> None:
        with pytest.raises(CallCancelled):
            next(held)
        ended.set()

    threading.Thread(target=end, daemon=True).start()
    while not found._work._waits:
        time.sleep(0.01)
    other = found.call("hold", [], {}, stream=True, cancelled=cancelled)
    next(other)
    other.close()  # somebody waits already
    assert not ended.wait(0.2)
    works.unlink()
    assert ended.wait(LIMIT_S)
