"""The entry point: how `lazyctl` starts and ends.

A command lives for some tens of milliseconds, most of which is Python importing click. So no
garbage is looked for while modules are imported, since they are no garbage, and the process
ends without taking them apart again. Together that is a sixth of the time of ``lazyctl status``.

Ctrl-C may come at any moment. While modules are imported there is nothing to tidy up, and the process ends at once;
from then on it is Python's `KeyboardInterrupt`. So this module imports next to nothing before `main` runs.
"""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

INTERRUPTED = 130
"""What shells show for a program that Ctrl-C has ended."""


def main() -> NoReturn:
    """Carry out the command line of this process, and end it."""
    try:
        import signal

        heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell may have it ignored
        if heeded:
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        run = _imported()
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os._exit(run())
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def _imported() -> Callable[[], int]:
    """What carries out a command line, with most of what it needs."""
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None where the descriptor is closed
            stream.reconfigure(errors="replace")  # a name that the locale cannot say is no reason to fail
    from .program import run

    gc.freeze()
    gc.enable()
    return run
