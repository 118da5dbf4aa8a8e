"""Whether a process may be forked is found out in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lazyd.worker import checks


def why(program: str) -> str:
    program = f"{program}\nfrom lazyd.worker import checks\nprint(checks.why_not_fork([0, 1, 2]))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "program",
    [
        "",
        "import numpy; numpy.ones((500, 500)) @ numpy.ones((500, 500))",
        "f = open('/etc/passwd'); g = open('/dev/null', 'w'); h = open('/dev/urandom', 'rb')",
    ],
)
def test_what_is_known_to_be_harmless_may_be_forked(program: str) -> None:
    assert why(program) == "None"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "1 unknown threads"),
        ("import socket; s = socket.socket()", "socket:"),
        ("import os; p = os.pipe()", "pipe:"),
        ("import tempfile; f = tempfile.TemporaryFile()", "is open after the imports"),
        ("import select; e = select.epoll()", "eventpoll"),
        ("import numpy, threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "1 unknown"),
    ],
)
def test_what_is_not_known_may_not(program: str, reason: str) -> None:
    assert reason in why(program)


def test_a_fingerprint_is_of_packages_and_changes_with_them(tmp_path: Path) -> None:
    seen = checks.fingerprint()
    assert checks.__file__ in seen
    assert pytest.__file__ in seen
    assert subprocess.__file__ not in seen
    package = tmp_path / "package.py"
    package.write_text("one")
    before = checks.look_at([str(package)])
    assert checks.look_at(before) == before
    package.write_text("another")
    assert checks.look_at(before) != before
    package.unlink()
    assert checks.look_at(before) == {str(package): []}
