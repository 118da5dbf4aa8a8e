"""From asking for a model that is cold to the first piece of its answer, and to its being ready, by runtime."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import lazyd
from demo import baseline
from demo.stage import MODELS, Stage
from lazyd.client import Client
from lazyd.config.keys import BUILT_RUNTIMES

from .figure import Figure, Goal, Measure, pairs
from .models import GEMMA, GEMMA_TABLE, N_CTX, PROMPT

ROUNDS = 7
GOAL = Goal(times=0.8)


@dataclass(frozen=True)
class Load:
    """One model of one runtime, and how a script without lazyd loads it."""

    name: str
    runtime: str
    library: str
    """What the script imports."""
    file: str
    """Below `MODELS`."""
    script: str
    """``{path}`` is the file's, as Python writes it."""

    @property
    def path(self) -> str:
        return str(MODELS / self.file)

    @property
    def missing(self) -> str | None:
        """Why it cannot be measured here."""
        if self.runtime not in BUILT_RUNTIMES:
            return f"the runtime {self.runtime} is not built"
        if importlib.util.find_spec(self.library) is None:
            return f"{self.library} is not installed"
        return None if os.path.exists(self.path) else f"there is no {self.path}"

    @property
    def table(self) -> str:
        return f'[models.{self.name}]\nruntime = "{self.runtime}"\npath = "{self.path}"\nidle_timeout = "never"\n'

    @property
    def command(self) -> list[str]:
        """Writes down when the model was loaded."""
        code = f"{self.script.format(path=repr(self.path))}\nimport time; print(time.monotonic())"
        return [sys.executable, "-c", code]


ONNX = "import onnxruntime\nmodel = onnxruntime.InferenceSession({path}, providers=['CPUExecutionProvider'])"
LOADS = (
    Load("det", "onnx", "onnxruntime", "ocr/det.onnx", ONNX),
    Load("voice", "onnx", "onnxruntime", "voice.onnx", ONNX),
    Load("vad", "torchscript", "torch", "vad.jit", "import torch\nmodel = torch.jit.load({path})"),
    Load(
        "paddle-det",
        "paddle",
        "paddle",
        "ocr-paddle/det/inference.pdmodel",
        "from paddle import inference\n"
        "config = inference.Config({path}, {path}[:-len('model')] + 'iparams')\n"
        "config.disable_gpu()\n"
        "model = inference.create_predictor(config)",
    ),
)


def first_token(client: Client) -> float:
    """Seconds from the call to the first piece; the model is freed again before this returns."""
    gemma = client.model("gemma")
    began = time.perf_counter()
    pieces = iter(gemma.stream.complete(PROMPT, max_tokens=1))
    next(pieces)
    took = time.perf_counter() - began
    for _ in pieces:
        pass
    client.unload("gemma")
    return took


def loaded(client: Client, name: str) -> Measure:
    """Measures seconds from the order to load it until it is ready; it is freed again before this returns."""

    def measure() -> float:
        began = time.perf_counter()
        client.load(name)
        took = time.perf_counter() - began
        client.unload(name)
        return took

    return measure


def alone(load: Load) -> float:
    """Seconds from the start of a process that imports the library and loads the model until it has."""
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    began = time.monotonic()
    done = subprocess.run(load.command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.split()[-1]) - began


def figures() -> Iterator[Figure]:
    with Stage(GEMMA_TABLE) as stage:
        stage.start()
        with lazyd.connect(str(stage.socket)) as client:
            ours, floor = pairs(
                ROUNDS,
                lambda: first_token(client),
                lambda: baseline.measure(GEMMA, N_CTX, PROMPT, 1).first_token_s,
            )
    yield Figure("cold gemma-270m to first token", "s", GOAL, ours, floor, "a script that does it all")
    yield from of_runtimes()


def of_runtimes() -> Iterator[Figure]:
    """Each model on a daemon of its own: what a zygote of another runtime does beside it does not count."""
    for load in LOADS:
        if load.missing is not None:
            print(f"({load.name} of {load.runtime}: {load.missing})", end=" ", file=sys.stderr)
            continue
        with Stage(load.table) as stage:
            stage.start()
            with lazyd.connect(str(stage.socket)) as client:
                ours, floor = pairs(ROUNDS, loaded(client, load.name), partial(alone, load))
        yield Figure(f"cold {load.file} ({load.runtime}) to ready", "s", GOAL, ours, floor, "a script: import and load")
