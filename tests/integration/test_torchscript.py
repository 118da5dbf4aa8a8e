"""Real PyTorch models behind one daemon, and what is true of its process without PyTorch, too."""

from __future__ import annotations

import json
import os
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
from tests.fakes.nvml import GIB, StandIn
from tests.unit.runtimes import torch_files

from .conftest import Daemon

VAD = Path(__file__).parents[2] / "build" / "models" / "vad.jit"
SAMPLE_RATE, WINDOW = 16000, 512
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Encountering a list")
PATIENCE_S = 100.0


@pytest.fixture(scope="module")
def torch() -> Any:
    found = pytest.importorskip("torch", reason="PyTorch is not installed (requirements/heavy.txt)")
    if not VAD.exists():
        pytest.skip(f"{VAD} is not there (make setup)")
    return found


@pytest.fixture(scope="module")
def daemon(torch: Any) -> Iterator[Daemon]:
    daemon = Daemon(Path(tempfile.mkdtemp(prefix="lz-", dir="/tmp")))  # a short path: a socket's has 107 bytes
    made = save_models(torch, daemon.root)

    def table(name: str, path: Path, more: str = "") -> str:
        return f'[models.{name}]\nruntime = "torchscript"\npath = "{path}"\n{more}'

    daemon.configure(
        "\n".join(
            [
                table("vad", VAD, "options = {num_threads = 1}\nwarmup = {args = [{shape = [1, 512]}, 16000]}"),
                table("net", made["net"], "concurrency = 3\noptions = {num_threads = 1}"),
                table("half", made["net"], 'options = {dtype = "bfloat16", num_threads = 1}'),
                table("exported", made["exported"], "trust = true\nload_timeout = '5min'"),
                table("pickled", made["pickled"]),
                table("trusted", made["pickled"], "trust = true"),
                table("weights", made["weights"], "trust = true"),
            ]
        )
    )
    daemon.start().close()
    yield daemon
    daemon.clean_up()


def save_models(torch: Any, folder: Path) -> dict[str, Path]:
    """The same small network in the ways in which PyTorch saves one."""

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x: Any, y: Any) -> Any:
            return self.layer(x) + y, (x.sum(), [y * 2])

    torch.manual_seed(1)
    net, inputs = Net().eval(), (torch.zeros(2, 4), torch.zeros(3))
    paths = {name: folder / f"{name}.pt" for name in ("net", "exported", "pickled", "weights")}
    torch.jit.save(torch.jit.trace(net, inputs), paths["net"])
    program = torch.export.export(net, inputs, dynamic_shapes={"x": {0: torch.export.Dim("n")}, "y": None})
    with paths["exported"].open("wb") as file:
        torch.export.save(program, file)
    torch.save(torch.nn.Linear(2, 2), paths["pickled"])
    torch.save(net.state_dict(), paths["weights"])
    return paths


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[Client]:
    with lazyd.connect(daemon.socket) as client:
        yield client


def here(torch: Any, path: Path, *inputs: Any) -> Any:
    """What the model at `path` answers in this process, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return torch.jit.load(str(path)).eval()(*inputs)
    finally:
        torch.set_num_threads(threads)


def test_a_module_keeps_its_state_and_answers_as_by_pytorch_itself(torch: Any, client: Client) -> None:
    """Its state is the module's own: all callers share it, until one of them resets it."""
    sound = numpy.random.default_rng(1).normal(0, 0.3, (5, 1, WINDOW)).astype(numpy.float32)
    torch.set_num_threads(1)
    module, vad = torch.jit.load(str(VAD)).eval(), client.model("vad")
    vad.reset_states()
    with torch.inference_mode():
        expected = [module(torch.from_numpy(window), SAMPLE_RATE).numpy() for window in sound]
    answers = [vad.forward(window, SAMPLE_RATE) for window in sound]
    assert numpy.array_equal(answers, expected)
    again = vad.forward(sound[0], sr=SAMPLE_RATE)
    assert not numpy.array_equal(again, expected[0]), "it remembers what was before"
    assert vad.reset_states() is None
    assert numpy.array_equal(vad.forward(sound[0], SAMPLE_RATE), expected[0])


def test_results_in_tuples_and_lists_come_as_arrays(torch: Any, daemon: Daemon, client: Client) -> None:
    x, y = numpy.ones((5, 4), numpy.float32), numpy.arange(3, dtype=numpy.float32)
    first, (total, [doubled]) = here(torch, daemon.root / "net.pt", torch.from_numpy(x), torch.from_numpy(y))
    answer, (answered_total, [answered_doubled]) = client.model("net").forward(x, y)
    assert numpy.array_equal(answer, first.numpy())
    assert (answered_total, answered_doubled.tolist()) == (total.item(), doubled.tolist())
    assert numpy.array_equal(client.model("net").forward(x.tolist(), y.tolist())[0], first.numpy())


def test_smaller_numbers_inside_are_float32_outside(client: Client) -> None:
    x, y = numpy.ones((5, 4), numpy.float32), numpy.arange(3, dtype=numpy.float32)
    whole, half = (client.model(name).forward(x, y)[0] for name in ("net", "half"))
    assert half.dtype == numpy.float32
    assert not numpy.array_equal(whole, half)
    assert numpy.allclose(whole, half, atol=0.05)


def test_an_exported_program_and_a_pickled_module_answer_once_they_are_trusted(client: Client) -> None:
    x, y = numpy.ones((5, 4), numpy.float32), numpy.arange(3, dtype=numpy.float32)
    exported = client.model("exported").forward(x, y=y)[0]
    assert numpy.allclose(exported, client.model("net").forward(x, y)[0], atol=1e-6)
    assert client.model("trusted").forward(numpy.zeros((1, 2), numpy.float32)).shape == (1, 2)


def test_what_cannot_be_loaded_says_why(client: Client) -> None:
    with pytest.raises(LoadFailed, match=r"is a pickled torch.nn.modules.linear.Linear.*say trust = true"):
        client.model("pickled").forward(1.0)
    with pytest.raises(LoadFailed, match="holds a OrderedDict, not a module"):
        client.model("weights").forward(1.0)


@pytest.mark.parametrize(
    ("model", "args", "reason"),
    [
        ("vad", (numpy.zeros((1, WINDOW), numpy.float32),), "'sr' is missing; expected forward(x: Tensor, sr: int)"),
        ("vad", (numpy.zeros((1, 9), numpy.float32), SAMPLE_RATE), "Input audio chunk is too short; expected forward("),
        ("net", (numpy.zeros((1, 4)), numpy.zeros(3)), "expected forward(x: Tensor, y: Tensor)"),
        (
            "exported",
            (numpy.zeros((1, 5), numpy.float32), numpy.zeros(3, numpy.float32)),
            "'x' is float32[1,5], not float32[?,4]; expected x: float32[?,4], y: float32[3]",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_told_with_what_is_expected(
    client: Client, model: str, args: tuple[Any, ...], reason: str
) -> None:
    with pytest.raises(CallFailed) as caught:
        client.model(model).forward(*args)
    assert reason in caught.value.reason


def test_callers_at_once_get_each_their_own_answer(daemon: Daemon) -> None:
    """Three threads call one module (``concurrency``)."""

    def ask(number: int) -> bool:
        y = numpy.full(3, number, numpy.float32)
        with lazyd.connect(daemon.socket) as client:
            net = client.model("net")
            return all(
                net.forward(numpy.zeros((1, 4), "f4"), y)[1][1][0].tolist() == [2 * number] * 3 for _ in range(20)
            )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))


def test_a_module_is_shown_with_its_methods_before_it_is_loaded(daemon: Daemon) -> None:
    command = [str(Path(sys.executable).parent / "lazyctl"), "--socket", daemon.socket, "--json", "show", "vad"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout)
    assert said["metadata"]["methods"]["forward"] == "forward(x: Tensor, sr: int) -> Tensor"


FAKE = '''
"""A PyTorch of which there is only as much as a worker imports. It tells which GPUs it was shown at its import."""
import os, pathlib
with open(pathlib.Path(__file__).parent / "imported", "a") as file:
    file.write(f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n")
class Any:
    def __getattr__(self, name): return Any()
    def __call__(self, *args, **kwargs): return self
    def __enter__(self): return self
    def __exit__(self, *_): return None
class Error(Exception): pass
class Tensor: pass
__version__ = "2.0"
jit, cuda, nn, inference_mode, device = (Any() for _ in range(5))
jit.Error, jit.load = Error, lambda *args, **kwargs: Module()
def __getattr__(name): return name if name.startswith(("float", "bfloat")) else Any()
class Module(Any):
    def forward(self, **given): return [os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")]
    def eval(self): return self
    def to(self, *args, **kwargs): return self
    @property
    def _c(self): return type("C", (), {"_method_names": lambda self: ["forward"]})()
'''


def test_pytorch_is_imported_where_the_gpu_of_the_model_is_shown_already(daemon_of_its_own: Daemon) -> None:
    """A zygote imports it, and a variable that came later would not be heeded: each GPU has a zygote of its own."""
    daemon = daemon_of_its_own
    package = daemon.root / "site" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FAKE)
    (package / "version.py").write_text("cuda = '12.6'\n")
    driver = StandIn(daemon.root / "driver", gpus=[8 * GIB, 8 * GIB])
    net = torch_files.script(daemon.root / "net.pt")
    common = f'runtime = "torchscript"\npath = "{net}"\npython_path = ["{package.parent}"]'
    daemon.configure("\n".join(f'[models.on{gpu}]\n{common}\ndevice = "{gpu}"' for gpu in ("gpu0", "gpu1", "ram")))
    daemon.start(env=driver.environment()).close()
    shown = {}
    with lazyd.connect(daemon.socket) as client:
        for gpu in ("gpu0", "gpu1", "ram"):
            pid, shown[gpu] = client.model(f"on{gpu}").forward(1.0, 1)
            assert os.path.exists(f"/proc/{pid}")
            imported = dict(line.split(" ") for line in (package / "imported").read_text().splitlines())
            assert str(pid) not in imported, "its worker was forked from one that has imported it"
            assert shown[gpu] in imported.values()
    assert shown["ram"] == ""
    assert len(set(shown.values())) == 3
    assert all(shown[gpu].startswith("GPU-") for gpu in ("gpu0", "gpu1"))


@pytest.fixture
def daemon_of_its_own() -> Iterator[Daemon]:
    daemon = Daemon(Path(tempfile.mkdtemp(prefix="lz-", dir="/tmp")))
    yield daemon
    daemon.clean_up()
