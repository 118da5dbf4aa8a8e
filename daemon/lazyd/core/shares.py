"""What the reservations of one user may hold of a device together: `max_reserved` of its budget.

A wish that is more than that by itself is refused. One that is too much beside what its user holds waits, and so
does who came after it of the same user: else small ones could keep a large one waiting for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from .ledger import Device
from .records import Reservation
from .wording import size
from .world import World


def is_held_back(world: World, wish: Reservation) -> bool:
    """It waits for the end of its user's other reservations. Nobody leaves for it till then."""
    return wish.waits and is_beyond(world, wish)


def is_beyond(world: World, wish: Reservation) -> bool:
    """Whether it, or one of its user's that came before it, is too much beside what he holds of its device."""
    device = world.ledger.devices.get(wish.device)
    if device is None:
        return False
    left = allowed(world, device) - held(world, wish)
    return wish.bytes > left or any(left < other.bytes <= allowed(world, device) for other in before(world, wish))


def allowed(world: World, device: Device) -> int:
    """Bytes of a device that one user may reserve."""
    return int(device.budget_bytes * world.settings.max_reserved)


def held(world: World, wish: Reservation) -> int:
    """Bytes that the user of a wish holds of its device."""
    return sum(other.bytes for other in world.reservations.values() if is_of_same(other, wish))


def before(world: World, wish: Reservation) -> Iterator[Reservation]:
    """The wishes of its user for its device that came before one; all, if it is not in the line yet."""
    for other in world.wanting.values():
        if other is wish:
            return
        if isinstance(other, Reservation) and is_of_same(other, wish):
            yield other


def is_of_same(other: Reservation, wish: Reservation) -> bool:
    return (other.holder, other.device) == (wish.holder, wish.device)


def rule(world: World, device: Device) -> str:
    part = f"{world.settings.max_reserved:.0%}"
    return f"reservations of one user may hold {part} of {device.name} together (max_reserved)"


def why(world: World, wish: Reservation, device: Device) -> str:
    """What one that is held back waits for."""
    return f"{rule(world, device)}, and this user has {size(held(world, wish))} of it already"
