"""What a manager costs that has nothing to do."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from demo.stage import Stage

from .figure import Figure, Goal
from .processes import resident_bytes, wakeups
from .start import configuration

SETTLE_S = 3.0
WATCH_S = 15.0
NOTHING_TO_DO = (
    "import asyncio\nasync def main():\n print(flush=True)\n await asyncio.Event().wait()\nasyncio.run(main())"
)


def figures() -> Iterator[Figure]:
    with (
        Stage(configuration(200)) as stage,
        subprocess.Popen([sys.executable, "-c", NOTHING_TO_DO], stdout=subprocess.PIPE) as bare,
    ):
        try:
            stage.start()
            assert bare.stdout is not None
            bare.stdout.readline()
            time.sleep(SETTLE_S)
            assert stage.manager is not None
            ours, floor = stage.manager.pid, bare.pid
            before = wakeups(ours), wakeups(floor)
            time.sleep(WATCH_S)
            after = wakeups(ours), wakeups(floor)
            yield Figure(
                "idle manager, resident, 200 models",
                "MB",
                Goal(value=35),
                [resident_bytes(ours) / 1e6],
                [resident_bytes(floor) / 1e6],
                "a bare asyncio program",
            )
            yield Figure(
                "idle manager, wake-ups",
                "1/s",
                Goal(value=1),
                [(after[0] - before[0]) / WATCH_S],
                [(after[1] - before[1]) / WATCH_S],
                "a bare asyncio program",
            )
        finally:
            bare.kill()
