"""What keeps somebody waiting in the line for room: said with a timeout, and by ``lazyctl status --why``."""

from __future__ import annotations

import itertools

from . import crowding, shares, together
from .eviction import leaving_bytes
from .holders import amount, holders, keeps, part_of, unseen
from .line import rank
from .placement import Placement
from .records import Fetching, Instance, Model, Reservation, Seeker
from .wording import duration, listed
from .world import World

DEVICES = 4
"""So many devices are told of, the preferred ones first."""
AHEAD = 3
"""So many who stand before it are named."""


def held_up(world: World, seeker: Seeker, *, devices: int = DEVICES) -> list[str]:
    """Clauses, in the order in which they matter; none if it does not stand in the line."""
    if seeker.key not in world.wanting:
        return []
    if not world.host_found:
        return ["the worker host is not connected, and nothing is loaded until it is"]
    if seeker.retry_at > world.now:
        return [f"its last load has failed, and the next try is allowed in {duration(seeker.retry_at - world.now)}"]
    if isinstance(seeker, Reservation) and shares.is_held_back(world, seeker):
        return [shares.why(world, seeker, world.ledger.devices[seeker.device])]
    if crowding.joins_a_crowd(world, seeker):
        return ["its worker's device holds more than it may, and nothing is admitted there until idle models have left"]
    found = [being_made(world, seeker)] if seeker.key in world.plans else []
    wanted = wanted_of(world, seeker)
    if isinstance(seeker, Model) and isinstance(seeker.prediction, Fetching):
        part = seeker.prediction.fraction
        return ["its files are being fetched" + ("" if part is None else f" ({part:.0%} done)")]
    if wanted is None:
        return ["what it needs is being found out"]
    needs: dict[str, int] = {}
    for placement in wanted:
        for name, n in placement.booking.items():
            needs.setdefault(name, n)
    short = (missing(world, seeker, name, n) for name, n in needs.items())
    found += itertools.islice(filter(None, short), devices)
    return found + before(world, seeker)


def wanted_of(world: World, seeker: Seeker) -> list[Placement] | None:
    """Where it could go, as things stand, the preferred placement first; None: that is not known yet."""
    if isinstance(seeker, Model) and not together.are_known(world, seeker):
        return None
    groups = together.placements(world, seeker, lambda name: world.ledger.devices[name].free_bytes)
    return [placement for group in groups for placement in group]


def missing(world: World, seeker: Seeker, name: str, needed: int) -> str | None:
    """What keeps it from a device; None if nothing does."""
    device = world.ledger.devices.get(name)
    if device is None:
        return f"no driver has shown {name} yet"
    if device.lost is not None:
        return f"the driver has lost {device.name}: {device.lost}"
    if device.is_silent(world.now):
        since = duration(world.now - (device.asked or 0.0))
        return f"the driver of {device.name} has not answered for {since}, and nothing is loaded there until it does"
    free = max(0, device.free_bytes)
    if needed <= free:
        return None if device.is_fresh(world.now) else f"a new sample of {device.name} is awaited"
    there_is = f"{amount(device, free)} of {amount(device, device.ceiling_bytes)}"
    told = f"it needs {amount(device, needed)} of {part_of(device)}, where {there_is} are free"
    if coming := leaving_bytes(world, device.name):
        told += f" and {amount(device, coming)} on their way back"
    held = holders(world, device.name, seeker)
    return f"{told}: {'; '.join(held)}" if held else told


def being_made(world: World, seeker: Seeker) -> str:
    """How far its plan has come."""
    plan = world.plans[seeker.key]
    return "room is being made for it: " + "; ".join(victim_of(world, victim) for victim in plan.victims)


def victim_of(world: World, victim: Instance) -> str:
    """How one leaves for it."""
    key = victim.model.key
    if victim.worker.exited is not None:
        return f"{key}: {unseen(world, victim.worker)}"
    if victim.leaving is None:
        return f"{key} is {victim.state}"
    if victim.leaving.drained:
        return f"{key} is ready to leave"
    reason = next((reason for reason in keeps(world, victim) if not reason.startswith("it is leaving")), None)
    return f"{key} is asked whether it is idle" if reason is None else f"{key} is waited for, as {reason}"


def before(world: World, seeker: Seeker) -> list[str]:
    """Who is served first."""
    mine = rank(seeker)
    ahead = sorted((other for other in world.wanting.values() if rank(other) < mine), key=rank)
    if not ahead:
        return []
    named = [other.named for other in ahead[:AHEAD]]
    named += [f"{len(ahead) - AHEAD} more"] if len(ahead) > AHEAD else []
    return [f"before it in the line: {listed(named)}"]
