"""Who stands in the line for room: models that are to be loaded, and reservations.

What the line (`room.py`) needs to know of them differs by kind, and stands here: where they could go,
what happens when there is room, and when there never will be.
"""

from __future__ import annotations

from . import (
    fallbacks,
    fetching,
    held_up,
    lives,
    parking,
    plans,
    refusals,
    requests,
    reservations,
    routes,
    samples,
    shares,
    shortage,
    swaps,
    together,
)
from .answers import NoRoom
from .effects import Predict
from .ledger import RAM, dry_run_of
from .placement import Placement, Room, allowed, shapes
from .records import Absent, Asked, Model, Prediction, Seeker
from .world import World

DRY_RUN_BYTES = 192 << 20
"""A runtime's dry run makes no weights, but has its library and the model's vocabulary in memory."""


def is_known(world: World, seeker: Seeker) -> bool:
    """Whether it is known what it needs, and what it uses needs. If not, that is asked."""
    if not isinstance(seeker, Model):
        return True
    known = [is_known_alone(world, model) for model in (*together.missing(world, seeker), seeker)]
    return all(known)


def is_known_alone(world: World, model: Model) -> bool:
    """The same without what it uses. A parked model may have been found on a GPU that no driver has shown yet."""
    if model.instance is not None and parking.is_parked(model):
        return all(name in world.ledger.devices for name in model.instance.worker.gpus)
    return is_predicted(world, model)


def is_predicted(world: World, model: Model) -> bool:
    """Whether it is known what a load would need. If not, that is asked."""
    if model.prediction is None and shortage.is_looked_into(world, model):
        return False
    if model.prediction is None and (RAM not in world.ledger.devices or samples.are_fresh(world, [RAM])):
        foresee(world, model)
    if isinstance(model.prediction, Absent):
        fetching.begin(world, model, model.prediction)
    return isinstance(model.prediction, Prediction)


def foresee(world: World, model: Model) -> None:
    """Asks what a load would need. A dry run has its RAM until that is answered, even if it is of no use any more."""
    world.predictions += 1
    dry_run = world.ledger.fits({RAM: DRY_RUN_BYTES})
    if dry_run:
        world.ledger.book(dry_run_of(model.key, world.predictions), {RAM: DRY_RUN_BYTES})
    model.prediction = Asked(world.predictions)
    world.emit(Predict(model=model.key, number=world.predictions, dry_run=dry_run))


def goes_elsewhere(world: World, seeker: Seeker, room: Room, *, is_barred: bool) -> bool:
    """A parked model that cannot come back now could be had elsewhere, or on one of several GPUs where it was: then it
    is ended, to load there. If its way back is barred for good, it is enough that there may be room some time. So it
    is decided what happens next, as it is while one has yet to find out what it would need there, and what there is.
    """
    if not isinstance(seeker, Model) or seeker.instance is None or not parking.is_parked(seeker):
        return False
    if not is_predicted(world, seeker):  # an earlier manager has loaded it
        return True
    if not samples.are_news(world, may_go_to(world, seeker)):
        return True
    worker = seeker.instance.worker
    others = (p for shape in shapes(world, seeker, room) for p in shape if (p.way, p.gpus) != (worker.way, worker.gpus))
    possible = [p for p in others if never(world, seeker, p) is None]
    if not (possible if is_barred else any(world.ledger.fits(p.booking) for p in possible)):
        return False
    lives.unload(world, seeker.instance, "it can be had elsewhere, and not where it was")
    return True


def comes_later(world: World, seeker: Seeker) -> bool:
    """One that takes another's place is loaded when that has left, if it is so configured. A resident that nobody waits
    for is loaded when those of higher priority are, so that these are there sooner."""
    if not isinstance(seeker, Model):
        return False
    if seeker.after is not None and swaps.waits_for_old(seeker):
        return True
    if seeker.waiters or not seeker.stands:
        return False
    return any(
        other.spec.priority > seeker.spec.priority and is_on_its_way(world, other) for other in world.residents()
    )


def is_on_its_way(world: World, resident: Model) -> bool:
    """It loads, or will as soon as there is room."""
    is_next = resident.key in world.wanting and resident.refused is None and resident.retry_at <= world.now
    return resident.loading or is_next


def waits(world: World, seeker: Seeker) -> bool:
    """Somebody waits in it for room. A resident that was refused, or is paused after a failure, only stands in it; so
    does what others answer for meanwhile."""
    if not isinstance(seeker, Model) or seeker.waiters:
        return True
    return not routes.is_background(seeker) and seeker.refused is None and seeker.retry_at <= world.now


def never(world: World, seeker: Seeker, placement: Placement) -> NoRoom | None:
    """Why a placement can never be had as things stand; None: it may be some time."""
    if isinstance(seeker, Model):
        return refusals.never(world, seeker, placement)
    return reservations.not_any_more(world, seeker)


def is_held_back(world: World, seeker: Seeker) -> bool:
    """Whether it is a reservation that waits for the end of its user's others: then no room is made for it yet."""
    if isinstance(seeker, Model) or not shares.is_held_back(world, seeker):
        return False
    if reservations.not_any_more(world, seeker) is not None:
        return False  # it is to be refused
    plans.drop(world, seeker)
    return True


def sets_aside(world: World, seeker: Seeker) -> bool:
    """Whether the bytes freed next are its own once it has waited for long: what never fits is refused, if it is a
    model, and keeps nobody from them, if it is a reservation."""
    return isinstance(seeker, Model) or not reservations.is_hopeless(world, seeker)


def may_go_to(world: World, seeker: Seeker) -> list[str]:
    """The devices on which it is decided where it goes, and whether it goes anywhere."""
    if isinstance(seeker, Model):
        return [device.name for device in allowed(world, seeker)]
    return [seeker.device]


def take(world: World, seeker: Seeker, placement: Placement) -> None:
    """There is room for it."""
    if isinstance(seeker, Model):
        together.begin(world, seeker, placement)
    else:
        reservations.take(world, seeker)


def presses(world: World, seeker: Seeker) -> bool:
    """Whether others may be made to leave for it. Not for a fallback while the wanted model is in the line for room."""
    return not isinstance(seeker, Model) or not wanted_ahead(world, seeker)


def wanted_ahead(world: World, model: Model) -> list[Model]:
    """The models in the line for which this one is the fallback, if nobody wants it for itself."""
    if not model.waiters or model.stands or not all(map(fallbacks.stands_in, model.waiters)):
        return []
    detours = [waiter.detour for waiter in model.waiters if waiter.detour is not None]
    found = {detour.wanted.key: detour.wanted for detour in detours if detour.refusal is None}
    return [wanted for key, wanted in found.items() if key in world.wanting]


def meant_for_wanted(world: World, seeker: Seeker) -> dict[str, int] | None:
    """What a fallback leaves alone of each device: what the model in whose place it stands may take there. None: that
    is not known yet."""
    aside: dict[str, int] = {}
    if not isinstance(seeker, Model) or (seeker.waiters and seeker.waiters[0].detour is None):
        return aside
    for wanted in wanted_ahead(world, seeker):
        placements = held_up.wanted_of(world, wanted)
        if placements is None:
            return None
        needs: dict[str, int] = {}
        for placement in placements:
            for name, n in placement.booking.items():
                needs[name] = max(n, needs.get(name, 0))
        for name, n in needs.items():
            aside[name] = aside.get(name, 0) + n
    return aside


def refuse(world: World, seeker: Seeker, refusal: NoRoom) -> None:
    """Answers all who wait, and nobody leaves for them. A resident stays in the line, and that it has no room is
    noted once."""
    plans.drop(world, seeker)
    if not isinstance(seeker, Model):
        reservations.refuse(world, seeker, refusal)
        return
    if seeker.waiters or seeker.refused is None:
        world.note("no room", seeker, refusal.reason)
    seeker.refused = seeker.last_error = refusal.reason
    requests.answer_all(world, seeker, refusal)
