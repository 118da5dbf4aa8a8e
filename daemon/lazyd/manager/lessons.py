"""What one load teaches the next, in the shape in which the manager's parts pass it on."""

from __future__ import annotations

from typing import Any

import msgspec

from lazyd.core.needs import Need


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
