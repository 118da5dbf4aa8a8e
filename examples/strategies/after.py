"""The heartbeat of a trading system, as it is: ``python -m examples.strategies.after s007 s042``."""

import json
import sys

import lazyd

from .strategies import history, load

strategy = lazyd.lazy("strategy/*", load, maxsize=10)


def heartbeat(names: list[str]) -> dict[str, float]:
    return {name: strategy(name).signal(history("market", 60)) for name in names}


if __name__ == "__main__":
    print(json.dumps(heartbeat(sys.argv[1:])))
