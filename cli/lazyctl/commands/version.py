"""``lazyctl version``."""

from __future__ import annotations

from importlib.metadata import version as installed_version

import click

from ..group import command
from ..session import Session


@command(examples="lazyctl version")
@click.pass_obj
def version(session: Session) -> None:
    """Show the versions of client and daemon.

    The client's is printed even if the daemon cannot be reached.
    """
    client = installed_version("lazyd")
    if not session.json:
        session.say(f"lazyctl {client}")
    daemon = session.look("org.varlink.service.GetInfo")["version"]
    if session.json:
        session.print_json({"client": client, "daemon": daemon})
    else:
        session.say(f"lazyd   {daemon}")
