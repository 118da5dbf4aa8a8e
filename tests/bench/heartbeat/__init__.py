"""The heartbeat: a trading system that every commit starts anew, without lazyd and with it, in one run.

``python -m tests.bench.heartbeat`` tells the whole story and draws the table of where the wish for lazyd came from,
``python -m tests.bench heartbeat`` a short one, among the other figures.

- `application` the trading system; nothing in it is made for the benchmark but the lines that it prints
- `commits` one commit: a process that starts, beats, and is killed by the next commit
- `sides` the machine without lazyd and with it: what runs there, and the memory that it holds
- `clock` how waiting is compressed
- `story` so many commits at each interval, on both sides
- `table`, `figures` what came of it
"""

from .figures import figures

__all__ = ["figures"]
