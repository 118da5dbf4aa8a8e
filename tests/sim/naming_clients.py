"""What clients do on a day of names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lazyd.core import answers
from lazyd.worker.records import Lease

if TYPE_CHECKING:
    from .naming import Day


class Session:
    """A lease, and a few calls under it."""

    def __init__(
        self, day: Day, granted: answers.Granted, name: str, sticky: str | None, ended: Callable[[], None]
    ) -> None:
        self.day, self.granted, self.name, self.sticky, self.ended = day, granted, name, sticky, ended
        self.is_open = True
        self.left = day.rng.randint(1, 12)
        self.process = day.processes.get(granted.worker)
        self.lease: Lease | None = None

    def begin(self) -> None:
        if self.process is not None and not self.process.gone:
            self.lease, actions = self.process.rules.present(self.granted.token, self)
            self.day.act(self.process, actions)
        self._call()

    def _call(self) -> None:
        """The next call; if it is not admitted, the client asks anew."""
        process, lease, day = self.process, self.lease, self.day
        if process is None or lease is None or process.gone or not self.is_open:
            return self._again()
        admitted, actions = process.rules.begin(lease, day.now)
        day.act(process, actions)
        if not admitted:
            self._hang_up()
            return self._again()
        return day.at(day.rng.uniform(0.01, 2.0), self._answered)

    def _answered(self) -> None:
        process, lease, day = self.process, self.lease, self.day
        assert process is not None
        assert lease is not None
        if not process.gone:
            day.act(process, process.rules.end(lease, day.now, ok=True))
        self.left -= 1
        if self.left and day.at_work:
            day.at(day.rng.expovariate(1.0), self._call)
        else:
            self._hang_up()
            day.at(day.rng.expovariate(0.5), self.ended)

    def _again(self) -> None:
        if self.day.at_work:
            self.day.get(self.name, self.sticky, lambda granted: self._with(granted))

    def _with(self, granted: answers.Granted) -> None:
        Session(self.day, granted, self.name, self.sticky, self.ended).begin()

    def _hang_up(self) -> None:
        self.is_open = False
        if self.process is not None and self.lease is not None and not self.process.gone:
            self.day.act(self.process, self.process.rules.closed(self.lease, self.day.now))
