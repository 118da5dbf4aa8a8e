"""What the options shared by all commands say, and the way to the daemon and back to the user."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import click

from .terminal import Look


class Session:
    """One run of lazyctl."""

    def __init__(self, socket: str | None = None, json: bool = False) -> None:
        self.socket = socket
        self.json = json

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
        for r in self.follow(method, _more=False, **parameters):
            return r

    def follow(self, method: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """One request, the replies as they come."""
        import socket

        from lazyd import places
        from lazyd.errors import Unavailable, from_varlink
        from lazyd.wire.varlink import Splitter, encode

        more = parameters.pop("_more", True)
        limit = parameters.pop("limit_s", None)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(limit)
        p = places.client_socket(self.socket)
        try:
            s.connect(p)
        except OSError as e:
            raise Unavailable(socket=p, reason=e.strerror) from None
        s.sendall(
            encode(
                {
                    "method": "io.lazyd." + method,
                    "parameters": {k: v for k, v in parameters.items() if v is not None},
                    "more": more,
                }
            )
        )
        sp = Splitter()
        while d := s.recv(65536):
            for m in sp.feed(d):
                if m.get("error"):
                    raise from_varlink(m["error"], m["parameters"])
                yield m["parameters"]
                if not m.get("continues"):
                    return

    def say(self, *lines: str) -> None:
        """A result, in words."""
        click.echo("\n".join(lines), color=self.out.colour)

    def print_json(self, reply: Any) -> None:
        """A reply as it came, on one line. JSON is UTF-8 whatever the locale says."""
        from lazyd.wire.varlink import dumps

        click.echo(dumps(reply))
