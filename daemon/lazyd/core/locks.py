"""Locked files: those of a model that is warm, kept in RAM by ``mlock``, so that the kernel cannot drop them.

What is only in the page cache books nothing, as the kernel may take it back at any time. What is locked is booked
on ``ram``, each file once, together with the workers that map it.

A lock is a cache that somebody has asked for. So it gets what can be had without disturbing anybody: room that is
free, or that other locks have, of which the one used least recently goes first. It does not wait for models to
leave, and beside what is pinned and resident it stays below `max_pinned`. It gives way itself before a load or a
reservation is refused, or waits for what is busy; and where the device holds too much, or programs stall, once
no idle model is left that could leave. Idle models go before it: they come back by themselves, and
nobody locks files anew.

    wanted ── room ──▶ booked ── the host has locked them ──▶ held ── let go ──▶ leaving ── unlocked ──▶ gone
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from . import refusals, requests, samples
from .answers import Done, NoRoom, Outcome, ShuttingDown
from .effects import UnlockFiles
from .events import FilesLocked, FilesUnlocked, LockFiles, LockReport
from .ledger import RAM, Booking
from .locked import Lock, Stage, could_free, freed_by, leaving_bytes
from .records import Model
from .wording import size
from .world import World

# How one comes to be.


def ask(world: World, event: LockFiles) -> None:
    """The files of a model are to be locked. Answered `Done` once they are booked, or refused."""
    model = requests.wanted(world, event.request, event.model)
    if model is None:
        return
    known = world.locks.get(model.key)
    if known is not None and known.stands and known.files == event.files:
        known.asked = world.now
        world.answer(event.request, Done())
        return
    earlier = world.lock_wishes.get(model.key)
    if earlier is not None:
        settle(world, earlier, no_room(world, earlier, "it was asked for once more"))
    wish = Lock(model=model.key, files=dict(event.files), asked=world.now, request=event.request)
    refusal = too_much(world, wish)
    if refusal is not None:
        world.answer(event.request, refusal)
        return
    if known is not None:
        end(world, known, "other files take their place")
    world.lock_wishes[model.key] = wish


def advance(world: World) -> None:
    """Decides about those that are wanted, once the device has been seen of late; called after every event."""
    for wish in list(world.lock_wishes.values()):
        if world.stopping:
            settle(world, wish, ShuttingDown())
        elif not world.host_found:
            continue  # nobody could be told
        elif wish.model in world.locks:
            compare(world, wish, world.locks[wish.model])
        elif samples.are_fresh(world, [RAM]):
            decide(world, wish)
        elif samples.are_news(world, [RAM]):
            settle(world, wish, no_room(world, wish, "the machine does not say how much memory is free"))


def compare(world: World, wish: Lock, known: Lock) -> None:
    """There is one of the same model: it is leaving, or a host that was found has told of it meanwhile."""
    if known.stands and known.files == wish.files:
        known.asked = world.now
        settle(world, wish, Done())
    else:
        end(world, known, "other files take their place")


def decide(world: World, wish: Lock) -> None:
    """Books it, has other locks leave for it, or refuses it."""
    device = world.ledger.devices[RAM]
    awaited = (plan for plan in world.plans.values() if plan.seeker.key in world.wanting)
    planned = sum(plan.booking.get(RAM, 0) for plan in awaited)
    missing = world.ledger.unmapped(wish.files) + planned - device.free_bytes
    beyond = beyond_share(world, wish)
    reason = f"room for the files of {wish.model}"
    if (refusal := too_much(world, wish)) is not None:
        settle(world, wish, refusal)
    elif missing > leaving_bytes(world) + could_free(world):
        settle(world, wish, no_room(world, wish, refusals.explain(world, device, wish.bytes)))
    elif beyond:
        for lock in beyond:
            end(world, lock, reason)
    elif missing > leaving_bytes(world):
        let_go(world, missing, reason)
    elif missing <= 0:
        book(world, wish)


def book(world: World, wish: Lock) -> None:
    """There is room for it."""
    world.ledger.book(wish.holder, {}, wish.files)
    wish.stage = Stage.BOOKED
    world.locks[wish.model] = wish
    settle(world, wish, Done())


def settle(world: World, wish: Lock, outcome: Outcome) -> None:
    """It is wanted no more: it is booked, or will not be."""
    world.lock_wishes.pop(wish.model, None)
    if wish.request is not None:
        world.answer(wish.request, outcome)
        wish.request = None


def cancel(world: World, request: int) -> None:
    """Who asked has gone."""
    for wish in list(world.lock_wishes.values()):
        if wish.request == request:
            del world.lock_wishes[wish.model]


def too_much(world: World, wish: Lock) -> NoRoom | None:
    """With what is pinned and resident it would hold more than `max_pinned`. Other locks make way for it."""
    device = world.ledger.devices.get(RAM)
    if device is None:
        return no_room(world, wish, "how much memory the machine has is not known yet")
    keepers = refusals.keeping(world, None)
    mapped = world.ledger.files_of(keepers)
    needed = sum(n for file, n in wish.files.items() if file not in mapped)
    kept, allowed = refusals.kept_bytes(world, RAM, keepers), refusals.may_be_kept(world, device)
    if kept + needed <= allowed:
        return None
    part = f"{world.settings.max_pinned:.0%}"
    reason = f"locked files with pinned and resident models may hold {part} of ram together (max_pinned)"
    refusal = no_room(world, wish, reason, "unpin a model, raise max_pinned in [budget], or leave out ram_lock")
    return msgspec.structs.replace(refusal, free_bytes=max(0, allowed - kept))


def beyond_share(world: World, wish: Lock) -> list[Lock]:
    """The other locks that are not left beside it, if all together are to stay below `max_pinned`: those used least
    recently, and those that are leaving already as long as they count."""
    keepers = refusals.keeping(world, None)
    files = {**world.ledger.files_of(keepers), **wish.files}
    allowed = refusals.may_be_kept(world, world.ledger.devices[RAM])
    room = allowed - sum(world.ledger.held(worker).get(RAM, 0) for worker in keepers)
    beyond: list[Lock] = []
    for lock in sorted(world.locks.values(), key=lambda lock: (lock.stands, last_use(world, lock)), reverse=True):
        beside = {**files, **lock.files}
        if sum(beside.values()) <= room:
            files = beside
        else:
            beyond.append(lock)
    return beyond


def no_room(world: World, wish: Lock, reason: str, remedy: str | None = None) -> NoRoom:
    device = world.ledger.devices.get(RAM)
    return NoRoom(
        model=wish.model,
        device=RAM,
        needed_bytes=wish.bytes,
        free_bytes=max(0, device.free_bytes) if device is not None else 0,
        reason=reason,
        remedy=remedy,
    )


def held(world: World, event: FilesLocked) -> None:
    """The host has locked them."""
    lock = world.locks.get(event.model)
    if lock is None or lock.stage is Stage.LEAVING:
        world.emit(UnlockFiles(model=event.model))  # it was let go of meanwhile
    elif lock.stage is Stage.BOOKED:
        lock.stage, lock.since = Stage.HELD, world.now
        samples.ask(world, RAM)
        world.note("locked", lock.model, f"its files stay in RAM: {size(lock.bytes)}", bytes=lock.bytes)


# How one ends.


def unlocked(world: World, event: FilesUnlocked) -> None:
    """They are not locked any more, or never came to be."""
    lock = world.locks.get(event.model)
    if lock is not None:
        gone(world, lock, event.reason)


def gone(world: World, lock: Lock, reason: str) -> None:
    """It is free."""
    del world.locks[lock.model]
    world.ledger.release(lock.holder, world.now)
    if lock.stage is not Stage.LEAVING:  # else it was noted when it was let go of
        world.note("unlocked", lock.model, reason, bytes=lock.bytes)


def end(world: World, lock: Lock, reason: str) -> None:
    """Has the host let go of them. They stay booked until it has."""
    if lock.stands:
        lock.stage = Stage.LEAVING
        world.emit(UnlockFiles(model=lock.model))
        world.note("unlocked", lock.model, reason, bytes=lock.bytes)


def end_of(world: World, key: str, reason: str) -> bool:
    """Ends what is locked of a model, or was to be; whether there was something."""
    wish, lock = world.lock_wishes.get(key), world.locks.get(key)
    if wish is not None:
        settle(world, wish, no_room(world, wish, f"it was taken back ({reason})"))
    if lock is not None and lock.stands:
        end(world, lock, reason)
        return True
    return wish is not None


def end_all(world: World, reason: str) -> list[str]:
    """The models whose files were locked."""
    return [key for key in [*world.locks, *world.lock_wishes] if end_of(world, key, reason)]


def follow(world: World, model: Model) -> None:
    """After a new configuration: what was locked of a model that is another one now, or whose files are not to be
    locked any more, is let go of."""
    if model.retired or not model.spec.ram_lock:
        end_of(world, model.key, "configuration changed")


def look_at_files(world: World, model: Model, files: Booking) -> None:
    """The files that a load would map are known: if none of them is among those that are locked, these are old."""
    lock = world.locks.get(model.key)
    if lock is not None and files and lock.files.keys().isdisjoint(files):
        end_of(world, model.key, "its files have changed")


# For whom one gives way.


def in_order(world: World) -> list[Lock]:
    """Those that may leave, the one used least recently first."""
    return sorted((lock for lock in world.locks.values() if lock.stands), key=lambda lock: last_use(world, lock))


def last_use(world: World, lock: Lock) -> float:
    """When its model was last used, or its files were asked for."""
    model = world.models.get(lock.model)
    if model is None:
        return lock.asked
    return max(lock.asked, model.heat.at, model.instance.last_used if model.instance is not None else 0.0)


def let_go(world: World, missing: int, reason: str, spared: Collection[str] = ()) -> bool:
    """Ends as many as free so many bytes, with what is leaving already; or none, if all would not. Whether they do.

    The `spared` files are needed by who asks, and are not given back.
    """
    chosen: list[Lock] = []
    found = leaving_bytes(world)
    for lock in in_order(world):
        n = freed_by(world, lock, spared) if found < missing else 0
        if n:
            chosen.append(lock)
            found += n
    if found < missing:
        return False
    for lock in chosen:
        end(world, lock, reason)
    return True


def relieve(world: World, missing: int, reason: str) -> None:
    """The device holds too much: as many leave as are enough, or all."""
    if not let_go(world, missing, reason):
        end_all(world, reason)


def relieve_stalls(world: World) -> None:
    """Programs stall: the one used least recently leaves."""
    for lock in in_order(world)[:1]:
        end(world, lock, "programs stall because memory is short")


# Managers and hosts come and go.


def adopt(world: World, told: Iterable[LockReport]) -> None:
    """What a host that is found has locked, or was told to."""
    reports = {report.model: report for report in told}
    for lock in list(world.locks.values()):
        report = reports.pop(lock.model, None)
        if report is None:
            if lock.stage is not Stage.BOOKED:  # that order is given again
                gone(world, lock, "the worker host does not hold it any more")
        elif lock.stage is Stage.LEAVING:
            world.emit(UnlockFiles(model=lock.model))
        elif report.locked:
            held(world, FilesLocked(model=lock.model))
    for report in reports.values():
        take_over(world, report)


def take_over(world: World, report: LockReport) -> None:
    """One of an earlier manager."""
    lock = Lock(model=report.model, files=dict(report.files), asked=world.now, stage=Stage.BOOKED)
    if report.locked:
        lock.stage, lock.since = Stage.HELD, world.now
    world.locks[lock.model] = lock
    world.ledger.book(lock.holder, {}, lock.files)
    model = world.find(report.model)
    if model is None or model.key != report.model or not model.spec.ram_lock:
        end(world, lock, "configuration changed")


def host_lost(world: World) -> None:
    """The host has died, and its locks with it. What it was only told to lock is ordered anew."""
    for lock in list(world.locks.values()):
        if lock.stage is not Stage.BOOKED:
            gone(world, lock, "the worker host died")
