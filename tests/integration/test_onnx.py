"""Real ONNX models behind one daemon: answers are those of onnxruntime in this process."""

from __future__ import annotations

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

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make setup)")
MODELS = Path(__file__).parents[2] / "build" / "models"
FILES = {"det": "ocr/det.onnx", "rec": "ocr/rec.onnx", "cls": "ocr/cls.onnx", "vad": "vad.onnx"}
if not all((MODELS / file).exists() for file in FILES.values()):
    pytest.skip(f"{MODELS} lacks models (make setup)", allow_module_level=True)

THREADS = 1
"""The order in which numbers are added depends on how many threads add them; with one, answers are equal to the bit."""
SAMPLE_RATE, WINDOW = 16000, 512


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    daemon = Daemon(Path(tempfile.mkdtemp(prefix="lz-", dir="/tmp")))  # a short path: a socket's has 107 bytes
    tables = [
        f'[models.{name}]\nruntime = "onnx"\npath = "{MODELS / file}"\noptions = {{intra_op_num_threads = {THREADS}}}'
        for name, file in FILES.items()
    ]
    tables[list(FILES).index("cls")] += "\nconcurrency = 3"
    (daemon.root / "short.onnx").write_bytes((MODELS / FILES["det"]).read_bytes()[:1_000_000])
    daemon.configure(
        "\n".join(
            [
                *tables,
                "[models.det.warmup]",
                'args = [{x = {shape = [1, 3, 64, 64], dtype = "float32", fill = "random"}}]',
                "expect = {finite = true, shape = [1, 1, 64, 64]}",
                f'[models.short]\nruntime = "onnx"\npath = "{daemon.root / "short.onnx"}"',
                f'[models.odd]\nruntime = "onnx"\npath = "{MODELS / FILES["cls"]}"\noptions = {{threads = 2}}',
            ]
        )
    )
    daemon.start().close()
    yield daemon
    daemon.clean_up()


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[Client]:
    with lazyd.connect(daemon.socket) as client:
        yield client


def here(name: str) -> Any:
    """The same model in this process."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(str(MODELS / FILES[name]), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("det", [(1, 3, 320, 256), (2, 3, 64, 96)]),
        ("rec", [(3, 3, 48, 160)]),
        ("cls", [(1, 3, 48, 192), (6, 3, 48, 192)]),
    ],
)
def test_images_of_any_size_are_answered_as_by_onnxruntime_itself(
    client: Client, name: str, shapes: list[tuple[int, ...]]
) -> None:
    session = here(name)
    for seed, shape in enumerate(shapes):
        image = numpy.random.default_rng(seed).random(shape, numpy.float32)
        (expected,) = session.run(None, {"x": image})
        ((_, answer),) = client.model(name).run({"x": image}).items()
        assert answer.dtype == numpy.float32
        assert numpy.array_equal(answer, expected)


def test_a_state_goes_from_call_to_call(client: Client) -> None:
    """A voice is heard for what was said before; the state is the caller's, so callers do not disturb each other."""
    session, vad = here("vad"), client.model("vad")
    sound = numpy.random.default_rng(1).normal(0, 0.3, (6, 1, WINDOW)).astype(numpy.float32)
    state = expected_state = numpy.zeros((2, 1, 128), numpy.float32)
    for window in sound:
        expected, expected_state = session.run(
            ["output", "stateN"], {"input": window, "state": expected_state, "sr": numpy.array(SAMPLE_RATE)}
        )
        answer = vad.run({"input": window, "state": state, "sr": SAMPLE_RATE})
        state = answer["stateN"]
        assert numpy.array_equal(answer["output"], expected)
    assert numpy.array_equal(state, expected_state)
    assert state.any()


def test_lists_and_numbers_do_as_arrays_from_a_shell(daemon: Daemon) -> None:
    inputs = {"input": [[0.0] * WINDOW], "state": numpy.zeros((2, 1, 128)).tolist(), "sr": SAMPLE_RATE}
    done = lazyctl(daemon, "--json", "call", "vad", "run", json.dumps([inputs, ["output"]]))
    assert json.loads(done.stdout)["result"]["output"]["shape"] == [1, 1]


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (
            {"image": numpy.zeros((1, 3, 8, 8), numpy.float32)},
            "'image' is no input; 'x' is missing; expected x: float32[?,3,?,?]",
        ),
        (
            {"x": numpy.zeros((1, 3, 8, 8))},
            "'x' is float64[1,3,8,8], not float32[?,3,?,?]; convert it, as by .astype('float32')",
        ),
        (
            {"x": numpy.zeros((3, 8, 8), numpy.float32)},
            "'x' is float32[3,8,8], not float32[?,3,?,?]",
        ),
        (
            {"x": numpy.zeros((1, 1, 8, 8), numpy.float32)},
            "'x' is float32[1,1,8,8], not float32[?,3,?,?]",
        ),
    ],
    ids=["name", "type", "dimensions", "length"],
)
def test_inputs_that_do_not_fit_are_told_with_what_is_expected(
    client: Client, inputs: dict[str, Any], reason: str
) -> None:
    with pytest.raises(CallFailed) as caught:
        client.model("cls").run(inputs)
    assert caught.value.reason == f"ValueError: {reason}"
    assert client.model("cls").run({"x": numpy.zeros((1, 3, 48, 192), numpy.float32)}), "it answers on"


def test_a_model_is_shown_with_its_inputs_before_it_is_loaded(daemon: Daemon) -> None:
    said = json.loads(lazyctl(daemon, "--json", "show", "rec").stdout)
    assert said["metadata"]["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": ["p2o.DynamicDimension.0", 3, None, "p2o.DynamicDimension.1"]}
    ]
    assert said["metadata"]["opsets"] == {"ai.onnx": 12}
    assert said["prediction"]["ram"]["peakBytes"]["ram"] > 64 << 20
    text = lazyctl(daemon, "show", "vad").stdout
    assert "spox" in text
    assert "stateN" in text


def test_what_cannot_be_loaded_is_told_before_anything_starts(client: Client) -> None:
    with pytest.raises(LoadFailed, match="is truncated or damaged: a field is longer than what it is in"):
        client.model("short").run({})
    with pytest.raises(LoadFailed, match="onnx has no option 'threads'"):
        client.model("odd").run({})


def test_callers_at_once_get_each_their_own_answer(daemon: Daemon) -> None:
    """A session may be called by several threads, here three (``concurrency``)."""
    session = here("cls")
    images = numpy.random.default_rng(5).random((4, 20, 1, 3, 48, 192), numpy.float32)

    def ask(own: Any) -> list[Any]:
        with lazyd.connect(daemon.socket) as client:
            return [next(iter(client.model("cls").run({"x": image}).values())) for image in own]

    with ThreadPoolExecutor(len(images)) as pool:
        answers = list(pool.map(ask, images))
    for own, answered in zip(images, answers, strict=True):
        for image, answer in zip(own, answered, strict=True):
            assert numpy.array_equal(answer, session.run(None, {"x": image})[0])


def lazyctl(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lazyctl"), "--socket", daemon.socket, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
