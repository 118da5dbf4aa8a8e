"""``lazyctl events``."""

from __future__ import annotations

import re
import time
from typing import Any

import click

from ..group import command
from ..session import Session
from ..terminal import Look, one_line
from ..units import size
from .show import flat, in_words

_STYLES = {
    "failed": "red",
    "died": "red",
    "out of memory": "red",
    "lost": "red",
    "evicted": "yellow",
    "no room": "yellow",
    "outgrew": "yellow",
    "quarantined": "yellow",
    "reserved": "magenta",
    "ready": "green",
}
_RESERVATION = re.compile(r"\b(reservation [0-9a-f]{8})[0-9a-f]{24}\b")
"""The whole name of one is longer than it tells."""


@command(
    examples="""
        lazyctl events
        lazyctl --json events | jq 'select(.kind == "evicted")'
    """
)
@click.pass_obj
def events(session: Session) -> None:
    """Follow what happens: loads, unloads, reservations, failures, and who left for whom. Ctrl-C ends it.

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
    parts = [
        look.paint(moment, "dim"),
        look.paint(f"{event['kind']:<12}", style),
        look.paint(f"{subject:<20}", "bold"),
        _RESERVATION.sub(r"\1", one_line(_told(event))),
    ]
    lines = ["  ".join(parts).rstrip()]
    if event.get("dropped"):
        lines.append(look.paint(f"{event['dropped']} events were missed: this reader is too slow", "yellow"))
    return lines


def _told(event: dict[str, Any]) -> str:
    """The reason, and of the data what it does not say already."""
    reason = event.get("reason") or ""
    data = {name: value for name, value in (event.get("data") or {}).items() if name not in ("worker", "free_bytes")}
    words = ((name, in_words(name, value)) for name, value in flat(data))
    told = ", ".join(f"{name} {word}" for name, word in words if word not in reason)
    return "; ".join(filter(None, (reason, told, _left(event["data"].get("free_bytes")))))


def _left(free: Any) -> str:
    """What a load or a reservation left of its devices."""
    if not isinstance(free, dict):
        return ""
    return ", ".join(f"{size(count)} of {device}" for device, count in free.items()) + " left"
