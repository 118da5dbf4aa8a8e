"""Completion in real shells, with the names that the daemon knows at that moment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..client.fakes import DEADLINE_S, Hangup
from .conftest import Daemon
from .samples import hot, model, status

BASH = """
source <(lazyctl completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
_lazyctl_completion lazyctl
printf '%s\\n' "${COMPREPLY[@]}"
"""

# The words that zsh's own completion would be given, in stand-ins for its builtins.
ZSH = """
compdef() {}
_describe() { print -rl -- "${(@P)3}" }
compadd() { print -rl -- "${(@P)5}" }
eval "$(lazyctl completion zsh)"
words=("${(@s: :)1}") CURRENT=$#words
_lazyctl_completion
"""

FISH = """
lazyctl completion fish | source
complete -C $argv[1]
"""

SHELLS = {
    "bash": ["bash", "--norc", "-c", BASH, "bash"],
    "zsh": ["zsh", "-f", "-c", ZSH, "zsh"],
    "fish": ["fish", "--no-config", "-c", FISH],
}

Complete = Callable[[str], list[str]]


@pytest.fixture(params=SHELLS)
def complete(request: pytest.FixtureRequest, socket_path: Path, tmp_path: Path) -> Complete:
    """The first words of what a shell offers for a line."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LAZYD_SOCKET": str(socket_path),
        "LC_ALL": "C.UTF-8",
    }

    def complete(line: str) -> list[str]:
        done = subprocess.run(
            [*SHELLS[shell], line], env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.stderr == ""
        # zsh's descriptions follow after a colon, those in names are escaped; fish's after a tab.
        found = [offer.replace("\\:", "\0").split("\t")[0] for offer in done.stdout.splitlines() if offer]
        if shell == "zsh":
            found = [offer.split(":")[0] for offer in found]
        return [offer.replace("\0", ":") for offer in found]

    return complete


@pytest.fixture
def known(daemon: Daemon) -> Daemon:
    daemon.answer("Status", status(hot(), model("ocr", version="3", aliases=["reader"]), model("strategy/alpha")))
    return daemon


@pytest.mark.usefixtures("known")
def test_commands_are_completed(complete: Complete) -> None:
    assert complete("lazyctl un") == ["unload", "unpin"]


@pytest.mark.usefixtures("known")
def test_models_and_their_aliases_are_completed(complete: Complete) -> None:
    assert complete("lazyctl load ") == ["gemma", "ocr:3", "reader", "strategy/alpha"]


@pytest.mark.usefixtures("known")
def test_a_version_is_completed_after_its_colon(complete: Complete, request: pytest.FixtureRequest) -> None:
    # bash replaces only what stands after the colon.
    in_bash = "bash" in request.node.name
    assert complete("lazyctl load ocr:") == ["3" if in_bash else "ocr:3"]


@pytest.mark.usefixtures("known")
def test_a_model_that_was_named_is_not_offered_again(complete: Complete) -> None:
    assert "gemma" not in complete("lazyctl unload gemma ")


def test_without_a_daemon_nothing_is_offered_and_nothing_said(complete: Complete) -> None:
    assert complete("lazyctl load ") == []


def test_a_daemon_that_does_not_answer_is_not_waited_for(daemon: Daemon, complete: Complete) -> None:
    asked, over = threading.Event(), threading.Event()

    def never(_: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        assert over.wait(DEADLINE_S)
        raise Hangup

    daemon.on["Status"] = never
    assert complete("lazyctl load ") == []
    assert asked.is_set()
    over.set()
