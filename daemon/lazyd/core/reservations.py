"""Reservations: memory for programs that lazyd does not run.

One waits in the same line as loads, and room is made for it like for them. It lasts as long as its
client's connection; the host keeps a list, so that after the death of the manager the next one holds
each of them for 30 s, in which its client may claim it again. A claim that comes before the host waits
for it. One user's reservations together hold at most `max_reserved` of a device's budget: what alone is
more than that is refused, and what is too much beside his others waits for their end.
"""

from __future__ import annotations

from . import held_up, refusals, shares
from .answers import NoRoom, Reserved, ShuttingDown, Timeout
from .effects import KeepReservations
from .events import ReservationReport, Reserve, Unreserve
from .ledger import SLOTS, Device
from .records import UNPRESENTED_LEASE_S, Reservation
from .wording import quoted, size
from .world import World


def reserve(world: World, event: Reserve) -> None:
    """A reservation is asked for, or claimed again."""
    if world.stopping:
        world.answer(event.request, ShuttingDown())
        return
    known = world.reservations.get(event.resume or "")
    if known is not None and world.is_unclaimed(known) and is_same(known, event):
        known.pid = event.pid
        world.alarms.clear(("reservation", known.id))
        hold(world, known, event.request)
        return
    wish = Reservation(
        id=world.new_id(),
        device=event.device,
        bytes=event.bytes,
        holder=event.holder,
        pid=event.pid,
        command=event.command,
        since=world.now,
        request=event.request,
        resume=event.resume,
        waits=event.wait,
        deadline=float("inf") if event.deadline is None else event.deadline,
    )
    refusal = never(world, wish)
    if refusal is not None and (event.resume is None or world.host_found):
        world.answer(event.request, refusal)
        return
    world.wanting[wish.key] = wish
    if wish.deadline != float("inf"):
        world.alarms.set(("reserve", wish.key), wish.deadline)


def is_same(known: Reservation, asked: Reserve | Reservation) -> bool:
    """A claim is for what was granted, by who got it. Any other is a wish like any."""
    return (known.holder, known.device, known.bytes) == (asked.holder, asked.device, asked.bytes)


def never(world: World, wish: Reservation) -> NoRoom | None:
    """Why it is refused at once; None if it may stand in the line."""
    device = world.ledger.devices.get(wish.device)
    if device is None or device.lost is not None or device.kind == SLOTS:
        is_lost = device is not None and device.lost is not None
        reason = f"{wish.device} is lost" if is_lost else f"there is no {wish.device} here"
        if device is None and world.driver_problem is not None:
            reason = f"no driver has shown {wish.device} yet: {world.driver_problem}"
        return no_room(wish, 0, reason, "'lazyctl status' shows the devices; try later, or another one")
    return too_much(world, wish, device)


def not_any_more(world: World, wish: Reservation) -> NoRoom | None:
    """Why one that stands in the line is refused after all. A lost device may come back for who waits."""
    device = world.ledger.devices.get(wish.device)
    return None if device is not None and device.lost is not None and wish.waits else never(world, wish)


def is_hopeless(world: World, wish: Reservation) -> bool:
    """Strangers, or what is kept, leave no room for it. It may wait for their end, and keeps nobody from the rest."""
    device = world.ledger.devices[wish.device]
    return wish.bytes > refusals.could_be_free(world, wish, device)


def too_much(world: World, wish: Reservation, device: Device) -> NoRoom | None:
    """Whether it is more than a device has, or than its user may have there (now, if it does not wait)."""
    if wish.bytes > device.ceiling_bytes:
        most = device.ceiling_bytes
        reason = f"{refusals.explain(world, device, wish.bytes)}; {refusals.can_be_had(device, most)}"
        return no_room(wish, most, reason, refusals.never_fits(device))
    allowed = shares.allowed(world, device)
    if wish.bytes > allowed or (not wish.waits and shares.is_beyond(world, wish)):
        left = max(0, allowed - shares.held(world, wish))
        return no_room(wish, left, shares.rule(world, device), "reserve less, or raise max_reserved in [budget]")
    return None


def no_room(wish: Reservation, free: int, reason: str, remedy: str | None = None) -> NoRoom:
    return NoRoom(
        model=wish.named,
        device=wish.device,
        needed_bytes=wish.bytes,
        free_bytes=max(0, free),
        reason=reason,
        remedy=remedy,
    )


def take(world: World, wish: Reservation) -> None:
    """There is room: it is booked and answered."""
    world.wanting.pop(wish.key, None)
    world.alarms.clear(("reserve", wish.key))
    world.ledger.book(wish.id, {wish.device: wish.bytes})
    world.reservations[wish.id] = wish
    keep(world)  # before the answer: whoever has it may rely on its outliving the manager
    assert wish.request is not None
    hold(world, wish, wish.request)
    reason = f"{size(wish.bytes)} of {wish.device} for {quoted(wish.command) if wish.command else f'pid {wish.pid}'}"
    free = world.ledger.free([wish.device])
    world.note("reserved", reason=reason, device=wish.device, bytes=wish.bytes, free_bytes=free)


def hold(world: World, wish: Reservation, request: int) -> None:
    wish.request = None
    device = world.ledger.devices.get(wish.device)
    world.answer(request, Reserved(reservation=wish.id, uuid=device.uuid if device is not None else None))


def refuse(world: World, wish: Reservation, refusal: NoRoom) -> None:
    """It does not wait any longer."""
    withdraw(world, wish)
    assert wish.request is not None
    world.answer(wish.request, refusal)


def withdraw(world: World, wish: Reservation) -> None:
    world.wanting.pop(wish.key, None)
    world.alarms.clear(("reserve", wish.key))


def cancel(world: World, request: int) -> None:
    """A client that waited for one has gone."""
    for wish in list(world.wanting.values()):
        if isinstance(wish, Reservation) and wish.request == request:
            withdraw(world, wish)


def deadline_passed(world: World, key: str) -> None:
    """It has waited as long as it would (an alarm)."""
    wish = world.wanting.get(key)
    if isinstance(wish, Reservation) and wish.request is not None:
        reasons = held_up.held_up(world, wish, devices=1)
        withdraw(world, wish)
        outcome = Timeout(
            model=wish.named,
            phase="queued",
            timeout_sec=max(0.0, wish.deadline - wish.since),
            reason="; ".join(reasons) or None,
        )
        world.answer(wish.request, outcome)


def unreserve(world: World, event: Unreserve) -> None:
    """Its connection is closed: the memory is given back. What its program still uses is foreign."""
    end(world, event.reservation)


def end(world: World, reservation: str) -> None:
    """Gives one back (an alarm, where nobody has claimed it again)."""
    known = world.reservations.pop(reservation, None)
    if known is None:
        return
    world.alarms.clear(("reservation", known.id))
    world.ledger.release(known.id, world.now)
    keep(world)
    world.note("unreserved", reason=f"{size(known.bytes)} of {known.device}", device=known.device)


def keep(world: World) -> None:
    """Has the host remember them."""
    reports = tuple(
        ReservationReport(
            id=known.id,
            device=known.device,
            bytes=known.bytes,
            holder=known.holder,
            pid=known.pid,
            command=known.command,
        )
        for known in world.reservations.values()
    )
    world.emit(KeepReservations(reservations=reports))


def adopt(world: World, report: ReservationReport) -> None:
    """One that an earlier manager had granted is held for a while, for its client to claim it again."""
    if report.id in world.reservations:
        return
    world.reservations[report.id] = Reservation(
        id=report.id,
        device=report.device,
        bytes=report.bytes,
        holder=report.holder,
        pid=report.pid,
        command=report.command,
        since=world.now,
    )
    world.ledger.book(report.id, {report.device: report.bytes})
    claims = (w for w in world.wanting.values() if isinstance(w, Reservation) and w.resume == report.id)
    claim = next((claim for claim in claims if is_same(world.reservations[report.id], claim)), None)
    if claim is not None and claim.request is not None:  # its client was quicker than the host
        withdraw(world, claim)
        world.reservations[report.id].pid = claim.pid
        hold(world, world.reservations[report.id], claim.request)
        return
    world.alarms.set(("reservation", report.id), world.now + UNPRESENTED_LEASE_S)
