"""Where a worker loads its model, in the words of its runtime and of the GPU driver.

The ledger counts on each worker keeping to its devices. So the driver shows a worker those alone,
by UUID, as its own numbers change with the order of the cards; and a worker in RAM is shown none.
Whatever a model's own settings say there gives way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lazyd.core.needs import RAM

Uuids = Callable[[str], str | None]
"""The UUID of a device; None for RAM, and for what is not there or has never answered."""

_FIRST = tuple(f"gpu{number}" for number in range(8))
"""If none of these has ever answered there is no GPU."""


def placement(devices: Sequence[str], layers: Mapping[str, int]) -> dict[str, Any]:
    """What the runtime is told: ``on`` a GPU or in RAM, and if it is divided, the ``layers`` of each GPU in
    order, which are the last ``of`` so many where the others stay in RAM."""
    gpus = [device for device in devices if device != RAM]
    if not gpus:
        return {"on": "ram"}
    if not layers:
        return {"on": "gpu"}
    divided = {"on": "gpu", "layers": [layers[device] for device in gpus]}
    return {**divided, "of": sum(layers.values())} if layers.get(RAM) else divided


def environment(devices: Sequence[str], uuids: Uuids) -> dict[str, str]:
    """Variables that show a process these GPUs and no others; none on a machine that has no GPU.

    Raises:
        LookupError: the UUID of a GPU is not known, with a line that says so.
    """
    gpus = [device for device in devices if device != RAM]
    if not gpus and first_gpu(uuids) is None:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(_uuid(gpu, uuids) for gpu in gpus)}


def first_gpu(uuids: Uuids, among: Sequence[str] = _FIRST) -> str | None:
    """The first GPU that has answered; None on a machine without one."""
    return next((gpu for gpu in among if uuids(gpu) is not None), None)


def _uuid(gpu: str, uuids: Uuids) -> str:
    uuid = uuids(gpu)
    if uuid is None:
        raise LookupError(f"the driver does not say what {gpu} is called, so no worker can be kept to it")
    return uuid
