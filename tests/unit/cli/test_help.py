"""Help: complete, with examples, and cheap."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

import lazyctl.commands
from lazyctl.program import COMMANDS, cli

from .conftest import Lazyctl

CONTRACT = (
    *("status", "load", "unload", "warm", "call", "run", "show", "reserve", "add", "remove", "pin", "unpin"),
    *("versions", "promote", "rollback", "fetched", "health", "events", "logs"),
    *("reload", "simulate", "config", "version", "completion"),
)


def command(*names: str) -> click.Command:
    found: click.Command | None = cli
    for name in names:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name)
    assert found is not None
    return found


def test_all_commands_are_there() -> None:
    assert tuple(COMMANDS) == CONTRACT


@pytest.mark.parametrize("name", CONTRACT)
def test_help_has_examples_that_start_with_the_command(lazyctl: Lazyctl, name: str) -> None:
    result = lazyctl(name, "check", "--help") if name == "config" else lazyctl(name, "--help")
    assert result.status == 0
    examples = result.out.split("Examples:\n")[1].strip().splitlines()
    assert any(f"lazyctl {name}" in example for example in examples)


@pytest.mark.parametrize("name", CONTRACT)
def test_help_fits_80_columns(lazyctl: Lazyctl, name: str) -> None:
    assert max(map(len, lazyctl(name, "--help").out.splitlines())) <= 80


def test_the_overview_fits_80_columns_and_names_every_command(lazyctl: Lazyctl) -> None:
    out = lazyctl("--help").out
    assert max(map(len, out.splitlines())) <= 80
    for name in CONTRACT:
        assert f"\n  {name} " in out


@pytest.mark.parametrize("name", CONTRACT)
def test_examples_are_accepted(name: str) -> None:
    """Whatever help shows of lazyctl can be typed."""
    shown = command("config", "check") if name == "config" else command(name)
    seen = 0
    for line in re.split(r"\n|&&|\|\|?|\$\(|\)|[<>]", getattr(shown, "examples", "")):
        words = (
            shlex.split(line.strip(), comments=True) if line.count("'") % 2 == 0 and line.count('"') % 2 == 0 else []
        )
        if words[:1] == ["lazyctl"]:
            used, *arguments = [word for word in words[1:] if word != "--json"]
            if used == "config":
                used, *arguments = arguments
                command("config", used).make_context(used, arguments)
            else:
                command(used).make_context(used, arguments)
            seen += 1
    assert seen


def test_no_command_is_imported_before_it_is_used() -> None:
    """What `lazyctl.program` imports is what every command pays for."""
    root = Path(lazyctl.commands.__file__).parent.parent
    for module in ("main", "program", "group", "session", "names", "terminal", "units"):
        tree = ast.parse((root / f"{module}.py").read_text())
        top = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        names = {alias.name for node in top for alias in node.names}
        names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
        assert not {name for name in names if name.split(".")[0] in ("rich", "asyncio", "json", "commands")}, module
