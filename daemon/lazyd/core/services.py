"""What the configuration says of a service: a program with a port, besides its command.

Plain data for the worker that runs it; the rules know only `Stop.grace_s`, which adds to the time that its worker
gets to leave.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Http(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to the service."""

    path: str
    method: str = "POST"
    json: Any = None
    """Its body; ``None``: none."""


class Deed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How something is had from the service."""

    http: Http


class Ready(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a service shows that it is ready, once its port is open: by that alone, or by one of these as well."""

    http: str | None = None
    """A path that is answered with a status below 400."""
    line: str | None = None
    """A regular expression that is found in a line of its output."""
    port: bool | None = None
    elsewhere: bool = False
    """Its port is opened by a process that it did not start, as docker's is."""


class Busy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it is known that a service still works, although no request is under way."""

    http: str
    """A path that answers with an object as JSON."""
    fields: tuple[str, ...]
    """It works as long as one of these fields is there and not empty, 0, false or null. Dots lead into objects."""


class Stop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a service is ended, before what is left of it is killed."""

    signal: str = "SIGTERM"
    grace_s: float = 10.0
    command: tuple[str, ...] = ()
    """Run before the signal."""
