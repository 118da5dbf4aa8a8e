"""Tables fit the line, whatever stands in them."""

from __future__ import annotations

from lazyctl.table import Cell, Column, lines
from lazyctl.terminal import Look, cells, shorten, wrapped

COLUMNS = [Column("NAME", least=6), Column("SIZE", right=True)]


def rows(*names: str) -> list[list[Cell]]:
    return [[Cell(name), Cell("412 MiB")] for name in names]


def test_columns_are_as_wide_as_their_content() -> None:
    assert lines(COLUMNS, rows("a", "longer"), Look()) == [
        "NAME       SIZE",
        "a       412 MiB",
        "longer  412 MiB",
    ]


def test_a_long_name_gives_way_and_the_line_fits() -> None:
    drawn = lines(COLUMNS, rows("x" * 200), Look(width=30))
    assert drawn[1] == "x" * 20 + "…  412 MiB"
    assert max(map(cells, drawn)) == 30


def test_a_wide_character_counts_as_two_columns() -> None:
    drawn = lines(COLUMNS, rows("语音模型", "ascii"), Look())
    assert drawn[1:] == ["语音模型  412 MiB", "ascii     412 MiB"]


def test_a_combining_character_counts_as_none() -> None:
    assert cells("e\u0301") == 1


def test_control_characters_do_not_reach_the_terminal() -> None:
    drawn = lines(COLUMNS, rows("a\x1b[31m\nb\x9b"), Look())
    assert all(character.isprintable() for line in drawn for character in line)


def test_colour_changes_nothing_but_the_colour() -> None:
    import re

    given = [[Cell("a", "red"), Cell("1", "dim")]]
    coloured = lines(COLUMNS, given, Look(colour=True))
    assert "\x1b[31ma\x1b[0m" in coloured[1]
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == lines(COLUMNS, given, Look())


def test_what_is_shortened_ends_with_a_mark_that_the_stream_can_show() -> None:
    assert shorten("abcdef", 4, Look()) == "abc…"
    assert shorten("abcdef", 4, Look(unicode=False)) == "abc~"
    assert shorten("语音模型", 5, Look()) == "语音…"


def test_a_long_text_is_wrapped_between_words() -> None:
    assert wrapped("one two three four", 8, Look()) == ["one two", "three", "four"]
    assert wrapped("one two three four", 8, Look(), most=2) == ["one two", "three f…"]
    assert wrapped("abcdefghij kl", 4, Look()) == ["abcd", "efgh", "ij", "kl"]
    assert wrapped("", 4, Look()) == [""]
