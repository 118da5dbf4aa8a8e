"""How commands are found and what they share.

A command's module is imported when the command is used; the overview needs none of them, since
`LazyGroup` is given each command's one-line description. ``--json`` and ``--socket`` are options of
every command, so they may stand anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import click

from .session import Session
from .units import bytes_of, seconds_of

COMPLETING = "_LAZYCTL_COMPLETE"
"""Set by a shell's script when it asks for completions: click derives this name from the program's."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _remember_json(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        ctx.ensure_object(Session).json = True


def _remember_socket(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is not None:
        ctx.ensure_object(Session).socket = path


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--json"],
            is_flag=True,
            expose_value=False,
            callback=_remember_json,
            help="Print the daemon's reply as JSON.",
        ),
        click.Option(
            ["--socket"],
            metavar="PATH",
            type=click.Path(),
            expose_value=False,
            callback=_remember_socket,
            help="The daemon's control socket; else $LAZYD_SOCKET, your own daemon's, the machine's.",
        ),
    ]


class _Described(click.Command):
    """A command whose help ends with examples, and which takes the shared options."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params.extend(_shared_options())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"  {line.strip()}\n" if line.strip() else "\n")


class LazyGroup(_Described, click.Group):
    """A group whose commands are known by name and description, and imported when used."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        kwargs = {"no_args_is_help": False, "subcommand_metavar": "COMMAND [ARGS]...", **kwargs}
        super().__init__(*args, **kwargs)
        self.modules = modules or {}
        """By command: the module below `lazyctl.commands` that holds it, and what it does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.modules, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        module = import_module(f".commands.{self.modules[cmd_name][0]}", __package__)
        found = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, description) for name, (_, description) in self.modules.items()]
        rows += [(name, one.get_short_help_str()) for name, one in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete a command's name without importing the commands."""
        from click.shell_completion import CompletionItem

        names = {
            **{n: d for n, (_, d) in self.modules.items()},
            **{n: c.get_short_help_str() for n, c in self.commands.items()},
        }
        found = [CompletionItem(name, help=text) for name, text in names.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def command(examples: str, **kwargs: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command; its docstring is the help, `examples` stand below it."""
    return click.command(cls=_Described, examples=examples, **kwargs)


class Duration(click.ParamType[float]):
    """A time such as ``30s``; the function gets seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        try:
            return seconds_of(value)
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)


class Bytes(click.ParamType[int]):
    """A size such as ``8GiB``; the function gets bytes."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return bytes_of(value)
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)


def timeout_option(help: str) -> Callable[[Function], Function]:  # noqa: A002 - click's word
    """``--timeout T``, given to the function as `timeout` in seconds or None."""
    return click.option("--timeout", metavar="T", type=Duration(), help=help)
