"""What it is worth to learn when a model is needed: cold starts and memory x time, beside a fixed keep-alive.

- `traces.py` histories of use, by written recipes
- `policies.py` what a policy costs on them
- `scenarios.py` what is compared with what
- `plot.py` the picture in the docs
- `speed.py` what learning costs itself
- `asleep.py` what it costs to know when 10,000 models will be needed while none of them is

``python -m tests.bench.readiness`` prints the whole table (some minutes), with ``--svg FILE`` it draws, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..figure import Figure, Goal
from . import policies, scenarios, speed

SHORT = ("timers, 15 min to 6 h", "timers with 3 to 10 calls a run", "Poisson, 2 min to 12 h", "bursts", "heavy tails")
PRICES_S = (200.0, 400.0, 600.0, 1200.0, 3000.0)


def figures() -> Iterator[Figure]:
    """A short form: fewer models, days and prices."""
    chosen = [scenario for scenario in scenarios.alone(3, 4) if scenario.name in SHORT]
    with policies.processes() as pool:
        for scenario in [scenarios.mix(100, 1.5), *chosen]:
            result = scenarios.compare(scenario, pool, PRICES_S)
            yield Figure(
                f"{scenario.name}: cold starts",
                "",
                Goal(times=scenario.goal),
                [result.cold],
                [result.base.cold],
                floor_name="10 min keep-alive, equal memory x time",
                note=f"hindsight, holding only: {result.by_holding:,.0f}; loading ahead: {result.foreseen.cold:,}",
            )
            yield Figure(
                f"{scenario.name}: cold starts, as it is",
                "",
                Goal(times=scenarios.NO_WORSE),
                [result.as_it_is.cold],
                [result.base.cold],
                floor_name="10 min keep-alive",
                note=f"in {result.as_it_is.held_s / result.base.held_s:.2f} x its memory x time",
            )
    yield from speed.figures()
