"""A program that keeps ComfyUI's contract with its clients: its queue, `/free`, `/system_stats` and its websocket.

    python comfyui.py --port 8188 [--context-mib 300] [--model-mib 4000]

It has `--context-mib` of its GPU from its start, and `--model-mib` more from its first prompt on, until `/free`; on the
stand-in driver where there is one, and on nothing otherwise. A prompt takes as many steps as its sampler says; it may
name a file (`gate`) for which it waits at its last step. Standard library.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import http.server
import json
import os
import queue
import socket
import struct
import sys
import threading
import time
import urllib.parse
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fakes.nvml import MIB, Allocation, OutOfMemory, StandIn

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
STEP_S = 0.02


class Vram:
    """What it holds of its GPU, in MiB."""

    def __init__(self, context_mib: int) -> None:
        with contextlib.suppress(KeyError):
            self._driver: StandIn | None = StandIn.of_environment()
        if not hasattr(self, "_driver"):
            self._driver = None
        self._models: list[Allocation] = []
        self.held_mib = 0
        self._take(context_mib)

    def load(self, mib: int) -> None:
        if self.held_mib == 0 and mib:
            self._models = self._take(mib)
            self.held_mib = mib

    def free(self) -> None:
        for allocation in self._models:
            allocation.free()
        self._models, self.held_mib = [], 0

    def _take(self, mib: int) -> list[Allocation]:
        gpus = self._driver.visible(os.environ.get("CUDA_VISIBLE_DEVICES")) if self._driver is not None else []
        return [self._driver.allocate(gpus[0], mib * MIB)] if self._driver is not None and gpus and mib else []


class Prompts:
    """The queue, and one thread that works through it. `tell` sends a message to all that listen."""

    def __init__(self, vram: Vram, model_mib: int) -> None:
        self.vram = vram
        self.history: dict[str, Any] = {}
        self.running: list[Any] = []
        self.listeners: set[queue.SimpleQueue[dict[str, Any]]] = set()
        self._model_mib = model_mib
        self._lock = threading.Lock()
        self._pending: list[Any] = []
        self._frees = False
        self._wake = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def add(self, prompt: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            number = len(self.history) + len(self._pending) + len(self.running)
            entry = [number, str(uuid.uuid4()), prompt]
            self._pending.append(entry)
        self._wake.set()
        return {"prompt_id": entry[1], "number": number, "node_errors": {}}

    def free(self) -> None:
        """When the queue comes to it, as ComfyUI does."""
        self._frees = True
        self._wake.set()

    def queue(self) -> dict[str, Any]:
        with self._lock:
            return {"queue_running": list(self.running), "queue_pending": list(self._pending)}

    def remaining(self) -> dict[str, Any]:
        return {"exec_info": {"queue_remaining": sum(map(len, self.queue().values()))}}

    def tell(self, kind: str, **data: Any) -> None:
        for listener in list(self.listeners):
            listener.put({"type": kind, "data": data})

    def _work(self) -> None:
        while self._wake.wait():
            with self._lock:
                self.running = [self._pending.pop(0)] if self._pending else []
                if not self.running:
                    self._wake.clear()
            if self.running:
                self._run(*self.running[0])
            if self._frees and not self._pending:
                self._frees = False
                self.vram.free()

    def _run(self, _number: int, prompt_id: str, prompt: dict[str, Any]) -> None:
        self.tell("status", status=self.remaining())
        try:
            self.vram.load(self._model_mib)
            for node, described in prompt.items():
                self._sample(prompt_id, node, described.get("inputs", {}))
            status = {"status_str": "success", "completed": True, "messages": []}
        except OutOfMemory as error:
            status = {"status_str": "error", "completed": False, "messages": [["execution_error", str(error)]]}
        outputs = {node: {"images": [{"filename": f"{prompt_id}.png", "type": "output"}]} for node in prompt}
        with self._lock:
            self.history[prompt_id] = {"prompt": prompt, "outputs": outputs, "status": status}
            self.running = []
        self.tell("executing", node=None, prompt_id=prompt_id)

    def _sample(self, prompt_id: str, node: str, inputs: dict[str, Any]) -> None:
        steps = inputs.get("steps", 4)
        for step in range(1, steps + 1):
            self.tell("progress", value=step, max=steps, prompt_id=prompt_id, node=node)
            time.sleep(STEP_S)
        while "gate" in inputs and not os.path.exists(inputs["gate"]):
            time.sleep(STEP_S)


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    prompts: Prompts

    def do_GET(self) -> None:
        path = urllib.parse.urlparse(self.path).path
        if path == "/ws":
            self._listen()
        elif path == "/system_stats":
            device = {"name": os.environ.get("CUDA_VISIBLE_DEVICES", "cpu"), "held_mib": self.prompts.vram.held_mib}
            self._answer({"system": {"os": os.name, "pid": os.getpid()}, "devices": [device]})
        elif path == "/queue":
            self._answer(self.prompts.queue())
        elif path == "/prompt":
            self._answer(self.prompts.remaining())
        elif path.startswith("/history/"):
            found = self.prompts.history.get(path.removeprefix("/history/"))
            self._answer({} if found is None else {path.removeprefix("/history/"): found})
        else:
            self._answer({"error": "no such path"}, 404)

    def do_POST(self) -> None:
        data = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/prompt":
            known = isinstance(data.get("prompt"), dict) and data["prompt"]
            self._answer(
                self.prompts.add(data["prompt"]) if known else {"error": {"type": "no_prompt"}}, 200 if known else 400
            )
        elif self.path == "/free":
            if data.get("unload_models"):
                self.prompts.free()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer({"error": "no such path"}, 404)

    def _answer(self, said: Any, status: int = 200) -> None:
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _listen(self) -> None:
        """A websocket: what happens, as it happens."""
        key = self.headers["Sec-WebSocket-Key"] + _MAGIC
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        mine: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.prompts.listeners.add(mine)
        mine.put({"type": "status", "data": {"status": self.prompts.remaining(), "sid": "fake"}})
        try:
            while True:
                text = json.dumps(mine.get()).encode()
                head = (
                    struct.pack("!BB", 0x81, len(text))
                    if len(text) < 126
                    else struct.pack("!BBH", 0x81, 126, len(text))
                )
                self.connection.sendall(head + text)
        except OSError:
            self.prompts.listeners.discard(mine)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the parent's word
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8188)
    parser.add_argument("--context-mib", type=int, default=0)
    parser.add_argument("--model-mib", type=int, default=0)
    arguments = parser.parse_args()
    Handler.prompts = Prompts(Vram(arguments.context_mib), arguments.model_mib)
    server = Server(("127.0.0.1", arguments.port), Handler)
    print(f"To see the GUI go to: http://127.0.0.1:{arguments.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
