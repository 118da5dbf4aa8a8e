"""The cheapest set that makes enough room, compared with trying all sets."""

from __future__ import annotations

import random

import pytest

from lazyd.core.victims import Unit, choose_victims

from .covers import best_value, is_enough, random_deficit, random_units, unit, value

EXACT = 100_000
"""Steps in which the search of ten units always ends."""


def test_nothing_leaves_where_nothing_is_missing() -> None:
    assert choose_victims([unit({"gpu0": 5}, 0.0)], {"gpu0": 0, "ram": -3}) == []


def test_there_is_no_set_where_all_together_are_not_enough() -> None:
    assert choose_victims([unit({"gpu0": 5}, 1.0), unit({"gpu1": 9}, 1.0)], {"gpu0": 6}) is None


def test_one_dear_unit_may_be_better_than_many_cheap_ones() -> None:
    cheap = [unit({"gpu0": 2}, 3.0) for _ in range(5)]
    dear = unit({"gpu0": 10}, 10.0)
    assert choose_victims([*cheap, dear], {"gpu0": 9}) == [dear]


def test_the_cheapest_per_byte_stays_where_it_does_not_help_enough() -> None:
    small, large = unit({"gpu0": 1}, 0.1), unit({"gpu0": 10}, 9.0)
    assert choose_victims([small, large], {"gpu0": 10}) == [large]


def test_what_costs_nothing_leaves_first() -> None:
    free, priced = unit({"gpu0": 8}, 0.0, last_used=9.0), unit({"gpu0": 4}, 0.1, last_used=1.0)
    assert choose_victims([priced, free], {"gpu0": 4}) == [free]


def test_of_equally_cheap_sets_the_one_that_frees_less_leaves() -> None:
    small, large = unit({"gpu0": 4}, 2.0, last_used=9.0), unit({"gpu0": 4, "ram": 8}, 2.0, last_used=1.0)
    assert choose_victims([large, small], {"gpu0": 4}) == [small]


def test_of_units_that_are_alike_the_least_recently_used_leave() -> None:
    units = [unit({"gpu0": 4}, 2.0, last_used=used) for used in (5.0, 1.0, 7.0, 3.0)]
    assert choose_victims(units, {"gpu0": 8}) == [units[1], units[3]]


def test_one_unit_may_cover_what_is_missing_on_several_devices() -> None:
    both = unit({"gpu0": 4, "gpu1": 4}, 3.0)
    units = [unit({"gpu0": 4}, 2.0), unit({"gpu1": 4}, 2.0), both]
    assert choose_victims(units, {"gpu0": 3, "gpu1": 3}) == [both]


def test_a_worker_and_an_object_in_it_are_not_counted_twice() -> None:
    first, second = unit({"slots": 1}, 1.0), unit({"slots": 1}, 1.0)
    worker = unit({"slots": 2, "ram": 6}, 2.0, parts=(first, second))
    assert choose_victims([first, second, worker], {"slots": 3}) is None
    assert choose_victims([first, second, worker], {"ram": 6, "slots": 1}) == [worker]
    assert choose_victims([first, second, worker], {"slots": 1}) in ([first], [second])


def test_the_only_object_of_a_worker_is_the_same_as_the_worker_but_for_the_memory() -> None:
    alone = unit({"slots": 1}, 1.0)
    worker = unit({"slots": 1, "ram": 6}, 1.0, parts=(alone,))
    assert choose_victims([worker, alone], {"ram": 5, "slots": 1}) == [worker]
    assert choose_victims([worker, alone], {"ram": 5, "slots": 2}) is None


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_it_is_as_good_as_trying_all_sets(devices: int, nested: bool) -> None:
    rng = random.Random(devices)
    for _ in range(400):
        units = random_units(rng, rng.randint(1, 8), devices, nested=nested)
        deficit = random_deficit(rng, units, devices)
        chosen = choose_victims(units, deficit, steps=EXACT)
        best = best_value(units, deficit)
        assert (None if chosen is None else value(chosen)) == best
        assert chosen is None or is_enough(chosen, deficit)


def test_on_one_device_ten_units_are_few_enough_to_be_exact() -> None:
    rng = random.Random(10)
    for _ in range(1000):
        units = random_units(rng, 10, 1)
        deficit = random_deficit(rng, units, 1)
        chosen, exact = choose_victims(units, deficit), choose_victims(units, deficit, steps=EXACT)
        assert (chosen is None) == (exact is None)
        assert chosen is None or exact is None or value(chosen) == value(exact)


@pytest.mark.parametrize(("count", "rounds"), [(8, 600), (40, 60), (300, 10)])
def test_on_one_device_the_approximation_costs_at_most_twice_the_least(count: int, rounds: int) -> None:
    rng = random.Random(count)
    for _ in range(rounds):
        units = random_units(rng, count, 1)
        deficit = random_deficit(rng, units, 1)
        quick, better = choose_victims(units, deficit, steps=0), choose_victims(units, deficit, steps=EXACT // 10)
        assert (quick is None) == (better is None)
        if quick is not None and better is not None:
            assert is_enough(quick, deficit)
            assert value(better) <= value(quick)
            assert value(quick)[0] <= 2 * value(better)[0]


def test_the_approximation_finds_a_set_on_several_devices_wherever_there_is_one() -> None:
    rng = random.Random(3)
    for _ in range(600):
        units = random_units(rng, rng.randint(1, 9), 3, nested=True)
        deficit = random_deficit(rng, units, 3)
        quick = choose_victims(units, deficit, steps=0)
        assert (quick is None) == (choose_victims(units, deficit, steps=EXACT) is None)
        assert quick is None or is_enough(quick, deficit)


def test_no_unit_leaves_that_could_stay() -> None:
    rng = random.Random(4)
    for _ in range(600):
        devices = rng.randint(1, 3)
        units = random_units(rng, rng.randint(1, 30), devices)
        deficit = random_deficit(rng, units, devices)
        for chosen in (choose_victims(units, deficit, steps=0) or [], choose_victims(units, deficit) or []):
            for one in chosen:
                assert not is_enough([other for other in chosen if other is not one], deficit)


def test_the_order_of_the_question_does_not_change_the_answer() -> None:
    rng = random.Random(5)
    for _ in range(300):
        units = random_units(rng, rng.randint(1, 12), 2)
        deficit = random_deficit(rng, units, 2)
        shuffled = rng.sample(units, len(units))
        assert names(choose_victims(units, deficit), units) == names(choose_victims(shuffled, deficit), units)


def names(chosen: list[Unit] | None, units: list[Unit]) -> set[int] | None:
    return None if chosen is None else {units.index(one) for one in chosen}
