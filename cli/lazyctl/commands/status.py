"""``lazyctl status``: devices as bars, models as a table."""

from __future__ import annotations

from typing import Any

import click

from ..devices import device_lines, reservation_lines, wish_lines
from ..group import command
from ..models import detail_lines, full_name, in_order, is_quiet, model_lines
from ..names import MODEL
from ..session import Session
from ..terminal import Look, one_line, wrapped
from ..units import duration

_FEWEST_SHOWN = 5
_WAITS_FOR_ROOM = ("cold", "failed", "parked")
"""States in which a model that is asked for has not begun to load."""
_WARNINGS = 3
"""So many are shown."""


@command(
    examples="""
        lazyctl status
        lazyctl status gemma
        lazyctl status --why gemma
        lazyctl --json status | jq '.models[] | select(.state == "ready") | .name'
    """
)
@click.argument("model", type=MODEL, required=False)
@click.option("--all", "everything", is_flag=True, help="List all cold models too, even if they overflow the terminal.")
@click.option("--why", is_flag=True, help="With MODEL: why it is where it is.")
@click.pass_obj
def status(session: Session, model: str | None, everything: bool, why: bool) -> None:
    """Show devices and models; with MODEL, all that is known about that one.

    \b
    A bar is a device: what is booked for models, what is reserved for other
    programs, what others use unasked (foreign), what stays free (margin), and
    what can still be had (free). A blank end is what the budget leaves out.
    After a model's state stands where its bytes are: hot (ready on its
    device), warm (in host RAM) or cold (on disk). RUN/WAIT counts calls in
    flight and requests that wait. UNLOADS tells when a model leaves memory
    by itself, or why it does not.

    Looking loads nothing and wakes nothing.
    """
    if why and model is None:
        raise click.UsageError("--why is about one model: name it")
    reply = session.look("Status", model=model, why=why or None)
    if session.json:
        session.print_json(reply)
        return
    look = session.out
    blocks = [] if model else [_daemon(reply["daemon"], look)]
    if reply["devices"] and not model:
        blocks.append(device_lines(reply["devices"], look, reply["models"], reply["reservations"]))
    blocks.append(_models(reply["models"], look, everything or model is not None, len(blocks[-1]) if blocks else 0))
    if not why:
        blocks[-1] += _hint(reply["models"], look)
    if why:
        blocks += [_why(one, look) for one in reply["models"]]
    elif model and len(reply["models"]) == 1:
        blocks.append(detail_lines(reply["models"][0], look))
    if reply["reservations"] and not model:
        blocks.append(reservation_lines(reply["reservations"], look))
    if reply.get("wishes") and not model:
        blocks.append(wish_lines(reply["wishes"], look))
    session.say(*_apart(blocks))


def _why(model: dict[str, Any], look: Look) -> list[str]:
    """Sentences, one below the other."""
    said = model.get("why") or ["the daemon does not say; it may be older than lazyctl"]
    heading = look.paint(f"why {full_name(model)} is {model['state']}", "bold")
    mark = "•" if look.unicode else "-"
    lines = []
    for sentence in said:
        first, *rest = wrapped(one_line(sentence), look.width - 4, look)
        lines += [f"  {mark} {first}", *(f"    {piece}" for piece in rest)]
    return [heading, *lines]


def _hint(models: list[dict[str, Any]], look: Look) -> list[str]:
    """How to learn what keeps somebody waiting, where somebody waits for room."""
    stuck = [model for model in in_order(models) if model["waiting"] and model["state"] in _WAITS_FOR_ROOM]
    if not stuck:
        return []
    text = f"what {full_name(stuck[0])} waits for: lazyctl status --why {full_name(stuck[0])}"
    return [look.paint(piece, "dim") for piece in wrapped(one_line(text), look.width, look)]


def _apart(blocks: list[list[str]]) -> list[str]:
    """The blocks with an empty line between them."""
    lines: list[str] = []
    for block in filter(None, blocks):
        lines += ["", *block] if lines else block
    return lines


def _daemon(daemon: dict[str, Any], look: Look) -> list[str]:
    state = look.paint(daemon["state"], "green" if daemon["state"] == "running" else "yellow")
    line = f"lazyd {daemon['version']}, {state} for {duration(daemon['uptimeSec'])}, pid {daemon['pid']}"
    told = [*_problems(daemon.get("problems") or [], look), *_warnings(daemon.get("warnings") or [], look)]
    return [line, *(look.paint(piece, "yellow") for piece in told)]


def _problems(problems: list[str], look: Look) -> list[str]:
    """What is wrong with the configuration on disk, if that is why the last accepted one serves."""
    if not problems:
        return []
    more = f" (and {len(problems) - 1} more: lazyctl config check)" if len(problems) > 1 else ""
    text = f"the last accepted configuration serves, since the one on disk is wrong: {problems[0]}{more}"
    return wrapped(one_line(text), look.width, look)


def _warnings(warnings: list[str], look: Look) -> list[str]:
    """What is in force and will not work."""
    more = (
        [f"and {len(warnings) - _WARNINGS} more warnings: lazyctl --json status"] if len(warnings) > _WARNINGS else []
    )
    shown = [f"warning: {one_line(warning)}" for warning in warnings[:_WARNINGS]]
    return [piece for line in (*shown, *more) for piece in wrapped(line, look.width, look)]


def _models(models: list[dict[str, Any]], look: Look, everything: bool, above: int) -> list[str]:
    """The table. On a terminal, cold models that would push the rest off the screen are only counted."""
    if not models:
        return ["no models are configured; 'lazyctl config check' names the files that are read"]
    ordered = in_order(models)
    quiet = [model for model in ordered if is_quiet(model)]
    lines_left = (look.height or len(ordered) + above + 8) - above - 8
    kept = max(lines_left - (len(ordered) - len(quiet)), _FEWEST_SHOWN)
    if everything or len(quiet) <= kept:
        return model_lines(ordered, look)
    hidden = len(quiet) - kept
    shown = ordered[: len(ordered) - hidden]
    return [*model_lines(shown, look), look.paint(f"and {hidden} more cold models: lazyctl status --all", "dim")]
