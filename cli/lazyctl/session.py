"""What the options shared by all commands say, and the way to the daemon and back to the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from .terminal import Look, for_stderr, one_line

if TYPE_CHECKING:
    from lazyd.client import Client
    from lazyd.client.blocking.driver import Driver
    from lazyd.client.requests import Requests

Reply = dict[str, Any]

LOOK_S = 10.0
"""A daemon that is restarted answers again within this time."""


class Session:
    """One run of lazyctl.

    Requests are made with the client library's rules for the control socket (`lazyd.client.requests`: it
    reconnects and repeats) and without the rest of it, which a command that calls no model need not import.
    Replies are plain dicts as they came, so that ``--json`` hides nothing that this version does not know.
    """

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

    def ask(
        self,
        method: str,
        *,
        timeout_s: float | None = None,
        on_reply: Callable[[Reply], object] | None = None,
        **parameters: Any,
    ) -> Reply:
        """One request; returns its last reply, with `on_reply` told of those before it.

        Parameters that are None are left out. Raises `LazydError`.
        """
        from lazyd.client.requests import Request

        request = Request(method, parameters, timeout_s=timeout_s, more=on_reply is not None)
        requests, driver = self._control
        return driver.run(requests.ask(request, on_reply))

    def look(self, method: str, **parameters: Any) -> Reply:
        """One request that looks at the daemon, which answers such at once. One that has stopped never does.

        Raises `LazydError`, of these `Unavailable` where there is no answer.
        """
        from lazyd.errors import Timeout, Unavailable

        try:
            return self.ask(method, timeout_s=LOOK_S, **parameters)
        except Timeout:
            requests, _ = self._control
            reason = f"no answer within {LOOK_S:.0f} s"
            raise Unavailable(socket=requests.socket, reason=reason) from None

    def follow(self, method: str, **parameters: Any) -> Generator[Reply, None, None]:
        """One request, its replies as they come."""
        from lazyd.client.requests import Request

        request = Request(method, parameters, more=True)
        requests, driver = self._control
        control, reply = driver.run(requests.begin(request))
        try:
            yield reply.get("parameters") or {}
            while reply.get("continues"):
                reply = driver.run(requests.more(control, request))
                yield reply.get("parameters") or {}
        finally:
            requests.end(control, over=not reply.get("continues"))

    def client(self) -> Client:
        """The whole client library, for commands that call a model."""
        from lazyd.client import Client

        return Client(self.socket)

    def say(self, *lines: str) -> None:
        """A result, in words."""
        click.echo("\n".join(lines), color=self.out.colour)

    def say_degraded(self, why: str | None) -> None:
        """If a model's fallback has answered, one line on standard error, beside the result."""
        if why is not None:
            click.echo(self.err.paint(one_line(f"degraded: {why}"), "yellow"), err=True, color=self.err.colour)

    def note(self, line: str) -> None:
        """One line on standard error, beside the result."""
        lines = [self.err.paint(part, "dim") for part in for_stderr(one_line(line))]
        click.echo("\n".join(lines), err=True, color=self.err.colour)

    def print_json(self, reply: Any) -> None:
        """A reply as it came, on one line. JSON is UTF-8 whatever the locale says."""
        from lazyd.wire.varlink import dumps

        click.echo(dumps(reply))

    @cached_property
    def _control(self) -> tuple[Requests, Driver]:
        from lazyd.client.blocking.driver import Driver
        from lazyd.client.requests import Requests
        from lazyd.places import client_socket

        requests = Requests(client_socket(self.socket))
        return requests, Driver(requests.socket)
