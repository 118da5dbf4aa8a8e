"""``lazyctl unload``."""

from __future__ import annotations

import click

from ..group import command, timeout_option
from ..names import MODEL
from ..session import Session


@command(
    examples="""
        lazyctl unload gemma
        lazyctl unload --idle
        lazyctl unload --all --force
    """
)
@click.argument("models", metavar="[MODEL]...", type=MODEL, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All models but pinned and resident ones.")
@click.option("--idle", is_flag=True, help="Those of --all that nobody uses.")
@click.option("--force", is_flag=True, help="End calls at once; with --all and --idle, pinned and resident ones too.")
@timeout_option("How long calls in flight may take to end (30s); then it is busy and serves on.")
@click.pass_obj
def unload(
    session: Session, models: tuple[str, ...], everything: bool, idle: bool, force: bool, timeout: float | None
) -> None:
    """Free the memory of MODELs, or of --all, or of the --idle ones.

    A model that is named is freed even if it is pinned or resident. Calls in flight may finish;
    new ones load it again. Unloading what is cold is fine.
    """
    if bool(models) + everything + idle != 1:
        raise click.UsageError("give either names of models, or --all, or --idle")
    reply = session.ask(
        "Unload",
        models=list(models) or None,
        all=everything or None,
        idle=idle or None,
        force=force or None,
        timeout_s=timeout,
    )
    if session.json:
        session.print_json(reply)
    elif reply["unloaded"]:
        session.say(f"unloaded {', '.join(reply['unloaded'])}")
    else:
        session.say("nothing to unload")
