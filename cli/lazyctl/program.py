"""The way of one command: read the line, do it, and turn what went wrong into one line and a status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from lazyd.errors import LazydError

from .group import COMPLETING, LazyGroup
from .main import INTERRUPTED
from .session import Session
from .terminal import for_stderr, one_line

NAME = "lazyctl"

COMMANDS = {
    "status": ("status", "Show devices and models."),
    "load": ("load", "Load a model now."),
    "unload": ("unload", "Free the memory of models."),
    "warm": ("warm", "Bring models into memory in the background."),
    "call": ("call", "Call a method of a model."),
    "run": ("run", "Generate text, streaming to the terminal."),
    "show": ("show", "Show a model's spec and what its file says, without loading it."),
    "reserve": ("reserve", "Run a program inside a reservation."),
    "add": ("add", "Register models beside what is configured."),
    "remove": ("add", "Remove models that were registered."),
    "pin": ("pin", "Never evict a model."),
    "unpin": ("pin", "Let a pinned model be evicted again."),
    "versions": ("versions", "Show which versions answer for a name."),
    "promote": ("versions", "Let a name mean another version."),
    "rollback": ("versions", "Let a name mean what it meant before."),
    "fetched": ("fetched", "Show what was fetched from elsewhere, or remove it."),
    "health": ("health", "Exit with 0 if the daemon, or a model, is well."),
    "events": ("events", "Follow what happens."),
    "logs": ("logs", "Show what a model's worker wrote."),
    "reload": ("reload", "Re-read the configuration."),
    "simulate": ("simulate", "Replay the recorded uses under another configuration."),
    "config": ("config", "Check the configuration, and explain its keys."),
    "version": ("version", "Show the versions of client and daemon."),
    "completion": ("completion", "Print the script that completes names in your shell."),
}


@click.group(
    NAME,
    cls=LazyGroup,
    modules=COMMANDS,
    examples="""
        lazyctl status
        lazyctl run gemma "The capital of France is"
        lazyctl --json status | jq .devices
        lazyctl COMMAND --help
    """,
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Look at and steer lazyd, the daemon that owns the models and the memory of this machine.

    \b
    Exit status: 0 done, 2 wrong usage, 3 not loaded (health MODEL),
    4 no such model, 69 daemon not reachable, 75 no room or busy: try later,
    77 not allowed, 124 time limit reached, 130 interrupted, 1 all else.
    """
    ctx.ensure_object(Session)


def run(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line (that of the process, if none is given) and return the exit status.

    What was written is flushed then.
    """
    if COMPLETING in os.environ:
        from . import shells  # noqa: F401 - it tells click about our bash
    try:
        status = cli.main(arguments, prog_name=NAME, standalone_mode=False)
        _flush()
    except SystemExit as end:  # click answers a shell's completion so
        _flush()
        return end.code if isinstance(end.code, int) else 1
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        return complain(_usage(error), error.exit_code)
    except LazydError as error:
        return complain(str(error), error.exit_status)
    except OSError as error:
        return complain(f"the output could not be written: {error.strerror or error}", 1)
    return int(status or 0)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def complain(line: str, status: int) -> int:
    """One line on standard error, broken between words for a person; the status comes back."""
    click.echo("\n".join(for_stderr(f"{NAME}: {one_line(line)}")), err=True)
    return status


def _usage(error: click.ClickException) -> str:
    """click's message as part of a sentence, and where to read on."""
    message = error.format_message().strip().removesuffix(".")
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}; see '{context.command_path if context else NAME} --help'"
