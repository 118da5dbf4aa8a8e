"""``lazyctl pin`` and ``lazyctl unpin``."""

from __future__ import annotations

import click

from ..group import command
from ..names import MODEL
from ..session import Session


@command(
    examples="""
        lazyctl pin gemma
        lazyctl pin ocr:3 && lazyctl load ocr:3
    """
)
@click.argument("model", type=MODEL)
@click.pass_obj
def pin(session: Session, model: str) -> None:
    """Never evict MODEL, nor unload it for idleness.

    Loads nothing, and outlives restarts. `unload MODEL` frees it all the same.
    """
    _set(session, "Pin", model, "is pinned: it is neither evicted nor unloaded for idleness")


@command(examples="lazyctl unpin gemma")
@click.argument("model", type=MODEL)
@click.pass_obj
def unpin(session: Session, model: str) -> None:
    """Let MODEL be evicted and unloaded for idleness again."""
    _set(session, "Unpin", model, "is no longer pinned")


def _set(session: Session, method: str, model: str, outcome: str) -> None:
    reply = session.ask(method, model=model)
    if session.json:
        session.print_json(reply)
    else:
        session.say(f"{model} {outcome}")
