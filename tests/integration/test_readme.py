"""The README's examples of use run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.stage import COMMANDS, MODELS, Stage
from demo.story import CONFIGURATION

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def blocks(language: str, heading: str) -> str:
    """The code under a heading of the README."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL))


COMMAND_LINES = [line.partition("  #")[0].strip() for line in blocks("sh", "Use it from a shell").splitlines() if line]

pytestmark = pytest.mark.skipif(
    not (MODELS / "gemma.gguf").exists(), reason="needs the models that `make setup` fetches"
)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(CONFIGURATION) as stage:
        stage.start()
        yield stage


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_command_line_runs(stage: Stage, line: str) -> None:
    ours, _, filtered = line.partition(" | ")
    environment = {**stage.environment, "PATH": f"{COMMANDS}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", ours], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout or "logs" in line
    assert not filtered or filtered.startswith("jq "), "only jq is known here"


def test_python_example_runs(stage: Stage) -> None:
    example = blocks("python", "Use it from Python")
    done = subprocess.run(
        [sys.executable, "-c", example], env=stage.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
