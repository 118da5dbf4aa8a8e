"""``python -m examples.comfyui``: ComfyUI, woken by its clients, makes room for a language model, and is woken again.

On a stand-in for NVIDIA's driver with one GPU, and a stand-in for ComfyUI that keeps its contract.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from demo import screen
from lazyd.runtimes.service_ports import free_port
from tests.fakes.nvml import GIB, MIB, StandIn

from ..stage import LIMIT_S, Example, check, run, timed

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROMPT = {"1": {"class_type": "KSampler", "inputs": {"steps": 8}}}


class Site:
    """What a browser sees."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, data: Any = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        give_up = time.monotonic() + LIMIT_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}{path}", body, timeout=LIMIT_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError:  # the address is about to be opened
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.02)

    def picture(self) -> str:
        """Draws one; the name of its file."""
        prompt = self.ask("/prompt", {"prompt": PROMPT})["prompt_id"]
        while not (done := self.ask(f"/history/{prompt}")):
            time.sleep(0.05)
        return str(done[prompt]["outputs"]["1"]["images"][0]["filename"])


class Machine:
    """One GPU of 8 GiB, and ComfyUI at a port that nobody had."""

    def __init__(self) -> None:
        self.port = free_port()

    def prepare(self, example: Example) -> None:
        self.gpu = StandIn(example.root / "driver", gpus=[8 * GIB], release_s=0.3)
        example.environment.update(self.gpu.environment())
        text = example.config.read_text().replace("../..", str(ROOT)).replace("8188", str(self.port))
        example.config = example.root / "lazyd.toml"
        example.config.write_text(text.replace('["python", ', f"[{json.dumps(sys.executable)}, "))

    def story(self, example: Example) -> None:
        tell(example, Site(self.port), self.gpu)


def tell(example: Example, site: Site, gpu: StandIn) -> None:
    screen.step(1, "A script asks ComfyUI for a picture, where it always was; ComfyUI does not run yet")
    picture, took = timed(site.picture)
    screen.result(f"{picture} after {took}; {gpu.used(0) // MIB} MiB of the GPU are in use")

    screen.step(2, "Nobody asks for more: lazyd has it give back its memory (POST /free), and it stays")
    example.until_state("comfyui", "parked")
    until_seen(example, gpu)
    screen.result(f"{gpu.used(0) // MIB} MiB are in use")

    screen.step(3, "A language model takes the room")
    with example.client() as client:
        held = client.model("llm").tell()["bytes"][0]
    check(example.model("comfyui")["state"] == "parked", "ComfyUI has left")
    screen.result(f"it holds {held // MIB} MiB, and ComfyUI's process is still there")

    screen.step(4, "The script asks again: the language model leaves, ComfyUI works")
    picture, took = timed(site.picture)
    check(example.model("llm")["state"] == "cold", "the language model is still there")
    check(gpu.refused(0) == 0, "somebody ran out of memory")
    screen.result(f"{picture} after {took}; nobody ever ran out of memory")


def until_seen(example: Example, gpu: StandIn) -> None:
    """Waits until lazyd has seen how much came back: until then it counts on less."""
    give_up = time.monotonic() + LIMIT_S
    while example.model("comfyui")["bookedBytes"]["gpu0"] > gpu.used(0):
        check(time.monotonic() < give_up, "lazyd does not see what ComfyUI gave back")
        time.sleep(0.02)


if __name__ == "__main__":
    machine = Machine()
    run(HERE, "ComfyUI beside a language model", machine.story, machine.prepare)
