"""What all tests share."""

from __future__ import annotations

import signal
from typing import Any

import pytest

# A shell starts background commands with Ctrl-C ignored, and all that they start inherits it. Tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

TOGETHER = ("tests/systemd",)
"""One booted system for all tests of a folder."""
BY_FILE = ("tests/integration", "tests/gpu", "tests/soak")
"""Tests of one file share a daemon."""


def shared_by(nodeid: str) -> str:
    """What a test is run together with, in one process, where several share the work."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    if folder in TOGETHER:
        return folder
    return file if folder in BY_FILE else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out whole files and folders where tests share something, single tests elsewhere."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return shared_by(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "load" else None
