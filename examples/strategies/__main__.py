"""``python -m examples.strategies``: a heartbeat that is restarted all the time no longer loads 200 strategies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from demo import screen

from ..stage import LIMIT_S, Example, check, run, timed
from .strategies import NAMES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WATCHED = ["s007", "s042", "s101"]


def heartbeat(example: Example, version: str, names: list[str]) -> dict[str, float]:
    """A process of its own, as each restart makes one; its environment says where lazyd is."""
    done = subprocess.run(
        [sys.executable, "-m", f"examples.strategies.{version}", *names],
        cwd=ROOT,
        env=example.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    check(done.returncode == 0, f"the heartbeat failed: {done.stderr}")
    signals: dict[str, float] = json.loads(done.stdout)
    return signals


def story(example: Example) -> None:
    screen.step(1, f"As it was: every start loads all {len(NAMES)} strategies, and then {len(WATCHED)} of them work")
    expected, took = timed(lambda: heartbeat(example, "before", WATCHED))
    screen.result(f"a heartbeat takes {took}")

    screen.step(2, "With lazyd.lazy over the same loader: the first one loads what it asks for")
    signals, took = timed(lambda: heartbeat(example, "after", WATCHED))
    check(signals == expected, f"{signals}, not {expected}")
    screen.result(f"a heartbeat takes {took}")

    screen.step(3, "Restarted, it finds them in memory")
    signals, took = timed(lambda: heartbeat(example, "after", WATCHED))
    check(signals == expected, f"{signals}, not {expected}")
    check(ready(example) == len(WATCHED), f"{ready(example)} strategies are ready")
    screen.result(f"a heartbeat takes {took}")

    screen.step(4, "All of them, once")
    signals, took = timed(lambda: heartbeat(example, "after", list(NAMES)))
    check(len(signals) == len(NAMES), f"{len(signals)} signals")
    _, looked = timed(lambda: example.ask("Status"))
    check(ready(example) == len(NAMES), f"{ready(example)} strategies are ready")
    screen.result(f"{len(NAMES)} strategies in one process after {took}; asking for their status takes {looked}")

    screen.step(5, "The same program where there is no lazyd")
    example.stop()
    signals, took = timed(lambda: heartbeat(example, "after", WATCHED))
    check(signals == expected, f"{signals}, not {expected}")
    screen.result(f"it loads them itself: a heartbeat takes {took}")


def ready(example: Example) -> int:
    return sum(state == "ready" for name, state in example.states().items() if "*" not in name)


if __name__ == "__main__":
    run(HERE, "A trading system of 200 strategies", story)
