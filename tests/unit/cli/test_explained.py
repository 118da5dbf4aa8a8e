"""What keys mean fits the terminal, and comes with its words whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazyctl.explained import explained_lines
from lazyctl.terminal import Look, cells
from lazyd.config import Files, explaining


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_key_fits_the_terminal_with_all_its_words(width: int) -> None:
    rows = explaining.every()
    drawn = explained_lines(rows, Look(width=width))
    assert max(map(cells, drawn)) <= width
    said = " ".join(" ".join(drawn).split())
    long = [row.key for row in rows if " ".join(row.meaning.split()) not in said]
    assert long == []


@pytest.mark.parametrize("width", [80, 120])
def test_the_place_of_a_value_stands_at_the_end_of_its_line(tmp_path: Path, width: int) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'[daemon]\nlinger = "1min"\n[models.m]\nruntime = "python"\npath = "/{"long/" * 60}"\n')
    drawn = explained_lines(explaining.of_files(Files(paths=(str(path),))), Look(width=width))
    assert max(map(cells, drawn)) <= width
    assert drawn[0] == "[daemon]"
    assert drawn[1].startswith('  linger = "1min" ')
    assert drawn[1].endswith(" a.toml:2")
    assert sum("long/long" in line for line in drawn) > 1
