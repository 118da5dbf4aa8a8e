"""Tells the story; exits 0 if all of it was true, else 1, and 130 after Ctrl-C."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from . import screen
from .stage import Failed, Stage
from .story import CONFIGURATION, Story


def main() -> int:
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    try:
        with Stage(CONFIGURATION, columns=screen.WIDTH - len(screen.INDENT)) as stage:
            screen.title(f"lazyd on real models, privately in {stage.root}")
            try:
                Story(stage).tell()
            except Failed as problem:
                screen.failure(str(problem))
                if log := stage.log_tail():
                    screen.remark("The end of lazyd's log:")
                    screen.output(log)
                return 1
    except KeyboardInterrupt:
        screen.failure("interrupted; everything that was started is stopped")
        return 130
    screen.remark("")
    screen.remark("All that was started is stopped, and the directory is gone.")
    return 0


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """A request to end is as good as Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
