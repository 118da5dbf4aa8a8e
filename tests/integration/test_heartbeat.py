"""The heartbeat benchmark's parts do what its figures rely on, and what objects free goes back to the kernel."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator

import psutil
import pytest

pytest.importorskip("numpy")

import lazyd
from demo.stage import Stage, proportional_bytes
from tests.bench.heartbeat import clock, commits, sides, story, table
from tests.bench.heartbeat.application import __main__ as application
from tests.bench.heartbeat.application import book, strategies

BEAT = 3
MIB = 1024 * 1024
LONG_S = 60.0
"""An interval that no heartbeat needs; it is not waited for."""


@pytest.fixture(scope="module")
def side() -> Iterator[sides.WithLazyd]:
    with sides.with_lazyd() as side:
        yield side


def plain_signal(number: int, minute: int) -> float:
    """The same from its definition: no tables, no numpy."""

    def price(at: int) -> float:
        noise = (at * 2_654_435_761 + number * 40_503) % 2**32 / 2**32
        return 100 + 8 * math.sin(at / (40 + number)) + noise

    found = []
    for window in strategies.WINDOWS:
        past = [price(minute - ago) for ago in range(window)]
        found.append((past[0] - statistics.fmean(past)) / statistics.pstdev(past))
    return statistics.fmean(found)


@pytest.mark.parametrize("name", ["s000", "s077", "s199"])
def test_what_is_expected_of_a_strategy_is_what_its_definition_says(name: str) -> None:
    plain = plain_signal(int(name[1:]), book.MINUTE)
    assert book.is_right(name, plain)
    assert book.is_right(name, strategies.load(name).signal(book.MINUTE))
    assert not book.is_right(name, plain + 0.001)


def test_the_application_computes_the_same_with_lazyd_and_without(
    side: sides.WithLazyd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(book, "NAMES", (*book.HOT, book.rare(BEAT)))  # all 200 take a while
    application.beat(application.models("before", None), BEAT, sentiment=False)
    alone = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    asked = side.commit(BEAT, LONG_S)
    assert asked.succeeded, asked.wrong
    assert asked.signals == {line["name"]: line["signal"] for line in alone if line["what"] == "computed"}
    assert asked.bytes is not None
    assert asked.bytes > len(book.HOT) * 8 * MIB


def test_a_heartbeat_that_the_next_commit_kills_has_failed() -> None:
    beat = sides.Before().commit(BEAT, 0.05)
    assert not beat.succeeded
    assert (beat.to_end, beat.bytes, beat.up) == (None, None, 0.0)


def test_a_heartbeat_with_a_wrong_answer_has_failed() -> None:
    beat = commits.Beat(interval_s=10.0)
    for name in (*book.HOT, book.rare(BEAT)):
        beat.note({"what": "computed", "at": 1.0, "name": name, "signal": 0.5, "took": 0.1, "right": True}, 0.5)
    beat.note({"what": "beaten", "at": 2.0}, 0.5)
    assert beat.succeeded
    beat.note({"what": "felt", "at": 2.0, "took": 0.1, "text": "London", "right": False}, 0.5)
    assert not beat.succeeded


def test_an_application_that_ends_by_itself_is_no_heartbeat() -> None:
    with pytest.raises(commits.Broken):
        commits.commit(["lazyd", "1"], {"LAZYD_SOCKET": "/nonexistent/lazyd.sock"}, LONG_S, proportional_bytes)


def test_waiting_and_lazyds_idle_time_are_compressed_alike(side: sides.WithLazyd) -> None:
    idle_s = side.stage.model("strategy/s000")["idleTimeoutSec"]
    assert idle_s / clock.IDLE_TIMEOUT_S == pytest.approx(clock.compressed(300) / 300)
    assert clock.compressed(-1) == 0


def test_the_table_marks_goals_that_are_missed() -> None:
    slow = commits.Beat(10.0, to_registered=0.3, to_first=0.4, to_end=11.0, first_call=0.1, bytes=100)
    before = commits.Beat(10.0, bytes=200)
    rows = table.rows(story.Told(before=[before], lazyd=[slow]))
    assert [row.met for row in rows if row.met is not None] == [False] * 4


def test_what_loads_and_leaving_objects_free_goes_back_to_the_kernel() -> None:
    """Each load makes more than 12 MB of temporary arrays and leaves 8 MB; of 16 objects two stay."""
    configuration = sides.configuration().replace(f"max_loaded = {sides.MAX_LOADED}", "max_loaded = 2")
    with Stage(configuration) as stage:
        stage.start()
        stage.wait_until_running()
        with lazyd.connect(str(stage.socket)) as client:
            client.call("strategy/s000", "signal", book.MINUTE)
            worker = psutil.Process(stage.model("strategy/s000")["workers"][0]["pid"])
            with_one = worker.memory_full_info().uss
            for name in book.NAMES[1:16]:
                client.call(f"strategy/{name}", "signal", book.MINUTE)
            assert worker.memory_full_info().uss < with_one + 3 * 8 * MIB
