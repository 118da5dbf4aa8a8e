"""`lazyd.lazy` and a real daemon: the example of 200 strategies, whose heartbeat changed by two lines."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

from examples.stage import Example
from examples.strategies.__main__ import HERE, WATCHED, heartbeat, ready

ROOT = Path(__file__).parents[2]


def test_its_story_is_true() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.strategies"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_hardly_a_line_of_the_program_is_changed() -> None:
    before, after = ((HERE / f"{version}.py").read_text().splitlines() for version in ("before", "after"))
    # Their first lines say how each is started; blank ones say nothing.
    changed = [line for line in difflib.ndiff(before[1:], after[1:]) if line[0] in "+-" and line[1:].strip()]
    assert [line[2:] for line in changed if line[0] == "+"] == [
        "import lazyd",
        "from .strategies import history, load",
        'strategy = lazyd.lazy("strategy/*", load, maxsize=10)',
    ]
    assert sum(line[0] == "-" for line in changed) == 3


def test_a_restarted_program_finds_what_the_daemon_has_and_goes_on_without_a_daemon() -> None:
    with Example(HERE) as example:
        example.start()
        example.wait_until_running()
        first = heartbeat(example, "after", WATCHED)
        assert ready(example) == len(WATCHED)
        assert heartbeat(example, "after", WATCHED) == first
        with example.client() as client:
            assert {model["loads"] for model in client.status()["models"] if model["state"] == "ready"} == {1}
        example.stop()
        assert heartbeat(example, "after", WATCHED) == first
