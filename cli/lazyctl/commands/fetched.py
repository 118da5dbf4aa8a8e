"""``lazyctl fetched``."""

from __future__ import annotations

import time
from typing import Any

import click

from ..group import command
from ..names import MODEL
from ..session import Session
from ..table import Cell, Column, lines
from ..units import about, size


@command(
    examples="""
        lazyctl fetched
        lazyctl fetched --remove gemma
        lazyctl fetched --unused
    """
)
@click.option("--remove", "models", metavar="MODEL", type=MODEL, multiple=True, help="Remove MODEL's files; repeat it.")
@click.option("--unused", is_flag=True, help="Remove all from which nothing in memory was loaded.")
@click.pass_obj
def fetched(session: Session, models: tuple[str, ...], unused: bool) -> None:
    """Show what was fetched from elsewhere and is kept, or remove some of it.

    USED tells how long ago a model was last loaded from it: what was used least
    recently leaves first when there is no more room (disk in [fetch]). What is
    removed is fetched again when it is next needed.
    """
    if models or unused:
        _remove(session, models, unused=unused)
        return
    reply = session.look("Fetched")
    if session.json:
        session.print_json(reply)
        return
    if not reply["fetched"]:
        session.say("nothing was fetched")
        return
    columns = [
        Column("URL", least=20),
        Column("SIZE", right=True),
        Column("USED", right=True),
        Column("MODELS", least=6),
    ]
    ordered = sorted(reply["fetched"], key=lambda one: -one["usedAt"])
    session.say(*lines(columns, [_row(one) for one in ordered], session.out))
    session.say(f"{size(reply['bytes'])} of {size(reply['budgetBytes'])} that may be kept")


def _row(one: dict[str, Any]) -> list[Cell]:
    used = about(max(0.0, time.time() - one["usedAt"]))
    return [Cell(one["url"]), Cell(size(one["bytes"])), Cell(f"{used} ago"), Cell(", ".join(one["models"]) or "none")]


def _remove(session: Session, models: tuple[str, ...], *, unused: bool) -> None:
    freed = sum(session.ask("Discard", model=model)["freedBytes"] for model in models)
    if unused:
        freed += session.ask("Discard")["freedBytes"]
    if session.json:
        session.print_json({"freedBytes": freed})
    else:
        session.say(f"{size(freed)} removed")
