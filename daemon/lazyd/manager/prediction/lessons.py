"""What one load teaches the next, in the shape in which the manager's parts pass it on.

A peak rises at once to what was measured, and sinks by a tenth of the difference a life: one quiet day
of a model that is sometimes used hard does not forget the hard use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from lazyd.core.needs import Need

SINKS = 0.1


class Subject(msgspec.Struct, frozen=True):
    """A model as it is loaded."""

    identity: str
    """See `ModelSpec.identity`."""
    files: str
    """A digest of its files' names, sizes and times."""
    runtime: str


class Peak(msgspec.Struct, frozen=True):
    """Of one way of loading."""

    peak: Need
    service: Need | None = None


class Known(msgspec.Struct, frozen=True):
    """All that is known of a subject."""

    ways: dict[str, Peak] = {}
    dry_run: dict[str, Any] | None = None
    factors: dict[str, float] = {}
    """Of its runtime, by kind of device: what was measured over what was estimated from files."""


class Life(msgspec.Struct, frozen=True):
    """What one life has taught."""

    subject: Subject
    way: str
    peak: Need
    service: Need | None
    factors: dict[str, float] = {}


class DryRun(msgspec.Struct, frozen=True):
    """What a dry run has told."""

    subject: Subject
    needs: dict[str, Any]


Lesson = Life | DryRun


def after(known: Known, subject: Subject, lessons: Iterable[Lesson]) -> Known:
    """What is known of a subject after these lessons; its runtime's factors stay as they were."""
    for lesson in lessons:
        if (lesson.subject.identity, lesson.subject.files) != (subject.identity, subject.files):
            continue
        if isinstance(lesson, Life):
            ways = {**known.ways, lesson.way: after_life(known.ways.get(lesson.way), lesson)}
            known = msgspec.structs.replace(known, ways=ways)
        else:
            known = msgspec.structs.replace(known, dry_run=lesson.needs)
    return known


def after_life(old: Peak | None, life: Life) -> Peak:
    """What is known of its way then."""
    if old is None:
        return Peak(life.peak, life.service)
    service = old.service if life.service is None else _moved(old.service or life.service, life.service)
    return Peak(_moved(old.peak, life.peak), service)


def _moved(old: Need, new: Need) -> Need:
    """Up at once, down by little."""

    def moved(before: int, now: int) -> int:
        return now if now >= before else before - int(SINKS * (before - now))

    if len(old.gpu_bytes) != len(new.gpu_bytes):
        return new
    gpus = tuple(map(moved, old.gpu_bytes, new.gpu_bytes))
    return Need(ram_bytes=moved(old.ram_bytes, new.ram_bytes), gpu_bytes=gpus)
