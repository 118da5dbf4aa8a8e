"""A PyTorch model on a real GPU: it is there and nowhere else, it parks in RAM and comes back with the same answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lazyd
from tests.fakes.nvml import MIB
from tests.integration.conftest import Daemon

from .conftest import CONTEXT, LIMIT_S, Gpu

SIZE_MIB = 1024
SAVE = """
import sys, torch
assert torch.cuda.is_available()
n = 16384  # a matrix of a GiB
layer = torch.nn.Linear(n, n, bias=False).eval()
torch.jit.save(torch.jit.trace(layer, torch.zeros(1, n)), sys.argv[1])
"""


def test_a_module_is_on_its_gpu_parks_and_comes_back(daemon: Daemon, gpu: Gpu) -> None:
    numpy = pytest.importorskip("numpy")
    path = daemon.root / "net.pt"
    saved = subprocess.run([sys.executable, "-c", SAVE, str(path)], capture_output=True, text=True, timeout=LIMIT_S)
    if saved.returncode:
        pytest.skip(f"there is no PyTorch with CUDA here: {saved.stderr.splitlines()[-1]}")
    before = gpu.used()
    words = f'runtime = "torchscript"\ndevice = "{gpu.name}"\npath = "{path}"\n'
    daemon.configure(f'[budget]\n{gpu.name} = "3GiB"\n[models.one]\n{words}[models.two]\n{words}')
    daemon.start(env=gpu.environment).close()
    x = numpy.ones((1, 16384), numpy.float32)
    with lazyd.connect(daemon.socket) as client:
        answer = client.model("one").forward(x)
        taken = gpu.used() - before
        assert SIZE_MIB * MIB <= taken <= SIZE_MIB * MIB + CONTEXT
        client.model("two").forward(x)
        gpu.until(lambda: daemon.model("one")["state"] in ("parked", "cold"))
        assert daemon.model("one")["state"] == "parked"
        again = client.model("one").forward(x)
    assert numpy.allclose(answer, again)
