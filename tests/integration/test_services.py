"""Programs with a port as models: through the client, and through their proxies with an ordinary HTTP client."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import lazyd
from lazyd.runtimes.service_ports import free_port

from .conftest import Client, Daemon, gone
from .gpu_machine import Machine
from .gpu_machine import machine as machine

LIMIT_S = 60.0
ROOT = Path(__file__).parents[2]

WEB = """
import http.server, json, os, subprocess, sys, time, urllib.parse

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        asked = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/die":
            print("it dies of", asked["of"], flush=True)
            os._exit(9)
        if url.path == "/daemon":  # leaves a process that has nothing to do with it any more
            code = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
            child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            return self.answer(child.stdout.readline().decode().strip())
        if url.path == "/stream":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"data: 0\\n\\n")
            self.wait(asked["gate"])
            self.wfile.write(b"data: 1\\n\\n")
            self.close_connection = True
            return
        if "gate" in asked: self.wait(asked["gate"])
        self.answer({"pid": os.getpid(), "port": int(sys.argv[1]), "host": self.headers["Host"]})
    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16): data += self.rfile.read(size); self.rfile.readline()
            self.rfile.readline()
        else: data = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(len(data))
    def wait(self, gate):
        open(gate + ".waiting", "w").close()
        while not os.path.exists(gate): time.sleep(0.01)
    def answer(self, said):
        data = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Browser:
    """A client of a proxy that keeps its connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)

    def get(self, path: str) -> Any:
        status, said = self.ask("GET", path)
        assert status == 200, said
        return said

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        response = self.begin(method, path, body, **more)
        data = response.read()
        return response.status, json.loads(data) if "json" in response.headers["Content-Type"] else data.decode()

    def begin(self, method: str, path: str, body: Any = None, **more: Any) -> http.client.HTTPResponse:
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                self.connection.request(method, path, body, **more)
                return self.connection.getresponse()
            except ConnectionRefusedError:  # the proxy is about to come
                assert time.monotonic() < deadline
                self.connection.close()
                time.sleep(0.02)


class Web:
    """A daemon with a service called web, and one that never becomes ready."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.port, self.sick_port = free_port(), free_port()
        self.gate = daemon.root / "gate"
        (daemon.root / "web.py").write_text(WEB)
        self.configure()

    def configure(self, idle: str = "10min") -> None:
        self.daemon.configure(f"""
            [models.web]
            runtime = "service"
            command = [{json.dumps(sys.executable)}, "web.py", "${{port}}"]
            directory = {json.dumps(str(self.daemon.root))}
            proxy = {self.port}
            idle_timeout = "{idle}"
            [models.sick]
            runtime = "service"
            command = ["/bin/sh", "-c", "echo nobody is at home; exit 3"]
            proxy = {self.sick_port}
        """)

    def reconfigure(self, **changes: Any) -> None:
        self.configure(**changes)
        with self.daemon.client() as client:
            client.call("Reload")

    def until_waiting(self) -> None:
        self.daemon.until(self.gate.with_name("gate.waiting").exists)


@pytest.fixture
def web(daemon: Daemon) -> Web:
    web = Web(daemon)
    daemon.start()
    return web


def test_ordinary_clients_load_a_service_and_an_open_connection_does_not_keep_it(web: Web) -> None:
    browser = Browser(web.port)
    first = browser.get("/")
    assert first["host"] == f"127.0.0.1:{web.port}"
    assert web.daemon.model("web")["state"] == "ready"
    assert browser.ask("POST", "/", b"x" * 300_000) == (200, 300_000)
    assert browser.ask("POST", "/", (b"y" * 1000 for _ in range(50)), encode_chunked=True) == (200, 50_000)
    assert browser.get("/")["pid"] == first["pid"]
    web.reconfigure(idle="300ms")
    web.daemon.until_state("web", "cold")
    assert gone(first["pid"])
    web.reconfigure(idle="10min")
    second = browser.get("/")  # on the same connection
    assert second["pid"] != first["pid"]

    # A request that lasts keeps it, also through the death of a manager.
    web.reconfigure(idle="300ms")
    streamed = Browser(web.port).begin("GET", f"/stream?gate={web.gate}")
    assert streamed.readline() == b"data: 0\n"
    web.until_waiting()
    web.daemon.kill()
    web.daemon.start()
    web.daemon.until(lambda: web.daemon.model("web")["inFlight"] == 1)
    time.sleep(0.5)  # longer than its idle time
    assert web.daemon.model("web")["state"] == "ready"
    web.gate.touch()
    assert streamed.read() == b"\ndata: 1\n\n"
    web.daemon.until_state("web", "cold")
    assert Browser(web.port).get("/")["pid"] != second["pid"]


def test_a_client_that_leaves_in_the_middle_keeps_nothing(web: Web) -> None:
    connection = socket.create_connection(("127.0.0.1", Browser(web.port).begin("GET", "/") and web.port))
    connection.sendall(f"GET /?gate={web.gate} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    web.until_waiting()
    assert web.daemon.model("web")["inFlight"] == 1
    connection.close()
    web.daemon.until(lambda: web.daemon.model("web")["inFlight"] == 0)


def test_who_asks_what_cannot_be_had_is_told_in_one_line(web: Web) -> None:
    response = Browser(web.sick_port).begin("GET", "/")
    assert response.status == 503
    assert int(response.headers["Retry-After"]) >= 1
    line = response.read().decode()
    assert "sick could not be loaded" in line
    assert "ended with status 3 before it was ready: nobody is at home" in line
    assert line.count("\n") == 1
    status, line = Browser(web.port).ask("GET", "/die?of=boredom")
    assert (status, line.partition(":")[0]) == (502, "web broke the connection")
    connection = socket.create_connection(("127.0.0.1", web.port))
    connection.sendall(b"this is no HTTP\r\n\r\n")
    assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_programs_find_a_service_by_its_url_and_call_it(web: Web) -> None:
    with lazyd.connect(web.daemon.socket) as client:
        model = client.model("web")
        answer = model.request("GET", "/")
        url = client.get("web")["url"]
        assert url == f"http://127.0.0.1:{answer['body']['port']}"
        with model.lease() as lease:
            assert lease.url == url
            assert web.daemon.model("web")["inFlight"] == 1
        web.daemon.until(lambda: web.daemon.model("web")["inFlight"] == 0)
        head, *pieces = model.stream.request("GET", f"/stream?gate={web.daemon.config}")
        assert (head["status"], "".join(pieces)) == (200, "data: 0\n\ndata: 1\n\n")
        daemon = int(model.request("GET", "/daemon")["body"])
        with pytest.raises(lazyd.WorkerDied) as died:
            model.request("GET", "/die?of=old+age")
        assert died.value.status == 9
        assert "it dies of old age" in died.value.log
        web.daemon.until(lambda: gone(daemon))  # what it left behind goes with it
        with pytest.raises(lazyd.LoadFailed, match="nobody is at home"):
            client.model("sick").request("GET", "/")


def test_an_address_that_is_taken_is_a_problem_until_it_is_free_and_moves_with_the_configuration(
    daemon: Daemon,
) -> None:
    web = Web(daemon)
    other = socket.create_server(("127.0.0.1", web.port))
    client = daemon.start()

    def problems() -> list[str]:
        return client.call("Status")["daemon"].get("problems", [])

    daemon.until(problems)
    assert [line.partition(" for ")[0] for line in problems()] == [f"127.0.0.1:{web.port} cannot be opened"]
    other.close()
    daemon.until(lambda: not problems())
    first = Browser(web.port).get("/")
    old, web.port = web.port, free_port()
    web.reconfigure()
    assert Browser(web.port).get("/") == {**first, "host": f"127.0.0.1:{web.port}"}  # the service itself stays
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old))


# ComfyUI beside other models.


class Socket:
    """A websocket's client."""

    def __init__(self, port: int) -> None:
        Browser(port).get("/system_stats")  # the proxy may be about to come
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /ws?clientId=test HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.file = self.socket.makefile("rb")
        self.status = self.file.readline()
        while self.file.readline().strip():
            pass

    def message(self) -> dict[str, Any]:
        first, size = self.file.read(2)
        assert first == 0x81
        if size == 126:
            (size,) = struct.unpack("!H", self.file.read(2))
        said: dict[str, Any] = json.loads(self.file.read(size))
        return said

    def until(self, kind: str) -> dict[str, Any]:
        while (said := self.message())["type"] != kind:
            pass
        return said


class ComfyUi:
    """ComfyUI on GPU 0, of which it has 5 GiB while it works."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.port = free_port()
        self.client = self._start()
        self.browser = Browser(self.port)

    def _start(self) -> Client:
        command = [sys.executable, str(ROOT / "tests/fakes/comfyui.py"), "--port", "${port}"]
        command += ["--context-mib", "300", "--model-mib", "4800"]
        daemon = self.machine.daemon
        daemon.configure(f"""
            [budget]
            gpu_margin = "0MiB"
            [models.comfyui]
            runtime = "service"
            command = {json.dumps(command)}
            ready = {{http = "/system_stats"}}
            park = {{http = {{path = "/free", json = {{unload_models = true, free_memory = true}}}}}}
            busy = {{http = "/queue", fields = ["queue_running", "queue_pending"]}}
            device = "gpu0"
            memory = "5100MiB"
            idle_timeout = "300ms"
            proxy = {self.port}
            [models.llm]
            runtime = "python"
            factory = "tests.fakes.gpu_model:make"
            python_path = [{json.dumps(str(ROOT))}]
            memory = "6001MiB"
            device = "gpu0"
            options = {{size_mib = 6000}}
        """)
        client = daemon.start(env=self.machine.driver.environment())
        client.socket.settimeout(LIMIT_S)
        return client

    def draw(self, **inputs: Any) -> str:
        prompt = {"1": {"class_type": "KSampler", "inputs": inputs}}
        status, said = self.browser.ask("POST", "/prompt", json.dumps({"prompt": prompt}))
        assert status == 200, said
        return str(said["prompt_id"])

    def picture(self, prompt: str) -> dict[str, Any]:
        """What has come of a prompt, once it is done."""
        return dict(self.machine.until(lambda: self.browser.get(f"/history/{prompt}").get(prompt)))


@pytest.fixture
def comfyui(machine: Machine) -> ComfyUi:
    return ComfyUi(machine)


def test_comfyui_shares_a_gpu_with_other_models(comfyui: ComfyUi) -> None:
    machine = comfyui.machine
    listener = Socket(comfyui.port)  # wakes it
    assert listener.status.startswith(b"HTTP/1.1 101 ")
    prompt = comfyui.draw(steps=3)
    assert listener.until("progress")["data"]["max"] == 3
    assert listener.until("executing")["data"]["prompt_id"] == prompt
    assert comfyui.picture(prompt)["status"]["completed"] is True
    assert machine.driver.used(0) == 5100 * 1024**2

    # Nobody asks for anything: an open websocket does not keep it, /free gives back all but its context.
    machine.until_state("comfyui", "parked")
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 300 * 1024**2)
    assert machine.driver.used(0) == 300 * 1024**2
    comfyui.client.call("Load", model="llm")
    assert machine.daemon.model("comfyui")["state"] == "parked"

    # Its next client wakes it, for which the other model leaves; the websocket is still there.
    gate = machine.daemon.root / "gate"
    second = comfyui.draw(steps=1, gate=str(gate))
    assert machine.daemon.model("llm")["state"] == "cold"
    assert listener.until("progress")["data"]["prompt_id"] == second

    # It works for a client that has gone, so it stays, whoever else wants its memory.
    comfyui.browser.connection.close()
    time.sleep(0.6)  # twice its idle time
    assert machine.daemon.model("comfyui")["state"] == "ready"
    assert machine.daemon.model("comfyui")["inFlight"] == 1
    gate.touch()
    assert listener.until("executing")["data"]["prompt_id"] == second
    machine.until_state("comfyui", "parked")
    assert machine.driver.refused(0) == 0


def test_the_example_is_true_and_leaves_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.comfyui"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nobody ever ran out of memory" in " ".join(done.stdout.split())


# A real one.


def test_llama_cpps_own_server_is_woken_by_ordinary_clients(daemon: Daemon) -> None:
    pytest.importorskip("llama_cpp.server.app", reason="llama-cpp-python's extra 'server' is not installed")
    path = ROOT / "build/models/smollm2.gguf"
    if not path.exists():
        pytest.skip("build/models/smollm2.gguf is not there: make setup")
    port = free_port()
    command = [sys.executable, "-m", "llama_cpp.server", "--port", "${port}", "--model", str(path), "--n_ctx", "256"]
    daemon.configure(f"""
        [models.server]
        runtime = "service"
        command = {json.dumps(command)}
        ready = {{http = "/v1/models"}}
        proxy = {port}
    """)
    client = daemon.start()
    browser = Browser(port)
    (listed,) = browser.get("/v1/models")["data"]
    assert listed["object"] == "model"
    asked = json.dumps({"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0})
    json_body = {"headers": {"Content-Type": "application/json"}}
    _, answer = browser.ask("POST", "/v1/completions", asked, **json_body)
    assert "Paris" in answer["choices"][0]["text"]
    streamed = browser.begin("POST", "/v1/completions", json.dumps({**json.loads(asked), "stream": True}), **json_body)
    events = [line for line in streamed.read().decode().splitlines() if line.startswith("data: ")]
    assert events[-1] == "data: [DONE]"
    assert len(events) > 3
    (pid,) = [worker["pid"] for worker in daemon.model("server")["workers"]]
    client.call("Unload", models=["server"])
    assert gone(pid)
    assert browser.get("/v1/models")["data"] == [listed]
