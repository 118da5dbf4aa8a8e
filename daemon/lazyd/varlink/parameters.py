"""The parameters of every method of io.lazyd, as structs that check what a client sends.

Field for field as in `io.lazyd.varlink`. A wrong type, a missing or an unknown field is
`InvalidParameter`. Durations are seconds and never negative.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from lazyd.errors import InvalidParameter

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
MOST_BYTES = 2**53
"""More than any machine has, and what every JSON reader can still count."""


class Parameters(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all, and the parameters of a method that takes none."""


class Status(Parameters, frozen=True):
    model: str | None = None
    why: bool | None = None


class OfModel(Parameters, frozen=True):
    """`Describe`, `Pin`, `Unpin`, `Rollback` and `Deregister`."""

    model: Name


class Logs(Parameters, frozen=True):
    model: Name
    follow: bool | None = None


class History(Parameters, frozen=True):
    since_sec: Seconds | None = None


class Load(Parameters, frozen=True):
    model: Name
    timeout_sec: Seconds | None = None


class Get(Parameters, frozen=True):
    model: Name
    timeout_sec: Seconds | None = None
    hold_sec: Seconds | None = None
    parent: str | None = None
    lease: str | None = None
    sticky: str | None = None


class Release(Parameters, frozen=True):
    lease: Name


class CallMethod(Parameters, frozen=True):
    """`Call`."""

    model: Name
    method: Name
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    timeout_sec: Seconds | None = None
    parent: str | None = None
    sticky: str | None = None


class Versions(Parameters, frozen=True):
    model: Name | None = None


class Promote(Parameters, frozen=True):
    model: Name
    version: Name | None = None


class Unload(Parameters, frozen=True):
    models: list[Name] | None = None
    all: bool | None = None
    idle: bool | None = None
    force: bool | None = None
    timeout_sec: Seconds | None = None


class Discard(Parameters, frozen=True):
    model: Name | None = None


class Warm(Parameters, frozen=True):
    models: list[Name]
    tier: str | None = None
    wait: bool | None = None
    timeout_sec: Seconds | None = None


class Reserve(Parameters, frozen=True):
    device: Name
    bytes: Annotated[int, msgspec.Meta(gt=0, le=MOST_BYTES)]
    wait: bool | None = None
    timeout_sec: Seconds | None = None
    resume: str | None = None
    command: str | None = None


class Register(Parameters, frozen=True):
    spec: dict[str, Any]
    now: bool | None = None


class Reload(Parameters, frozen=True):
    now: bool | None = None


class InterfaceDescription(Parameters, frozen=True):
    """`org.varlink.service.GetInterfaceDescription`."""

    interface: str


_FIELD = re.compile(r"field `([^`]*)`")
_PATH = re.compile(r"at `\$\.?([^`\[.]*)")


def invalid(error: msgspec.ValidationError) -> InvalidParameter:
    """Names the parameter that msgspec complained of, and what it says of it."""
    text = str(error)
    path = _PATH.search(text)
    field = _FIELD.search(text)
    name = (path and path.group(1)) or (field and field.group(1)) or "parameters"
    reason = text.partition(" - at ")[0].replace("`", "").removeprefix("Object ")
    return InvalidParameter(parameter=name, reason=reason[:1].lower() + reason[1:])
