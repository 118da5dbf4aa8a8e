"""A new configuration: only what changed is disturbed.

A model whose load would now be another one is outdated: it finishes its calls and leaves, and
the next request loads the new one. What is no longer configured leaves likewise. A change of
policy (tier, idle time, pin) is simply in force from now on. So is another warm-up, from the next load on: what
has failed by the old one may be loaded at once.
"""

from __future__ import annotations

from . import fetching, lives, locks, names, plans, promotions, replicas
from .events import Configure
from .ledger import CUDA, SLOTS, Device, slots_of
from .lifecycle import State
from .monitoring import NOTHING
from .records import Model
from .spec import ModelSpec, Tier
from .world import World


def configure(world: World, event: Configure) -> None:
    """Puts a configuration in force."""
    world.config = event.config
    world.specs = replicas.with_replicas(event.config.models)
    promotions.mean_anew(world)
    for model in list(world.models.values()):
        follow(world, model, event.pins)
    for model in list(world.models.values()):
        world.link(names.model_key(model.key))
    for spec in world.specs.values():
        if spec.is_family:
            offer_places(world, spec)
        elif spec.tier is Tier.RESIDENT or spec.pin:
            follow(world, world.find(spec.key), event.pins)
    for key in sorted(event.pins):
        follow(world, world.find(key), event.pins)
    for device in world.ledger.devices.values():
        if device.kind != SLOTS:
            set_budget(world, device)


def users(world: World) -> dict[str, frozenset[str]]:
    """Which specs use a model, by their keys."""
    found: dict[str, set[str]] = {}
    for spec in world.specs.values():
        for name in spec.uses:
            meant = names.resolve(name, world.config.models, world.meanings)
            if meant is not None:
                found.setdefault(meant[0], set()).add(spec.key)
    return {key: frozenset(keys) for key, keys in found.items()}


def follow(world: World, model: Model | None, pins: frozenset[str]) -> None:
    """Makes what is remembered of a model agree with the configuration."""
    if model is None:
        return
    found = names.resolve(model.key, world.specs, {})
    if found is None or found[0] != model.key:
        model.retired = True
        fetching.stop(world, model)
    else:
        spec = found[1]
        if spec is not model.spec and spec.identity != model.identity:
            model.identity = spec.identity
            fetching.stop(world, model)
            model.prediction = None
            model.failures, model.ran_out, model.retry_at = 0, 0, 0.0
            model.past = NOTHING
            locks.end_of(world, model.key, "configuration changed")
        elif spec.warmup != model.spec.warmup and model.unfit:
            model.failures, model.retry_at = 0, 0.0
        if spec.tier is Tier.RESIDENT and model.spec.tier is not Tier.RESIDENT:
            model.dismissed = False
        model.spec = spec
        model.retired = False
        model.pinned = spec.pin or model.key in pins
        if model.state is State.LOADING and model.instance is not None:
            lives.watch_load(world, model.instance)
    locks.follow(world, model)
    world.touch(model)


def offer_places(world: World, spec: ModelSpec) -> None:
    """A family with `max_loaded` has that many places."""
    name = slots_of(spec.key)
    if spec.max_loaded:
        places = spec.max_loaded
        world.ledger.add_device(Device(name=name, kind=SLOTS, total_bytes=places, budget_bytes=places))
    else:
        for plan in [plan for plan in world.plans.values() if name in plan.booking]:
            plans.abandon(world, plan)
        world.ledger.devices.pop(name, None)


def set_budget(world: World, device: Device) -> None:
    """What the settings in force let lazyd use of a device: no more than there is."""
    budget = world.settings.budget.get(device.name, device.total_bytes)
    wanted = int(budget * device.total_bytes) if isinstance(budget, float) else budget
    device.budget_bytes = min(wanted, device.total_bytes)
    device.margin_bytes = world.settings.gpu_margin_bytes if device.kind == CUDA else 0
