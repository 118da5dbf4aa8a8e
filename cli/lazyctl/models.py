"""Models as a table: what each is doing, what it holds, and when it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .table import Cell, Column, lines
from .terminal import Look, cells, one_line, shorten, wrapped
from .units import about, clock, duration, size

WIDE = 120
"""From this many columns on there is room for more than the essential."""
STATES = {
    "ready": "green",
    "loading": "cyan",
    "warming": "cyan",
    "draining": "yellow",
    "parking": "yellow",
    "unloading": "yellow",
    "failed": "red",
    "cold": "dim",
    "parked": "blue",
}
_RESIDENCIES = {"hot": "green", "warm": "yellow", "cold": "dim"}
_NOTHING = Cell("")


def full_name(model: dict[str, Any]) -> str:
    """How the model is called: ``ocr:3``."""
    return f"{model['name']}:{model['version']}" if model["version"] else str(model["name"])


def in_order(models: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By name; those in which something happens or is held come first."""
    return sorted(models, key=lambda model: (is_quiet(model), full_name(model)))


def is_quiet(model: dict[str, Any]) -> bool:
    """Nothing in memory, nobody waiting."""
    return bool(model["state"] == "cold" and model["residency"] == "cold" and not model["waiting"])


def model_lines(models: Sequence[dict[str, Any]], look: Look) -> list[str]:
    """The table, in the order given; under a failed model stands why."""
    wide = look.width >= WIDE
    on = wide or any(_on(model, wide) not in ("", "ram") for model in models)
    columns = [
        Column("MODEL", least=8),
        Column("STATE"),
        Column(""),
        Column("MEMORY", right=True),
        *([Column("ON", least=4)] if on else []),
        Column("RUN/WAIT", right=True),
        Column("IDLE", right=True),
        Column("UNLOADS"),
        Column("LOADS", right=True),
    ]
    if wide:
        columns += [Column("TOOK", right=True), Column("TIER"), Column("RUNTIME", least=6)]
    rows = [_row(model, wide, on) for model in models]
    drawn = lines(columns, rows, look)
    notes = ["", *(_why(model, look) for model in models)]
    return [line for row, note in zip(drawn, notes, strict=True) for line in (row, note) if line]


def _row(model: dict[str, Any], wide: bool, on: bool) -> list[Cell]:
    quiet = is_quiet(model)
    calls = f"{model['inFlight']}/{model['waiting']}"
    idle = model.get("idleSec")
    row = [
        Cell(full_name(model), "dim" if quiet else "bold"),
        Cell(_doing(model), STATES.get(model["state"], "")),
        _residency(model),
        Cell(size(held_bytes(model))) if held_bytes(model) else _NOTHING,
        *([Cell(_on(model, wide))] if on else []),
        _NOTHING if calls == "0/0" else Cell(calls, "bold"),
        _NOTHING if idle is None or quiet else Cell(about(idle)),
        _unloads(model),
        Cell(str(model["loads"])) if model["loads"] else _NOTHING,
    ]
    if wide:
        took = model.get("lastLoadSec")
        row += [
            _NOTHING if took is None else Cell(duration(took)),
            Cell(model["tier"]),
            Cell(model["runtime"]),
        ]
    return row


def _doing(model: dict[str, Any]) -> str:
    """Its state, and how many workers it has if these are several; of one whose files are fetched, how far that is: it
    has no memory yet."""
    if model.get("phase") != "fetching":
        workers = len(model["workers"])
        return f"{model['state']} x{workers}" if workers > 1 else str(model["state"])
    return f"fetching {_percent(model.get('fraction'))}".rstrip()


def _residency(model: dict[str, Any]) -> Cell:
    """Where its bytes are; of one that is not loaded also how much of its files is in RAM, as far as that is known."""
    word, part = model["residency"], cached(model)
    if word == "hot" or not part:
        return _NOTHING if is_quiet(model) else Cell(word, _RESIDENCIES.get(word, ""))
    return Cell(f"{word} {_percent(part)}", _RESIDENCIES.get(word, ""))


def cached(model: dict[str, Any]) -> float:
    """The part of its files that is in RAM; what is not known, and less than one in a hundred, is none."""
    part = model.get("cachedFraction") or 0.0
    return part if part >= 0.01 else 0.0


def held_bytes(model: dict[str, Any]) -> int:
    """What was measured of it, else what is booked for it, on all devices together."""
    return sum(_held(model).values())


def _held(model: dict[str, Any]) -> dict[str, int]:
    """By device. Where nothing has been seen of it yet, as while it loads, what is booked is what it has."""
    return {**model["bookedBytes"], **{name: count for name, count in model["measuredBytes"].items() if count}}


def _on(model: dict[str, Any], wide: bool) -> str:
    """Its GPUs; where there is room, or it has none, RAM too."""
    devices = sorted((name for name, count in _held(model).items() if count), key=lambda name: (name == "ram", name))
    gpus = [name for name in devices if name != "ram"]
    return ",".join(devices if wide or not gpus else gpus)


def _unloads(model: dict[str, Any]) -> Cell:
    """When it will leave memory, or why not."""
    if model["state"] == "failed":
        wait = model.get("retryAfterSec")
        return Cell(f"retry {about(wait)}" if wait else "retry now", "yellow")
    if model["pinned"]:
        return Cell("pinned", "magenta")
    if model["tier"] == "resident":
        return Cell("resident", "magenta")
    if model["state"] not in ("ready", "parked"):
        if model.get("lockedBytes"):
            return Cell("locked", "magenta")
        return Cell(f"due {clock(model['expectedUse'])}", "dim") if model.get("expectedUse") else _NOTHING
    if model["inFlight"]:
        return Cell("in use", "bold")
    if model["tier"] == "transient" and model["leases"]:
        return Cell("after use")
    limit, idle = model.get("idleTimeoutSec"), model.get("idleSec")
    if limit is None:
        return Cell("never")
    left = limit - (idle or 0)
    return Cell(f"in {about(left)}" if left >= 0.5 else "now")


def _why(model: dict[str, Any], look: Look) -> str:
    error = model.get("lastError")
    if model["state"] != "failed" or not error:
        return ""
    return look.paint(shorten(f"  {one_line(error)}", look.width, look), "red")


def detail_lines(model: dict[str, Any], look: Look) -> list[str]:
    """All that is known about one model and does not stand in the table."""
    facts = [
        ("aliases", ", ".join(model["aliases"])),
        ("runtime", model["runtime"]),
        ("tier", model["tier"] + (", pinned" if model["pinned"] else "")),
        ("family", model.get("family")),
        ("configured in", model["source"]),
        ("warm-up", "" if model["warmup"] == "none" else model["warmup"]),
        ("booked", _sizes(model["bookedBytes"])),
        ("measured", _sizes(model["measuredBytes"])),
        ("files in RAM", _percent(model.get("cachedFraction"))),
        ("of them locked", size(model["lockedBytes"]) if model.get("lockedBytes") else ""),
        ("leases", str(model["leases"])),
        ("next use expected", _expected(model)),
        ("idle time", _or(model.get("idleTimeoutSec"), "never unloaded for idleness")),
        ("loads", f"{model['loads']}, and {model['evictions']} evictions"),
        ("last load took", _or(model.get("lastLoadSec"), "")),
        ("expected load", _or(model.get("expectedLoadSec"), "")),
        ("recent loads", _times(model, "load")),
        ("recent warm-ups", _times(model, "warmup")),
        ("fell back to sync", model.get("fellBack")),
        ("last error", one_line(model.get("lastError") or "")),
        *(("worker", _worker(worker)) for worker in model["workers"]),
    ]
    return pair_lines([(name, value) for name, value in facts if value], look)


def pair_lines(facts: Sequence[tuple[str, str]], look: Look, lines_each: int | None = None) -> list[str]:
    """Names and values below each other; a long value takes several lines, `lines_each` at most."""
    width = max((cells(name) for name, _ in facts), default=0)
    room = max(look.width - width - 4, 20)
    drawn = []
    for name, value in facts:
        pieces = wrapped(one_line(value), room, look, lines_each)
        drawn.append(f"  {look.paint(name.ljust(width), 'dim')}  {pieces[0]}")
        drawn += [" " * (width + 4) + piece for piece in pieces[1:]]
    return drawn


def _worker(worker: dict[str, Any]) -> str:
    used = _sizes(worker["measuredBytes"] or worker["bookedBytes"]) or "nothing measured"
    return f"pid {worker['pid']}, up {duration(worker['uptimeSec'])}, {used}, {worker['inFlight']} in flight"


def _sizes(by_device: dict[str, int]) -> str:
    return ", ".join(f"{size(count)} of {device}" for device, count in sorted(by_device.items()))


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction * 100:.0f} %"


def _expected(model: dict[str, Any]) -> str:
    """When it is asked for next: ``09:35:00 ± 2 s``."""
    when, within = model.get("expectedUse"), model.get("expectedUseWithinSec")
    if when is None:
        return ""
    return f"{clock(when)} ± {duration(within)}" if within else clock(when)


def _times(model: dict[str, Any], what: str) -> str:
    """Median and p95 of what was measured, and how much of it succeeded."""
    middle, high = model.get(f"{what}MedianSec"), model.get(f"{what}P95Sec")
    success = model.get(f"{what}Success")
    parts = [] if middle is None or high is None else [f"{duration(middle)} as a rule, 95 % within {duration(high)}"]
    return ", ".join(parts if success is None else [*parts, f"{_percent(success)} succeeded"])


def _or(seconds: float | None, otherwise: str) -> str:
    return otherwise if seconds is None else duration(seconds)
