"""A process that goes through a load without loading, tells what that would have taken, and ends.

It is born like a worker and waits for its first order; this order makes it something else. What
native code does with a model that it cannot simulate, abort or hang, is then the end of nobody else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..runtimes import runtime_named
from . import process
from .calls import one_line

if TYPE_CHECKING:
    from .link import Link


def run(host: Link, spec: dict[str, Any], gpus: dict[str, str]) -> None:
    """Answers the host ``{"is": "dry_run", "result": …, "reason": …}``, one of both None; never returns.

    `gpus` are the variables that say which GPUs are shown: a zygote that is shown others serves all the same.
    """
    process.set_name("lazyd:dry run")
    os.environ.update(gpus)
    result, reason = None, None
    try:
        runtime = runtime_named(spec["runtime"])
        if runtime.dry_run is None:
            reason = f"the runtime {runtime.name} has no dry run"
        else:
            result = runtime.dry_run(spec)
    except BaseException as error:
        reason = one_line(error)
    host.send({"is": "dry_run", "result": result, "reason": reason})
    os._exit(0)
