"""What a comparison of two replays comes to: a table for people, everything for programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyd.replay.outcome import Outcome

from .simulate_input import Played
from .table import Cell, Column, lines
from .terminal import Look, one_line, wrapped
from .units import duration, size

NOT_REPLAYED = "not replayed: reservations, what others use of the devices, calls of models by models, parking"
LONGEST_TITLE = 20
_EVEN = 0.005
"""What differs by less is the same."""


class Row(NamedTuple):
    """`less_is_better`: None where neither is."""

    name: str
    values: tuple[float, float]
    texts: tuple[str, str]
    less_is_better: bool | None = True


def report_lines(played: Played, outcomes: tuple[Outcome, Outcome], look: Look) -> list[str]:
    """What was played, the table, and what one has to know beside it."""
    first, second = outcomes
    columns = (
        Column("", least=12),
        *(Column(_title(side.name), right=True) for side in played.sides),
        Column("RATIO", right=True),
    )
    rows = [
        [Cell(row.name, drawn=row.name), *(Cell(text) for text in row.texts), _ratio(row)]
        for row in _rows(first, second)
    ]
    notes = [piece for note in (*played.notes, NOT_REPLAYED) for piece in wrapped(one_line(note), look.width, look)]
    return [
        *wrapped(heading(played, first), look.width, look),
        "",
        *lines(columns, rows, look),
        "",
        *(look.paint(note, "dim") for note in notes),
    ]


def heading(played: Played, outcome: Outcome) -> str:
    """What was played."""
    models = len({use.model for use in played.uses})
    first = min(use.began for use in played.uses)
    last = max(use.began for use in played.uses)
    what = f"{outcome.uses:,} use{_s(outcome.uses)} of {models:,} model{_s(models)}"
    return f"{what} in {duration(last - first)}, {_day(first)} to {_day(last)}"


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _title(name: str) -> str:
    name = one_line(name)
    short = name if len(name) <= LONGEST_TITLE else f"{name[: LONGEST_TITLE - 1]}…"
    return short.upper()


def _rows(first: Outcome, second: Outcome) -> list[Row]:
    """A row that is nothing on both sides, and need not be, is left out."""
    rows = [
        _count("cold starts", first.cold, second.cold),
        Row("  of all uses", (first.cold_part, second.cold_part), (_percent(first), _percent(second))),
        *(_seconds(f"wait, p{percent}", first.wait_s(percent), second.wait_s(percent)) for percent in (50, 95, 99)),
        _held("memory held", first.held_gib_h, second.held_gib_h),
    ]
    devices = [name for name in first.held_byte_s if first.held_byte_s[name] or second.held_byte_s.get(name)]
    if len(devices) > 1:
        rows += [_held(f"  on {one_line(name)}", _gib_h(first, name), _gib_h(second, name)) for name in devices]
    for name in devices:
        most = first.most_bytes[name], second.most_bytes.get(name, 0)
        rows.append(Row(f"most at once, {one_line(name)}", most, (size(most[0]), size(most[1]))))
    rows += [
        _count("loads", first.loads, second.loads)._replace(less_is_better=None),
        _count("evictions", first.evictions, second.evictions),
    ]
    if first.prewarms or second.prewarms:
        rows.append(_count("prewarms", first.prewarms, second.prewarms)._replace(less_is_better=None))
        rows.append(_count("  wrong ones", first.wrong, second.wrong))
    if first.degraded or second.degraded:
        rows.append(_count("served by a fallback", first.degraded, second.degraded))
    for name in sorted({*first.refusals, *second.refusals}):
        rows.append(_count(f"refused: {name}", first.refusals.get(name, 0), second.refusals.get(name, 0)))
    return rows


def _gib_h(outcome: Outcome, device: str) -> float:
    return outcome.held_byte_s.get(device, 0.0) / (1 << 30) / 3600


def _count(name: str, *values: int) -> Row:
    return Row(name, (values[0], values[1]), (f"{values[0]:,}", f"{values[1]:,}"))


def _seconds(name: str, *values: float) -> Row:
    texts = tuple(duration(value) if value else "0" for value in values)
    return Row(name, (values[0], values[1]), (texts[0], texts[1]))


def _held(name: str, *values: float) -> Row:
    texts = tuple(f"{value:,.{0 if value >= 1000 else 1 if value >= 10 else 2}f} GiB·h" for value in values)
    return Row(name, (values[0], values[1]), (texts[0], texts[1]))


def _percent(outcome: Outcome) -> str:
    return f"{outcome.cold_part:.1%}"


def ratio(values: Sequence[float]) -> float | None:
    """The other side's over today's; None: there is none."""
    return values[1] / values[0] if values[0] else None


def _ratio(row: Row) -> Cell:
    found = ratio(row.values)
    if found is None:
        return Cell("" if row.values[0] == row.values[1] else "from 0")
    text = f"× {found:.2f}" if found < 99.95 else f"× {found:,.0f}"
    if row.less_is_better is None or abs(found - 1) < _EVEN:
        return Cell(text)
    return Cell(text, "green" if (found < 1) is row.less_is_better else "red")


def as_json(played: Played, outcomes: tuple[Outcome, Outcome]) -> dict[str, Any]:
    """All of it."""
    told = [_told(side.name, outcome) for side, outcome in zip(played.sides, outcomes, strict=True)]
    ratios = {
        name: ratio((told[0][name], told[1][name]))
        for name in ("coldStarts", "heldGibHours", "loads", "evictions", "prewarms", "wrongPrewarms", "refused")
    }
    waits = {name: ratio((told[0]["waitSec"][name], told[1]["waitSec"][name])) for name in told[0]["waitSec"]}
    return {
        "uses": outcomes[0].uses,
        "models": len({use.model for use in played.uses}),
        "from": min(use.began for use in played.uses),
        "to": max(use.began for use in played.uses),
        "spanSec": outcomes[0].span_s,
        "today": told[0],
        "other": told[1],
        "ratio": {**ratios, "waitSec": waits},
        "leftOut": {name: dict(counts) for name, counts in played.left_out.items()},
        "notes": [*played.notes, NOT_REPLAYED],
    }


def _told(name: str, outcome: Outcome) -> dict[str, Any]:
    served = len(outcome.waits_s)
    course = outcome.course
    return {
        "name": name,
        "uses": outcome.uses,
        "coldStarts": outcome.cold,
        "coldPart": outcome.cold_part,
        "waitSec": {
            "p50": outcome.wait_s(50),
            "p95": outcome.wait_s(95),
            "p99": outcome.wait_s(99),
            "max": outcome.wait_s(100),
            "mean": sum(outcome.waits_s) / served if served else 0.0,
        },
        "heldGibHours": outcome.held_gib_h,
        "heldGibHoursByDevice": {device: _gib_h(outcome, device) for device in outcome.held_byte_s},
        "mostBytes": outcome.most_bytes,
        "loads": outcome.loads,
        "evictions": outcome.evictions,
        "prewarms": outcome.prewarms,
        "wrongPrewarms": outcome.wrong,
        "degraded": outcome.degraded,
        "refused": outcome.refused,
        "refusals": outcome.refusals,
        "course": {
            "start": course.start,
            "stepSec": course.step_s,
            "heldBytes": [round(held) for held in course.held_bytes],
            "coldStarts": course.cold,
        },
    }
