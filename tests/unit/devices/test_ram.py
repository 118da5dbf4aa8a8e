"""How much memory there is to use."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from lazyd.devices.ram import Ram

GIB = 1024**3
MEMINFO = "MemTotal: 16777216 kB\nMemFree: 1048576 kB\nMemAvailable: 8388608 kB\nHugePages_Total: 0\n"


def machine(tmp_path: Path, cgroup: str, files: dict[str, str]) -> Ram:
    """A machine of 16 GiB, 8 of them free."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMINFO)
    (proc / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Ram(proc=str(proc), cgroups=str(tmp_path / "cgroup"))


def seen(ram: Ram) -> tuple[float, float]:
    sample = ram.sample()
    assert (sample.name, sample.kind) == ("ram", "host")
    return sample.total_bytes / GIB, sample.used_bytes / GIB


def test_without_a_limit_it_is_the_machine(tmp_path: Path) -> None:
    assert seen(machine(tmp_path, "0::/\n", {})) == (16, 8)


def test_a_limit_of_version_2_is_the_total_and_its_file_pages_count_as_free(tmp_path: Path) -> None:
    files = {
        "lazyd/memory.max": f"{4 * GIB}\n",
        "lazyd/memory.current": f"{3 * GIB}\n",
        "lazyd/memory.stat": f"anon {GIB}\nactive_file {GIB}\ninactive_file {GIB}\nshmem 0\n",
    }
    assert seen(machine(tmp_path, "0::/lazyd\n", files)) == (4, 1)


def test_a_limit_further_up_counts_too(tmp_path: Path) -> None:
    files = {
        "a/memory.max": f"{2 * GIB}\n",
        "a/memory.current": f"{GIB}\n",
        "a/memory.stat": "anon 1\n",
        "a/b/memory.max": "max\n",
        "a/b/memory.current": "1\n",
    }
    assert seen(machine(tmp_path, "0::/a/b/c\n", files)) == (2, 1)


def test_a_limit_of_version_1(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/memory.usage_in_bytes": "1\n",
        "memory/box/memory.limit_in_bytes": f"{4 * GIB}\n",
        "memory/box/memory.usage_in_bytes": f"{2 * GIB}\n",
        "memory/box/memory.stat": f"total_active_file 0\ntotal_inactive_file {GIB}\n",
    }
    assert seen(machine(tmp_path, "4:cpu,memory:/box\n1:cpu:/box\n0::/\n", files)) == (4, 1)


def test_a_machine_that_is_full_leaves_less_than_the_limit_allows(tmp_path: Path) -> None:
    files = {"memory.max": f"{12 * GIB}\n", "memory.current": f"{GIB}\n", "memory.stat": ""}
    assert seen(machine(tmp_path, "0::/\n", files)) == (12, 4)


def test_the_cgroup_of_a_process_that_has_gone_is_no_limit(tmp_path: Path) -> None:
    ram = machine(tmp_path, "0::/\n", {})
    ram.pid = 12345
    assert seen(ram) == (16, 8)


def test_a_process_that_is_hidden_can_say_itself_where_it_is(tmp_path: Path) -> None:
    files = {"host/memory.max": f"{4 * GIB}\n", "host/memory.current": f"{GIB}\n"}
    ram = machine(tmp_path, "0::/manager\n", files)
    ram.pid = 12345
    ram.membership = "0::/host/leaf\n"
    assert seen(ram) == (4, 1)


def test_this_machine_is_seen_as_psutil_sees_it() -> None:
    sample = Ram(os.getpid()).sample()
    theirs = psutil.virtual_memory()
    assert sample.total_bytes <= theirs.total
    assert sample.total_bytes - sample.used_bytes == pytest.approx(theirs.available, rel=0.2) or (
        sample.total_bytes < theirs.total
    )
