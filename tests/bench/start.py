"""From starting the daemon to its first answer."""

from __future__ import annotations

from collections.abc import Iterator

from demo.stage import Stage

from .figure import Figure, Goal, Measure, pairs
from .processes import python_time

ROUNDS = 7


def configuration(models: int) -> str:
    """So many models that cost nothing until somebody asks for one."""
    return "\n".join(
        f'[models.m{number:05}]\nruntime = "python"\nfactory = "example.models:load"\n' for number in range(models)
    )


def starting(stage: Stage) -> Measure:
    """Measures milliseconds from the start of the process to the answer to `Status`, which lists every model."""

    def measure() -> float:
        took = stage.start()
        stage.stop()
        return took * 1000

    return measure


def figures() -> Iterator[Figure]:
    with Stage(configuration(200)) as few, Stage(configuration(10_000)) as many:
        ours, floor = pairs(ROUNDS, starting(few), python_time("import asyncio"))
        yield Figure("daemon to first Status, 200 models", "ms", Goal(times=2), ours, floor, "python, asyncio imported")
        ours, floor = pairs(ROUNDS, starting(many), starting(few))
        yield Figure("daemon to first Status, 10,000 models", "ms", Goal(times=1.5), ours, floor, "with 200 models")
