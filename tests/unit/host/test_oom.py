"""Whether a process ended for want of memory: what the kernel counts, and what was written."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lazyd.host import oom
from lazyd.host.cgroups import Cgroup


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the machine as a whole counts."""
    path = tmp_path / "vmstat"
    path.write_text("nr_free_pages 5\noom_kill 7\n")
    monkeypatch.setattr(oom, "VMSTAT", str(path))
    return path


def cgroup(folder: Path, events: str | None) -> Cgroup:
    if events is not None:
        (folder / "memory.events").write_text(events)
    return Cgroup(folder)


@pytest.mark.parametrize(
    ("events", "kills"),
    [
        ("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n", 2),  # not what it was refused
        ("low 0\nhigh 0\nmax 12\noom 0\n", 0),  # before Linux 4.13
        (None, 7),  # the controller is not handed down
    ],
)
@pytest.mark.usefixtures("machine")
def test_its_cgroup_counts_the_kernels_kills_or_else_the_machine(
    tmp_path: Path, events: str | None, kills: int
) -> None:
    assert oom.kills(cgroup(tmp_path, events)) == kills


@pytest.mark.parametrize(("text", "kills"), [("nr_free_pages 5\noom_kill 8\n", 8), ("nr_free_pages 5\n", 0)])
def test_without_a_cgroup_the_machine_counts(machine: Path, text: str, kills: int) -> None:
    machine.write_text(text)
    assert oom.kills(None) == kills


def test_a_machine_that_does_not_count_has_killed_nobody(machine: Path) -> None:
    machine.unlink()
    assert oom.kills(None) == 0


@pytest.mark.parametrize(
    ("status", "ended_by", "is_told"),
    [
        (None, signal.SIGABRT, True),
        (1, None, True),
        (0, None, False),
        (None, None, False),
        (None, signal.SIGKILL, False),
        (None, signal.SIGTERM, False),
    ],
)
def test_what_was_written_counts_where_the_process_failed_by_itself(
    status: int | None, ended_by: int | None, is_told: bool
) -> None:
    assert oom.is_told("python", status, ended_by, "loading\nMemoryError\n") is is_told
