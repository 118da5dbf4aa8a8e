"""What the options shared by all commands say, and the way to the daemon and back to the user."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import click

from .terminal import Look


@dataclass
class Session:
    """One run of lazyctl."""

    socket: str | None = None
    json: bool = False

    @cached_property
    def out(self) -> Look:
        """What standard output can show."""
        return Look.of(sys.stdout)

    @cached_property
    def err(self) -> Look:
        """What standard error can show: progress goes there."""
        return Look.of(sys.stderr)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One request, one reply. Parameters that are None are left out."""
        raise NotImplementedError

    def follow(self, method: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """One request, the replies as they come."""
        raise NotImplementedError

    def say(self, *lines: str) -> None:
        """A result, in words."""
        click.echo("\n".join(lines), color=self.out.colour)

    def print_json(self, reply: Any) -> None:
        """A reply as it came, on one line. JSON is UTF-8 whatever the locale says."""
        from lazyd.wire.varlink import dumps

        click.echo(dumps(reply))
