"""``lazyctl health``: an answer for scripts, in the exit status."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from ..group import command
from ..models import full_name
from ..names import MODEL
from ..session import Session

PROBE_S = 5.0
"""A daemon that does not answer a probe for so long is not well."""
NOT_WELL = 1
NOT_LOADED = 3


@command(
    examples="""
        lazyctl health --live
        lazyctl health gemma || lazyctl load gemma
    """
)
@click.argument("model", type=MODEL, required=False)
@click.option("--live", "asked", flag_value="live", help="Is it alive? A cold model is; a failed one is not.")
@click.option("--ready", "asked", flag_value="ready", default="ready", help="Can it serve at once? (default)")
@click.pass_obj
def health(session: Session, model: str | None, asked: str) -> int:
    """Exit with 0 if the daemon is well; with MODEL, if that model is loaded.

    A model is loaded, loading, pending (cold: the next use loads it) or failed.

    \b
    Exit status: 0 yes, 1 the daemon answers but is not well, or MODEL has
    failed (--live), 3 MODEL is not loaded, 4 no such model, 69 daemon not
    reachable, 124 no answer within 5 s.

    Looking loads nothing and wakes nothing.
    """
    reply = session.ask("Health", timeout_s=PROBE_S)
    if model is None:
        status = 0 if reply[asked] else NOT_WELL
        line = _summary(reply)
    else:
        state = reply["models"].get(model) or _state(session, model, reply)
        line = f"{model}: {state}"
        if asked == "live":
            status = 0 if reply["live"] and state != "failed" else NOT_WELL
        else:
            status = 0 if state == "loaded" else NOT_LOADED
    if session.json:
        session.print_json(reply)
    else:
        session.say(line)
    return status


def _summary(reply: dict[str, Any]) -> str:
    counts = Counter(reply["models"].values())
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{reply['status']}: {states or 'no models'}"


def _state(session: Session, model: str, health_reply: dict[str, Any]) -> str:
    """The state of a model asked for by an alias, or by a name without its version."""
    found = session.ask("Status", model=model)["models"]
    states = [health_reply["models"].get(full_name(one), one["state"]) for one in found]
    return next((state for state in states if state == "loaded"), states[0] if states else "pending")
