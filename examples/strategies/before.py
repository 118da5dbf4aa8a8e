"""The heartbeat of a trading system, as it was: ``python -m examples.strategies.before s007 s042``."""

import json
import sys

from .strategies import NAMES, history, load

STRATEGIES = {name: load(name) for name in NAMES}
strategy = STRATEGIES.__getitem__


def heartbeat(names: list[str]) -> dict[str, float]:
    return {name: strategy(name).signal(history("market", 60)) for name in names}


if __name__ == "__main__":
    print(json.dumps(heartbeat(sys.argv[1:])))
