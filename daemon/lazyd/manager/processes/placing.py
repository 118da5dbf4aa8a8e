"""Where a worker loads its model, in the words of its runtime and of the GPU driver.

The ledger counts on each worker keeping to its devices. So the driver shows a worker those alone,
by UUID, as its own numbers change with the order of the cards; and a worker in RAM is shown none.
Whatever a model's own settings say there gives way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazyd.core.needs import RAM

ALL = tuple(f"gpu{number}" for number in range(64))
"""Names that GPUs may have."""


async def _at_once() -> None:
    pass


@dataclass(frozen=True)
class Gpus:
    """What is known of this machine's GPUs when it is asked. Asking does not block; a driver may take seconds to
    make its GPUs ready, so there is also somebody who waits for them."""

    driver: Callable[[], bool] = lambda: False
    """Whether their driver is there, and so GPUs may be, though they have not answered yet."""
    uuid: Callable[[str], str | None] = lambda _device: None
    """By device; None for what is not there or has never answered."""
    until_seen: Callable[[], Awaitable[None]] = _at_once
    """Waits until the core knows of those that there are; not for ever."""

    def first(self, among: Sequence[str] = ALL) -> str | None:
        """The first that has answered."""
        return next((gpu for gpu in among if self.uuid(gpu) is not None), None)

    def environment(self, devices: Sequence[str]) -> dict[str, str]:
        """Variables that show a process the GPUs among these devices and no others; none without a driver.

        Raises:
            LookupError: the UUID of a GPU is not known, with a line that says so.
        """
        gpus = [device for device in devices if device != RAM]
        if not gpus and not self.driver():
            return {}
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(self._known, gpus))}

    def _known(self, gpu: str) -> str:
        uuid = self.uuid(gpu)
        if uuid is None:
            raise LookupError(f"the driver does not say what {gpu} is called, so no worker can be kept to it")
        return uuid


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
