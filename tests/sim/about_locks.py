"""Checks of locked files: booked once and as long as the host has them, disturbing nobody, and giving way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events

from .memory import RAM

if TYPE_CHECKING:
    from .control import Pending
    from .world import World

BESIDES = ("asked for once more", "taken back", "does not say")
"""Refusals that are not for want of room."""


def locked_is_booked(world: World, _: events.Event) -> str | None:
    """The ledger has the files of each lock, from the answer until the host has let go of them, and no others."""
    books = world.manager.told.books
    if not books.locks and not world.manager.core.world.locks:
        return None
    ledger = world.manager.core.world.ledger
    booked = {holder[5:]: dict(files) for holder, files in ledger.files.items() if holder.startswith("lock ")}
    wanted = {model: dict(lock.files) for model, lock in books.locks.items() if lock.files}
    return None if booked == wanted else f"{booked} are booked, and {wanted} are locked, or are to be"


def locked_once(world: World, effect: effects.Answer) -> str | None:
    """One lock for a model at a time: what it had before has left, or is the same."""
    pending = world.control.by_number[effect.request]
    if pending.kind is not events.LockFiles or not isinstance(effect.outcome, answers.Done):
        return None
    told = world.manager.told
    lock = told.books.locks.get(told.resolve(pending.fields["model"]) or "")
    if lock is not None and (lock.leaves or lock.files != pending.fields["files"]):
        return f"{pending} is answered Done, and {lock} is there"
    return None


def locks_leave_room(world: World, effect: effects.Answer) -> str | None:
    """Asked when files are booked: with what is pinned and resident they hold at most `max_pinned` of RAM."""
    pending = world.control.by_number[effect.request]
    if pending.kind is not events.LockFiles or not isinstance(effect.outcome, answers.Done):
        return None
    told = world.manager.told
    books = told.books
    if told.resolve(pending.fields["model"]) in books.locks:
        return None
    kept = [
        books.entries[name]
        for name, worker in told.workers.items()
        if name in books.entries and not worker.stopping and any(told.is_kept(model) for model in worker.objects)
    ]
    files = {file: n for holder in (*kept, *books.locks.values()) for file, n in holder.files.items()}
    files |= pending.fields["files"]
    held = sum(entry.booking.get(RAM, 0) for entry in kept) + sum(files.values())
    most = int(told.budget(RAM) * told.config.settings.max_pinned)
    return f"with {pending} locks, pins and residents hold {held}, and may hold {most}" if held > most else None


def cannot_be_locked(world: World, pending: Pending, outcome: answers.NoRoom) -> bool:
    """A refusal is true: others that wait may need the room, or there is none, with what other locks would give."""
    told = world.manager.told
    others = [p for p in world.control.by_number.values() if p is not pending]
    if any(reason in outcome.reason for reason in BESIDES) or RAM not in told.books.seen or others:
        return True
    files, core = pending.fields["files"], world.manager.core.world
    if "max_pinned" in outcome.reason:
        return True
    needed = sum(n for file, n in files.items() if file not in told.books.mapped())
    return needed > core.ledger.devices[RAM].free_bytes + sum(map(told.books.freed_by, told.books.locks))
