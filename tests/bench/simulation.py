"""How fast the decision core is, in the simulation at full length."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from tests.sim.runner import run_many

from .figure import Figure, Goal

BASE_SEED = 2


def figures() -> Iterator[Figure]:
    wanted = int(os.environ.get("SIM_EVENTS", "1000000"))
    began = time.perf_counter()
    total = run_many(BASE_SEED, wanted)
    took = time.perf_counter() - began
    yield Figure(
        f"simulation, {total.events:,} events",
        "k/s",
        Goal(),
        [total.events / took / 1000],
        note="all that must hold held after each",
    )
