"""Room: which of those who wait is next, and who leaves for it.

Models that wait, and reservations, stand in a line: nested requests first (their callers hold memory
until they are served), then the longest waiting. Each could go to several places (`placement.py`),
tried in groups of equal preference. For each group, in turn:

1. Its devices have been seen of late, or are looked at first (`samples.py`).
2. If a placement fits, and is not meant for somebody before it, it is booked and loaded.
3. If bytes on their way to be free will do, it waits for them; they are its own.
4. If idle models can leave for it, a plan is made. All its victims drain; when the last one
   has, all unload together. If one turns out to be busy, all serve again: a whole plan or none.

And when that has done for no group:

5. If it has waited longer than its `max_wait_s`, its plan may count on busy models too, which
   then admit no new call and are waited for (one such plan per device). Without even that, the
   bytes freed next on its device are its own, and later requests do not pass it there.
6. If it can never fit beside what is pinned, resident, reserved or foreign, it is refused: on a sample
   as new as for an admission. A reservation may wait, and sets nothing aside.

So a request waits at most `max_wait_s` + waiters ahead x (quantum + longest call + release + load).
"""

from __future__ import annotations

from collections.abc import Collection

from . import crowding, cycles, locks, plans, refusals, routes, samples, seekers, together
from .answers import NoRoom
from .eviction import could_cover, most_freed, next_moment, units
from .ledger import RAM, Booking
from .line import Line, rank
from .locked import leaving_bytes as leaving
from .placement import Placement
from .records import Instance, Model, Plan, Reservation, Seeker
from .victims import choose_victims
from .world import World


def make_room(world: World) -> None:
    """Goes along the line once; called after every event."""
    for plan in list(world.plans.values()):
        plans.advance(world, plan)
    if not world.wanting or not world.host_found or world.stopping:
        return
    line = Line(world)
    for seeker in sorted(world.wanting.values(), key=rank):
        if world.wanting.get(seeker.key) is not seeker:
            continue  # it was begun with one that uses it
        if seeker.retry_at <= world.now and not seekers.comes_later(world, seeker):
            consider(world, seeker, line)
    if any(seeker.nested for seeker in world.wanting.values()):
        cycles.refuse_cycles(world)
    if line.blocked:
        look_again(world, line.blocked)


def consider(world: World, seeker: Seeker, line: Line) -> None:
    """The steps above, for one who waits."""
    if not seekers.is_known(world, seeker) or line.is_passed_by(seeker, overdue=is_overdue(world, seeker)):
        return
    line.look_anew()
    if seekers.is_held_back(world, seeker):
        return
    spared = seekers.meant_for_wanted(world, seeker)
    if spared is None:
        line.blocked.append(seeker)
        return
    line.spared = spared
    if crowding.joins_a_crowd(world, seeker):
        line.blocked.append(seeker)
        return
    groups, refusal = possible(world, seeker, line)

    def room(name: str) -> int:
        return line.headroom(seeker, name)

    if not groups:
        elsewhere = seekers.goes_elsewhere(world, seeker, room, is_barred=True)
        if not elsewhere and samples.are_news(world, seekers.may_go_to(world, seeker)):
            seekers.refuse(world, seeker, refusal)
        return
    answering = [[placement for placement in group if not is_silent(world, placement)] for group in groups]
    answering = [group for group in answering if group]
    for group in answering:
        plan = world.plans.get(seeker.key)
        if plan is not None and group[0].rank > plan.rank:
            break
        if settles(world, seeker, group, line):
            return
    if seeker.key in world.plans or seekers.goes_elsewhere(world, seeker, room, is_barred=False):
        return
    if not seekers.presses(world, seeker):
        line.blocked.append(seeker)
        return
    if locks_leave(world, seeker, answering, line):
        return
    if not seeker_waits(seeker):
        device = world.ledger.devices[next(iter(groups[0][0].booking))]
        seekers.refuse(world, seeker, not_now(world, seeker, device.name))
        return
    if seeker.nested and plans.give_way(world, {name for group in groups for p in group for name in p.booking}):
        consider(world, seeker, line)
        return
    overdue = is_overdue(world, seeker)
    if overdue and any(plans_for(world, seeker, group, line, finish=True) for group in answering):
        return
    first = groups[0][0].booking
    if overdue and seekers.sets_aside(world, seeker):
        line.set_aside(first)
    if seeker.nested:
        line.first_come.update(first)
    line.blocked.append(seeker)


def possible(world: World, seeker: Seeker, line: Line) -> tuple[list[list[Placement]], NoRoom]:
    """The placements that can work as things stand, and what to say if there is none."""
    refused: list[NoRoom] = []
    groups: list[list[Placement]] = []
    for group in together.placements(world, seeker, lambda name: line.headroom(seeker, name)):
        good = []
        for placement in group:
            refusal = seekers.never(world, seeker, placement)
            if refusal is None:
                good.append(placement)
            else:
                refused.append(refusal)
        if good:
            groups.append(good)
    refusal = refusals.together(refused)
    if isinstance(seeker, Model):
        refusal = refusal or refusals.no_device(world, seeker, together.without_device(world, seeker))
    return groups, refusal or not_now(world, seeker, "")


def settles(world: World, seeker: Seeker, group: list[Placement], line: Line) -> bool:
    """Steps 1 to 4 for one group; whether it was decided by them what happens next."""
    if not samples.are_fresh(world, dict.fromkeys(name for placement in group for name in placement.booking)):
        line.set_aside(group[0].booking)
        return True
    room = [{name: line.headroom(seeker, name) for name in placement.booking} for placement in group]
    for placement, free in zip(group, room, strict=True):
        if world.ledger.fits(placement.booking) and covers(free, placement.booking):
            plans.drop(world, seeker)
            seekers.take(world, seeker, placement)
            return True
    if seeker.key in world.plans:
        return False
    for placement, free in zip(group, room, strict=True):
        if covers(free, placement.booking):
            line.set_aside(placement.booking)
            return True
    return seekers.presses(world, seeker) and plans_for(world, seeker, group, line, finish=False)


def plans_for(
    world: World,
    seeker: Seeker,
    group: list[Placement],
    line: Line,
    *,
    finish: bool,
    spared: Collection[Instance] = (),
) -> bool:
    """Makes the cheapest plan over a group of placements, if there is one."""
    spared = {*plans.callers(world, seeker), *spared}
    best: tuple[float, Plan] | None = None
    for placement in group:
        booking = placement.booking
        if not seeker.nested and not line.first_come.isdisjoint(booking):
            continue
        deficit = {name: n - line.headroom(seeker, name) for name, n in booking.items()}
        short = [name for name, n in deficit.items() if n > 0]
        if not could_cover(world, deficit, finish=finish) or (finish and plans.drains_already(world, short)):
            continue
        leaving = units(world, short, spared=spared, finish=finish, mapped=placement.files)
        chosen = choose_victims(leaving, deficit)
        if chosen is not None:
            cost = sum(unit.cost for unit in chosen)
            victims = list(dict.fromkeys(instance for unit in chosen for instance in unit.instances))
            if best is None or cost < best[0]:
                best = cost, Plan(seeker, booking, short, placement.rank, victims, finish)
    if best is not None:
        plans.carry_out(world, best[1])
    return best is not None


def locks_leave(world: World, seeker: Seeker, groups: list[list[Placement]], line: Line) -> bool:
    """Whether locked files give way for it: RAM alone is short, and idle models do not give back enough."""
    idle = most_freed(world, finish=False).get(RAM, 0)
    for placement in (placement for group in groups for placement in group):
        deficit = {name: n - line.headroom(seeker, name) for name, n in placement.booking.items()}
        missing = deficit.pop(RAM, 0) - idle
        if missing <= 0 or any(n > 0 for n in deficit.values()):
            continue
        if locks.let_go(world, leaving(world) + missing, f"room for {seeker.title}", placement.files):
            line.set_aside(placement.booking)
            return True
    return False


def covers(room: Booking, booking: Booking) -> bool:
    return all(room[name] >= n for name, n in booking.items() if n)


def is_silent(world: World, placement: Placement) -> bool:
    return any(world.ledger.devices[name].is_silent(world.now) for name in placement.booking)


def is_overdue(world: World, seeker: Seeker) -> bool:
    """It has waited longer than its `max_wait_s`, and is not only to take the place of one that answers meanwhile."""
    if isinstance(seeker, Model) and routes.is_background(seeker):
        return False
    since = seeker.wanted_since
    return since is not None and since + seeker.max_wait_s <= world.now


def seeker_waits(seeker: Seeker) -> bool:
    """A reservation may be wanted now or not at all."""
    return not isinstance(seeker, Reservation) or seeker.waits


def not_now(world: World, seeker: Seeker, name: str) -> NoRoom:
    """For one who does not wait."""
    device = world.ledger.devices.get(name)
    needed = seeker.bytes if isinstance(seeker, Reservation) else 0
    free, reason = 0, "there is no such device"
    if device is not None:
        free = max(0, device.free_bytes)
        reason = f"{refusals.explain(world, device, needed)}; {refusals.can_be_had(device, free)}"
    return NoRoom(model=seeker.named, device=name, needed_bytes=needed, free_bytes=free, reason=reason)


def look_again(world: World, blocked: list[Seeker]) -> None:
    """Sets the alarm for the moment at which time alone may have changed something for them."""
    moments = [since + seeker.max_wait_s for seeker in blocked if (since := seeker.wanted_since) is not None]
    world.look_again(("room",), [*moments, next_moment(world)])
