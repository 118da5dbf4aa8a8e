"""What loading a model will need: bytes in RAM and on GPUs, for each way in which it can be loaded.

A way is ``ram`` or ``gpu`` (whole on one device), or divided layer by layer: ``gpu 20+12`` puts 20
layers on one GPU and 12 on the next, ``gpu 20/33`` the last 20 of 33 on a GPU and the rest in RAM.
"""

from __future__ import annotations

import re

import msgspec

RAM = "ram"
GPU = "gpu"
MOST_BYTES = 1 << 50
"""No device has a petabyte: who tells of more is not believed."""


class Need(msgspec.Struct, frozen=True):
    """Bytes that one worker holds."""

    ram_bytes: int = 0
    """Anonymous and shared memory. Pages of files that it maps are counted apart, see `Predicted.files`."""
    gpu_bytes: tuple[int, ...] = ()
    """On each GPU that it is loaded on, in order."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is expected of one way of loading."""

    peak: Need
    """From admission until it is ready."""
    service: Need | None = None
    """From then on, once that has been learned; it is never more than `peak`."""
    source: str = "file size"
    """``learned``, ``declared``, ``dry run``, ``file size`` or ``default``."""
    factor: float | None = None
    """How much more loads of this runtime have taken than was estimated from their files, where that was made
    use of here."""


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """How a model can be divided. Layer by layer its weights and its cache lie where it is computed."""

    gpu_layer_bytes: tuple[int, ...]
    """Of each layer, in order, on a GPU; the output layer is the last."""
    ram_layer_bytes: tuple[int, ...]
    """The same in RAM, without the weights if these are mapped from a file."""
    gpu_bytes: int
    """On each GPU beside its layers: what is computed in, and the driver's own."""
    ram_bytes: int
    """In RAM however it is divided."""

    @property
    def count(self) -> int:
        return len(self.gpu_layer_bytes)


def divided_over(parts: tuple[int, ...]) -> str:
    """The name of a way: so many layers on each GPU, in order."""
    return f"{GPU} {'+'.join(map(str, parts))}"


def offloaded(count: str, of: int) -> str:
    """The name of a way: the last `count` layers of all `of` on GPUs (``20``, or ``20+12`` on two)."""
    return f"{GPU} {count}/{of}"


_DIVIDED = re.compile(r"gpu (\d+(?:\+\d+)*)(?:/\d+)?", re.ASCII)


def maps_files(way: str) -> bool:
    """Whether any of it is in RAM, where the files of a model that maps them are booked, too."""
    return way == RAM or "/" in way


def gpus_of(way: str) -> int | None:
    """How many GPUs a way takes; None if nothing is loaded in a way of this name."""
    if way in (RAM, GPU):
        return int(way == GPU)
    divided = _DIVIDED.fullmatch(way)
    return divided[1].count("+") + 1 if divided else None
