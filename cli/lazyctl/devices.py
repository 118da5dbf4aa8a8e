"""Devices as bars: who holds what of each, and what can still be had.

Two lines a device: its figures, whose headings are the bar's legend, and below them the bar over the
whole width, with the names of models and reservations beneath their parts as far as they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .bars import Part, bar_lines
from .models import full_name
from .table import Cell, Column, lines
from .terminal import Look, one_line, shorten, wrapped
from .units import about, size

WIDE = 100
NARROW = 80
"""From these many columns on there is room for more than the essential; with fewer than those not even for that."""
_INDENT = 2
_MOST_BAR = 110
"""Columns; a longer bar tells no more."""
_LEFT_BEHIND = 3
"""So many models are named whose memory never came back."""
_LOST = "lost: the driver does not find it any more; nothing is loaded there meanwhile"

Device = dict[str, Any]
Holders = Sequence[tuple[str, int]]
"""Who holds how many bytes of a device, by name."""


def model_holders(models: Sequence[dict[str, Any]], device: str) -> Holders:
    """What models hold, each with all its workers; members of a family share theirs, which have the family's name."""
    found: dict[str, dict[str, int]] = {}
    for model in models:
        workers = found.setdefault(model.get("family") or full_name(model), {})
        workers.update((worker["id"], worker["bookedBytes"].get(device, 0)) for worker in model["workers"])
    return [(name, sum(held.values())) for name, held in found.items() if held]


def reservation_holders(reservations: Sequence[dict[str, Any]], device: str) -> Holders:
    """What is reserved, by the name of the program."""
    return [(program(one), one["bytes"]) for one in reservations if one["device"] == device]


def program(reservation: dict[str, Any]) -> str:
    """What a reservation is for, without its directory and options."""
    words = str(reservation.get("command") or "").partition(" -")[0].split()
    return " ".join([words[0].rpartition("/")[2] or words[0], *words[1:]]) if words else f"pid {reservation['pid']}"


class _Figure(NamedTuple):
    """One column of figures, and one kind of part in the bars."""

    title: str
    bytes: Callable[[Device], int]
    glyph: str
    ascii: str
    style: str
    always: bool = True
    """Otherwise it is only shown if some device has any of it."""


def _models(device: Device) -> int:
    return max(int(device["bookedBytes"]) - _reserved(device), 0)


def _reserved(device: Device) -> int:
    return int(device.get("reservedBytes") or 0)


MODELS = _Figure("MODELS", _models, "█", "#", "cyan")
RESERVED = _Figure("RESERVED", _reserved, "▓", "%", "magenta", always=False)
FOREIGN = _Figure("FOREIGN", lambda device: int(device["foreignBytes"]), "▒", "=", "yellow")
MARGIN = _Figure("MARGIN", lambda device: int(device["marginBytes"]), "░", "-", "blue", always=False)
FREE = _Figure("FREE", lambda device: max(int(device["freeBytes"]), 0), "·", ".", "green")
_FIGURES = (MODELS, RESERVED, FOREIGN, MARGIN, FREE)


def device_lines(
    devices: Sequence[Device],
    look: Look,
    models: Sequence[dict[str, Any]] = (),
    reservations: Sequence[dict[str, Any]] = (),
) -> list[str]:
    """The table, with a bar below each row that is divided among models and reservations."""
    figures = [figure for figure in _FIGURES if figure.always or any(map(figure.bytes, devices))]
    wide, narrow = look.width >= WIDE, look.width < NARROW
    columns = [Column("DEVICE"), *(Column(f"{_glyph(f, look)} {f.title}", right=True) for f in figures)]
    columns += [] if narrow else [Column("BUDGET", right=True)]
    columns += [Column("TOTAL", right=True)] if wide else []
    columns += [] if narrow else [Column("", least=0)]
    rows = []
    for device in devices:
        row = [Cell(device["name"], "bold"), *(_figure(figure, device) for figure in figures)]
        row += [] if narrow else [Cell(size(device["budgetBytes"]))]
        row += [Cell(size(device["totalBytes"]))] if wide else []
        row += [] if narrow else [Cell(_about(device, look, named=wide), "dim")]
        rows.append(row)
    heading, *drawn = lines(columns, rows, look)
    shown = [heading]
    for device, line in zip(devices, drawn, strict=True):
        shown.append(line)
        held = model_holders(models, device["name"]), reservation_holders(reservations, device["name"])
        shown += _below(device, figures, *held, look)
    return shown


def _figure(figure: _Figure, device: Device) -> Cell:
    count = figure.bytes(device)
    return Cell(size(count), figure.style if count and not _is_lost(device) else "dim")


def _glyph(figure: _Figure, look: Look) -> str:
    return figure.glyph if look.unicode else figure.ascii


def _about(device: Device, look: Look, *, named: bool) -> str:
    """Temperature and power, and in a wide terminal the product's name."""
    heat, power = device.get("temperatureC"), device.get("powerW")
    degree = "°C" if look.unicode else "C"
    facts = [
        "" if heat is None else f"{heat}{degree}",
        "" if power is None else f"{power:.0f}W",
        str(device.get("label") or "") if named else "",
    ]
    return one_line(" ".join(filter(None, facts)))


def _is_lost(device: Device) -> bool:
    return device.get("state") == "lost"


def _below(device: Device, figures: Sequence[_Figure], models: Holders, reserved: Holders, look: Look) -> list[str]:
    """The bar and the names beneath it; why there is none, where the device cannot be used."""
    width = min(look.width - _INDENT, _MOST_BAR)
    if _is_lost(device):
        drawn = [look.paint(shorten(_LOST, width, look), "red")]
    else:
        parts = [part for figure in figures for part in _parts(figure, device, models, reserved, look)]
        rest = int(device["totalBytes"]) - sum(part.amount for part in parts)
        drawn = bar_lines(parts, max(rest, 0), width, look)
        drawn += [look.paint(shorten(note, width, look), "yellow") for note in _notes(device, look)]
    return [" " * _INDENT + line for line in drawn]


def _parts(figure: _Figure, device: Device, models: Holders, reserved: Holders, look: Look) -> list[Part]:
    """What one figure is in the bar: a part for each holder, of foreign what was lazyd's apart."""
    count, glyph = figure.bytes(device), _glyph(figure, look)
    if figure is MODELS:
        return _by_holder(models, count, glyph, figure.style, "other" if device["kind"] == "host" else "leaving")
    if figure is RESERVED:
        return _by_holder(reserved, count, glyph, figure.style, "")
    if figure is not FOREIGN:
        return [Part(count, glyph, figure.style)] if count else []
    stuck = min(int(device["quarantinedBytes"]), count)
    strangers = [(_stranger(one), int(one["bytes"])) for one in device.get("strangers") or []]
    parts = _by_holder(strangers, count - stuck, glyph, figure.style, "")
    return [*parts, Part(stuck, _stuck(look), "red")] if stuck else parts


def _stranger(process: dict[str, Any]) -> str:
    return f"{process['name']} (pid {process['pid']})" if process.get("name") else f"pid {process['pid']}"


def _by_holder(holders: Holders, count: int, glyph: str, style: str, rest: str) -> list[Part]:
    """The largest first. What none of them holds is called `rest`; a file that several map is booked once."""
    parts, left = [], count
    for name, holds in sorted(holders, key=lambda holder: -holder[1]):
        if (part := min(holds, left)) > 0:
            parts.append(Part(part, glyph, style, name))
            left -= part
    return [*parts, Part(left, glyph, style, rest, minor=True)] if left > 0 else parts


def _notes(device: Device, look: Look) -> list[str]:
    """What the bar alone does not tell."""
    notes = []
    booked = int(device["bookedBytes"])
    used = booked + int(device["foreignBytes"]) + int(device["marginBytes"])
    excess = max(booked - int(device["budgetBytes"]), used - int(device["totalBytes"]))
    if device.get("state") == "silent":
        notes.append("its driver does not answer: nothing is admitted there until it does")
    notes += [f"{_stuck(look)} {left}" for left in _left_behind(device)]
    if excess > 0:
        notes.append(f"{size(excess)} more than there is: nothing is admitted, and idle models leave for it")
    return notes


def _left_behind(device: Device) -> list[str]:
    """What models left, and has not come back."""
    left = device.get("quarantined") or []
    told = [f"{size(one['bytes'])} of {one['model']}{_pid(one)} never came back" for one in left[:_LEFT_BEHIND]]
    rest = int(device["quarantinedBytes"]) - sum(int(one["bytes"]) for one in left[:_LEFT_BEHIND])
    return [*told, f"{size(rest)} of {'others' if told else 'models'} never came back"] if rest > 0 else told


def _pid(one: dict[str, Any]) -> str:
    return f" (pid {one['pid']})" if one.get("pid") else ""


def _stuck(look: Look) -> str:
    """What was lazyd's, and never came back."""
    return "▚" if look.unicode else "x"


def reservation_lines(reservations: Sequence[dict[str, Any]], look: Look) -> list[str]:
    """What is reserved, as a table."""
    columns = [Column("RESERVED", right=True), Column("ON"), Column("PID", right=True), Column("FOR", least=8)]
    rows = [
        [
            Cell(size(one["bytes"]), "magenta"),
            Cell(one["device"]),
            Cell(str(one["pid"])),
            Cell(one.get("command") or "", "bold"),
        ]
        for one in reservations
    ]
    return lines(columns, rows, look)


def wish_lines(wishes: Sequence[dict[str, Any]], look: Look) -> list[str]:
    """Reservations that are waited for, as a table; under each stands what it waits for."""
    columns = [
        Column("WAITING", right=True),
        Column("ON"),
        Column("PID", right=True),
        Column("SINCE", right=True),
        Column("FOR", least=8),
    ]
    rows = [
        [
            Cell(size(one["bytes"]), "yellow"),
            Cell(one["device"]),
            Cell(str(one["pid"])),
            Cell(about(one["waitedSec"])),
            Cell(one.get("command") or "", "bold"),
        ]
        for one in wishes
    ]
    heading, *drawn = lines(columns, rows, look)
    shown = [heading]
    for one, line in zip(wishes, drawn, strict=True):
        shown.append(line)
        shown += [f"  {piece}" for why in one["why"] for piece in wrapped(one_line(why), look.width - 2, look)]
    return shown
