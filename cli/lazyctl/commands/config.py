"""``lazyctl config check``. The only command that needs no daemon."""

from __future__ import annotations

import click

from ..group import LazyGroup, command
from ..session import Session


@click.group(cls=LazyGroup)
def config() -> None:
    """Check the configuration."""


@command(
    examples="""
        lazyctl config check
        lazyctl config check new.toml && sudo cp new.toml /etc/lazyd/lazyd.d/ && lazyctl reload
    """
)
@click.argument("file", type=click.Path(), required=False)
@click.pass_obj
def check(session: Session, file: str | None) -> int:
    """Check FILE, or all configuration that the daemon would read: the same as `lazyd --check`.

    Prints every problem with file, key and remedy; exits with 1 if there is one. What
    clients have registered counts, where it may be read.
    """
    from lazyd import config as configuration
    from lazyd.config import registered
    from lazyd.places import state_dir

    files, state = configuration.find(file), state_dir()
    if not session.json:
        lines, status = configuration.check(files, state)
        session.say(*lines)
        return status
    loaded = configuration.load(files, registered.known(state, repair=False), contents=True)
    session.print_json(
        {
            "files": list(files.paths),
            "problems": [str(problem) for problem in loaded.problems],
            "warnings": [str(told) for told in (*loaded.warnings, *loaded.unreadable, *loaded.found)],
        }
    )
    return 1 if loaded.problems else 0


config.add_command(check)
