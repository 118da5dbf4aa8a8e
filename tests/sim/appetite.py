"""What models really need, by the way in which they are loaded, and what is foretold of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lazyd.core.needs import Forecast, Layers, Need

from .memory import RAM


@dataclass(frozen=True, slots=True)
class Appetite:
    """Bytes by way, at the peak of a load; the rest of its life is told in parts of that."""

    whole: dict[str, Need]
    """``ram`` and ``gpu``, as far as they are possible."""
    layers: Layers | None = None
    """How it is divided, if it can be."""
    files: dict[str, int] = field(default_factory=dict)
    """Files that it maps while any of it is in RAM."""
    rest: float = 1.0
    """Once it is ready, and before its first call."""
    service: float = 1.0
    """From its first call on."""
    context: float = 0.1
    """What stays on a GPU while it is parked."""
    kept: float = 0.5
    """What goes to RAM then, of what it had on GPUs."""

    def on(self, order: Iterable[str], layers: dict[str, int]) -> dict[str, int]:
        """Bytes by device at the peak, loaded on these devices, GPUs first."""
        gpus = [name for name in order if name != RAM]
        need = self.whole["gpu" if gpus else "ram"] if not layers else self.divided([layers[gpu] for gpu in gpus])
        found = dict(zip(gpus, need.gpu_bytes, strict=True))
        if need.ram_bytes or not gpus:
            found[RAM] = need.ram_bytes
        return found

    def divided(self, counts: list[int]) -> Need:
        """With so many of its last layers on GPUs, in order, and the others in RAM."""
        assert self.layers is not None
        first = self.layers.count - sum(counts)
        ram = self.layers.ram_bytes + sum(self.layers.ram_layer_bytes[:first])
        on_gpus = []
        for count in counts:
            on_gpus.append(self.layers.gpu_bytes + sum(self.layers.gpu_layer_bytes[first : first + count]))
            first += count
        return Need(ram_bytes=ram, gpu_bytes=tuple(on_gpus))

    @property
    def most(self) -> float:
        """The highest that it ever needs, in parts of the peak of its load."""
        return max(1.0, self.service)

    def foretold(self, error: float, source: str) -> dict[str, Forecast]:
        """What is predicted, wrong by a factor."""
        return {way: Forecast(peak=times(need, self.most * error), source=source) for way, need in self.whole.items()}

    def foretold_layers(self, error: float) -> Layers | None:
        """The same, layer by layer."""
        if self.layers is None:
            return None
        factor = self.most * error
        return Layers(
            gpu_layer_bytes=tuple(part(n, factor) for n in self.layers.gpu_layer_bytes),
            ram_layer_bytes=tuple(part(n, factor) for n in self.layers.ram_layer_bytes),
            gpu_bytes=part(self.layers.gpu_bytes, factor),
            ram_bytes=part(self.layers.ram_bytes, factor),
        )


def part(n: int, factor: float) -> int:
    """Rounded up, so that sums of parts are never less than the part of a sum."""
    return int(-(-n * factor // 1))


def times(need: Need, factor: float) -> Need:
    return Need(ram_bytes=part(need.ram_bytes, factor), gpu_bytes=tuple(part(n, factor) for n in need.gpu_bytes))


def divisible(whole: int, count: int, *, maps: bool) -> Layers:
    """Layers of a model that needs so much on one GPU: a tenth of it is needed on each GPU however it is divided."""
    base, in_ram = whole // 10, whole // 20
    each = (whole - base) // count
    return Layers(
        gpu_layer_bytes=(each,) * (count - 1) + (whole - base - each * (count - 1),),
        ram_layer_bytes=(each // 4 if maps else each,) * count,
        gpu_bytes=base,
        ram_bytes=in_ram,
    )
