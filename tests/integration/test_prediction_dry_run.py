"""Dry runs in a real host: quick, in a process that ends, whatever becomes of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .host_driver import MODELS, Host, Manager, exists, llama_spec, python_spec, running_host, wait_until

MIB = 1024 * 1024

SLOW_S = 100.0
TOO_LONG = "it took more than 2 s"

ODD_LIBRARIES = {
    "hangs": "import time; time.sleep(60)",
    "aborts": "import os; os.write(2, b'GGML_ASSERT failed\\n'); os.abort()",
    "leaves a child": "import subprocess, time; subprocess.Popen(['sleep', '300']); time.sleep(60)",
    "is broken": "raise ImportError('libcudart.so.12: cannot open shared object file')",
}


@pytest.fixture(params=[True, False], ids=["cgroups", "no cgroups"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with running_host(cgroups=request.param) as host:
        yield host


@pytest.fixture
def manager(host: Host) -> Manager:
    return host.manager()


def dry_run(manager: Manager, spec: dict[str, Any], number: int = 1) -> dict[str, Any]:
    manager.host.send({"do": "dry_run", "id": number, "spec": spec})
    return manager.host.expect("dry_run", id=number)


def finished(manager: Manager, *specs: dict[str, Any]) -> list[dict[str, Any]]:
    """What dry runs tell that are made at once. A machine with much else to do may be too slow at first."""
    deadline = time.monotonic() + SLOW_S
    while True:
        for number, spec in enumerate(specs):
            manager.host.send({"do": "dry_run", "id": number, "spec": spec})
        answers = [manager.host.expect("dry_run", id=number) for number in range(len(specs))]
        if time.monotonic() > deadline or not any(answer["reason"] == TOO_LONG for answer in answers):
            assert [answer["reason"] for answer in answers] == [None] * len(specs)
            return [answer["result"] for answer in answers]


def odd_spec(folder: Path, what: str) -> dict[str, Any]:
    """A model whose library does something else than load."""
    (folder / "llama_cpp").mkdir()
    (folder / "llama_cpp" / "__init__.py").write_text(ODD_LIBRARIES[what])
    return {**llama_spec(n_ctx=512), "python_path": [str(folder)]}


def children(host: Host) -> list[int]:
    """Of the host, which adopts what its children leave."""
    tasks = Path(f"/proc/{host.pid}/task/{host.pid}/children")
    return [int(pid) for pid in tasks.read_text().split()]


def nothing_is_left(host: Host) -> None:
    wait_until(lambda: not children(host), "the end of all that was started")


@pytest.fixture
def models() -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (make setup)")
    if not (MODELS / "smollm2.gguf").exists():
        pytest.skip(f"{MODELS} has no models (make setup)")


@pytest.mark.usefixtures("models")
def test_it_tells_what_a_load_would_take_and_leaves_nothing(host: Host, manager: Manager) -> None:
    (result,) = finished(manager, llama_spec(n_ctx=512))
    assert result["source"] == "dry run"
    assert list(result["files"].values()) == [(MODELS / "smollm2.gguf").stat().st_size]
    assert 40 * MIB < result["ram"]["ram"] < 120 * MIB
    nothing_is_left(host)


@pytest.mark.usefixtures("models")
def test_it_is_forked_from_a_zygote_that_is_there_whatever_gpus_that_is_shown(manager: Manager) -> None:
    spec = llama_spec(n_ctx=512)
    executed = in_ram(manager, spec)
    manager.load("w", {**spec, "env": {"CUDA_VISIBLE_DEVICES": "GPU-1"}})
    forked = in_ram(manager, {**spec, "env": {"CUDA_VISIBLE_DEVICES": ""}})
    assert forked < executed - 10 * MIB  # what it shares with its zygote is not its own
    other = in_ram(manager, {**spec, "env": {"OMP_NUM_THREADS": "1"}})
    assert other == pytest.approx(executed, rel=0.05)


def in_ram(manager: Manager, spec: dict[str, Any]) -> int:
    (result,) = finished(manager, spec)
    return int(result["ram"]["ram"])


@pytest.mark.usefixtures("models")
def test_several_at_once_are_told_apart(manager: Manager) -> None:
    results = finished(manager, *(llama_spec(n_ctx=n_ctx) for n_ctx in (512, 1024, 2048)))
    found = [result["ram"]["ram"] for result in results]
    assert found == sorted(found)
    assert found[0] < found[2] - 30 * MIB


@pytest.mark.parametrize("what", ["hangs", "leaves a child"])
def test_one_that_takes_too_long_is_killed_with_all_it_started(
    host: Host, manager: Manager, tmp_path: Path, what: str
) -> None:
    began = time.monotonic()
    answer = dry_run(manager, odd_spec(tmp_path, what))
    assert (answer["result"], answer["reason"]) == (None, TOO_LONG)
    assert 1.9 < time.monotonic() - began < 20.0  # what it does takes a minute
    nothing_is_left(host)


def test_one_that_aborts_the_process_is_the_end_of_nobody_else(manager: Manager, tmp_path: Path) -> None:
    manager.load("other", python_spec("things:Thing", "other"))
    answer = dry_run(manager, odd_spec(tmp_path, "aborts"))
    assert answer["result"] is None
    assert answer["reason"].startswith("it ended with signal 6")
    assert manager.measure("other") > 0
    manager.stop("other")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"path": "/no/such.gguf"}, "FileNotFoundError: [Errno 2] No such file or directory: '/no/such.gguf'"),
        ({"runtime": "nonsense"}, "there is no runtime 'nonsense'"),
        ({"python": "/no/python"}, "the interpreter /no/python is missing or cannot be executed"),
        ({"runtime": "python"}, "the runtime python has no dry run"),
    ],
)
def test_what_cannot_be_is_the_reason(manager: Manager, change: dict[str, str], reason: str) -> None:
    answer = dry_run(manager, {**llama_spec(), **change})
    assert (answer["result"], answer["reason"]) == (None, reason)


def test_a_broken_library_is_the_reason(manager: Manager, tmp_path: Path) -> None:
    answer = dry_run(manager, odd_spec(tmp_path, "is broken"))
    assert answer["reason"] == "ImportError: libcudart.so.12: cannot open shared object file"


def test_a_host_that_stops_waits_for_none(host: Host, manager: Manager, tmp_path: Path) -> None:
    manager.host.send({"do": "dry_run", "id": 1, "spec": odd_spec(tmp_path, "hangs")})
    (pid,) = wait_until(lambda: children(host), "its process")
    manager.host.send({"do": "quit", "grace_s": 5.0})
    assert manager.host.expect("dry_run", id=1)["reason"] == "the worker host is stopping"
    manager.host.expect_end()
    assert not exists(pid)


def test_a_new_manager_is_told_of_none_that_the_last_one_wanted(host: Host, manager: Manager, tmp_path: Path) -> None:
    manager.host.send({"do": "dry_run", "id": 1, "spec": odd_spec(tmp_path, "hangs")})
    wait_until(lambda: children(host), "its process")
    manager.vanish()
    newest = host.manager()
    newest.host.send({"do": "dry_run", "id": 1, "spec": {**llama_spec(), "runtime": "python"}})
    assert newest.host.expect("dry_run", id=1)["reason"] == "the runtime python has no dry run"
    nothing_is_left(host)


def test_an_upgrade_ends_them_first(host: Host, manager: Manager, tmp_path: Path) -> None:
    manager.host.send({"do": "dry_run", "id": 1, "spec": odd_spec(tmp_path, "hangs")})
    (pid,) = wait_until(lambda: children(host), "its process")
    manager.host.send({"do": "upgrade"})
    assert manager.host.expect("dry_run", id=1)["reason"] == "the worker host is being upgraded"
    answer = dry_run(manager, {**llama_spec(), "runtime": "python"}, 2)
    assert answer["reason"] == "the runtime python has no dry run"
    assert not exists(pid)
    os.kill(host.pid, 0)
