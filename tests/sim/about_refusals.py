"""Checks of refusals: each says what is really so. What can be had by waiting is not refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lazyd.core import answers, effects, events
from lazyd.core.spec import ModelSpec

from . import about_locks
from .memory import CUDA, RAM
from .scenario import FIRST_CALL_TIMEOUTS_S

if TYPE_CHECKING:
    from .control import Pending
    from .world import World


def refusals_are_true(world: World, effect: effects.Answer) -> str | None:
    look = LOOKS.get(type(effect.outcome))
    pending = world.control.by_number[effect.request]
    if look is None or look(world, pending, effect.outcome):
        return None
    return f"{pending} is refused with {effect.outcome}"


def _really_has_no_room(world: World, pending: Pending, outcome: answers.NoRoom) -> bool:
    """No device has room beside what cannot leave: what is kept, and, for a nested request, what is busy."""
    if pending.kind is events.LockFiles:
        return about_locks.cannot_be_locked(world, pending, outcome)
    if pending.kind is events.Pin or (pending.fields.get("parent") and _its_turn_is_taken(world, outcome.model)):
        return True
    if not outcome.needed_bytes:
        if _all_are_lost(world, outcome.model):
            return True
        return _waits_for_its_caller(world, pending, outcome.model)
    told = world.manager.told
    spec = told.spec_of(outcome.model)
    if spec is None or told.is_kept(outcome.model):
        return True  # `max_pinned` is another limit.
    if spec.fallback is not None:
        return True  # It was so before the fallback was tried, which has failed as well.
    if spec.is_family and any(worker.key == spec.key for worker in told.workers.values()):
        return True  # It needs a place, not memory.
    if outcome.model in told.ran_out_again:
        return True
    return not any(_could_have(world, pending, spec, device) for device in told.books.seen)


def _could_have(world: World, pending: Pending, spec: ModelSpec, device: str) -> bool:
    """Whether a model would fit on a device, whole, if all that may leave had left."""
    told = world.manager.told
    books, predicted = told.books, told.predicted.get(told.resolve(pending.fields["model"]) or "")
    is_gpu = books.seen[device].kind == CUDA
    forecast = predicted.ways.get("gpu" if is_gpu else "ram") if predicted is not None else None
    if predicted is None or forecast is None or not told.allows(spec, device) or device in books.lost:
        return False
    staying = _who_stays(world, spec.key, with_busy=bool(pending.fields.get("parent")))
    files = {file: n for name in staying if name in books.entries for file, n in books.entries[name].files.items()}
    wanted = {RAM: forecast.peak.ram_bytes + sum((files | ({} if is_gpu else predicted.files)).values())}
    if is_gpu:
        wanted[device] = forecast.peak.gpu_bytes[0]
    for name, n in wanted.items():
        held = sum(books.entries[worker].booking.get(name, 0) for worker in staying if worker in books.entries)
        reserved = sum(held.bytes for held in books.reserved.values() if held.device == name)
        if n + held + reserved > books.sure_most(name):
            return False
    return True


def _all_are_lost(world: World, model: str) -> bool:
    """No device that it may use works."""
    told = world.manager.told
    spec = told.spec_of(model)
    return spec is not None and all(
        device in told.books.lost for device in told.books.seen if told.allows(spec, device)
    )


def _waits_for_its_caller(world: World, pending: Pending, model: str) -> bool:
    """From the model asked for, leases lead to one of the callers: its call would wait for itself."""
    callers = set()
    parent = world.leases.get(pending.fields.get("parent") or "")
    while parent is not None and parent.model not in callers:
        callers.add(parent.model)
        parent = world.leases.get(parent.parent or "")
    reached, further = {model}, [model]
    while further:
        caller = further.pop()
        for lease in world.leases.values():
            above = world.leases.get(lease.parent or "")
            if above is not None and above.model == caller and lease.model not in reached:
                reached.add(lease.model)
                further.append(lease.model)
    return not reached.isdisjoint(callers)


def _its_turn_is_taken(world: World, model: str) -> bool:
    """A model runs one call at a time, and one of its calls has made a nested request."""
    callers = {pending.fields.get("parent") for pending in world.control.by_number.values()}
    callers |= {lease.parent for lease in world.leases.values()}
    for worker in world.every_worker.values():
        known = worker.objects.get(model)
        if known is not None and any(name in callers for name in known.leases):
            return True
    return False


def _who_stays(world: World, but: str, *, with_busy: bool) -> list[str]:
    """The workers that do not leave for a model. News of a call that has begun or ended may be on its way."""
    told, found = world.manager.told, []
    for name, worker in told.workers.items():
        really = world.every_worker[name]
        kept = any(told.is_kept(model) for model in worker.objects if model != but)
        busy = bool(worker.busy) or any(lease.in_flight for lease in really.leases.values())
        if kept or (with_busy and busy):
            found.append(name)
    return found


def _has_failed(world: World, pending: Pending, _: Any) -> bool:
    """A load of it failed, its worker died under it, or nothing was heard of the load for too long."""
    told = world.manager.told
    key = told.resolve(pending.fields["model"]) or ""
    return key in told.has_failed


def _is_unknown(world: World, pending: Pending, _: Any) -> bool:
    names = pending.fields.get("models") or (pending.fields.get("model", ""),)
    return any(world.manager.told.resolve(name) is None for name in names)


def _is_unloaded(world: World, pending: Pending, _: Any) -> bool:
    told = world.manager.told
    key = told.resolve(pending.fields["model"]) or ""
    return any(True for _ in told.unloads_of(told.spec_key(key), key))


def _is_late(world: World, pending: Pending, _: Any) -> bool:
    if pending.deadline is not None:
        return world.clock.now >= pending.deadline
    return world.clock.now >= pending.arrived + min(FIRST_CALL_TIMEOUTS_S)


def _stops(world: World, _: Pending, __: Any) -> bool:
    return world.manager.told.stop_deadline is not None


LOOKS: dict[type[answers.Outcome], Callable[[World, Pending, Any], bool]] = {
    answers.NoRoom: _really_has_no_room,
    answers.LoadFailed: _has_failed,
    answers.ModelNotFound: _is_unknown,
    answers.Cancelled: _is_unloaded,
    answers.Timeout: _is_late,
    answers.Busy: _is_late,
    answers.ShuttingDown: _stops,
}
