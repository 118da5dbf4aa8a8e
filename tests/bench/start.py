"""From starting the daemon to its first answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

from demo.stage import Stage
from lazyd.config.walking import QUIET_S

from .figure import Figure, Goal, Measure, pairs
from .processes import python_time

ROUNDS = 7


def configuration(models: int) -> str:
    """So many models that cost nothing until somebody asks for one."""
    return "\n".join(
        f'[models.m{number:05}]\nruntime = "python"\nfactory = "example.models:load"\n' for number in range(models)
    )


def put_models(stage: Stage) -> None:
    """10,000 files that are models by their names, quiet for long enough to be taken."""
    for directory in range(100):
        below = stage.root / "models" / f"{directory:02}"
        below.mkdir(parents=True)
        for number in range(100):
            (below / f"m{number:02}.gguf").write_text("weights")
    time.sleep(QUIET_S)


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
        with Stage('[discover."models/**/*.gguf"]\n') as found:
            put_models(found)
            found.start()  # the first one looks for them and keeps what it has found
            found.stop()
            ours, floor = pairs(ROUNDS, starting(found), starting(many))
        yield Figure(
            "daemon to first Status, 10,000 files found",
            "ms",
            Goal(times=1.5),
            ours,
            floor,
            "10,000 models written down",
        )
