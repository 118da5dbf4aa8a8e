"""``lazyctl load``."""

from __future__ import annotations

import click

from ..group import command, timeout_option
from ..names import MODEL
from ..session import Reply, Session
from ..units import duration


@command(
    examples="""
        lazyctl load gemma
        lazyctl load ocr:3 --timeout 30s
    """
)
@click.argument("model", type=MODEL)
@timeout_option("How long at most, from the queue to the end of the load.")
@click.pass_obj
def load(session: Session, model: str, timeout: float | None) -> None:
    """Load MODEL now, with a progress bar on a terminal.

    Returns when it is ready; if it is already, at once. It stays for its idle time.
    """
    if session.json:
        session.print_json(session.ask("Load", model=model, timeout_s=timeout))
        return
    reply = (
        _watched(session, model, timeout) if session.err.height else session.ask("Load", model=model, timeout_s=timeout)
    )
    took = reply.get("loadSec")
    session.say(f"{model} is {reply['state']}" + (f", loaded in {duration(took)}" if took is not None else ""))


def _watched(session: Session, model: str, timeout: float | None) -> Reply:
    from ..progress import LoadBar

    with LoadBar(model) as bar:
        return session.ask("Load", model=model, timeout_s=timeout, on_reply=bar.show)
