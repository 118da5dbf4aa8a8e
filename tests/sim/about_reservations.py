"""Checks of reservations: held as long as their client is there, given again to who comes back, and no more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events

if TYPE_CHECKING:
    from .world import World

CLAIMED_WITHIN_S = 30.0
"""So long after a new manager has found the host, a reservation may be claimed again."""


def reserved_is_held(world: World, effect: effects.KeepReservations) -> str | None:
    """None is dropped while its client is connected, or may still come back."""
    books, control = world.manager.told.books, world.control
    names = {report.id for report in effect.reservations}
    for name in books.reserved:
        if name in names:
            continue
        found_at = books.adopted.get(name)
        waits = found_at is not None and world.clock.now < found_at + CLAIMED_WITHIN_S
        program = world.programs.get(name)
        is_held = control.reserved_by.get(name) == world.manager.epoch and program is not None and program.is_connected
        if waits or is_held:
            return f"{name} is given back, found at {found_at}, client connected: {is_held}"
    return None


def claimed_is_the_same(world: World, effect: effects.Answer) -> str | None:
    """Who claims his reservation again in time gets that one, and no other beside it."""
    pending = world.control.by_number[effect.request]
    resume = pending.fields.get("resume") if pending.kind is events.Reserve else None
    is_known = resume in world.manager.told.books.reserved or any(kept.id == resume for kept in world.host.kept)
    if resume is None or not is_known or world.manager.told.stop_deadline is not None:
        return None
    outcome = effect.outcome
    if isinstance(outcome, answers.Reserved) and outcome.reservation == resume:
        return None
    return f"{pending} is answered {outcome}, and its reservation is there"


def nobody_reserves_all(world: World, effect: effects.Answer) -> str | None:
    """One user's reservations together hold at most a part of a device's budget."""
    if not isinstance(effect.outcome, answers.Reserved):
        return None
    told, fields = world.manager.told, world.control.by_number[effect.request].fields
    if effect.outcome.reservation in told.books.reserved:
        return None
    held = sum(
        held.bytes
        for held in told.books.reserved.values()
        if (held.device, held.holder) == (fields["device"], fields["holder"])
    )
    most = int(told.budget(fields["device"]) * told.config.settings.max_reserved)
    if held + fields["bytes"] > most:
        return f"{fields['holder']} is given {fields['bytes']} beside {held} of {fields['device']}, at most {most}"
    return None
