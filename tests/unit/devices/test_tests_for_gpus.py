"""The tests that need a real GPU are sound: on the stand-in driver they pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_tests_for_a_real_gpu_pass_on_the_stand_in() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu", "--stand-in"]
    ran = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "skipped" not in ran.stdout
