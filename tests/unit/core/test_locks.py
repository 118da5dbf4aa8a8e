"""Locked files: they take room that nobody needs, are booked once, and give way."""

from __future__ import annotations

from typing import Any

from lazyd.core import answers, effects, events, view
from lazyd.core.lifecycle import State
from lazyd.core.shown import Model
from lazyd.core.spec import GIB, ModelSpec, Settings

from .story import Story, spec, ways

ALL = Settings(budget={}, max_pinned=1.0)


def lockable(name: str, **fields: Any) -> ModelSpec:
    return spec(name, ram_lock=True, **fields)


def lock(story: Story, model: str, gib: float = 1, **files: float) -> int:
    """Asks for the files of a model to be locked: one of so many GiB, or those named."""
    request = next(story.requests)
    given = {name: int(n * GIB) for name, n in (files or {model: gib}).items()}
    story.tell(events.LockFiles(request=request, model=model, files=given))
    return request


def held(story: Story, model: str, gib: float = 1) -> None:
    """The files of a model are locked. From now on they are a part of what the machine shows to be used."""
    assert story.answers[lock(story, model, gib)] == answers.Done()
    story.strangers["ram"] = story.strangers.get("ram", 0) + int(gib * GIB)
    story.tell(events.FilesLocked(model=model))


def let_go(story: Story, model: str, gib: float = 1) -> None:
    """The host has unlocked them."""
    story.strangers["ram"] -= int(gib * GIB)
    story.tell(events.FilesUnlocked(model=model))


def ordered(story: Story) -> list[str]:
    """Whose files the host was told to let go of."""
    return [effect.model for effect in story.effects if isinstance(effect, effects.UnlockFiles)]


def refusal(story: Story, request: int) -> answers.NoRoom:
    outcome = story.answers[request]
    assert isinstance(outcome, answers.NoRoom), outcome
    return outcome


def test_locked_files_are_booked_until_they_are_seen_to_be_let_go_of() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a", 3)
    assert story.free_gib == 7
    story.unload("a")
    assert ordered(story) == ["a"]
    assert story.free_gib == 7
    let_go(story, "a", 3)
    story.wait(1.5)
    story.sample("ram")
    assert story.free_gib == 10


def test_what_is_locked_is_not_taken_for_strangers() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a", 3)
    for _ in range(3):
        story.wait(1)
        story.sample("ram")
    ram = story.core.world.ledger.devices["ram"]
    assert (ram.foreign_bytes, ram.sure_foreign_bytes, ram.free_bytes) == (0, 0, 7 * GIB)


def test_a_sample_from_before_the_lock_still_shows_strangers_as_they_were() -> None:
    story = Story(lockable("a"), settings=ALL)
    story.strangers["ram"] = 4 * GIB
    before = story.now
    story.sample("ram")
    story.wait(0.1)
    story.silent.add("ram")
    assert story.answers[lock(story, "a", 3)] == answers.Done()
    story.tell(events.FilesLocked(model="a"))
    story.sample("ram", begun=before)
    assert story.core.world.ledger.devices["ram"].foreign_bytes == 4 * GIB


def test_a_file_is_booked_once_with_the_worker_that_maps_it() -> None:
    predicted = events.Predicted(model="a", ways=ways(1), files={"8:1": 2 * GIB})
    story = Story(lockable("a", idle_timeout_s=60.0), settings=ALL, predictions={"a": predicted})
    story.hot("a")
    assert story.free_gib == 7
    assert story.answers[lock(story, "a", **{"8:1": 2})] == answers.Done()
    assert story.free_gib == 7
    story.tell(events.FilesLocked(model="a"))
    story.wait(62)
    story.answer_drain("a")
    story.exit("a", status=0)
    story.sample("ram", used_bytes=2 * GIB)
    assert story.state("a") is State.COLD
    assert story.free_gib == 8


def test_it_does_not_make_models_leave() -> None:
    story = Story(lockable("a"), spec("b"), sizes={"b": 8}, settings=ALL)
    story.hot("b")
    story.wait(100)
    refused = refusal(story, lock(story, "a", 3))
    assert (refused.device, refused.needed_bytes, refused.free_bytes) == ("ram", 3 * GIB, 2 * GIB)
    assert "b holds 8.0 GiB" in refused.reason
    assert story.state("b") is State.READY


def test_a_lock_makes_the_one_used_least_recently_leave() -> None:
    story = Story(*map(lockable, "abcd"), settings=ALL)
    held(story, "a", 4)
    story.wait(10)
    held(story, "b", 4)
    story.wait(10)
    assert story.answers[lock(story, "a", 4)] == answers.Done()  # asked for again: it is used
    request = lock(story, "c", 4)
    assert ordered(story) == ["b"]
    assert request not in story.answers
    let_go(story, "b", 4)
    story.wait(1.5)
    assert story.answers[request] == answers.Done()
    assert story.free_gib == 2


def test_none_leaves_if_all_of_them_would_not_do() -> None:
    story = Story(lockable("a"), lockable("b"), spec("c"), sizes={"c": 5}, settings=ALL)
    story.hot("c")
    held(story, "a", 2)
    assert refusal(story, lock(story, "b", 6))
    assert ordered(story) == []


def test_with_pins_and_residents_it_stays_below_max_pinned() -> None:
    story = Story(lockable("a"), spec("b", pin=True), sizes={"b": 4}, settings=Settings(budget={}, max_pinned=0.5))
    story.hot("b")
    refused = refusal(story, lock(story, "a", 2))
    assert "max_pinned" in refused.reason
    assert refused.free_bytes == GIB
    assert story.answers[lock(story, "a", 1)] == answers.Done()


def test_all_locks_together_stay_below_max_pinned_and_the_one_used_least_recently_leaves() -> None:
    story = Story(*map(lockable, "abc"), settings=Settings(budget={}, max_pinned=0.5))
    held(story, "a", 2)
    story.wait(10)
    held(story, "b", 2)
    request = lock(story, "c", 3)
    assert ordered(story) == ["a"]
    assert request not in story.answers
    let_go(story, "a", 2)
    story.wait(1.5)
    assert story.answers[request] == answers.Done()


def test_what_is_pinned_meanwhile_counts_before_a_lock_that_waits_for_another() -> None:
    story = Story(lockable("a"), lockable("c"), spec("b"), sizes={"b": 4}, settings=Settings(budget={}, max_pinned=0.5))
    story.hot("b")
    held(story, "a", 2)
    request = lock(story, "c", 4)
    story.tell(events.Pin(request=next(story.requests), model="b", pinned=True))
    let_go(story, "a", 2)
    story.wait(1.5)
    assert "max_pinned" in refusal(story, request).reason


def test_what_is_freed_for_somebody_who_has_gone_is_not_counted_against_it() -> None:
    story = Story(lockable("a"), spec("b"), spec("c"), sizes={"b": 4, "c": 8}, settings=ALL)
    story.hot("b")
    story.wait(100)
    request = story.get("c")
    story.answer_drain("b")
    assert story.state("b") is State.UNLOADING
    story.tell(events.Cancel(request=request))
    assert story.answers[lock(story, "a", 3)] == answers.Done()


def test_it_gives_way_to_a_load_that_would_be_refused() -> None:
    story = Story(lockable("a"), spec("b"), sizes={"b": 8}, settings=ALL)
    held(story, "a", 4)
    request = story.get("b")
    assert ordered(story) == ["a"]
    assert request not in story.answers
    let_go(story, "a", 4)
    story.wait(1.5)
    assert story.state("b") is State.LOADING


def test_idle_models_go_before_it() -> None:
    story = Story(lockable("a"), spec("b"), spec("c"), sizes={"b": 5, "c": 5}, settings=ALL)
    held(story, "a", 4)
    story.hot("b")
    story.wait(100)
    story.get("c")
    assert story.state("b") is State.DRAINING
    assert ordered(story) == []


def test_it_goes_before_anybody_waits_for_a_busy_model() -> None:
    story = Story(lockable("a"), spec("b"), spec("c"), sizes={"b": 5, "c": 4}, settings=ALL)
    held(story, "a", 4)
    story.hot("b")
    story.call(story.get("b"))
    story.get("c")
    assert story.state("b") is State.READY
    assert ordered(story) == ["a"]


def test_idle_models_and_locked_files_leave_together_where_neither_is_enough() -> None:
    story = Story(lockable("a"), spec("b"), spec("c"), sizes={"b": 5, "c": 9}, settings=ALL)
    held(story, "a", 4)
    story.hot("b")
    story.wait(100)
    story.get("c")
    let_go(story, "a", 4)
    story.wait(1.5)
    story.answer_drain("b")
    story.exit("b", status=0)
    story.wait(1.5)
    assert story.state("c") is State.LOADING


def test_it_gives_way_to_a_reservation() -> None:
    story = Story(lockable("a"), settings=Settings(budget={}, max_pinned=1.0, max_reserved=1.0))
    held(story, "a", 4)
    story.tell(events.Reserve(request=next(story.requests), device="ram", bytes=8 * GIB, holder=1000))
    assert ordered(story) == ["a"]


def test_it_leaves_a_device_that_holds_too_much() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a", 4)
    story.strangers["ram"] += 8 * GIB
    for _ in range(2):
        story.wait(1)
        story.sample("ram")
    assert ordered(story) == ["a"]


def test_it_leaves_where_programs_stall_and_no_model_is_idle() -> None:
    story = Story(lockable("a"), lockable("b"), settings=ALL)
    held(story, "a", 1)
    story.wait(1)
    held(story, "b", 1)
    story.tell(events.MemoryPressure())
    assert ordered(story) == ["a"]


def test_a_changed_spec_ends_it_and_a_changed_idle_time_does_not() -> None:
    story = Story(lockable("a"), lockable("b"), lockable("c"), settings=ALL)
    for model in "abc":
        held(story, model)
    story.configure(lockable("a", idle_timeout_s=5.0), spec("b"), lockable("c", options={"x": 1}))
    assert sorted(ordered(story)) == ["b", "c"]


def test_a_stop_ends_it() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a")
    story.tell(events.Stop(deadline=story.now + 30))
    assert ordered(story) == ["a"]
    story = Story(lockable("a"), settings=ALL)
    story.tell(events.Stop(deadline=story.now + 30))
    assert isinstance(story.answers[lock(story, "a")], answers.ShuttingDown)


def test_unload_of_all_leaves_it_alone_unless_forced() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a")
    story.unload(all=True)
    assert ordered(story) == []
    forced = story.unload(all=True, force=True)
    assert ordered(story) == ["a"]
    assert story.answers[forced] == answers.Unloaded(unloaded=("a",))


def test_unload_by_name_says_that_it_was_there() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a")
    assert story.answers[story.unload("a")] == answers.Unloaded(unloaded=("a",))


def test_a_refusal_of_the_kernel_gives_the_bytes_back() -> None:
    story = Story(lockable("a"), settings=ALL)
    lock(story, "a", 3)
    story.tell(events.FilesUnlocked(model="a", reason="RLIMIT_MEMLOCK"))
    story.wait(1.5)
    story.sample("ram")
    assert story.free_gib == 10
    (note,) = [e for e in story.effects if isinstance(e, effects.Note) and e.kind == "unlocked"]
    assert note.reason == "RLIMIT_MEMLOCK"


def test_one_that_was_let_go_of_before_it_was_locked_is_let_go_of_again() -> None:
    story = Story(lockable("a"), settings=ALL)
    lock(story, "a")
    story.unload("a")
    story.tell(events.FilesLocked(model="a"))
    assert ordered(story) == ["a", "a"]


def test_the_next_manager_books_what_the_host_has_locked() -> None:
    story = Story(lockable("a"), spec("b"), settings=ALL, host=False)
    locks = (
        events.LockReport(model="a", files={"8:1": 3 * GIB}),
        events.LockReport(model="b", files={"8:2": 2 * GIB}),
        events.LockReport(model="gone", files={"8:3": GIB}),
    )
    story.tell(events.HostFound(locks=locks))
    assert sorted(ordered(story)) == ["b", "gone"]  # not to be locked any more, not configured any more
    assert story.free_gib == 4


def test_who_asks_before_the_host_is_found_is_answered_when_it_tells_of_that_very_lock() -> None:
    for files, outcome in (({"8:1": GIB}, answers.Done()), ({"8:2": GIB}, None)):
        story = Story(lockable("a"), settings=ALL, host=False)
        request = lock(story, "a", **{"8:1": 1})
        story.tell(events.HostFound(locks=(events.LockReport(model="a", files=files),)))
        assert story.answers.get(request) == outcome
        if outcome is None:
            assert ordered(story) == ["a"]
            story.tell(events.FilesUnlocked(model="a"))
            story.wait(1.5)
            assert story.answers[request] == answers.Done()


def test_a_host_that_is_found_again_is_told_what_it_missed() -> None:
    story = Story(*map(lockable, "abc"), settings=ALL)
    for model in "ab":
        held(story, model)
    lock(story, "c")
    story.tell(events.HostAway())
    story.unload("a")
    story.tell(events.HostFound(locks=(events.LockReport(model="a", files={"a": GIB}),)))
    assert ordered(story) == ["a", "a"]
    assert sorted(story.core.world.locks) == ["a", "c"]  # b is lost; c was booked, and its order is given again


def test_the_death_of_the_host_unlocks() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a", 3)
    story.tell(events.HostLost())
    story.strangers.clear()
    story.tell(events.HostFound())
    story.wait(1.5)
    story.sample("ram")
    assert story.free_gib == 10


def test_a_client_that_leaves_before_it_is_decided_takes_its_wish_along() -> None:
    story = Story(*map(lockable, "ab"), settings=ALL)
    held(story, "a", 8)
    request = lock(story, "b", 8)
    story.tell(events.Cancel(request=request))
    let_go(story, "a", 8)
    story.wait(1.5)
    assert not story.core.world.locks
    assert request not in story.answers


def test_what_is_locked_of_files_that_were_replaced_is_let_go_of() -> None:
    predicted = events.Predicted(model="a", ways=ways(1), files={"8:2": GIB})
    story = Story(lockable("a"), settings=ALL, predictions={"a": predicted})
    lock(story, "a", **{"8:1": 1})
    story.get("a")
    assert ordered(story) == ["a"]


def test_a_locked_model_is_shown_as_warm_with_what_is_locked_and_booked() -> None:
    story = Story(lockable("a"), settings=ALL)
    held(story, "a", 2)
    shown = view.model(story.core, "a", story.now, cached={"a": 1.0})
    assert shown is not None
    assert (shown.residency, shown.cached_fraction) == ("warm", 1.0)
    assert (shown.locked_bytes, shown.booked_bytes) == (2 * GIB, {"ram": 2 * GIB})


def test_a_model_is_warm_if_nearly_all_of_its_files_are_cached_and_hot_while_it_serves() -> None:
    story = Story(spec("a"))
    for part, residency in ((0.0, "cold"), (0.94, "cold"), (0.95, "warm"), (1.0, "warm")):
        for shown in (view.models(story.core, story.now, cached={"a": part})[0], seen(story, part)):
            assert (shown.residency, shown.cached_fraction) == (residency, part)
    story.hot("a")
    assert seen(story, 1.0).residency == "hot"


def seen(story: Story, part: float) -> Model:
    shown = view.model(story.core, "a", story.now, cached={"a": part})
    assert shown is not None
    return shown
