"""The life of a model.

A model is cold until somebody asks for it. Then its memory is booked, a worker is started and
the weights are read (`LOADING`), perhaps a warm-up runs (`WARMING`), and it serves (`READY`).
It leaves by way of `DRAINING`, in which the worker admits no new call and says when the last
one has ended; until then it may still be rescued. `UNLOADING` lasts until the worker has gone
and its bytes are seen to be free. A runtime that can give back device memory without leaving
goes through `PARKING` to `PARKED` instead. A load that failed leaves the model `FAILED`, and
the next try is allowed after a growing pause.

The states are those of one instance of a model. An instance that unloads and its successor
that loads may overlap, each with a worker and a booking of its own; what a person sees is the
newest. Any step that is not in `TRANSITIONS` is a bug, and `step` raises.
"""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """Where a model is in its life."""

    COLD = "cold"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    PARKING = "parking"
    PARKED = "parked"
    UNLOADING = "unloading"
    FAILED = "failed"


S = State

TRANSITIONS: dict[State, frozenset[State]] = {
    S.COLD: frozenset({S.LOADING}),
    S.LOADING: frozenset({S.WARMING, S.READY, S.FAILED, S.UNLOADING, S.COLD}),
    S.WARMING: frozenset({S.READY, S.FAILED, S.UNLOADING, S.COLD}),
    S.READY: frozenset({S.DRAINING, S.PARKING, S.UNLOADING, S.COLD, S.FAILED}),
    S.DRAINING: frozenset({S.READY, S.PARKING, S.UNLOADING, S.COLD, S.FAILED}),
    S.PARKING: frozenset({S.PARKED, S.UNLOADING, S.COLD}),
    S.PARKED: frozenset({S.LOADING, S.UNLOADING, S.COLD, S.FAILED}),
    S.UNLOADING: frozenset({S.COLD}),
    S.FAILED: frozenset({S.LOADING, S.COLD}),
}

LOADS = frozenset({S.LOADING, S.WARMING})
"""A load is under way."""

PARKS = frozenset({S.PARKING, S.PARKED})
"""It gives back, or has given back, the memory of its device."""

SERVES = frozenset({S.READY, S.DRAINING})
"""Calls may be in flight."""

GONE = frozenset({S.COLD, S.FAILED})
"""Nothing is in memory, or it will not be used again."""


class IllegalTransition(Exception):
    """A step that the table does not have. It is a bug of lazyd."""


def step(old: State, new: State) -> State:
    """Returns `new` if the table allows it after `old`.

    Raises:
        IllegalTransition: otherwise.
    """
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(f"{old} -> {new}")
    return new
