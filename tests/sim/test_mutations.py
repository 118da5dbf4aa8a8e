"""Each invariant can fail: the core is broken on purpose, and the simulation must notice, and where."""

from __future__ import annotations

import pytest

from .mutations import MUTATIONS, Mutation
from .runner import ScheduleFailed, run_many

A_SEED = 7
MOST_EVENTS = 100_000
"""A mutation must be noticed within so many; most are within a few hundred."""


@pytest.mark.parametrize("mutation", [pytest.param(mutation, id=mutation.name) for mutation in MUTATIONS])
def test_a_broken_core_is_noticed(mutation: Mutation) -> None:
    with mutation.applied(), pytest.raises(ScheduleFailed) as noticed:
        run_many(A_SEED, MOST_EVENTS, mutation.profile)
    assert noticed.value.invariant in mutation.caught_by, str(noticed.value)
