"""What people have said of names, on the disk."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lazyd import places
from lazyd.core.meanings import PROMOTED, Kept, Meant
from lazyd.manager import meanings
from lazyd.manager.meanings import MeaningsKeeper

KEPT = {"ocr": Kept(promoted="ocr:3", history=(Meant(model="ocr:4"), Meant(model="ocr:3", at=5.0, how=PROMOTED)))}


async def test_what_was_said_is_there_for_the_next_manager_with_times_of_its_own_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meanings, "epoch", lambda: 1000.0)
    keeper = MeaningsKeeper(str(tmp_path / "state"), {})
    keeper.keep(KEPT)
    await keeper.settled()
    assert keeper.problem is None
    monkeypatch.setattr(meanings, "epoch", lambda: 900.0)
    found = meanings.load(str(tmp_path / "state"))["ocr"]
    assert found.promoted == "ocr:3"
    assert [(meant.model, meant.at) for meant in found.history] == [("ocr:4", None), ("ocr:3", 105.0)]


def test_where_nothing_was_kept_names_mean_what_is_configured(tmp_path: Path) -> None:
    assert meanings.load(str(tmp_path)) == {}


@pytest.mark.parametrize("contents", ["", "{", '{"ocr": 3}', '{"ocr": {"promoted": 3}}'])
def test_a_damaged_file_is_kept_beside_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, contents: str
) -> None:
    path = Path(places.meanings_file(str(tmp_path)))
    path.write_text(contents)
    with caplog.at_level(logging.ERROR):
        assert meanings.load(str(tmp_path)) == {}
    assert "promote again" in caplog.text
    assert not path.exists()
    assert Path(f"{path}.damaged").read_text() == contents


async def test_what_cannot_be_kept_is_said_and_kept_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    keeper = MeaningsKeeper(str(tmp_path), {})
    with monkeypatch.context() as patched:
        patched.setattr(meanings, "save", full)
        keeper.keep(KEPT)
        await keeper.settled()
        assert "No space left" in str(keeper.problem)
    keeper.keep(KEPT)
    await keeper.settled()
    assert keeper.problem is None
    assert meanings.load(str(tmp_path))["ocr"].promoted == "ocr:3"
