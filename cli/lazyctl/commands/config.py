"""``lazyctl config``. The only commands that need no daemon."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ..group import LazyGroup, command
from ..session import Session
from ..terminal import Look, hanging, text_only

if TYPE_CHECKING:
    from lazyd.config import Files
    from lazyd.config.explaining import Explained


_COLOURS = {"warning:": "yellow", "ok:": "green"}


@click.group(cls=LazyGroup)
def config() -> None:
    """Check the configuration, and tell what its keys mean."""


@command(
    examples="""
        lazyctl config check
        lazyctl config check --explain
        lazyctl config check new.toml && sudo cp new.toml /etc/lazyd/lazyd.d/ && lazyctl reload
    """
)
@click.argument("file", type=click.Path(), required=False)
@click.option("--explain", is_flag=True, help="Tell of every key that stands there what it means.")
@click.pass_obj
def check(session: Session, file: str | None, explain: bool) -> int:
    """Check FILE, or all configuration that the daemon would read: the same as `lazyd --check`.

    Prints every problem with file, key and remedy; exits with 1 if there is one. What would
    make the load of a model fail is a warning: an option that its runtime does not know, a
    file that is none of its runtime's. What clients have registered counts, where it may be read.
    """
    from lazyd import config as configuration
    from lazyd.config import registered
    from lazyd.places import state_dir

    files, state = configuration.find(file), state_dir()
    explained = _explained(files, state) if explain else []
    if not session.json:
        lines, status = configuration.check(files, state)
        if session.out.height is not None:  # a program that reads it has one line for each
            lines = [part for line in lines for part in _for_people(line, session.out)]
        if explained:
            from ..explained import explained_lines

            lines = [*explained_lines(explained, session.out), "", *lines]
        session.say(*lines)
        return status
    loaded = configuration.load(files, registered.known(state, repair=False), contents=True)
    session.print_json(
        {
            "files": list(files.paths),
            "problems": [str(problem) for problem in loaded.problems],
            "warnings": [str(told) for told in (*loaded.warnings, *loaded.unreadable, *loaded.found)],
            **({"keys": _plain(explained)} if explain else {}),
        }
    )
    return 1 if loaded.problems else 0


@command(
    examples="""
        lazyctl config explain idle_timeout
        lazyctl config explain models.warmup onnx.providers
        lazyctl config explain paddle
        lazyctl config explain | less
    """
)
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.pass_obj
def explain(session: Session, keys: tuple[str, ...]) -> None:
    """Tell what KEYs mean: keys, tables, or the options of a runtime; without one, all there are.

    `lazyctl config check --explain` tells it of those that stand in a file.
    """
    from lazyd.config import explaining

    rows = [row for key in keys for row in _named(key)] if keys else explaining.every()
    if session.json:
        session.print_json({"keys": _plain(rows)})
        return
    from ..explained import explained_lines

    session.say(*explained_lines(rows, session.out))


config.add_command(check)
config.add_command(explain)


def _for_people(line: str, look: Look) -> list[str]:
    """Between words, and with what kind of line it is in colour."""
    first, *more = hanging(line, look.width, look)
    begins = next((word for word in _COLOURS if first.startswith(word)), "")
    return [look.paint(begins, _COLOURS.get(begins, "")) + first[len(begins) :], *more]


def _explained(files: Files, state: str) -> list[Explained]:
    from lazyd.config import explaining

    return explaining.of_files(files, state)


def _named(key: str) -> list[Explained]:
    from lazyd.config import explaining

    found = explaining.named(key)
    if not found:
        near = explaining.nearest(key)
        advice = f"did you mean {near}?" if near else "'lazyctl config explain' lists all"
        raise click.UsageError(f"no key, table or runtime is called {text_only(key)}; {advice}")
    return found


def _plain(rows: Iterable[Explained]) -> list[dict[str, Any]]:
    import msgspec

    return [msgspec.to_builtins(row) for row in rows]
