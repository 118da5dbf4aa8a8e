"""Measures everything, or what is named: ``python -m tests.bench [NAME…]``."""

from __future__ import annotations

import compileall
import sys
import time
import traceback
from pathlib import Path

from . import (
    bulk,
    cold,
    commands,
    decisions,
    heartbeat,
    idle,
    kill,
    predictions,
    readiness,
    release,
    report,
    roundtrip,
    simulation,
    start,
    strategies,
    swap,
    warm,
)
from .figure import Figure
from .readiness import asleep

BENCHES = {
    "start": start.figures,
    "commands": commands.figures,
    "roundtrip": roundtrip.figures,
    "bulk": bulk.figures,
    "cold": cold.figures,
    "warm": warm.figures,
    "swap": swap.figures,
    "strategies": strategies.figures,
    "kill": kill.figures,
    "idle": idle.figures,
    "decisions": decisions.figures,
    "release": release.figures,
    "predictions": predictions.figures,
    "heartbeat": heartbeat.figures,
    "readiness": readiness.figures,
    "asleep": asleep.figures,
    "simulation": simulation.figures,
}
CHECKOUT = Path(__file__).resolve().parents[2]
RESULT = CHECKOUT / "build" / "bench.json"


def main() -> None:
    names = sys.argv[1:] or list(BENCHES)
    if unknown := set(names) - set(BENCHES):
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    for package in ("daemon", "cli"):  # as it is where lazyd is installed
        compileall.compile_dir(CHECKOUT / package, quiet=2)
    figures: list[Figure] = []
    broken = 0
    for name in names:
        began = time.monotonic()
        print(f"measuring {name} …", end=" ", flush=True, file=sys.stderr)
        try:
            figures.extend(BENCHES[name]())
        except Exception:
            # The other figures are still worth having.
            broken += 1
            print(traceback.format_exc(), file=sys.stderr)
        print(f"{time.monotonic() - began:.0f} s", flush=True, file=sys.stderr)
    report.draw(figures)
    report.write(figures, RESULT)
    print(f"All samples: {RESULT.relative_to(Path.cwd()) if RESULT.is_relative_to(Path.cwd()) else RESULT}")
    if broken:
        sys.exit(f"{broken} of {len(names)} benchmarks could not be measured")


if __name__ == "__main__":
    main()
