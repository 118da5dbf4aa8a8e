"""What a shell command and an import cost."""

from __future__ import annotations

from collections.abc import Iterator

from demo.stage import COMMANDS, Stage

from .figure import Figure, Goal, pairs
from .processes import python_time, run_time
from .start import configuration

ROUNDS = 15


def figures() -> Iterator[Figure]:
    lazyctl = str(COMMANDS / "lazyctl")
    with Stage(configuration(10)) as stage:
        stage.start()
        status = run_time([lazyctl, "--json", "status"], stage.environment)
        ours, floor = pairs(ROUNDS, status, python_time("import click"))
        yield Figure("lazyctl --json status", "ms", Goal(times=1.5), ours, floor, "python, click imported")

        drawn = run_time([lazyctl, "status"], stage.environment)
        ours, floor = pairs(ROUNDS, drawn, python_time("import click, rich"))
        yield Figure("lazyctl status, the table", "ms", Goal(times=1.5), ours, floor, "python, click, rich imported")

    whole, bare = pairs(ROUNDS, python_time("import lazyd"), python_time("pass"))
    yield Figure(
        "import lazyd",
        "ms",
        Goal(value=30),
        [with_it - without for with_it, without in zip(whole, bare, strict=True)],
        note="more than python without it",
    )
