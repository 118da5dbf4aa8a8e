"""The tests that need a real GPU are sound: on the stand-in driver they pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NEEDS_MORE = "test_a_module_is_on_its_gpu_parks_and_comes_back"
"""PyTorch itself has to see the GPU, which no stand-in makes it do."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("driver", "skipped"),
    [
        ("showing", [NEEDS_MORE]),
        (
            "hiding",
            [
                NEEDS_MORE,
                "test_a_program_that_is_started_by_hand",
                "test_what_a_model_uses_beyond_what_it_declares",
                "test_what_a_process_allocates_is_used_and_shown_as_its_own",
                "test_what_a_program_uses_inside_its_reservation",
                "test_who_only_looks_has_no_context",
            ],
        ),
    ],
)
def test_the_tests_for_a_real_gpu_pass_on_a_stand_in_that_shows_processes_or_hides_them(
    driver: str, skipped: list[str]
) -> None:
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "tests/gpu", "--stand-in", driver]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    results = [line for line in ran.stdout.splitlines() if "::" in line]
    assert sum(" SKIPPED" in line for line in results) == len(skipped), ran.stdout
    assert all(any(name in line and " SKIPPED" in line for line in results) for name in skipped), ran.stdout
    assert sum(" PASSED" in line for line in results) >= 10
