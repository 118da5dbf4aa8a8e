"""A real language model in the installed daemon: llama.cpp under the units' restrictions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import USER
from .daemon import PYTHON, Daemon
from .machine import CHECKOUT, LONGEST_S, Machine
from .units import HOST, MANAGER, Units

MODEL = CHECKOUT / "build" / "models" / "smollm2.gguf"
FILE = "/var/lib/lazyd/models/smollm2.gguf"
CONFIGURATION = f"""
[models.smollm2]
runtime = "llama_cpp"
path = "{FILE}"
idle_timeout = "never"
[models.smollm2.options]
n_ctx = 512
"""
STORIES = """
import select, sys
import lazyd
with lazyd.connect() as c:
    while not select.select([sys.stdin], [], [], 0)[0]:
        for piece in c.model("smollm2").stream.complete("Once upon a time", max_tokens=200):
            print("piece", flush=True)
"""
"""One call after the other until there is input. A call that is cut off raises."""


@pytest.fixture(scope="module")
def daemon(machine: Machine) -> Iterator[Daemon]:
    """The system's daemon with a language model."""
    if not MODEL.exists():
        pytest.skip(f"needs {MODEL} (make setup)")
    if machine.run(PYTHON, "-I", "-c", "import llama_cpp", check=False).returncode != 0:
        pytest.skip("needs llama-cpp-python (make setup)")
    units = Units(machine)
    before = units.run("cat", units.configuration).stdout
    units.reset()
    machine.run("install", "-D", "--mode=644", str(MODEL), FILE)
    units.write(units.configuration, CONFIGURATION)
    units.systemctl("start", MANAGER)
    yield Daemon(units, USER)
    units.reset()
    units.write(units.configuration, before)
    machine.run("rm", "-r", "/var/lib/lazyd/models")


def test_a_model_stays_hot_and_answers_on_through_a_restart_and_a_kill(daemon: Daemon) -> None:
    prompt = "The capital of France is"
    assert "Paris" in daemon.lazyctl("run", "smollm2", prompt).stdout
    (worker,) = daemon.workers("smollm2")
    assert worker in daemon.units.pids(HOST)

    stories = daemon.start(PYTHON, "-I", "-c", STORIES)
    assert stories.stdout is not None
    assert stories.stdout.readline() == "piece\n"
    daemon.units.systemctl("restart", MANAGER)
    daemon.units.started_anew(MANAGER, after=daemon.units.kill())
    out, err = stories.communicate("enough", timeout=LONGEST_S)
    assert stories.returncode == 0, err
    assert out.count("piece\n") >= 50

    assert "Paris" in daemon.lazyctl("run", "smollm2", prompt).stdout
    assert daemon.workers("smollm2") == [worker]
