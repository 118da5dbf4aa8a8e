"""``lazyctl reload``."""

from __future__ import annotations

import click

from ..group import command
from ..program import complain
from ..session import Session


@command(
    examples="""
        lazyctl reload
        lazyctl config check && lazyctl reload
        lazyctl reload --now
    """
)
@click.option(
    "--now", is_flag=True, help="Load again what was loaded and has changed, as soon as its calls have ended."
)
@click.pass_obj
def reload(session: Session, now: bool) -> None:
    """Re-read the configuration; refused whole if any of it is wrong.

    A loaded model leaves, when its calls have ended, if what it was loaded from has
    changed (its path, options or variables, say), and is loaded again when somebody
    asks for it, or at once with --now. All others stay loaded: what has
    changed of their times, tier or warm-up holds from now on, or from the next load.
    What was accepted but will not work on this machine (a GPU that is not there,
    say) is told as a warning.
    """
    reply = session.ask("Reload", now=now or None)
    if session.json:
        session.print_json(reply)
        return
    for warning in reply.get("warnings") or ():
        complain(f"warning: {warning}", 0)
    changes = [f"{kind} {', '.join(reply[kind])}" for kind in ("added", "changed", "removed") if reply[kind]]
    session.say(f"configuration re-read: {'; '.join(changes) or 'no model changed'}")
