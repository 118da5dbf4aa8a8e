"""Where a model could be loaded: bookings, the preferred one first.

Devices are data. A prediction says what a load needs on each kind of device; each device of
such a kind that the spec allows is one placement. A family's member needs a place in the
family, and memory only if the family's worker has yet to be started.
"""

from __future__ import annotations

from .ledger import CUDA, SLOTS, Device
from .lives import slots_of
from .records import Model, Prediction
from .world import World

KIND_ORDER = {CUDA: 0}
"""GPUs before host memory."""


def placements(world: World, model: Model) -> list[dict[str, int]]:
    """All bookings that would do; empty if no device is allowed or known."""
    assert isinstance(model.prediction, Prediction)
    place = {slots_of(model.spec.key): 1} if model.spec.is_family and model.spec.max_loaded else {}
    if model.spec.is_family and world.family_worker(model.spec) is not None:
        return [place]
    allowed = [device for device in world.ledger.devices.values() if is_allowed(model, device)]
    allowed.sort(key=lambda device: (KIND_ORDER.get(device.kind, 1), -device.free_bytes, device.name))
    return [{device.name: model.prediction.bytes_by_kind[device.kind], **place} for device in allowed]


def is_allowed(model: Model, device: Device) -> bool:
    """The spec lets the model go there, and the load can say what it needs there."""
    assert isinstance(model.prediction, Prediction)
    if device.kind == SLOTS or device.kind not in model.prediction.bytes_by_kind:
        return False
    return not model.spec.device or device.name in model.spec.device
