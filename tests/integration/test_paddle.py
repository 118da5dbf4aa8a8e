"""Real Paddle models behind one daemon: answers are those of Paddle by itself, in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest

import lazyd
from lazyd.client import Client
from lazyd.errors import CallFailed, LoadFailed

from .conftest import Daemon

MODELS = Path(__file__).parents[2] / "build" / "models" / "ocr-paddle"
if importlib.util.find_spec("paddle") is None:
    pytest.skip("Paddle is not installed (requirements/heavy.txt)", allow_module_level=True)
if not MODELS.exists():
    pytest.skip(f"{MODELS} is not there (make setup)", allow_module_level=True)

SHAPES = {"det": (1, 3, 320, 256), "rec": (2, 3, 48, 160), "cls": (3, 3, 48, 192)}
ITSELF = Path(__file__).with_name("paddle_itself.py")
PATIENCE_S = 110.0


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    daemon = Daemon(Path(tempfile.mkdtemp(prefix="lz-", dir="/tmp")))  # a short path: a socket's has 107 bytes
    for name, shape in SHAPES.items():
        numpy.save(daemon.root / f"{name}.npy", numpy.random.default_rng(1).random(shape, numpy.float32))
    command = [sys.executable, "-W", "ignore", str(ITSELF), str(MODELS), str(daemon.root), *SHAPES]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    paths = {**{name: MODELS / name for name in SHAPES}, "net": daemon.root / "net" / "inference.json"}
    (daemon.root / "short").mkdir()
    for name in ("inference.pdmodel", "inference.pdiparams"):
        (daemon.root / "short" / name).write_bytes((MODELS / "cls" / name).read_bytes()[:500_000])
    tables = {
        name: f'[models.{name}]\nruntime = "paddle"\npath = "{path}"\noptions = {{cpu_threads = 1}}'
        for name, path in paths.items()
    }
    tables["cls"] += "\nconcurrency = 3"
    tables["det"] += "\nwarmup = {args = [{x = {shape = [1, 3, 64, 64], fill = 'random'}}], expect = {finite = true}}"
    tables["short"] = f'[models.short]\nruntime = "paddle"\npath = "{daemon.root / "short"}"'
    daemon.configure("\n".join(tables.values()))
    daemon.start().close()
    yield daemon
    daemon.clean_up()


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[Client]:
    with lazyd.connect(daemon.socket) as client:
        yield client


@pytest.mark.parametrize("name", list(SHAPES))
def test_images_are_answered_as_by_paddle_itself(daemon: Daemon, client: Client, name: str) -> None:
    image = numpy.load(daemon.root / f"{name}.npy")
    ((_, answer),) = client.model(name).run({"x": image}).items()
    assert numpy.array_equal(answer, numpy.load(daemon.root / f"{name}.answer.npy"))


def test_a_program_of_paddle_3_answers_as_well(daemon: Daemon, client: Client) -> None:
    inputs = {"x": numpy.ones((2, 4), numpy.float32), "y": [[1, 1, 1], [1, 1, 1]]}
    answers = client.model("net").run(inputs)
    assert numpy.array_equal(answers["fetch_name_0"], numpy.load(daemon.root / "net.answer.npy"))
    assert client.model("net").run(inputs, outputs=["fetch_name_1"]) == {"fetch_name_1": 8.0}


def test_callers_at_once_have_a_predictor_each(daemon: Daemon) -> None:
    """Three threads, of which two have clones (``concurrency``)."""
    images = numpy.load(daemon.root / "cls.npy")
    expected = numpy.load(daemon.root / "cls.answer.npy")

    def ask(number: int) -> bool:
        with lazyd.connect(daemon.socket) as client:
            model = client.model("cls")
            own = [next(iter(model.run({"x": images[number : number + 1]}).values())) for _ in range(15)]
        return all(numpy.allclose(answer, expected[number], atol=1e-5) for answer in own)

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(ask, range(3)))


@pytest.mark.parametrize(
    ("model", "inputs", "reason"),
    [
        ("cls", {"image": 1.0}, "'image' is no input; 'x' is missing; expected x: float32[?,3,?,?]"),
        ("cls", {"x": numpy.zeros((1, 3, 48, 192))}, "'x' is float64[1,3,48,192], not float32[?,3,?,?]; convert it"),
        ("cls", {"x": numpy.zeros((3, 48, 192), "f4")}, "'x' is float32[3,48,192], not float32[?,3,?,?]"),
        (
            "net",
            {"x": numpy.zeros((2, 4), "f4"), "y": numpy.zeros((3, 3), "i8")},
            "expected x: float32[?,4], y: int64[?,3]",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_told_with_what_is_expected(
    client: Client, model: str, inputs: Any, reason: str
) -> None:
    with pytest.raises(CallFailed) as caught:
        client.model(model).run(inputs)
    assert reason in caught.value.reason


def test_what_is_cut_short_is_told_before_anything_starts(client: Client) -> None:
    with pytest.raises(LoadFailed, match="is not a program of Paddle, or is truncated"):
        client.model("short").run({})


def test_a_model_is_shown_with_its_inputs_before_it_is_loaded(daemon: Daemon) -> None:
    command = [str(Path(sys.executable).parent / "lazyctl"), "--socket", daemon.socket, "--json", "show", "rec"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout)
    assert said["metadata"]["inputs"] == [{"name": "x", "dtype": "float32", "shape": [None, 3, 48, None]}]
    assert said["prediction"]["ram"]["peakBytes"]["ram"] > 64 << 20
