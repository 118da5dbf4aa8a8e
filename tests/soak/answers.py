"""What a request may be answered with, and how late."""

from __future__ import annotations

import re

from lazyd import errors

from .schedule import Schedule
from .watching import Record

SLACK_S = 20.0
"""So much later than its limit an answer may come on a busy machine."""

USUAL = (errors.Timeout, errors.NoRoom, errors.Busy, errors.NoSuchLease)
"""These may always come."""
IN_VAIN = re.compile(r"out of memory|cudaMalloc failed|signal|is lost|falls? off|OSError|died|status|not do what", re.I)
"""What a load or a call that failed says of what was done to it here."""
ACCIDENTS = frozenset({"worker killed", "host killed", "manager killed", "GPU lost"})


def judge(
    schedule: Schedule, record: Record, doing: str, error: BaseException | None, took_s: float, limit_s: float | None
) -> str:
    """One word for the outcome. What is against the contract is a violation."""
    outcome = "answered" if error is None else type(error).__name__
    if limit_s is not None and took_s > limit_s + SLACK_S:
        record.violation(f"{doing}: {outcome} after {took_s:.1f} s, its limit was {limit_s:g} s")
    if error is not None and not is_expected(schedule, error):
        record.violation(f"{doing}: {error!r}")
    return outcome


def is_expected(schedule: Schedule, error: BaseException) -> bool:
    accidents = ACCIDENTS & schedule.traits
    if isinstance(error, errors.NoRoom):
        return may_find_no_room(schedule)
    if isinstance(error, USUAL):
        return True
    if isinstance(error, (errors.Unavailable, errors.ConnectionLost)):
        return bool(accidents) or isinstance(error, errors.ConnectionLost)
    if isinstance(error, (errors.LoadFailed, errors.CallFailed)):
        return IN_VAIN.search(str(error)) is not None
    return isinstance(error, (errors.WorkerDied, errors.Cancelled))


def may_find_no_room(schedule: Schedule) -> bool:
    """Where every model fits beside what is kept, and nobody else is there, there is always room."""
    honest = all(model.is_honest for model in schedule.models)
    kept = any(model.is_kept for model in schedule.models) or any(
        doing.what == "pin" for doings in schedule.actors.values() for doing in doings
    )
    return kept or not honest or bool(schedule.traits - {"cancels", "worker killed", "hidden"})
