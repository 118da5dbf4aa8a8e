"""``lazyctl versions``, ``lazyctl promote`` and ``lazyctl rollback``."""

from __future__ import annotations

from typing import Any

import click

from ..group import command
from ..names import MODEL
from ..session import Session


@command(
    examples="""
        lazyctl versions
        lazyctl versions ocr
        lazyctl --json versions reader | jq '.names[0].versions[].calls'
    """
)
@click.argument("model", metavar="[NAME]", type=MODEL, required=False)
@click.pass_obj
def versions(session: Session, model: str | None) -> None:
    """Show names that may mean several models, and which of these answer.

    A name that is no model's own is an alias, or the name of a model without
    its version. SHARE is the part of all requests by the name; a shadow
    repeats the calls of the others, and its answers are compared and thrown
    away. CALLS and FAILED count since the daemon was started, by whatever
    name. With the name of a model: the names that may lead to it.

    Looking loads nothing and wakes nothing.
    """
    reply = session.look("Versions", model=model)
    if session.json:
        session.print_json(reply)
        return
    if not reply["names"]:
        session.say(f"{model} has no versions and no other name" if model else "no model has versions or another name")
        return
    from ..versions import named_lines

    blocks = [named_lines(named, session.out) for named in reply["names"]]
    session.say(*(line for number, block in enumerate(blocks) for line in (*([""] if number else []), *block)))


@command(
    examples="""
        lazyctl promote ocr 4
        lazyctl promote reader ocr:4
        lazyctl promote ocr
    """
)
@click.argument("name", type=MODEL)
@click.argument("version", type=MODEL, required=False)
@click.pass_obj
def promote(session: Session, name: str, version: str | None) -> None:
    """Let NAME mean VERSION from now on, whatever is configured.

    NAME is an alias, or the name of a model without its version; VERSION a
    version of what it means, or a model. Without VERSION it means again what
    is configured. No call fails: the old version answers until the new one is
    loaded and warmed up, or makes way first, as the new one's `swap` says.
    Outlives restarts; `rollback` takes it back.
    """
    _told(session, name, session.ask("Promote", model=name, version=version))


@command(
    examples="""
        lazyctl rollback ocr
        lazyctl versions ocr
    """
)
@click.argument("name", type=MODEL)
@click.pass_obj
def rollback(session: Session, name: str) -> None:
    """Let NAME mean what it has meant before.

    Also after a new version that came by itself: NAME stays with the old one
    then, until `promote` says otherwise.
    """
    _told(session, name, session.ask("Rollback", model=name))


def _told(session: Session, name: str, reply: dict[str, Any]) -> None:
    if session.json:
        session.print_json(reply)
        return
    changed = "means" if reply["model"] != reply["before"] else "still means"
    instead = f", no longer {reply['before']}" if reply["model"] != reply["before"] else ""
    until = f"; {reply['answers']} answers until it is ready" if reply["answers"] != reply["model"] else ""
    session.say(f"{name} {changed} {reply['model']}{instead}{until}")
