"""The entry point: how `lazyctl` starts and ends.

A command lives for some tens of milliseconds, most of which is Python importing click. So no
garbage is looked for while modules are imported, since they are no garbage, and the process
ends without taking them apart again. Together that is a sixth of the time of ``lazyctl status``.
"""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper
from typing import NoReturn


def main() -> NoReturn:
    """Carry out the command line of this process, and end it."""
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None where the descriptor is closed
            stream.reconfigure(errors="replace")  # a name that the locale cannot say is no reason to fail
    from .program import run

    gc.freeze()
    gc.enable()
    status = run()
    os._exit(status)
