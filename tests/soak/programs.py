"""Programs that reserve memory and use it: each a process of its own, as the daemon knows them by their pids.

They are forked from one process that has everything imported, which is told by a line of JSON what each is to
do. What becomes of them is told in the same way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazyd
from tests.fakes.nvml import MIB, OutOfMemory, StandIn

ROOT = Path(__file__).parents[2]
END_S = 60.0


class Programs:
    """The process that forks them. `tell` hears each line that a program says, in a thread."""

    def __init__(self, environment: dict[str, str], tell: Callable[[dict[str, Any]], None]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.programs"],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._tell = tell
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, **words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        """Waits for the last one."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_S)
        self._reader.join(END_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._tell(json.loads(line))


# In the process itself.


def say(**words: Any) -> None:
    """A short line: those of several processes do not mix."""
    os.write(1, (json.dumps({"pid": os.getpid(), "at": time.monotonic(), **words}) + "\n").encode())


def run(words: dict[str, Any]) -> None:
    """One program, from its reservation to its end."""
    driver = StandIn.of_environment()
    asked = time.monotonic()
    say(what="asks", words=words)
    try:
        reservation = lazyd.connect().reserve(
            f"gpu{words['gpu']}", words["mib"] * MIB, wait=words["waits"], timeout=words["timeout_s"]
        )
        reservation.__enter__()
    except lazyd.LazydError as error:
        say(what="refused", error=type(error).__name__, text=str(error), took_s=time.monotonic() - asked, words=words)
        return
    say(what="holds", took_s=time.monotonic() - asked, words=words)
    uses = int(words["mib"] * words["uses"])
    try:
        for step in range(words["steps"]):
            mib = uses * (step + 1) // words["steps"] - uses * step // words["steps"]
            driver.allocate(words["gpu"], mib * MIB)
            time.sleep(words["every_s"])
    except OutOfMemory:
        say(what="ran out")
    except OSError:
        say(what="has lost its GPU")
    if words["ends"] == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if words["ends"] == "frees":
        say(what="ends", lost=str(reservation.lost) if reservation.lost else None)
        reservation.close()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they have ended
    for line in sys.stdin:
        if os.fork() == 0:
            try:
                run(json.loads(line))
            except BaseException as error:
                say(what="failed", error=repr(error))
            finally:
                os._exit(0)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
