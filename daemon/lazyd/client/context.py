"""Under which lease, and until when, the running code itself works.

A worker sets `current_lease` around a call. A model that calls another model then asks with that
lease as the parent, so that the daemon knows who waits for whom: ancestors are never evicted for
their children, and a circle is refused instead of waited for. A thread that a model starts has no
context of its own; `contextvars.copy_context` carries it over. Programs that a worker starts find
the lease in ``$LAZYD_LEASE``.

`current_deadline` is when the call's own client stops waiting. Nested calls end by then too: nobody
wants their answers any more, and the models that run them are wanted by others.
"""

from __future__ import annotations

import os
import time
from contextvars import ContextVar

current_lease: ContextVar[str | None] = ContextVar("current_lease", default=None)
NOT_NESTED = ""
"""In place of a lease: what is asked is nobody's part."""
current_deadline: ContextVar[float | None] = ContextVar("current_deadline", default=None)
"""A time of `time.monotonic`."""


def parent_lease() -> str | None:
    """The lease that a nested request names as its parent, if the caller works under one."""
    lease = current_lease.get()
    if lease == NOT_NESTED:
        return None
    return lease or os.environ.get("LAZYD_LEASE") or None


def within_callers_limit(timeout_s: float | None) -> float | None:
    """A nested call's time limit: what was asked for, and no more than is left to the call that makes it."""
    deadline = current_deadline.get()
    if deadline is None:
        return timeout_s
    left_s = max(0.0, deadline - time.monotonic())
    return left_s if timeout_s is None else min(timeout_s, left_s)
