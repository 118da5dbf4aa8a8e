"""Schedules: tells the core when each model that has one will be needed next.

The core knows no time of day. So each next time is told on its clock, and told anew when it has come, when the
configuration changes, and when the clock was set or the machine has slept.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from lazyd.core.events import Event, Scheduled
from lazyd.core.spec import Config, ModelSpec, Prewarm, PrewarmWhen

log = logging.getLogger("lazyd.schedules")

LOCALTIME = "/etc/localtime"


class Clock(Protocol):
    """What is needed of a `WallClock`."""

    def now(self) -> float: ...

    def monotonic(self, when: float, /) -> float: ...

    def ring_at(self, when: float, on_ring: Callable[[], None], /) -> None: ...


class Schedules:
    """`tell` tells the core. Nothing is imported for it, and no timer runs, where no model has a schedule."""

    def __init__(self, tell: Callable[[Event], None], clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._specs: Sequence[ModelSpec] = ()
        self._told: dict[str, float | None] = {}
        """By model: when it is needed next, in seconds since 1970."""

    def put_in_force(self, config: Config) -> None:
        """The configuration is another one."""
        self._specs = [spec for spec in config.models.values() if spec.prewarm.when is PrewarmWhen.SCHEDULE]
        gone = self._told.keys() - {spec.key for spec in self._specs}
        for key in gone:
            del self._told[key]
            self._tell(Scheduled(model=key, at=None))
        self._look()

    def _look(self) -> None:
        """Tells of all next times, and sets the alarm for the first of them."""
        if not self._specs:
            return
        now = self._clock.now()
        for spec in self._specs:
            due = self._told[spec.key] = next_time(spec.prewarm, now)
            self._tell(Scheduled(model=spec.key, at=None if due is None else self._clock.monotonic(due)))
        first = min((due for due in self._told.values() if due is not None), default=None)
        if first is not None:
            try:
                self._clock.ring_at(first, self._look)
            except OSError as error:
                log.error("schedules are not followed beyond their next time: no timer (%s)", error)


def next_time(prewarm: Prewarm, now: float) -> float | None:
    """The first time after `now` that one of its cron lines names, in its time zone; seconds since 1970. None: there
    is none in the years that the library looks at."""
    return min(filter(None, _next_times(prewarm, now)), default=None)


def _next_times(prewarm: Prewarm, now: float) -> Iterable[float | None]:
    from cronsim import CronSim  # only where there is a schedule

    here = datetime.datetime.fromtimestamp(now, zone_named(prewarm.time_zone))
    for line in prewarm.schedule:
        found = next(CronSim(line, here), None)
        yield found.timestamp() if found is not None else None


def zone_named(name: str | None) -> datetime.tzinfo:
    """A time zone; None: the machine's, by ``TZ`` or ``/etc/localtime`` as for every program, else UTC."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if name := name or os.environ.get("TZ", "").lstrip(":"):
            return ZoneInfo(name)
        with open(LOCALTIME, "rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return datetime.UTC
