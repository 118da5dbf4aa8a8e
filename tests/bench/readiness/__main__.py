"""The whole comparison: ``python -m tests.bench.readiness [--svg FILE] [--models N] [--days N] [--mix-days N]``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from . import plot, policies, scenarios
from .scenarios import Result

DRAWN = (scenarios.MIX_NAME, "timers, 15 min to 6 h", "Poisson, 2 min to 12 h")
COLUMNS = (
    "callers", "cold, fixed", "model-hours", "as it is: cold", "memory", "equal memory: cold", "goal",
    "equal cold: memory", "holding in hindsight", "known beforehand",
)  # fmt: skip
"""*As it is*: with the daemon's own price. The last two columns are the bounds: cold starts in as much memory if one
held in hindsight what is worth it, and what is left if every use were known beforehand."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.readiness")
    parser.add_argument("--svg", type=Path, help="draws there")
    parser.add_argument("--models", type=int, default=1000, help="in the mix (1000)")
    parser.add_argument("--days", type=float, default=7.0, help="of each kind of caller alone (7)")
    parser.add_argument("--mix-days", type=float, default=3.0, help="of the mix (3)")
    asked = parser.parse_args()
    results: list[Result] = []
    print(row(COLUMNS), row(["---", *["---:"] * (len(COLUMNS) - 1)]), sep="\n")
    with policies.processes() as pool:
        for scenario in [*scenarios.alone(8, asked.days), scenarios.mix(asked.models, asked.mix_days)]:
            results.append(scenarios.compare(scenario, pool))
            print(line(results[-1]), flush=True)
    if asked.svg:
        drawn = [next(result for result in results if result.scenario.name == name) for name in DRAWN]
        asked.svg.write_text(plot.svg(drawn))


def line(result: Result) -> str:
    base, as_it_is = result.base, result.as_it_is
    cells = (
        result.scenario.name,
        f"{base.cold:,}",
        f"{base.held_s / 3600:,.0f}",
        f"{as_it_is.cold / base.cold:.2f} ×",
        f"{as_it_is.held_s / base.held_s:.2f} ×",
        f"{result.cold_ratio:.2f} ×",
        f"≤ {result.scenario.goal:g}",
        f"{result.held_ratio:.2f} ×",
        f"{result.by_holding / base.cold:.2f} ×",
        f"{result.foreseen.cold:,} in {result.foreseen.held_s / 3600:,.0f} h",
    )
    return row(cells)


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
