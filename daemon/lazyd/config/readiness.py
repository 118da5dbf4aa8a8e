"""The tables of keys for what is done before a model is asked for, and when it cannot be had in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.spec import Fallback, Prewarm, PrewarmWhen, Warmup, WarmupMode
from . import kinds, recipes, schedules
from .compounds import Json
from .given import described
from .problems import Fault, Wrong, quoted
from .quantities import show_size
from .rows import Each, Group, Key


@dataclass(frozen=True)
class Argument(kinds.Plain):
    """One value that may be a recipe, or have some in it."""

    words: str = "any value"

    def read(self, value: object, base: str) -> Any:
        return recipes.read(value, base)


@dataclass(frozen=True)
class Arguments:
    """Positional arguments. Held as a tuple."""

    words: str = "list"

    def read(self, value: object, base: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Wrong(Fault(f"expected a list, not {described(value)}", "put it in brackets"))
        return tuple(recipes.read(list(value), base))

    def show(self, value: tuple[Any, ...]) -> object:
        return list(value)


@dataclass(frozen=True)
class Lengths(kinds.Plain):
    """The shape that an output should have."""

    words: str = "list of whole numbers, -1: any"

    def read(self, value: object, _base: str) -> list[int]:
        if not isinstance(value, list | tuple):
            raise Wrong(Fault(f"expected a list of whole numbers, not {described(value)}", "write it as [-1, 1000]"))
        if len(value) > recipes.MAX_DIMENSIONS:
            raise Wrong(Fault(f"{len(value)} dimensions", f"write at most {recipes.MAX_DIMENSIONS}"))
        for length in value:
            if not isinstance(length, int) or isinstance(length, bool) or not -1 <= length < 2**63:
                raise Wrong(Fault(f"{described(length)} is no length", "write whole numbers, -1 for any length"))
        return list(value)


def _warmup(fields: dict[str, Any]) -> Warmup:
    made = Warmup(**fields)
    size = recipes.size_bytes([*made.args, made.kwargs])
    if size > recipes.MAX_BYTES:
        what = f"its arrays are {show_size(size)} together"
        raise Wrong(Fault(what, f"make them smaller: at most {show_size(recipes.MAX_BYTES)} in all"))
    return made


def _prewarm(fields: dict[str, Any]) -> Prewarm:
    when = fields.get("when")
    has_schedule = "schedule" in fields
    if when is PrewarmWhen.SCHEDULE and not has_schedule:
        what = f"missing: when = {quoted(when)} needs it"
        raise Wrong(Fault(what, f"write schedule = {schedules.EXAMPLE}", ("schedule",)))
    if when is PrewarmWhen.LEARNED and has_schedule:
        what = f"when = {quoted(when)} has no schedule"
        raise Wrong(Fault(what, 'write when = "schedule", or leave one of them out', ("schedule",)))
    if "time_zone" in fields and not has_schedule:
        raise Wrong(Fault("there is no schedule that it could be for", "write one, or leave it out", ("time_zone",)))
    if has_schedule and when is None:
        fields = {**fields, "when": PrewarmWhen.SCHEDULE}
    return Prewarm(**fields)


EXPECT = Group(
    (
        Key("finite", "No number in it is infinite or not a number.", kinds.Bool(), example="true"),
        Key("not_empty", "It has at least one element or character.", kinds.Bool(), example="true"),
        Key("shape", "An array of this shape. -1: any length.", Lengths(), example="[-1, 1000]"),
        Key("contains", "A text that has this in it.", kinds.Text(), example='"Paris"'),
    ),
    dict,
)

WARMUP = Group(
    (
        Key(
            "mode",
            "sync: it is ready after them. async: it serves at once, and they are made beside the calls of others. "
            "on-demand: as sync, but only for a new version, or where it was cold.",
            kinds.OneOf(tuple(WarmupMode), made=WarmupMode),
            default='"sync"',
        ),
        Key("calls", "How many.", kinds.Count(1, 1000), default="1"),
        Key(
            "method",
            "The method that is called. Without it complete for llama_cpp; for python warmup, if it is there.",
            kinds.Text("the name of a method", '"run"'),
            example='"complete"',
        ),
        Key(
            "args",
            "Positional arguments. A table in them may be a recipe: {shape = [1, 3, 640, 640]} of an array, {file = …} "
            "of what is in a file, {tokens = 512} of a long text. Numbers and texts stand for themselves.",
            Arguments(),
            example="[{tokens = 512}]",
        ),
        Key("kwargs", "Arguments by name, with recipes as in args.", Each(Argument()), example="{max_tokens = 1}"),
        Key(
            "timeout",
            "All calls together have to end within it.",
            kinds.Duration(nothing=False),
            "timeout_s",
            '"1min"',
        ),
        Key(
            "fail_above",
            "If a larger part of the recent warm-ups failed, the next ones are made as in mode sync.",
            kinds.Part(),
            default="0.2",
        ),
        Key("expect", "What must be true of every output; otherwise the model has failed.", EXPECT),
    ),
    _warmup,
)

PREWARM = Group(
    (
        Key(
            "when",
            "learned: by when it has been asked for. schedule: by the clock. off: never.",
            kinds.OneOf(tuple(PrewarmWhen), made=PrewarmWhen),
            default='"learned"',
        ),
        Key(
            "schedule",
            'When it will be needed: minute, hour, day of month, month, day of week. Means when = "schedule".',
            schedules.Lines(),
            example=schedules.EXAMPLE,
            apart=True,
        ),
        Key(
            "time_zone",
            "That the schedule is meant in. Without it the machine's.",
            schedules.TimeZone(),
            example='"Europe/Berlin"',
            apart=True,
        ),
    ),
    _prewarm,
)

FALLBACK = Group(
    (
        Key(
            "model",
            "A model that answers instead, with the same method and arguments.",
            kinds.Text("the name of a model", '"gemma-small"'),
            example='"gemma-small"',
        ),
        Key("value", "What is answered instead, whatever was asked.", Json(), example='"not available"', apart=True),
        Key(
            "after",
            "How long the model is waited for, at most half of the caller's own time limit.",
            kinds.Duration(),
            "after_s",
            '"5s"',
        ),
    ),
    lambda fields: Fallback(**fields),
    one_of=("model", "value"),
)
