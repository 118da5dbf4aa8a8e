"""Cron lines become times of the core's clock, whatever happens to the time of day."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from zoneinfo import ZoneInfo

import pytest

from lazyd.core.events import Event, Scheduled
from lazyd.core.spec import Config, ModelSpec, Prewarm, PrewarmWhen
from lazyd.manager.readiness import schedules
from lazyd.manager.readiness.schedules import Schedules, next_time
from lazyd.manager.readiness.wallclock import WallClock

from ..waiting import until


def by(*lines: str, time_zone: str | None = "UTC") -> Prewarm:
    return Prewarm(when=PrewarmWhen.SCHEDULE, schedule=lines, time_zone=time_zone)


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def named(when: float | None, zone: str = "UTC") -> str:
    assert when is not None
    return datetime.datetime.fromtimestamp(when, ZoneInfo(zone)).isoformat()


class Clock:
    """A time of day that a test sets; the monotonic one is `awake_s` behind it."""

    def __init__(self, now: float) -> None:
        self.day = now
        self.awake_s = now - 1000.0
        self.alarm: float | None = None
        self.ring: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.day

    def monotonic(self, when: float) -> float:
        return when - self.awake_s

    def ring_at(self, when: float, on_ring: Callable[[], None]) -> None:
        self.alarm, self.ring = when, on_ring


class Core(list[Scheduled]):
    def tell(self, event: Event) -> None:
        assert isinstance(event, Scheduled)
        self.append(event)


def config(**models: Prewarm) -> Config:
    return Config(models={name: ModelSpec(name=name, runtime="python", prewarm=when) for name, when in models.items()})


def test_the_next_time_of_several_lines_is_the_earliest() -> None:
    now = moment("2026-12-02T09:31:10")
    assert named(next_time(by("*/5 9-15 * * mon-fri", "0 12 * * *"), now)) == "2026-12-02T09:35:00+00:00"
    assert named(next_time(by("0 12 * * *", "*/5 13 * * *"), now)) == "2026-12-02T12:00:00+00:00"


def test_a_time_that_has_just_come_is_not_the_next_one() -> None:
    assert named(next_time(by("35 9 * * *"), moment("2026-12-02T09:35:00"))) == "2026-12-03T09:35:00+00:00"


def test_a_schedule_is_in_its_own_time_zone() -> None:
    now = moment("2026-12-02T00:00:00")
    assert named(next_time(by("0 9 * * *", time_zone="Asia/Shanghai"), now)) == "2026-12-02T01:00:00+00:00"


def test_without_a_zone_the_machines_own_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    now = moment("2026-12-02T00:00:00")
    assert named(next_time(by("0 9 * * *", time_zone=None), now)) == "2026-12-02T14:00:00+00:00"
    monkeypatch.delenv("TZ")
    monkeypatch.setattr(schedules, "LOCALTIME", "/nowhere")
    assert named(next_time(by("0 9 * * *", time_zone=None), now)) == "2026-12-02T09:00:00+00:00"


def test_where_the_clock_springs_forward_a_time_that_is_left_out_comes_as_the_clock_springs() -> None:
    berlin = "Europe/Berlin"
    now = moment("2027-03-27T12:00:00", berlin)  # at 02:00 the next night it becomes 03:00
    assert named(next_time(by("30 2 * * *", time_zone=berlin), now), berlin) == "2027-03-28T03:00:00+02:00"
    assert named(next_time(by("0 9 * * *", time_zone=berlin), now), berlin) == "2027-03-28T09:00:00+02:00"


def test_where_the_clock_falls_back_a_daily_time_comes_once() -> None:
    berlin = "Europe/Berlin"
    now = moment("2026-10-24T12:00:00", berlin)  # at 03:00 the next night it becomes 02:00
    first = next_time(by("30 2 * * *", time_zone=berlin), now)
    assert named(first, berlin) == "2026-10-25T02:30:00+02:00"
    assert first is not None
    assert named(next_time(by("30 2 * * *", time_zone=berlin), first), berlin) == "2026-10-26T02:30:00+01:00"


def test_the_core_is_told_on_its_own_clock_and_anew_when_the_time_has_come() -> None:
    core, clock = Core(), Clock(moment("2026-12-02T08:00:00"))
    Schedules(core.tell, clock).put_in_force(config(a=by("0 9 * * *"), b=Prewarm()))
    assert core == [Scheduled(model="a", at=1000.0 + 3600.0)]
    assert clock.alarm == moment("2026-12-02T09:00:00")
    clock.day += 3600.0
    clock.ring()
    assert core[1:] == [Scheduled(model="a", at=1000.0 + 25 * 3600.0)]


def test_when_the_clock_is_set_or_the_machine_has_slept_all_times_are_told_anew() -> None:
    core, clock = Core(), Clock(moment("2026-12-02T08:00:00"))
    Schedules(core.tell, clock).put_in_force(config(a=by("0 9 * * *")))
    clock.day += 1800.0
    clock.awake_s += 1800.0  # half an hour that no monotonic clock has seen
    clock.ring()
    assert core[1:] == [Scheduled(model="a", at=1000.0 + 1800.0)]


def test_a_schedule_that_is_taken_away_is_over() -> None:
    core, clock = Core(), Clock(moment("2026-12-02T08:00:00"))
    times = Schedules(core.tell, clock)
    times.put_in_force(config(a=by("0 9 * * *")))
    times.put_in_force(config(a=Prewarm()))
    assert core[1:] == [Scheduled(model="a", at=None)]


def test_without_schedules_no_timer_runs() -> None:
    clock = Clock(0.0)
    Schedules(Core().tell, clock).put_in_force(config(a=Prewarm(), b=Prewarm(when=PrewarmWhen.OFF)))
    assert clock.alarm is None


async def test_the_real_clock_rings_at_a_time_of_day_and_only_the_last_alarm() -> None:
    clock, rung = WallClock(), list[str]()
    clock.ring_at(time.time() + 3600, lambda: rung.append("late"))
    clock.ring_at(time.time() + 0.05, lambda: rung.append("soon"))
    await until(lambda: bool(rung))
    assert rung == ["soon"]
    clock.ring_at(time.time() - 10, lambda: rung.append("past"))
    await until(lambda: len(rung) == 2)
    clock.close()
