"""Names that may mean several models, as tables: which of these answer, and what came of their calls."""

from __future__ import annotations

from typing import Any

from .models import STATES
from .table import Cell, Column, lines
from .terminal import Look, one_line, shorten, wrapped
from .units import clock

_COLUMNS = (
    Column("MODEL", least=8),
    Column("STATE"),
    Column("SHARE", right=True),
    Column(""),
    Column("CALLS", right=True),
    Column("FAILED", right=True),
)
_OUTCOMES = {"equal": "equal", "different": "different", "shadowFailed": "failed", "skipped": "skipped"}
_BEFORE = 3
"""So many earlier meanings are shown."""


def named_lines(named: dict[str, Any], look: Look) -> list[str]:
    """One name: what it means, its versions, and what it meant before."""
    rows = [_row(named, version) for version in named["versions"]]
    table = lines(_COLUMNS, rows, look)
    told = [_notes(version, look) for version in named["versions"]]
    body = [table[0]] + [line for row, notes in zip(table[1:], told, strict=True) for line in (row, *notes)]
    return [*_heading(named, look), *(f"  {line}" for line in body), *_before(named, look)]


def _heading(named: dict[str, Any], look: Look) -> list[str]:
    since = f" {clock(named['since'])}" if named.get("since") else ""
    how = f"promoted{since}" if named["promoted"] else "as configured"
    text = f"{named['name']} means {_meant(named)} ({'alias, ' if named['alias'] else ''}{how})"
    if named["answers"] != named["means"]:
        text += f"; {named['answers']} answers until {named['means']} is ready"
    return [look.paint(line, "bold") for line in wrapped(one_line(text), look.width, look)]


def _meant(named: dict[str, Any]) -> str:
    """The models that share all requests."""
    shares = [version["model"] for version in named["versions"] if version.get("weight")]
    return ", ".join(shares) if len(shares) > 1 else named["means"]


def _row(named: dict[str, Any], version: dict[str, Any]) -> list[Cell]:
    weights = sum(other.get("weight") or 0 for other in named["versions"])
    weight = version.get("weight")
    part = f"{100 * weight / weights:.3g} %" if weight else ""
    share = Cell("shadow", "blue") if version["shadow"] else Cell(part)
    answers = Cell("answers", "green") if version["answers"] else Cell("")
    failed = Cell(str(version["failed"]), "red") if version["failed"] else Cell("")
    calls = Cell(str(version["calls"]) if version["calls"] else "")
    name = Cell(version["model"], "bold" if version["answers"] else "dim")
    return [name, Cell(version["state"], STATES.get(version["state"], "")), share, answers, calls, failed]


def _notes(version: dict[str, Any], look: Look) -> list[str]:
    """Below a shadow what came of the calls that it repeated; below what has failed, why."""
    found = []
    if version["shadow"] and version.get("equal") is not None:
        told = ", ".join(f"{version[key]} {word}" for key, word in _OUTCOMES.items())
        found.append(look.paint(f"  repeated calls: {told}", "dim"))
    error = version.get("lastError")
    if error and version["state"] == "failed":
        found.append(look.paint(shorten(f"  {one_line(error)}", look.width - 2, look), "red"))
    return found


def _before(named: dict[str, Any], look: Look) -> list[str]:
    earlier = named["history"][:-1][-_BEFORE:]
    if not earlier:
        return []
    told = ", ".join(f"{meant['model']} ({_since(meant)})" for meant in reversed(earlier))
    pieces = wrapped(one_line(f"before that: {told}"), look.width - 2, look)
    return [look.paint(f"  {piece}", "dim") for piece in pieces]


def _since(meant: dict[str, Any]) -> str:
    return f"{meant['how']} {clock(meant['at'])}" if meant.get("at") else str(meant["how"])
