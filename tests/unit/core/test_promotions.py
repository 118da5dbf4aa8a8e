"""What a person says of names, and going back."""

from lazyd.core import answers, effects
from lazyd.core.lifecycle import State
from lazyd.core.meanings import Kept, Meant
from lazyd.core.spec import Split

from .story import Story, spec

OCR = (spec("ocr:3"), spec("ocr:4"))


def kept(story: Story) -> Kept:
    """Of the name `ocr`, as it was to be kept last."""
    return next(e.kept["ocr"] for e in reversed(story.effects) if isinstance(e, effects.KeepMeanings))


def promoted(outcome: answers.Outcome) -> tuple[str, str, str]:
    assert isinstance(outcome, answers.Promoted), outcome
    return outcome.before, outcome.model, outcome.answers


def test_a_name_means_what_was_promoted_and_that_is_kept() -> None:
    story = Story(*OCR)
    assert promoted(story.promote("ocr", "ocr:3")) == ("ocr:4", "ocr:3", "ocr:3")
    story.get("ocr")
    assert story.state("ocr:3") is State.LOADING
    assert kept(story).promoted == "ocr:3"
    assert [(m.model, m.how) for m in kept(story).history] == [("ocr:4", "configured"), ("ocr:3", "promoted")]


def test_what_answers_until_the_promoted_one_is_ready_is_told() -> None:
    story = Story(*OCR)
    story.get("ocr")
    story.ready("ocr:4")
    assert promoted(story.promote("ocr", "ocr:3")) == ("ocr:4", "ocr:3", "ocr:4")
    assert story.state("ocr:3") is State.LOADING


def test_a_promotion_outlives_the_manager_and_another_configuration() -> None:
    story = Story(*OCR, kept={"ocr": Kept(promoted="ocr:3", history=(Meant(model="ocr:3"),))})
    story.configure(*OCR, spec("ocr:5"))
    story.get("ocr")
    assert story.state("ocr:3") is State.LOADING


def test_promoting_nothing_means_again_what_is_configured() -> None:
    story = Story(*OCR)
    story.promote("ocr", "ocr:3")
    assert promoted(story.promote("ocr", None)) == ("ocr:3", "ocr:4", "ocr:4")
    story.configure(*OCR, spec("ocr:5"))
    story.get("ocr")
    assert story.state("ocr:5") is State.LOADING


def test_what_does_not_exist_is_not_promoted_and_the_nearest_is_named() -> None:
    story = Story(*OCR)
    assert story.promote("ocr", "ocr:5") == answers.ModelNotFound(model="ocr:5", nearest="ocr:4")
    assert story.promote("orc", "ocr:4") == answers.ModelNotFound(model="orc", nearest=None)


def test_rolling_back_a_promotion_means_what_was_configured_before() -> None:
    story = Story(*OCR)
    story.promote("ocr", "ocr:3")
    assert promoted(story.rollback("ocr")) == ("ocr:3", "ocr:4", "ocr:4")
    assert kept(story).promoted is None
    assert isinstance(story.rollback("ocr"), answers.ModelNotFound)


def test_rolling_back_a_version_that_came_by_itself_pins_the_one_before() -> None:
    story = Story(*OCR)
    story.configure(*OCR, spec("ocr:5"))
    assert promoted(story.rollback("ocr")) == ("ocr:5", "ocr:4", "ocr:4")
    assert kept(story).promoted == "ocr:4"
    story.configure(*OCR, spec("ocr:5"), spec("ocr:6"))
    story.get("ocr")
    assert story.state("ocr:4") is State.LOADING


def test_rolling_back_several_times_goes_further_back_and_passes_what_is_no_more() -> None:
    story = Story(spec("ocr:1"))
    story.configure(spec("ocr:1"), spec("ocr:2"))
    story.configure(spec("ocr:1"), spec("ocr:2"), spec("ocr:3"))
    story.configure(spec("ocr:1"), spec("ocr:3"), spec("ocr:4"))
    assert promoted(story.rollback("ocr"))[1] == "ocr:3"
    assert promoted(story.rollback("ocr"))[1] == "ocr:1"


def test_a_split_alias_that_was_promoted_goes_back_to_its_weights() -> None:
    split = {"reader": Split(weights={"ocr:3": 90, "ocr:4": 10})}
    story = Story(*OCR, splits=split)
    story.hot("ocr:3")
    story.hot("ocr:4")
    story.promote("reader", "ocr:4")
    assert {story.granted(story.get("reader")).version for _ in range(10)} == {"4"}
    assert promoted(story.rollback("reader"))[1] == "ocr:3"
    assert {story.granted(story.get("reader")).version for _ in range(10)} == {"3", "4"}


def test_the_clients_of_a_split_alias_move_to_what_was_promoted() -> None:
    story = Story(*OCR, splits={"reader": Split(weights={"ocr:3": 90, "ocr:4": 10})})
    story.hot("ocr:3")
    story.hot("ocr:4")
    keys = (f"user-{n}" for n in range(100))
    leases = (story.granted(story.get("reader", sticky=key)) for key in keys)
    lease = next(lease for lease in leases if lease.version == "3")
    story.promote("reader", "ocr:4")
    assert lease.lease in [e.lease for e in story.effects if isinstance(e, effects.Revoke)]


def test_what_was_said_of_a_model_that_is_no_more_is_told_once_and_counts_again_when_it_is_back() -> None:
    story = Story(*OCR)
    story.promote("ocr", "ocr:3")
    for _ in range(2):
        story.configure(spec("ocr:4"))
    notes = [e for e in story.effects if isinstance(e, effects.Note) and e.kind == "promotion ignored"]
    assert len(notes) == 1
    assert story.core.world.meanings["ocr"] == "ocr:4"
    story.configure(*OCR)
    assert story.core.world.meanings["ocr"] == "ocr:3"


def test_a_version_that_came_while_no_manager_ran_is_one_to_go_back_from() -> None:
    history = (Meant(model="ocr:3"),)
    story = Story(*OCR, kept={"ocr": Kept(history=history)})
    assert promoted(story.rollback("ocr"))[:2] == ("ocr:4", "ocr:3")


def test_a_name_is_promoted_as_a_whole_or_not_at_all_while_the_daemon_stops() -> None:
    from lazyd.core import events

    story = Story(*OCR)
    story.tell(events.Stop(deadline=story.now + 5))
    assert isinstance(story.promote("ocr", "ocr:3"), answers.ShuttingDown)
    assert story.core.world.meanings["ocr"] == "ocr:4"


def test_an_alias_of_an_alias_goes_along_with_it_until_it_is_promoted_itself() -> None:
    split = Split(weights={"ocr:3": 90, "ocr:4": 10}, shadow=None)
    aliases = {"text": "reader", "page": "text", "one": "ocr"}
    story = Story(*OCR, aliases=aliases, splits={"reader": split})
    story.hot("ocr:3")
    story.hot("ocr:4")
    assert {story.granted(story.get("page")).version for _ in range(10)} == {"3", "4"}
    story.promote("text", "ocr:4")
    assert {story.granted(story.get("page")).version for _ in range(10)} == {"4"}
    assert {story.granted(story.get("reader")).version for _ in range(10)} == {"3", "4"}
    story.promote("page", "ocr:3")
    story.promote("ocr", "ocr:3")
    assert [story.granted(story.get(name)).version for name in ("page", "text", "one")] == ["3", "4", "3"]
    story.promote("page", None)
    story.promote("text", None)
    assert {story.granted(story.get("page")).version for _ in range(10)} == {"3", "4"}
