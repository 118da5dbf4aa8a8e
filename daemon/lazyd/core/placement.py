"""Where a model could be loaded: the shapes that a load can take, the preferred one first.

1. Whole on one GPU: on the one that a model used with it is on (`beside`), else where it fits and leaves
   the least free.
2. Divided over several GPUs, if its runtime can, over as few as possible.
3. Partly on GPUs, as many layers as there is room for now, and the rest in RAM.
4. In RAM.

A spec's `device` may rule any of them out. A prediction says what each needs. A family's member needs
a place in the family, and memory only if the family's worker has yet to be started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from . import names
from .ledger import CUDA, HOST, SLOTS, Device, Ledger, slots_of
from .needs import GPU, RAM, Forecast, Layers, Need, divided_over, offloaded
from .records import Model, Prediction, Worker
from .world import World

Room = Callable[[str], int]
"""How much of a device there would be."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One way of loading, on certain devices."""

    booking: dict[str, int]
    """What must be free: by device, with places of a family, and with files that nobody maps yet."""
    worker: dict[str, int] = field(default_factory=dict)
    """What its worker is booked with until it is ready; empty if it joins one."""
    service: dict[str, int] | None = None
    """What it is booked with from then on."""
    files: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    way: str = ""
    layers: dict[str, int] = field(default_factory=dict)
    parts: tuple[tuple[Model, Placement], ...] = ()
    """If it stands for a model and what that uses: each of them, see `together`. `booking` and `files` are for all."""

    def parts_of(self, model: Model) -> tuple[tuple[Model, Placement], ...]:
        """All that it stands for, what is used before what uses it; `model` alone, if that uses nothing."""
        return self.parts or ((model, self),)

    def beside(self, ledger: Ledger, lasting: Collection[str]) -> dict[str, int]:
        """What must be free when all have left but those who map these files: others may map its files now."""
        files = sum(size for file, size in self.files.items() if file in ledger.mapped and file not in lasting)
        return {**self.booking, RAM: self.booking.get(RAM, 0) + files} if files else self.booking

    @property
    def rank(self) -> int:
        """How far down in the order of preference it stands; the same for all of a group."""
        if self.way == RAM:
            return 3
        return 2 if "/" in self.way else 1 if "+" in self.way else 0

    @property
    def devices(self) -> tuple[str, ...]:
        """GPUs first, in order."""
        return tuple(self.worker)

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(name for name in self.worker if name != RAM)


def shapes(world: World, model: Model, room: Room) -> list[list[Placement]]:
    """All that would do, in groups of equal preference. `room` says what there is of a GPU now, or will
    be without anybody's being asked to leave."""
    assert isinstance(model.prediction, Prediction)
    if model.spec.is_family and world.family_worker(model.spec) is not None:
        return [[Placement(booking=places_for(model), places=places_for(model))]]
    gpus = [device for device in allowed(world, model) if device.kind == CUDA]
    found = [whole(world, model, gpus, room), divided(world, model, gpus, room)]
    if any(device.kind == HOST for device in allowed(world, model)):
        found += [partly(world, model, gpus, room), in_ram(world, model)]
    return [shape for shape in found if shape]


def allowed(world: World, model: Model) -> list[Device]:
    """The devices that its spec lets it use, and that work."""
    wanted = model.spec.device
    return [
        device
        for device in world.ledger.devices.values()
        if device.kind != SLOTS
        and device.lost is None
        and (not wanted or device.name in wanted or (device.kind == CUDA and GPU in wanted))
    ]


def places_for(model: Model) -> dict[str, int]:
    """A member's place in its family, where these are limited."""
    return {slots_of(model.spec.key): 1} if model.spec.is_family and model.spec.max_loaded else {}


def whole(world: World, model: Model, gpus: list[Device], room: Room) -> list[Placement]:
    """On one GPU: beside its companions, else the best fit, else where most is free."""
    forecast = prediction_of(model).ways.get(GPU)
    if forecast is None:
        return []
    needed = forecast.peak.gpu_bytes[0]
    beside = companions(world, model)

    def order(gpu: Device) -> tuple[bool, bool, int, str]:
        left = room(gpu.name) - needed
        return (gpu.name not in beside, left < 0, left if left >= 0 else -left, gpu.name)

    return [place(world, model, GPU, forecast, [gpu.name]) for gpu in sorted(gpus, key=order)]


def companions(world: World, model: Model) -> set[str]:
    """The devices of the models that it is used with: by name, by alias, or a whole family."""
    workers = (worker_of(world, name) for name in model.spec.beside)
    return {device for worker in workers if worker is not None for device in world.ledger.held(worker.id)}


def worker_of(world: World, name: str) -> Worker | None:
    """The process of what a name means, if it is in memory."""
    spec = world.config.models.get(name)
    if spec is not None and spec.is_family:
        return world.family_worker(spec)
    meant = names.resolve(name, world.config.models, world.meanings)
    model = world.models.get(meant[0]) if meant is not None else None
    return model.instance.worker if model is not None and model.instance is not None else None


def divided(world: World, model: Model, gpus: list[Device], room: Room) -> list[Placement]:
    """Over several GPUs, as they are now, or else as they could be if all that may leave had left."""
    layers = prediction_of(model).layers
    gpus = [gpu for gpu in gpus if not gpu.alone]
    if layers is None or len(gpus) < 2:
        return []
    for there_is in (room, lambda name: world.ledger.devices[name].limit_bytes):
        counts = spread(layers, gpus, there_is)
        if len(counts) > 1 and sum(counts.values()) == layers.count:
            way = divided_over(tuple(counts.values()))
            return [place(world, model, way, expected(model, way, layers, counts), list(counts), layers=counts)]
    return []


def partly(world: World, model: Model, gpus: list[Device], room: Room) -> list[Placement]:
    """As many layers as fit now on GPUs, the last ones, and the rest in RAM. Those that a process can only use
    alone are tried one by one, the roomiest first."""
    layers = prediction_of(model).layers
    ram = host_device(world)
    if layers is None or ram is None:
        return []
    alone = sorted((gpu for gpu in gpus if gpu.alone), key=lambda gpu: -room(gpu.name))
    found: list[Placement] = []
    for chosen in ([gpu for gpu in gpus if not gpu.alone], *([gpu] for gpu in alone)):
        counts = spread(layers, chosen, room)
        on_gpus = sum(counts.values())
        if 0 < on_gpus < layers.count:
            way = offloaded("+".join(map(str, counts.values())), layers.count)
            divided = {**counts, ram.name: layers.count - on_gpus}
            forecast = expected(model, way, layers, divided)
            found.append(place(world, model, way, forecast, list(counts), layers=divided))
    return found


def in_ram(world: World, model: Model) -> list[Placement]:
    forecast = prediction_of(model).ways.get(RAM)
    return [] if forecast is None else [place(world, model, RAM, forecast, [])]


def spread(layers: Layers, gpus: Iterable[Device], room: Room) -> dict[str, int]:
    """How many layers go to which GPU: the roomiest take as many as they can, so that few are needed.
    What is left over stays in RAM: the first layers, as the runtime puts the last ones on GPUs."""
    counts: dict[str, int] = {}
    left = layers.count
    for gpu in sorted(gpus, key=lambda gpu: (-room(gpu.name), gpu.name)):
        free = room(gpu.name) - layers.gpu_bytes
        count = 0
        while left and free >= layers.gpu_layer_bytes[left - 1]:
            free -= layers.gpu_layer_bytes[left - 1]
            left, count = left - 1, count + 1
        if count:
            counts[gpu.name] = count
    return dict(reversed(counts.items()))  # the last layers went to the roomiest, which comes last


def expected(model: Model, way: str, layers: Layers, counts: dict[str, int]) -> Forecast:
    """What a divided load needs: as learned, or added up layer by layer."""
    learned = prediction_of(model).ways.get(way)
    if learned is not None:
        return learned
    ends = layers.count
    by_gpu: list[int] = []
    for name, count in reversed(counts.items()):
        if name != RAM:
            by_gpu.append(layers.gpu_bytes + sum(layers.gpu_layer_bytes[ends - count : ends]))
            ends -= count
    need = Need(ram_bytes=layers.ram_bytes + sum(layers.ram_layer_bytes[:ends]), gpu_bytes=tuple(reversed(by_gpu)))
    return Forecast(peak=need)


def place(
    world: World, model: Model, way: str, forecast: Forecast, gpus: list[str], *, layers: dict[str, int] | None = None
) -> Placement:
    """A forecast put on devices."""
    ram = host_device(world)
    maps = way == RAM or (layers is not None and RAM in layers)
    files = prediction_of(model).files if maps and ram is not None else {}
    worker = on_devices(forecast.peak, gpus, ram)
    places = places_for(model)
    booking = {**worker, **places}
    if files and ram is not None:
        booking[ram.name] = booking.get(ram.name, 0) + world.ledger.unmapped(files)
    return Placement(
        booking=booking,
        worker=worker,
        service=None if forecast.service is None else on_devices(forecast.service, gpus, ram),
        files=files,
        places=places,
        way=way,
        layers=layers or {},
    )


def on_devices(need: Need, gpus: list[str], ram: Device | None) -> dict[str, int]:
    """Bytes by device, GPUs first."""
    booking = dict(zip(gpus, need.gpu_bytes, strict=True))
    if ram is not None and (need.ram_bytes or not gpus):
        booking[ram.name] = need.ram_bytes
    return booking


def host_device(world: World) -> Device | None:
    return next((device for device in world.ledger.devices.values() if device.kind == HOST), None)


def prediction_of(model: Model) -> Prediction:
    assert isinstance(model.prediction, Prediction)
    return model.prediction
