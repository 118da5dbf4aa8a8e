"""Under which lease the running code itself works.

A worker sets `current_lease` around a call. A model that calls another model then asks with that
lease as the parent, so that the daemon knows who waits for whom: ancestors are never evicted for
their children, and a circle is refused instead of waited for. A thread that a model starts has no
context of its own; `contextvars.copy_context` carries it over. Programs that a worker starts find
the lease in ``$LAZYD_LEASE``.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

current_lease: ContextVar[str | None] = ContextVar("current_lease", default=None)


def parent_lease() -> str | None:
    """The lease that a nested request names as its parent, if the caller works under one."""
    return current_lease.get() or os.environ.get("LAZYD_LEASE") or None
