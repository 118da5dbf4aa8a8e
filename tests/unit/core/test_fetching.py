"""Models whose files have to be fetched: nothing is booked before they are here, and who waits hears of it."""

from __future__ import annotations

from lazyd.core import answers, effects, events, view
from lazyd.core.lifecycle import State
from lazyd.core.spec import ModelSpec
from lazyd.core.why import why

from .story import RESIDENT, Story, spec, ways


class Remote(Story):
    """The files of "a" are elsewhere until `here`; of their heads is known what `head` says."""

    def __init__(self, *specs: ModelSpec, head: float | None = 1, **fields: object) -> None:
        self.here, self.head = False, head
        super().__init__(*(specs or (spec("a"),)), **fields)  # type: ignore[arg-type]

    def prediction(self, model: str) -> events.Predicted | events.Unpredictable:
        if model != "a" or self.here:
            return super().prediction(model)
        return events.Predicted(model=model, ways=ways(self.head), absent=True)

    @property
    def number(self) -> int:
        """Of the fetch that was asked for last."""
        return [effect.number for effect in self.effects if isinstance(effect, effects.Fetch)][-1]

    def progress(self, fraction: float) -> list[effects.Effect]:
        return self.tell(events.Fetching(model="a", number=self.number, fraction=fraction))

    def arrives(self) -> None:
        self.here = True
        self.tell(events.Fetched(model="a", number=self.number))

    def shown(self) -> tuple[str, str | None, float | None]:
        model = view.model(self.core, "a", self.now)
        assert model is not None
        return model.state, model.phase, model.fraction

    @property
    def booked(self) -> dict[str, dict[str, int]]:
        return self.core.world.ledger.bookings


def test_nothing_is_booked_while_it_is_fetched_and_it_is_loaded_when_it_is_here() -> None:
    story = Remote()
    request = story.get("a", timeout=1000)
    story.progress(0.43)
    story.wait(200)
    assert story.booked == {}
    assert story.shown() == ("loading", "fetching", 0.43)
    assert view.health(story.core) == {"a": "loading"}
    story.arrives()
    assert story.state("a") is State.LOADING
    story.ready("a")
    assert story.granted(request)
    assert story.shown() == ("ready", None, None)


def test_who_waits_is_told_how_far_it_is() -> None:
    story = Remote()
    request = story.get("a")
    assert story.progress(0.5) == [effects.Progress(request=request, state="loading", phase="fetching", fraction=0.5)]
    assert any("being fetched (50% done)" in line for line in why(story.core.world, story.core.world.models["a"]))


def test_one_download_for_all_who_wait() -> None:
    story = Remote()
    requests = [story.get("a") for _ in range(20)]
    story.wait(1)
    story.arrives()
    story.ready("a")
    assert story.count(effects.Fetch) == 1
    assert all(story.granted(request) for request in requests)


def test_a_deadline_that_passes_meanwhile_is_told_as_fetching_and_the_download_goes_on() -> None:
    story = Remote()
    request = story.get("a", timeout=5)
    story.wait(6)
    refused = story.answers[request]
    assert isinstance(refused, answers.Timeout)
    assert refused.phase == "fetching"
    assert story.count(effects.StopFetching) == 0
    later = story.get("a", timeout=1000)
    assert story.count(effects.Fetch) == 1
    story.arrives()
    story.ready("a")
    assert story.granted(later)


def test_what_was_fetched_and_nobody_wants_any_more_is_not_loaded() -> None:
    story = Remote()
    story.get("a", timeout=5)
    story.wait(6)
    story.arrives()
    assert story.state("a") is State.COLD
    assert story.count(effects.StartWorker) == 0


def test_what_would_find_no_room_is_refused_by_its_head_alone() -> None:
    story = Remote(head=11)
    request = story.get("a", timeout=1000)
    refused = story.answers[request]
    assert isinstance(refused, answers.NoRoom)
    assert story.count(effects.Fetch) == 0
    assert story.shown()[0] == "cold"


def test_what_only_has_to_wait_for_room_is_fetched_meanwhile_and_nobody_leaves_for_it_yet() -> None:
    story = Remote(spec("a"), spec("b"), head=8, sizes={"a": 8, "b": 8})
    story.hot("b")
    story.wait(10)
    request = story.get("a", timeout=1000)
    story.wait(60)
    assert story.state("b") is State.READY
    assert story.count(effects.Fetch) == 1
    story.arrives()
    story.answer_drain("b")
    story.exit("b", status=0)
    story.ready("a")
    assert story.granted(request)


def test_without_a_head_that_tells_something_it_is_fetched() -> None:
    story = Remote(head=None)
    story.get("a")
    assert story.count(effects.Fetch) == 1


def test_a_resident_that_never_fits_is_noted_once_and_not_asked_for_again_and_again() -> None:
    story = Remote(spec("a", tier=RESIDENT), head=11)
    for _ in range(20):
        story.wait(10)
    assert story.count(effects.Predict) == 1
    assert sum(isinstance(e, effects.Note) and e.kind == "no room" for e in story.effects) == 1


def test_a_fetch_that_fails_is_a_failed_load() -> None:
    story = Remote()
    request = story.get("a")
    story.tell(events.Unpredictable(model="a", number=story.number, reason="access is denied"))
    refused = story.answers[request]
    assert isinstance(refused, answers.LoadFailed)
    assert refused.reason == "access is denied"
    assert refused.retry_after_sec > 0
    assert story.state("a") is State.FAILED
    again = story.get("a")
    assert isinstance(story.answers[again], answers.LoadFailed)
    assert story.count(effects.Fetch) == 1


def test_an_unload_by_name_ends_it() -> None:
    story = Remote()
    request = story.get("a")
    number = story.number
    story.unload("a")
    assert isinstance(story.answers[request], answers.Cancelled)
    assert effects.StopFetching(model="a", number=number) in story.effects
    assert story.shown()[0] == "cold"
    story.tell(events.Fetched(model="a", number=number))
    assert story.count(effects.Predict) == 1


def test_another_description_ends_it_and_begins_another_one() -> None:
    story = Remote()
    story.get("a", timeout=1000)
    number = story.number
    story.configure(spec("a", options={"n": 2}))
    assert effects.StopFetching(model="a", number=number) in story.effects
    assert story.number > number


def test_a_model_that_is_configured_no_more_is_not_fetched_any_more() -> None:
    story = Remote()
    request = story.get("a", timeout=1000)
    story.configure()
    assert isinstance(story.answers[request], answers.ModelNotFound)
    assert story.count(effects.StopFetching) == 1


def test_what_has_changed_elsewhere_is_loaded_anew_once_it_is_idle() -> None:
    story = Remote()
    story.here = True
    story.hot("a")
    request = story.call(story.get("a"))
    story.tell(events.Renewed(model="a"))
    story.wait(1)
    assert story.state("a") is State.DRAINING
    story.end_call(request)
    story.answer_drain("a")
    story.exit("a", status=0)
    assert story.state("a") is State.COLD
    story.get("a")
    assert story.state("a") is State.LOADING
    story.ready("a")
    story.wait(1)
    assert story.state("a") is State.READY


def test_what_it_uses_is_fetched_beside_it() -> None:
    story = Remote(spec("a"), spec("b", uses=("a",)))
    request = story.get("b", timeout=1000)
    assert story.count(effects.StartWorker) == 0
    story.arrives()
    story.ready("a")
    story.ready("b")
    assert story.granted(request)
