"""Cron lines and time zones, as a schedule has them.

The library for cron lines and the database of time zones are only touched where a model has a
schedule: the start of a daemon whose models have none does not pay for them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from .compounds import Strings
from .given import string
from .kinds import Plain
from .problems import Fault, Wrong, nearest, quoted

MOST_LINES = 100
LONGEST_LINE = 200
FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
"""In the order in which they stand in a line, and as the library calls them."""
EXAMPLE = '"*/5 9-15 * * mon-fri"'

_VALID = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, or L for the last",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7 (0 and 7: sunday), or sun to sat",
}
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SOME_DAY = datetime.datetime(2024, 1, 1)


@dataclass(frozen=True)
class Line(Plain):
    """One cron line of five fields."""

    words: str = "cron line"

    def read(self, value: object, _base: str) -> str:
        text = string(value, "a cron line in quotes", EXAMPLE)
        line = " ".join(text.split())
        if line in _NICKNAMES:
            raise Wrong(Fault(f"{quoted(line)} is no cron line", f"write it as {quoted(_NICKNAMES[line])}"))
        if len(line) > LONGEST_LINE:
            raise Wrong(Fault(f"{quoted(line, 40)} is too long", f"use at most {LONGEST_LINE} characters"))
        count = len(line.split())
        if count != len(FIELDS):
            what = f"{quoted(line)} has {count} field{'' if count == 1 else 's'}"
            raise Wrong(Fault(what, f"write five: {', '.join(FIELDS)}; as {EXAMPLE}"))
        _check_line(line)
        return line


@dataclass(frozen=True)
class Lines:
    """A cron line, or a list of them. Held as a tuple."""

    words: str = "cron line, or a list of them"

    def read(self, value: object, base: str) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            return (Line().read(value, base),)
        lines = Strings(Line()).read(value, base)
        if not lines:
            raise Wrong(Fault("an empty list of cron lines", f"write one, as {EXAMPLE}"))
        if len(lines) > MOST_LINES:
            raise Wrong(Fault(f"{len(lines)} cron lines", f"write at most {MOST_LINES}"))
        return lines

    def show(self, value: tuple[str, ...]) -> object:
        return value[0] if len(value) == 1 else list(value)


@dataclass(frozen=True)
class TimeZone(Plain):
    words: str = "name of a time zone"

    def read(self, value: object, _base: str) -> str:
        name = string(value, "the name of a time zone", '"Europe/Berlin"')
        if _is_zone(name):
            return name
        import zoneinfo

        known = zoneinfo.available_timezones()
        if not known:
            remedy = "install tzdata, or leave it out and the machine's own time holds"
            raise Wrong(Fault("this machine has no time zones", remedy))
        near = _nearest_zone(name, known)
        remedy = (
            f"did you mean {near}?" if near else "write it as \"Europe/Berlin\"; 'timedatectl list-timezones' lists all"
        )
        raise Wrong(Fault(f"{quoted(name)} is no time zone", remedy))


def _check_line(line: str) -> None:
    """Raises `Wrong`, which says which field it is."""
    import cronsim  # nothing else needs it

    try:
        next(cronsim.CronSim(line, _SOME_DAY))
    except cronsim.CronSimError as error:
        raise Wrong(_fault(line, str(error))) from None
    except StopIteration:
        raise Wrong(Fault(f"{quoted(line)} never comes", "correct the days or the month")) from None


def _fault(line: str, error: str) -> Fault:
    fields = dict(zip(FIELDS, line.split(), strict=True))
    name = next((name for name in FIELDS if error.endswith(name)), None)
    if name is None:
        return Fault(f"{quoted(line)} is no cron line ({error})", f"write five fields, as {EXAMPLE}")
    if name == "day-of-month" and _is_right_alone(fields, name):
        return Fault(
            f"{quoted(line)} never comes: no such month has a day {fields[name]}", "correct the day or the month"
        )
    return Fault(f"{name} {quoted(fields[name])} of {quoted(line)} is wrong", _remedy(name, fields[name]))


def _is_right_alone(fields: Mapping[str, str], name: str) -> bool:
    import cronsim

    try:
        cronsim.CronSim(" ".join(fields[name] if other == name else "*" for other in FIELDS), _SOME_DAY)
    except cronsim.CronSimError:
        return False
    return True


def _remedy(name: str, text: str) -> str:
    if name == "day-of-week" and text.lower().endswith("-sun"):
        before = text[: -len("-sun")]
        meant = f"{before},sun" if before.lower().endswith("sat") else f"{before}-sat,sun"
        return f"a week begins on sunday here: write {quoted(meant)}, or sunday as 7"
    return f"write * or {_VALID[name]}; ranges as a-b from the lower to the higher, lists as a,b, steps as */5"


def _is_zone(name: str) -> bool:
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _nearest_zone(name: str, known: set[str]) -> str | None:
    """Also for a city alone, and for other capitals than those of the database."""
    wanted = name.casefold().replace(" ", "_")
    for zone in sorted(known):
        if wanted in (zone.casefold(), zone.casefold().rpartition("/")[2]):
            return zone
    return nearest(name, known)
