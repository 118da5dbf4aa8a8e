"""Starts processes of lazyd's own that outlive the manager: the host and the fetcher, where systemd does not."""

from __future__ import annotations

import os
import subprocess
import sys

_NOT_THEIRS = "NOTIFY_SOCKET"
"""With it they would speak to systemd for the manager."""


def start(module: str, *arguments: str, log: str, **environment: str) -> subprocess.Popen[bytes]:
    """Runs a module in a session of its own; what it writes goes to the end of `log`. Blocks for the time of a fork.

    Its environment is the manager's, with `environment` over it. Raises `OSError`.
    """
    inherited = {name: value for name, value in os.environ.items() if name != _NOT_THEIRS}
    with open(log, "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**inherited, **environment},
            cwd="/",
            start_new_session=True,
        )
