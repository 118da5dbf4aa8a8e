"""``lazyctl warm``."""

from __future__ import annotations

import click

from ..group import command, timeout_option
from ..models import in_order, model_lines
from ..names import MODEL
from ..session import Session


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
    """Bring MODELs into memory in the background, so that their next use finds them there."""
    reply = session.ask("Warm", models=list(models), tier=tier, wait=wait or None, timeout_s=timeout)
    if session.json:
        session.print_json(reply)
    else:
        session.say(*model_lines(in_order(reply["models"]), session.out))
