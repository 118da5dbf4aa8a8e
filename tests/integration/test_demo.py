"""`make demo` tells the truth, fits a terminal, and cleans up after itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "build" / "models"
LIMIT_S = 110

pytestmark = pytest.mark.skipif(
    not all((MODELS / name).exists() for name in ("smollm2.gguf", "gemma.gguf")),
    reason="needs the models that `make setup` fetches",
)


@pytest.fixture
def demo() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)


def place_of(text: str) -> str:
    """The temporary directory that the demo said it uses."""
    found = re.search(r"privately in (\S+)", text)
    assert found, text
    return found[1]


def processes_that_know(place: str) -> list[str]:
    """Every process that was started with this directory in its environment or on its command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if place.encode() in (folder / "environ").read_bytes() + command:
                found.append(f"{folder.name}: {command.replace(bytes(1), b' ').decode(errors='replace')}")
        except OSError:
            continue
    return found


def test_demo_holds_what_it_says_and_leaves_nothing(demo: subprocess.Popen[str]) -> None:
    told, _ = demo.communicate(timeout=LIMIT_S)
    assert demo.returncode == 0, told
    assert "Paris" in told
    assert "\033" not in told, "colour where there is no terminal"
    assert [line for line in told.splitlines() if len(line) > 80] == []
    place = place_of(told)
    assert not Path(place).exists()
    assert processes_that_know(place) == []


def test_ctrl_c_in_the_middle_of_the_demo_leaves_nothing(demo: subprocess.Popen[str]) -> None:
    assert demo.stdout is not None
    told = ""
    while "lazyctl run smollm2" not in told:
        line = demo.stdout.readline()
        assert line, told
        told += line
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=LIMIT_S)
    assert demo.returncode == 130, told + rest
    place = place_of(told)
    assert not Path(place).exists()
    assert processes_that_know(place) == []
