"""Names that mean several versions, through random days; and cores that are broken in that."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from lazyd.core import promotions, replicas, routes, swaps, world
from lazyd.core.records import Instance, Model, Route
from lazyd.core.spec import ModelSpec

from .mutations import Mutation, never, nothing, put, put_all
from .naming import Day
from .naming_checks import SENTENCES
from .truth import Violation

DAYS = int(os.environ.get("SIM_DAYS") or 25)
MOST_DAYS = 200
"""A mistake that no day of so many shows is not looked for."""


def waits_its_turn(the_world: world.World, route: Route, sticky: str | None) -> Model | None:
    """Nobody is sent to another share, however long the chosen one takes."""
    if route.before is not None:
        return the_world.models.get(route.before)
    able = routes.able_of(the_world, route)
    key = routes.by_key(able, f"{route.name}\0{sticky}") if sticky is not None else routes.by_turn(route, able)
    return the_world.find(key)


def the_first(model: Model, _: float) -> list[Instance]:
    """However busy it is."""
    return [life for life in model.lives if replicas.is_open(life)]


def with_one_more(models: Mapping[str, ModelSpec]) -> Mapping[str, ModelSpec]:
    """A model may have one worker more than is configured."""
    return WITH_REPLICAS(
        {key: msgspec.structs.replace(spec, replicas=spec.replicas + 1) for key, spec in models.items()}
    )


WITH_REPLICAS = replicas.with_replicas
MUTATIONS = (
    Mutation(
        "names go over before the new version is ready", ("name_keeps_answering",), "", put(swaps, "begin", nothing)
    ),
    Mutation("clients stay where they are", ("clients_move",), "", put(swaps, "revoke", nothing)),
    Mutation("the old version makes room", ("old_version_stays",), "", put(routes, "siblings", lambda *_: ())),
    Mutation(
        "a warm-up is not waited for",
        ("cold_one_takes_nothing", "name_keeps_answering"),
        "",
        put(routes, "UNFIT", frozenset()),
    ),
    Mutation(
        "everybody waits his turn",
        ("ready_one_answers",),
        "",
        put_all(put(routes, "choose", waits_its_turn), put(swaps, "take_over", nothing)),
    ),
    Mutation("who failed keeps its share", ("others_take_the_share",), "", put(routes, "is_paused", never)),
    Mutation(
        "who waits stays behind",
        ("others_take_the_share", "clients_move", "all_are_answered"),
        "",
        put(swaps, "hand_over", nothing),
    ),
    Mutation("what was said is not kept", ("means_what_was_said",), "", put(promotions, "keep", nothing)),
    Mutation(
        "the old version answers for ever",
        ("answers_what_it_means", "clients_move", "all_are_answered"),
        "",
        put(swaps, "finish", nothing),
    ),
    Mutation("the first worker answers", ("least_busy_answers",), "", put(replicas, "open_ones", the_first)),
    Mutation("one worker too many", ("never_too_many",), "", put(replicas, "with_replicas", with_one_more)),
    Mutation("a name keeps what it has meant", ("means_what_was_said",), "", put(promotions, "in_force", lambda _: {})),
)


def play(seed: int) -> Day:
    day = Day(seed)
    day.run()
    return day


def test_names_keep_what_is_promised_of_them() -> None:
    base = int(os.environ.get("SIM_SEED") or random.SystemRandom().getrandbits(32))
    print(f"base seed {base}: again with SIM_SEED={base}")
    for number in range(DAYS):
        try:
            play(base + number)
        except Violation as found:
            pytest.fail(
                f"the day {base + number} broke {found.invariant} ({SENTENCES[found.invariant]}): {found.detail}"
            )


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_each_mistake_is_noticed(mutation: Mutation) -> None:
    with mutation.applied():
        assert first_broken(itertools.islice(itertools.count(1), MOST_DAYS)) in mutation.caught_by


def first_broken(seeds: Any) -> str | None:
    """The first sentence that does not hold in one of these days."""
    for seed in seeds:
        try:
            play(seed)
        except Violation as found:
            return found.invariant
    return None


def test_every_sentence_is_broken_by_some_mistake() -> None:
    assert {name for mutation in MUTATIONS for name in mutation.caught_by} == SENTENCES.keys()


def test_a_day_is_the_same_each_time() -> None:
    assert play(7).seen == play(7).seen
