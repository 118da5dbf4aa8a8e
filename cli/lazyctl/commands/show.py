"""``lazyctl show``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from ..group import command
from ..models import model_lines, pair_lines
from ..names import MODEL
from ..session import Session
from ..units import duration, size

_SECTIONS = (("spec", "spec"), ("metadata", "what its file says"), ("prediction", "what a load will need"))


@command(
    examples="""
        lazyctl show gemma
        lazyctl --json show gemma | jq .metadata
    """
)
@click.argument("model", type=MODEL)
@click.pass_obj
def show(session: Session, model: str) -> None:
    """Show MODEL's spec, and what its file says, without loading it.

    Long values are shortened here; --json has them whole.
    """
    reply = session.ask("Describe", model=model)
    if session.json:
        session.print_json(reply)
        return
    look = session.out
    lines = model_lines([reply["model"]], look)
    for key, title in _SECTIONS:
        facts = [(name, in_words(name, value)) for name, value in _flat(reply[key])]
        if facts:
            lines += ["", look.paint(title, "bold"), *pair_lines(facts, look, lines_each=2)]
    session.say(*lines)


def _flat(table: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Nested tables as dotted names; empty values are left out."""
    facts: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            facts += _flat(value, f"{above}{name}.")
        elif value not in (None, "", [], {}):
            facts.append((above + name, value))
    return facts


def in_words(name: str, value: Any) -> str:
    """A value with its unit, which its name tells: ``memory_bytes``, ``idleTimeoutSec``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if name.endswith(("_bytes", "Bytes")):
        return size(value)
    if name.endswith(("_s", "Sec")):
        return duration(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
