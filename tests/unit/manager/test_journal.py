"""Events reach those who follow, however slowly they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from lazyd.core.effects import Note
from lazyd.manager import journal
from lazyd.manager.journal import Journal
from lazyd.varlink.call import Call


class Follower:
    """Stands in for a call whose client reads when a test says so."""

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []
        self.writable = True
        self.ended = False
        self.on_gone: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    def reply(self, parameters: dict[str, Any], *, continues: bool) -> None:
        assert continues
        self.replies.append(parameters)

    def read_on(self) -> None:
        self.writable = True
        assert self.on_writable is not None
        self.on_writable()


@pytest.fixture
def follower() -> Follower:
    return Follower()


@pytest.fixture
def followed(follower: Follower) -> Journal:
    followed = Journal(lambda: None)
    followed.follow(cast("Call", follower))
    return followed


def test_events_are_numbered_and_say_what_they_are_about(followed: Journal, follower: Follower) -> None:
    followed.note(Note(kind="ready", model="m", data={"load_s": 1.5}))
    followed.add("host lost", reason="killed")
    first, second = follower.replies
    assert (first["seq"], first["kind"], first["model"], first["data"]) == (1, "ready", "m", {"load_s": 1.5})
    assert (second["seq"], second["kind"], second["reason"]) == (2, "host lost", "killed")
    assert first["dropped"] == second["dropped"] == 0


def test_what_a_slow_reader_cannot_take_waits(followed: Journal, follower: Follower) -> None:
    follower.writable = False
    for n in range(10):
        followed.add(str(n))
    assert follower.replies == []
    follower.read_on()
    assert [reply["kind"] for reply in follower.replies] == [str(n) for n in range(10)]


def test_a_reader_that_is_too_slow_is_told_how_much_it_has_missed(
    followed: Journal, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "QUEUE_EVENTS", 3)
    follower.writable = False
    for n in range(10):
        followed.add(str(n))
    follower.read_on()
    assert [(reply["kind"], reply["dropped"]) for reply in follower.replies] == [("7", 7), ("8", 7), ("9", 7)]


def test_a_reader_that_has_left_is_forgotten(followed: Journal, follower: Follower) -> None:
    assert follower.on_gone is not None
    follower.on_gone()
    followed.add("unheard")
    assert follower.replies == []
