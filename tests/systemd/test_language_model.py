"""A real language model in the installed daemon: llama.cpp under the units' restrictions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import USER
from .daemon import PYTHON, Daemon
from .machine import CHECKOUT, Machine
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
STORY = """
import lazyd
with lazyd.connect() as c:
    for piece in c.model("smollm2").stream.complete("Once upon a time", max_tokens=150, temperature=0.0):
        print("piece", flush=True)
"""


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

    story = daemon.start(PYTHON, "-I", "-c", STORY)
    assert story.stdout is not None
    assert story.stdout.readline() == "piece\n"
    daemon.units.systemctl("restart", MANAGER)
    daemon.units.started_anew(MANAGER, after=daemon.units.kill())
    assert daemon.in_flight("smollm2") == 1, "the story has ended before its end could be disturbed"
    out, err = story.communicate(timeout=60)
    assert story.returncode == 0, err
    assert out.count("piece\n") >= 50

    assert "Paris" in daemon.lazyctl("run", "smollm2", prompt).stdout
    assert daemon.workers("smollm2") == [worker]
