"""The entry point: how `lazyctl` starts and ends.

A command lives for some tens of milliseconds, most of which is Python importing click. So no
garbage is looked for while modules are imported, since they are no garbage, and the process
ends without taking them apart again. Together that is a sixth of the time of ``lazyctl status``.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Carry out the command line of this process, and end it."""
    gc.disable()
    from .program import run

    gc.freeze()
    gc.enable()
    status = run()
    sys.stderr.flush()
    os._exit(status)
