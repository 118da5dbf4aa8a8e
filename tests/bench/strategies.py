"""200 strategies as a family: what the first call of one costs beyond its load, and looking at all of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from examples.stage import Example
from examples.strategies.__main__ import HERE
from examples.strategies.strategies import NAMES, history, load

from .figure import Figure, Goal

LOOKS = 50


def figures() -> list[Figure]:
    """Measured on the example's own configuration and strategies."""
    prices = history("market", 60)
    bare = [milliseconds(lambda name=name: load(name).signal(prices)) for name in NAMES]  # type: ignore[misc]
    with Example(HERE) as example:
        example.start()
        example.wait_until_running()
        with example.client() as client:
            client.call(f"strategy/{NAMES[0]}", "signal", prices)  # the process of all of them starts with the first
            client.unload(f"strategy/{NAMES[0]}")
            client.call(f"strategy/{NAMES[1]}", "signal", prices)
            rest = NAMES[2:]
            ours = [milliseconds(lambda name=name: client.call(f"strategy/{name}", "signal", prices)) for name in rest]  # type: ignore[misc]
            looks = [milliseconds(client.status) for _ in range(LOOKS)]
    beyond = [ours - own for ours, own in zip(ours, bare[2:], strict=True)]
    return [
        Figure("first call of a strategy, beyond its load", "ms", Goal(value=10.0), beyond),
        Figure(f"status, {len(NAMES)} strategies ready", "ms", Goal(value=20.0), looks),
    ]


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - began)
