"""What a manager finds out about a model before a load, and what it has learned of earlier ones.

What was learned lies in a file, so the next manager knows it. The highest counts, as the next life
may need as much again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import effects, events
from lazyd.core.needs import Forecast, Need

if TYPE_CHECKING:
    from .world import World

LOOKING_S, DRY_RUN_S = 0.02, 0.3
ROUGHER = 1.5
"""A file's size tells less than a dry run: it is wrong by so much more, where predictions are wrong."""


class Predicting:
    def __init__(self, world: World) -> None:
        self.world = world
        self.learned: dict[tuple[str, str], dict[str, tuple[Need, Need | None]]] = {}
        """By key and identity of a spec: peak and peak in service of each way."""

    def predict(self, effect: effects.Predict) -> None:
        manager = self.world.manager
        takes_s = self.world.rng.uniform(0.0, DRY_RUN_S if effect.dry_run else LOOKING_S)
        self.world.clock.after(takes_s, self._answer, effect, manager.epoch)

    def _answer(self, effect: effects.Predict, epoch: int) -> None:
        manager = self.world.manager
        if epoch != manager.epoch:
            return
        key = manager.told.spec_key(effect.model)
        spec = manager.told.config.models.get(key)
        if spec is None:
            reason = "it is not configured any more"
            manager.tell(events.Unpredictable(model=effect.model, number=effect.number, reason=reason))
            return
        character = self.world.character(key)
        if character.unreadable and self.world.faults:
            manager.tell(events.Unpredictable(model=effect.model, number=effect.number, reason="no such file"))
            return
        absent = self.world.fetching.is_absent(key)
        if absent and not self.world.fetching.head_tells():
            manager.tell(events.Predicted(model=effect.model, number=effect.number, ways={}, absent=True))
            return
        error, source = character.error, "dry run" if effect.dry_run else "file size"
        if not effect.dry_run:
            error = 1.0 + (error - 1.0) * ROUGHER
        ways = character.appetite.foretold(error, source)
        for way, (peak, service) in self.learned.get((key, spec.identity), {}).items():
            ways[way] = Forecast(peak=peak, service=service, source="learned")
        manager.tell(
            events.Predicted(
                model=effect.model,
                number=effect.number,
                ways=ways,
                layers=character.appetite.foretold_layers(error),
                files=self.world.files_of(key),
                absent=absent,
            )
        )

    def learn(self, effect: effects.Learn) -> None:
        ways = self.learned.setdefault((effect.model, effect.identity), {})
        peak, service = ways.get(effect.way, (Need(), None))
        if effect.service is not None:
            service = higher(service or Need(), effect.service)
        ways[effect.way] = higher(peak, effect.peak), service


def higher(one: Need, other: Need) -> Need:
    """The more of both, device by device."""
    count = max(len(one.gpu_bytes), len(other.gpu_bytes))
    gpus = zip(*(need.gpu_bytes + (0,) * (count - len(need.gpu_bytes)) for need in (one, other)), strict=True)
    return Need(ram_bytes=max(one.ram_bytes, other.ram_bytes), gpu_bytes=tuple(max(pair) for pair in gpus))
