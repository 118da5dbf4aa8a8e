"""TOML files -> an accepted `lazyd.core.spec.Config`, or every problem with file, key and remedy.

Imported by the manager (and by ``lazyctl config check``); imports `lazyd.core.spec`, `lazyd.places`
and `lazyd.durable` alone of the rest. `keys` is the table that says which keys there are; `loading` is what a caller
wants; `accepted` is the quick form in the state directory. What only the files themselves
need (tomllib, the table of keys) is imported when they are really read.
"""

from .changes import Changes, diff, differ
from .files import Files, find
from .loading import Loaded, Origin, accept, check, load, load_for_start
from .problems import Problem

__all__ = [
    "Changes",
    "Files",
    "Loaded",
    "Origin",
    "Problem",
    "accept",
    "check",
    "diff",
    "differ",
    "find",
    "load",
    "load_for_start",
]
