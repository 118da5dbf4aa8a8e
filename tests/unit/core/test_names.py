"""Which model a name means."""

import pytest

from lazyd.core import names

from .story import spec

SPECS = {s.key: s for s in (spec("gemma"), spec("ocr:9"), spec("ocr:10"), spec("strategy/*"), spec("a*z"))}
ALIASES = {"reader": "ocr:9", "text": "reader"}


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("gemma", "gemma"),
        ("ocr:9", "ocr:9"),
        ("ocr", "ocr:10"),
        ("reader", "ocr:9"),
        ("text", "ocr:9"),
        ("strategy/alpha", "strategy/alpha"),
        ("abcz", "abcz"),
        ("strategy/", None),
        ("az", None),
        ("strategy/*", None),
        ("strategy/" + "x" * 100, None),
        ("strategy/a\nb", None),
        ("strategy/alpha:2", None),
        ("gemma:1", None),
        ("unknown", None),
    ],
)
def test_a_name_means_a_model_an_alias_the_highest_version_or_a_member(asked: str, meant: str | None) -> None:
    found = names.resolve(asked, SPECS, ALIASES)
    assert (found[0] if found else None) == meant


def test_versions_are_ordered_as_people_count_and_words_are_below_numbers() -> None:
    rising = ["", "old", "tmp2", "1", "1.2", "1.10", "v2", "9", "V10", "2024-06-01", "2024-10-01"]
    falling = rising[::-1]
    assert sorted(falling, key=names.version_order) == rising


def test_the_part_that_the_star_matched() -> None:
    assert names.member_part("strategy/*", "strategy/alpha") == "alpha"
    assert names.member_part("a*z", "abcz") == "bc"


def test_aliases_that_name_each_other_end() -> None:
    assert names.resolve("a", {}, {"a": "b", "b": "a"}) is None


def test_the_nearest_of_many_names_is_found_among_those_that_begin_alike() -> None:
    many = [f"model-{n}" for n in range(10_000)] + ["gemma", "gimmick"]
    assert names.nearest("gema", many) == "gemma"
    assert names.nearest("zzz", many) is None
