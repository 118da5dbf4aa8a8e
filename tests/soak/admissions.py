"""Nothing is admitted over budget: what lazyd tells of each admission, and what its status showed before and after."""

from __future__ import annotations

import itertools
from typing import Any

from .watching import Record, Snapshot

KINDS = ("loading", "reserved")


def check(record: Record) -> int:
    """How many admissions there were. What is wrong is a violation."""
    admissions = record.events(*KINDS)
    for each in admissions:
        assert each.event is not None
        over = {name: n for name, n in (each.event["data"].get("free_bytes") or {}).items() if n < 0}
        if over:
            record.violation(f"admitted over budget, by {over}: {each.what}")
    for before, after in itertools.pairwise(record.snapshots):
        for name in before.devices.keys() & after.devices.keys():
            check_device(record, before, after, name)
    return len(admissions)


def check_device(record: Record, before: Snapshot, after: Snapshot, name: str) -> None:
    """Somebody who is new on a device was admitted since the last look. If the device holds too much now, what was
    there already must have grown by as much since then."""
    new = {holder: n for holder, n in held(after, name).items() if holder not in held(before, name) and n}
    shown, was = after.devices[name], before.devices[name]
    over = -shown["freeBytes"]
    if not new or over <= 0 or len(before.workers) == 0:
        return
    old = held(before, name)
    grown = sum(max(0, n - old[holder]) for holder, n in held(after, name).items() if holder in old)
    grown += max(0, shown["foreignBytes"] - was["foreignBytes"]) + max(0, was["budgetBytes"] - shown["budgetBytes"])
    if over > grown:
        record.violation(
            f"{name} holds {over} bytes too many after {', '.join(new)} came, and what was there had grown by {grown}"
        )


def held(snapshot: Snapshot, name: str) -> dict[str, int]:
    """By worker or reservation."""
    booked: dict[str, int] = {}
    for holder, worker in snapshot.workers.items():
        booked[holder] = int(worker["bookedBytes"].get(name, 0))
    for holder, reservation in snapshot.reservations.items():
        booked[holder] = bytes_on(reservation, name)
    return booked


def bytes_on(reservation: dict[str, Any], name: str) -> int:
    return int(reservation["bytes"]) if reservation["device"] == name else 0
