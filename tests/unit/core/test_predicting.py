"""What a load will need is asked for before it is booked: once, and with the memory for a dry run booked."""

from __future__ import annotations

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.seekers import DRY_RUN_BYTES
from lazyd.core.spec import GIB

from .story import Story, spec


class Slow(Story):
    """Predictions of "a" wait in `owed`."""

    def __init__(self, *names: str, **fields: object) -> None:
        self.owed: list[events.Event] = []
        super().__init__(*map(spec, names), **fields)  # type: ignore[arg-type]

    def tell(self, event: events.Event) -> list[effects.Effect]:
        if isinstance(event, events.Predicted) and event.model == "a":
            self.owed.append(event)
            return []
        return super().tell(event)

    def predicted(self) -> list[effects.Effect]:
        """The answer comes."""
        return super().tell(self.owed.pop(0))

    def asked(self) -> list[bool]:
        """For each prediction of "a" whether it might make a dry run."""
        return [e.dry_run for e in self.effects if isinstance(e, effects.Predict) and e.model == "a"]

    @property
    def booked(self) -> dict[str, dict[str, int]]:
        return self.core.world.ledger.bookings


def test_a_dry_run_is_booked_as_long_as_it_is_under_way() -> None:
    story = Slow("a")
    story.get("a")
    assert list(story.booked.values()) == [{"ram": DRY_RUN_BYTES}]
    assert story.state("a") is State.COLD
    story.predicted()
    assert not any(holder.startswith("dry run") for holder in story.booked)
    assert story.state("a") is State.LOADING
    assert story.asked() == [True]


def test_nobody_is_admitted_on_what_a_dry_run_takes() -> None:
    story = Slow("a", "b", ram_gib=1)
    story.get("a", timeout=1000)
    b = story.get("b", timeout=1000)
    assert story.state("b") is State.COLD
    assert b not in story.answers
    story.tell(events.Unpredictable(model="a", number=1, reason="no such file"))
    assert story.state("b") is State.LOADING


def test_without_room_for_a_dry_run_it_is_done_without() -> None:
    story = Slow("a", "b", sizes={"b": 10})
    story.get("b", timeout=1000)
    story.get("a", timeout=1000)
    assert story.asked() == [False]
    assert sum(booking.get("ram", 0) for booking in story.booked.values()) == 10 * GIB
    story.predicted()
    assert sum(booking.get("ram", 0) for booking in story.booked.values()) == 10 * GIB


def test_all_who_wait_wait_for_one() -> None:
    story = Slow("a")
    requests = [story.get("a") for _ in range(3)]
    story.wait(1)
    story.predicted()
    story.ready("a")
    assert story.asked() == [True]
    assert all(story.granted(request) for request in requests)


def test_what_the_last_life_has_taught_is_asked_for_by_the_next() -> None:
    story = Slow("a")
    for lives in (1, 2):
        story.get("a")
        story.predicted()
        story.ready("a")
        story.exit("a", status=0)
        assert len(story.asked()) == lives


def test_a_model_that_cannot_be_loaded_gives_back_what_its_dry_run_took() -> None:
    story = Slow("a")
    request = story.get("a")
    story.tell(events.Unpredictable(model="a", number=1, reason="no such file"))
    assert story.booked == {}
    assert isinstance(story.answers[request], answers.LoadFailed)


def test_a_second_try_after_a_want_of_memory_asks_anew() -> None:
    story = Slow("a")
    story.get("a", timeout=1000)
    story.predicted()
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason="MemoryError", out_of_memory=True))
    story.exit("a", status=0)
    assert story.asked() == [True, True]
