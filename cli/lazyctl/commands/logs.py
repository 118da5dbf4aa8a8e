"""``lazyctl logs``."""

from __future__ import annotations

import sys

import click

from ..group import command
from ..names import MODEL
from ..session import Session
from ..terminal import is_terminal, text_only


@command(
    examples="""
        lazyctl logs gemma
        lazyctl logs -f gemma
    """
)
@click.argument("model", type=MODEL)
@click.option("-f", "--follow", is_flag=True, help="Go on as it writes more; Ctrl-C ends it.")
@click.pass_obj
def logs(session: Session, model: str, follow: bool) -> None:
    """Show what MODEL's worker wrote: its own output, kept after it has ended too."""
    shown = text_only if is_terminal(sys.stdout) else str
    written = False
    for reply in session.follow("Logs", model=model, follow=follow or None):
        if reply.get("line") is None:  # the last reply says only that it is the last
            continue
        written = True
        if session.json:
            session.print_json(reply)
        else:
            session.say(shown(reply["line"]))
    if not written:
        session.note(
            f"{model} has written nothing, or was never started; 'lazyctl status --why {model}' says how it is"
        )
