"""Histories from CSV files: read as people write them, and told where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazyd.replay import histories
from lazyd.replay.facts import Use
from lazyd.replay.histories import WrongHistory, read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "uses.csv"


@pytest.mark.parametrize(
    "text",
    [
        "1800000000,gemma,0.5\n1800000010.25,ocr:3\n",
        "time,model,busy\n1800000000,gemma,0.5\n1800000010.25,ocr:3,\n",
        "\ufeffModel, Time ,BUSY\r\ngemma,1800000000,0.5\r\n\r\nocr:3,1800000010.25,0\r\n",
        "# by hand\n2027-01-15T08:00:00Z,gemma,0.5\n2027-01-15T09:00:10.25+01:00,ocr:3",
    ],
)
def test_a_line_is_a_use(file: Path, text: str) -> None:
    file.write_text(text)
    assert read(str(file)) == ([Use(1_800_000_000.0, "gemma", 0.5), Use(1_800_000_010.25, "ocr:3", 0.0)], 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("soon,gemma\n", "line 1, column 1 (time): 'soon' is no time"),
        ("1800000000,gemma\n,ocr\n", "line 2, column 1 (time): '' is no time"),
        ("1800000000000,gemma\n", "column 1 (time): '1800000000000' lies before 1970 or far in the future"),
        ("nan,gemma\n", "column 1 (time)"),
        ("-5,gemma\n", "column 1 (time)"),
        ("1800000000,\n", "line 1, column 2 (model): the name of a model is missing"),
        ("1800000000,a\x07b\n", "column 2 (model): that is no name of a model"),
        ("1800000000,gemma,long\n", "column 3 (busy): 'long' is no number of seconds"),
        ("1800000000,gemma,-1\n", "column 3 (busy): '-1' is no number of seconds"),
        ("1800000000,gemma,inf\n", "column 3 (busy)"),
        ("1800000000,gemma,1,2\n", "line 1, column 4: there are 3 columns, time, model, busy"),
        ("model,time\ngemma,soon\n", "line 2, column 2 (time): 'soon' is no time"),
        ("time,model,price\n", "line 1, column 3: 'price' is unknown: there are time, model, busy"),
        ("time,time,model\n", "line 1, column 2: 'time' stands twice"),
        ("time,busy\n", "line 1: no column is called model"),
    ],
)
def test_what_is_wrong_is_told_by_file_line_and_column(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(WrongHistory) as caught:
        read(str(file))
    assert str(caught.value).startswith(f"{file}, line ")
    assert told in str(caught.value)


def test_what_is_no_text_is_no_history(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00\x01" * 50)
    with pytest.raises(WrongHistory, match="not text in UTF-8"):
        read(str(file))


def test_of_a_huge_file_the_last_uses_are_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_USES", 3)
    file.write_text("".join(f"{1_800_000_000 + number},m\n" for number in range(10)))
    uses, dropped = read(str(file))
    assert ([use.began - 1_800_000_000 for use in uses], dropped) == ([7, 8, 9], 7)
