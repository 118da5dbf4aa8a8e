"""What importing costs, counted in modules: a figure that does not depend on the machine's mood."""

from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys

import pytest

import lazyd
import lazyd.client

from .fakes import FakeDaemon


def modules_after(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def added_by(statement: str) -> set[str]:
    return modules_after(statement) - modules_after("pass")


def test_importing_lazyd_imports_nothing_else() -> None:
    assert added_by("import lazyd") == {"lazyd", "__future__"}


def test_the_blocking_client_needs_no_asyncio_and_nothing_slow() -> None:
    added = added_by("import lazyd; lazyd.connect; lazyd.LazydError")
    assert "lazyd.client.blocking.client" in added
    slow = {
        "asyncio",
        "ssl",
        "inspect",
        "dataclasses",
        "pathlib",
        "logging",
        "numpy",
        "subprocess",
        "urllib",
        "tempfile",
    }
    assert added & slow == set()


def test_a_process_that_outlives_the_files_can_import_all_at_once() -> None:
    loaded = added_by("import lazyd.client; lazyd.client.import_all()")
    folder = pathlib.Path(lazyd.client.__file__).parent
    modules = {path.stem for path in (*folder.glob("*.py"), *folder.glob("blocking/*.py"))} - {"__init__"}
    assert modules - {name.rpartition(".")[2] for name in loaded} == {"replies"}  # types alone


@pytest.mark.parametrize(
    ("connect", "call"),
    [
        ("lazyd.connect(path)", "client.call('gemma', 'echo', 1)"),
        (
            "loop.run_until_complete(lazyd.connect_async(path))",
            "loop.run_until_complete(client.call('gemma', 'echo', 1))",
        ),
    ],
    ids=["blocking", "aio"],
)
def test_the_first_call_imports_nothing_more(daemon: FakeDaemon, connect: str, call: str) -> None:
    program = f"""
import asyncio, sys, lazyd
loop, path = asyncio.new_event_loop(), sys.argv[1]
client = {connect}
before = set(sys.modules)
assert {call} == 1
print(*sys.modules.keys() - before)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(daemon.path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == []


def test_all_of_it_is_standard_library() -> None:
    added = added_by("import lazyd.client.blocking.client, lazyd.client.aio.client, lazyd.places")
    outside = {name for name in added if name.partition(".")[0] not in {*sys.stdlib_module_names, "lazyd"}}
    assert outside == set()


@pytest.mark.parametrize("name", lazyd.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(lazyd, name) is not None
    assert name in dir(lazyd)


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = lazyd.nonsense  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_distribution() -> None:
    assert lazyd.__version__ == importlib.metadata.version("lazyd")
