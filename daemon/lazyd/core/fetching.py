"""Models whose files are not on this machine yet: they are fetched before anything is booked for them.

The answer to the effect `Predict` says that the files are absent, and what is known of them already (a file's
head can be read where it lies). What could not be loaded in any case is refused at once; for all else the effect
`Fetch` begins a download, which holds no memory, however long it takes. When it is done, what a load needs is asked
anew, of the files themselves.

    None -> Asked -> Absent -> Fetching -> None -> Asked -> Prediction

A download belongs to the manager, as a load does: it goes on when nobody waits any more. An unload by name, and a
configuration in which the model is another one or gone, end it.
"""

from __future__ import annotations

from . import refusals, requests, samples, seekers, together, waiting
from .answers import NoRoom
from .effects import Fetch, StopFetching
from .events import Fetched, Renewed
from .events import Fetching as Progressed
from .lifecycle import State
from .placement import shapes
from .records import Absent, Fetching, Model
from .world import World


def begin(world: World, model: Model, absent: Absent) -> None:
    """Has it fetched, unless it would find no room when it is there."""
    refusal = hopeless(world, model, absent)
    if refusal is None:
        model.prediction, model.refused = Fetching(absent.number), None
        world.note("fetching", model)
        world.emit(Fetch(model=model.key, number=absent.number))
        tell(world, model)
    elif samples.are_news(world, seekers.may_go_to(world, model)) and (model.waiters or model.stands):
        seekers.refuse(world, model, refusal)


def hopeless(world: World, model: Model, absent: Absent) -> NoRoom | None:
    """Why it can never be loaded as things stand, as far as its head tells; None: it may be, some time."""
    if not absent.prediction.ways:
        return None
    model.prediction = absent.prediction  # for as long as it takes to look where it could go
    try:
        groups = shapes(world, model, lambda name: world.ledger.devices[name].free_bytes)
        refused = [refusals.never(world, model, placement) for group in groups for placement in group]
        if not refused:
            return refusals.no_device(world, model, together.without_device(world, model))
    finally:
        model.prediction = absent
    return refusals.together(filter(None, refused)) if all(refused) else None


def progressed(world: World, event: Progressed) -> None:
    """So much of it is here."""
    model = fetched_for(world, event)
    if model is not None:
        model.prediction = Fetching(event.number, event.fraction)
        tell(world, model)


def fetched(world: World, event: Fetched) -> None:
    """All of it is here: now its needs can be told."""
    model = fetched_for(world, event)
    if model is not None:
        model.prediction = None
        world.touch(model)


def renewed(world: World, event: Renewed) -> None:
    """What it was loaded from has changed where it comes from; the new files are here. It leaves when it is idle."""
    for worker in world.workers.values():
        if event.model in worker.instances:
            worker.stale = True
            for instance in worker.instances.values():
                world.touch(instance.model)


def stop(world: World, model: Model) -> None:
    """It is not wanted any more, or is another one now."""
    if isinstance(model.prediction, Fetching):
        world.emit(StopFetching(model=model.key, number=model.prediction.number))
    if isinstance(model.prediction, Fetching | Absent):
        model.prediction = None


def fetched_for(world: World, event: Progressed | Fetched) -> Model | None:
    """The model that is fetched; None if that was stopped meanwhile."""
    model = world.models.get(event.model)
    now = model.prediction if model is not None else None
    return model if isinstance(now, Fetching) and now.number == event.number else None


def tell(world: World, model: Model) -> None:
    """News for those who wait for it."""
    waiting.tell(world, model, str(State.LOADING), requests.phase(model), fraction(model))


def fraction(model: Model) -> float | None:
    """How much of it has been fetched, while it is."""
    return model.prediction.fraction if isinstance(model.prediction, Fetching) else None
