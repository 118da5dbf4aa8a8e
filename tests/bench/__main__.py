"""Measures everything, or what is named: ``python -m tests.bench [NAME…]``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from . import cold, commands, idle, kill, report, roundtrip, start
from .figure import Figure

BENCHES = {
    "start": start.figures,
    "commands": commands.figures,
    "roundtrip": roundtrip.figures,
    "cold": cold.figures,
    "kill": kill.figures,
    "idle": idle.figures,
}
RESULT = Path(__file__).resolve().parents[2] / "build" / "bench.json"


def main() -> None:
    names = sys.argv[1:] or list(BENCHES)
    if unknown := set(names) - set(BENCHES):
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    figures: list[Figure] = []
    for name in names:
        began = time.monotonic()
        print(f"measuring {name} …", end=" ", flush=True, file=sys.stderr)
        figures.extend(BENCHES[name]())
        print(f"{time.monotonic() - began:.0f} s", flush=True, file=sys.stderr)
    report.draw(figures)
    report.write(figures, RESULT)
    print(f"All samples: {RESULT.relative_to(Path.cwd()) if RESULT.is_relative_to(Path.cwd()) else RESULT}")


if __name__ == "__main__":
    main()
