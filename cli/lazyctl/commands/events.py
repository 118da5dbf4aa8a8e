"""``lazyctl events``."""

from __future__ import annotations

import time
from typing import Any

import click

from ..group import command
from ..session import Session
from ..terminal import Look, one_line
from .show import in_words

_STYLES = {"failed": "red", "died": "red", "evicted": "yellow", "ready": "green"}


@command(
    examples="""
        lazyctl events
        lazyctl --json events | jq 'select(.kind == "evicted")'
    """
)
@click.pass_obj
def events(session: Session) -> None:
    """Follow what happens: loads, unloads, evictions, failures. Ctrl-C ends it.

    With --json: one object a line.
    """
    for event in session.follow("Subscribe"):
        if session.json:
            session.print_json(event)
        else:
            session.say(*_lines(event, session.out))


def _lines(event: dict[str, Any], look: Look) -> list[str]:
    moment = time.strftime("%H:%M:%S", time.localtime(event["time"]))
    style = next((style for word, style in _STYLES.items() if word in event["kind"]), "")
    subject = " on ".join(event[key] for key in ("model", "device") if event.get(key))
    data = ", ".join(f"{name} {in_words(name, value)}" for name, value in (event.get("data") or {}).items())
    parts = [
        look.paint(moment, "dim"),
        look.paint(f"{event['kind']:<12}", style),
        look.paint(f"{subject:<20}", "bold"),
        one_line("; ".join(filter(None, (event.get("reason"), data)))),
    ]
    lines = ["  ".join(parts).rstrip()]
    if event.get("dropped"):
        lines.append(look.paint(f"{event['dropped']} events were missed: this reader is too slow", "yellow"))
    return lines
