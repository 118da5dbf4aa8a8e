"""What can go wrong with a fetch. Each says it in one line."""

from __future__ import annotations


class Failed(Exception):
    """It is given up, and not tried again by itself."""


class Unreachable(Failed):
    """The server was not reached, or broke off: what is here already may serve, and later it may work."""


class NoRanges(Unreachable):
    """The server has answered with something else than the range that was asked for."""


class Changed(Exception):
    """The file is another one than the one that was begun."""


class Stopped(Exception):
    """Nobody wants it any more."""
