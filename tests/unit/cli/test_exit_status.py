"""Errors: one line on standard error, and the exit status that scripts are written against."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lazyd import errors

from .conftest import Daemon, Lazyctl

STATUSES = {
    errors.ModelNotFound(model="gema", nearest="gemma"): 4,
    errors.LoadFailed(model="gemma", reason="the file\nis truncated", retry_after_sec=16.0): 1,
    errors.NoRoom(model="gemma", device="ram", needed_bytes=2**32, free_bytes=2**30, reason="all is in use"): 75,
    errors.Busy(model="gemma", in_flight=2): 75,
    errors.Timeout(model="gemma", phase="loading", timeout_sec=5.0): 124,
    errors.NoSuchMethod(model="gemma", method="sing"): 2,
    errors.NoSuchDevice(device="gpu9"): 2,
    errors.InvalidSpec(model="gemma", key="path", reason="missing"): 2,
    errors.NotKept(model="gemma", change="pinned", reason="no space left"): 1,
    errors.Conflict(model="gemma", sources=["a", "b"]): 2,
    errors.InvalidParameter(parameter="timeoutSec"): 2,
    errors.PermissionDenied(method="Reload", role="user"): 77,
    errors.WorkerDied(model="gemma", signal=9, log="Killed"): 1,
    errors.CallFailed(model="gemma", method="run", reason="ValueError: no", traceback="..."): 1,
    errors.InvalidConfig(problems=["lazyd.toml: a", "lazyd.toml: b"]): 1,
    errors.MethodNotImplemented(method="Warm"): 1,
}


@pytest.mark.parametrize(("error", "expected"), STATUSES.items(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["words", "json"])
def test_an_error_is_one_line_and_a_status(
    daemon: Daemon, lazyctl: Lazyctl, error: errors.LazydError, expected: int, json: list[str]
) -> None:
    daemon.answer("Load", error)
    result = lazyctl(*json, "load", "gemma")
    assert result.status == expected
    assert result.error == str(error)


def test_a_stopping_daemon_is_one_that_cannot_be_reached(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Load", errors.ShuttingDown())
    assert lazyctl("load", "gemma").status == 69


def test_no_daemon_names_the_socket_and_what_to_do(lazyctl: Lazyctl, socket_path: Path) -> None:
    result = lazyctl("status")
    assert result.status == 69
    assert str(socket_path) in result.error
    assert "is it running?" in result.error


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ([], "missing command; see 'lazyctl --help'"),
        (["stauts"], "no such command 'stauts'"),
        (["status", "--colour"], "no such option"),
        (["load"], "missing argument 'MODEL'; see 'lazyctl load --help'"),
        (["load", "gemma", "--timeout", "soon"], "'soon' is not a time: write 30s, 2min"),
        (["warm"], "missing argument"),
        (["config"], "missing command; see 'lazyctl config --help'"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_is_one_line_that_says_where_to_read_on(lazyctl: Lazyctl, line: list[str], told: str) -> None:
    result = lazyctl(*line)
    assert result.status == 2
    assert told in result.error
    assert "--help'" in result.error


def test_a_full_disk_is_an_error(daemon: Daemon, lazyctl: Lazyctl, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    daemon.answer("Unload", {"unloaded": []})
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        result = lazyctl("unload", "--all")
        monkeypatch.setattr(full, "close", lambda: None)
    assert result.status == 1
    assert result.err == "lazyctl: the output could not be written: No space left on device\n"


def test_a_family_is_never_offered_as_a_model() -> None:
    offered = errors.ModelNotFound(model="strategy", nearest="strategy/*").message()
    assert offered == "no model is called strategy; did you mean a member of strategy/*?"
    named = errors.ModelNotFound(model="strategy/*").message()
    assert named == "no model is called strategy/*; a family is used by its members: write a name in place of *"


def test_ctrl_c_while_modules_are_imported_ends_it_like_any() -> None:
    code = """
import os, signal, sys
from lazyctl.main import main
class Finder:
    def find_spec(self, name, *_):
        if name == "lazyctl.group":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
main()
"""
    ended = subprocess.run([sys.executable, "-c", code, "status"], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_ctrl_c_at_the_very_end_is_no_traceback_either() -> None:
    code = """
import os, signal
from lazyctl import main, program
def run():
    os.kill(os.getpid(), signal.SIGINT)
    return 0
program.run = run
main.main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "")
