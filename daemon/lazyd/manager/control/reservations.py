"""Reservations: memory for programs that lazyd does not run, held by the connections of those who asked.

`Reserve` is answered when the memory is the client's. From then on the connection is the reservation:
when it ends, because the client closes it or dies, the memory is free again. It also ends when this
manager does, but that is not the client's doing: the next manager finds the reservation kept by the
host, and the client claims it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from functools import partial

from lazyd.core import events
from lazyd.core.answers import Outcome, Reserved
from lazyd.core.records import Reservation
from lazyd.errors import NoSuchDevice
from lazyd.varlink import parameters as given_for
from lazyd.varlink.call import Call

from ..driver import Driver
from .requests import Requests, deadline_of, refuse

LONGEST_COMMAND = 200
"""Characters of a command that are kept to be shown."""


class Reservations:
    """Which connection holds which reservation.

    `devices` are the names of all there are, and `seen` is done when GPUs are among them; `are_all` says whether
    the driver has shown all of them; `reserved` are all reservations by their ids; `is_ending` tells whether this
    manager is about to leave.
    """

    def __init__(
        self,
        driver: Driver,
        requests: Requests,
        *,
        devices: Callable[[], Container[str]],
        seen: asyncio.Future[None],
        are_all: Callable[[], bool],
        reserved: Callable[[], Mapping[str, Reservation]],
        is_ending: Callable[[], bool],
    ) -> None:
        self._driver = driver
        self._requests = requests
        self._devices = devices
        self._seen = seen
        self._are_all = are_all
        self._reserved = reserved
        self._is_ending = is_ending
        self._held: dict[str, object] = {}
        """By id: a token for each time that it was granted or claimed."""

    def reserve(self, call: Call, given: given_for.Reserve) -> None:
        """Answers when the reservation is held, or refused.

        Raises:
            NoSuchDevice: the machine has none of this name.
        """
        if self._knows(given) or self._seen.done():
            self._reserve(call, given)
        else:  # a driver may take seconds to show its GPUs
            self._seen.add_done_callback(lambda _: self._reserve_late(call, given))

    def _reserve_late(self, call: Call, given: given_for.Reserve) -> None:
        if call.ended:
            return
        try:
            self._reserve(call, given)
        except NoSuchDevice as error:
            call.fail_with(error)

    def _reserve(self, call: Call, given: given_for.Reserve) -> None:
        """Raises `NoSuchDevice`. While a driver does not answer, nobody knows, and the core says so."""
        if not self._knows(given) and self._are_all():
            raise NoSuchDevice(device=given.device)
        number = self._requests.open(partial(self._answered, call))
        self._driver.tell(
            events.Reserve(
                request=number,
                device=given.device,
                bytes=given.bytes,
                holder=call.peer.uid,
                pid=max(call.peer.pid, 0),
                deadline=deadline_of(given.timeout_sec),
                wait=given.wait is not False,
                resume=given.resume,
                command=shown_command(given.command),
            )
        )
        if not call.ended:
            call.on_gone = partial(self._requests.cancel, number)

    def _knows(self, given: given_for.Reserve) -> bool:
        """Whether there is such a device; what was reserved once is on one, even if no driver has shown it yet."""
        resumed = self._reserved().get(given.resume or "")
        return given.device in self._devices() or (resumed is not None and resumed.device == given.device)

    def _answered(self, call: Call, outcome: Outcome) -> None:
        if not isinstance(outcome, Reserved):
            refuse(call, outcome)
            return
        token = self._held[outcome.reservation] = object()
        call.until_closed(partial(self._closed, outcome.reservation, token))
        call.reply(outcome)

    def _closed(self, reservation: str, token: object) -> None:
        """The connection has ended. Another one may have claimed the reservation meanwhile."""
        if self._held.get(reservation) is not token:
            return
        del self._held[reservation]
        if not self._is_ending():
            self._driver.tell(events.Unreserve(reservation=reservation))


def shown_command(command: str | None) -> str | None:
    """What a client says that the memory is for, on one line and not too long."""
    words = " ".join("".join(c if c.isprintable() else " " for c in command or "").split())
    return (words if len(words) <= LONGEST_COMMAND else words[: LONGEST_COMMAND - 1] + "…") or None
