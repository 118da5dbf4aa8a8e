"""``lazyctl warm``."""

from __future__ import annotations

from typing import Any

import click

from ..group import command, timeout_option
from ..models import cached, in_order, model_lines
from ..names import MODEL
from ..program import complain
from ..session import Reply, Session


@command(
    examples="""
        lazyctl warm gemma
        lazyctl warm gemma ocr:3 --wait --timeout 2min
        lazyctl warm ocr:3 --tier ram
    """
)
@click.argument("models", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.option(
    "--tier", type=click.Choice(["ram", "device"]), help="How far: into host RAM, or loaded and warmed up (default)."
)
@click.option("--wait", is_flag=True, help="Return when it is done, not when it has begun.")
@timeout_option("With --wait: how long at most.")
@click.pass_obj
def warm(session: Session, models: tuple[str, ...], tier: str | None, wait: bool, timeout: float | None) -> None:
    """Bring MODELs into memory in the background, so that their next use finds them there.

    \b
    With --tier ram nothing is loaded: their files are read into memory that is
    available, at low priority, and the next load is as quick as memory is. The
    kernel may drop them again, unless ram_lock is set for a model.
    'lazyctl unload MODEL' ends the reading, and the lock.
    """
    asked: dict[str, Any] = {"models": list(models), "tier": tier, "wait": wait or None}
    if tier == "ram" and wait and session.err.height and not session.json:
        reply = _watched(session, models, timeout, asked)
    else:
        reply = session.ask("Warm", timeout_s=timeout, **asked)
    if session.json:
        session.print_json(reply)
        return
    session.say(*model_lines(in_order(reply["models"]), session.out))
    for warning in reply.get("warnings") or []:
        complain(warning, 0)


def _watched(session: Session, models: tuple[str, ...], timeout: float | None, asked: dict[str, Any]) -> Reply:
    from ..progress import PartBar

    with PartBar(f"{', '.join(models)} into RAM") as bar:

        def show(step: Reply) -> None:
            parts = [cached(model) for model in step["models"]]
            bar.show(sum(parts) / len(parts))

        return session.ask("Warm", timeout_s=timeout, on_reply=show, **asked)
