"""Why a model is where it is, and who holds what of a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.holders import NAMED, holders
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, Settings
from lazyd.core.why import why

from .story import RESIDENT, Story, spec

NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0)


def said(story: Story, name: str) -> list[str]:
    return why(story.core.world, story.core.world.models.get(name))


def text(story: Story, name: str) -> str:
    return " ".join(said(story, name))


def on(story: Story, device: str = "ram", **fields: bool) -> list[str]:
    return holders(story.core.world, device, **fields)  # type: ignore[arg-type]


# Cold, failed, refused


def test_a_model_that_nobody_asked_for_is_cold() -> None:
    assert said(Story(spec("a")), "a") == ["It is cold: nobody has asked for it yet."]


def test_a_model_that_was_evicted_names_the_one_it_left_for() -> None:
    story = Story(*map(spec, "ab"), sizes={"a": 6, "b": 6})
    story.hot("a")
    story.wait(10)
    story.get("b")
    story.answer_drain("a")
    story.exit("a", status=0)
    story.wait(90)
    assert said(story, "a") == ["It is cold: it left 90 s ago (room for b)."]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda story: (story.wait(60), story.answer_drain("a"), story.exit("a")), "(idle)"),
        (lambda story: (story.unload("a"), story.answer_drain("a"), story.exit("a")), "(unload)"),
        (lambda story: story.exit("a", signal=9), "(the worker was killed by signal 9)"),
    ],
)
def test_a_cold_model_says_how_its_last_life_ended(end: Callable[[Story], object], reason: str) -> None:
    story = Story(spec("a", idle_timeout_s=60.0))
    story.hot("a")
    end(story)
    assert story.state("a") is State.COLD
    assert said(story, "a") == [f"It is cold: it left 0.0 s ago {reason}."]


def test_a_failed_model_says_when_it_is_tried_again() -> None:
    story = Story(spec("a"))
    story.get("a")
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason="no such file"))
    assert "It has failed: no such file." in said(story, "a")
    assert "It is tried again when it is asked for in 1.0 s or later." in said(story, "a")
    story.wait(5)
    assert "It is tried again when it is next asked for." in said(story, "a")


def test_a_resident_without_room_says_who_holds_it() -> None:
    everything = Settings(budget={}, max_pinned=1.0)
    story = Story(spec("a", tier=RESIDENT), settings=everything, sizes={"a": 6, "b": 6})
    story.ready("a")
    story.configure(spec("a", tier=RESIDENT), spec("b", tier=RESIDENT))
    assert story.state("b") is State.COLD
    assert (
        "There was no room for it: it needs 6.0 GiB of ram, whose budget is 10.0 GiB; a holds 6.0 GiB and is"
        in text(story, "b")
    )
    assert "It is wanted: it is resident, and has been missing for" in text(story, "b")


def test_a_resident_that_was_unloaded_by_name_says_so() -> None:
    story = Story(spec("a", tier=RESIDENT))
    story.ready("a")
    story.unload("a")
    story.answer_drain("a")
    story.exit("a", status=0)
    assert "It was unloaded by name, and comes back when it is next asked for." in said(story, "a")


# Loading, parked, leaving


def test_a_load_says_how_far_it_is_and_who_waits() -> None:
    story = Story(spec("a"), sizes={"a": 3})
    request = story.get("a")
    story.wait(2)
    story.tell(events.LoadProgress(worker=story.worker("a"), model="a", phase="weights", fraction=0.4))
    assert said(story, "a") == [
        "It has been loading for 2.0 s (weights, 40% done).",
        "It is in RAM, booked with 3.0 GiB of ram.",
        "A request waits for it.",
    ]
    story.tell(events.Cancel(request=request))
    assert "Nobody waits for it any more: it goes on loading until somebody else needs its memory." in said(story, "a")


def test_a_parked_model_says_what_it_keeps_and_until_when() -> None:
    story = Story(spec("a", idle_timeout_s=60.0, device=("gpu0",)), gpus_gib=[8], ram_gib=40, settings=NO_MARGIN)
    request = story.get("a")
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(60)
    story.answer_drain("a")
    story.tell(events.ObjectParked(worker=story.worker("a"), model="a"))
    story.wait(60)
    assert "It has been parked for 60 s: its process stays" in said(story, "a")[0]
    assert said(story, "a")[1] == "Unless it is used, it leaves in 9 min."


def test_a_model_that_drains_says_for_whom_and_what_is_in_flight() -> None:
    story = Story(spec("a"), spec("b", max_wait_s=5.0), sizes={"a": 6, "b": 6})
    call = story.get("a")
    story.ready("a")
    story.call(call)
    story.wait(10)
    story.get("b")
    story.wait(6)
    assert said(story, "a") == ["It has been leaving for 1.0 s: room for b.", "A call is in flight."]
    assert "Room is being made for it: a is waited for, as a call is in flight." in said(story, "b")


def test_a_model_whose_bytes_are_not_seen_to_be_free_says_so() -> None:
    story = Story(spec("a"), gpus_gib=[8], sizes={"a": 6}, settings=NO_MARGIN)
    story.hot("a")
    story.stick("a", "gpu0")
    story.unload("a")
    story.answer_drain("a")
    assert said(story, "a")[0].endswith("its process is ending.")
    story.exit("a", status=0)
    story.wait(1.5)
    unseen = "its process ended 1.5 s ago, and gpu0 has yet to show its memory to be free"
    assert said(story, "a")[0].endswith(f"{unseen}.")
    assert on(story, "gpu0") == [f"a holds 6.0 GiB: {unseen}"]
    story.wait(10)
    assert on(story, "gpu0") == ["6.0 GiB of a never came back"]


# Ready


def test_an_idle_model_says_what_its_leaving_would_cost_and_give_back() -> None:
    story = Story(spec("a"), gpus_gib=[8], sizes={"a": 5}, settings=NO_MARGIN)
    story.hot("a", after=4)
    story.wait(30)
    assert said(story, "a") == [
        "It has been ready for 30 s, and was last used 30 s ago.",
        "It is on gpu0, and its leaving would give back 5.0 GiB of gpu0 and 512 MiB of ram.",
        "It may leave for another, at a cost of 0.32 s: a load takes 4.0 s, "
        "and the chance that it is wanted again soon is 8%.",
        "Unless it is used, it leaves in 10 min (idle_timeout).",
    ]


def test_a_ready_model_names_all_that_protects_it() -> None:
    story = Story(spec("a", pin=True))
    held, called = story.get("a", hold_s=60), story.get("a")
    story.ready("a", after=3)
    story.call(held)
    story.wait(1)
    protected = next(clause for clause in said(story, "a") if clause.startswith("It does not leave"))
    for reason in (
        "it is pinned",
        "a call is in flight",
        "a client holds it for 59 s more",
        "a client was given it just now, and has yet to call",
        "it was loaded just now, and serves for 5.0 s more before it leaves for another",
    ):
        assert reason in protected
    story.call(called)
    assert "2 calls are in flight" in text(story, "a")


@pytest.mark.parametrize(
    ("fields", "gpus", "clause"),
    [
        ({}, (), "It is in RAM, and"),
        ({"device": ("ram",)}, (8.0,), "It is in RAM (device = ram), and"),
        ({}, (1.0,), "It is in RAM, as no GPU had room for it then, and"),
        ({"device": ("gpu1",)}, (8.0, 8.0), "It is on gpu1 (device = gpu1), and"),
        ({"beside": ("b",)}, (20.0, 20.0), "It is on gpu0, beside b, and"),
    ],
)
def test_a_ready_model_says_where_it_is_and_why_there(
    fields: dict[str, tuple[str, ...]], gpus: tuple[float, ...], clause: str
) -> None:
    story = Story(spec("a", **fields), spec("b"), gpus_gib=gpus, sizes={"a": 3, "b": 1}, settings=NO_MARGIN)
    if "beside" in fields:
        story.hot("b")
    story.hot("a")
    assert clause in text(story, "a")


def test_an_object_of_a_family_gives_back_its_place_and_the_last_one_all() -> None:
    story = Story(spec("strategy/*", max_loaded=2), sizes={"strategy/x": 2})
    story.hot("strategy/x")
    assert "would give back 2.0 GiB of ram" in text(story, "strategy/x")
    story.hot("strategy/y")
    assert "It is in the worker of strategy/*, with 1 more of the family" in text(story, "strategy/x")
    assert "would give back its place" in text(story, "strategy/x")


def test_what_is_used_by_another_says_by_whom_and_stays_as_long() -> None:
    story = Story(spec("ocr", uses=("det",), idle_timeout_s=300), spec("det", idle_timeout_s=10))
    request = story.get("ocr")
    story.ready("det")
    assert "It does not leave for being idle (ocr uses it)." in said(story, "det")
    story.ready("ocr", after=60)
    story.call(request)
    story.wait(100)
    assert "It does not leave for another: it is needed by ocr just now." in said(story, "det")
    story.end_call(request)
    story.close(request)
    story.wait(100)
    assert "It may leave for another" in text(story, "det")
    assert "Unless it is used, it leaves in 3 min (ocr uses it)." in said(story, "det")
    assert "Unless it is used, it leaves in 3 min (idle_timeout)." in said(story, "ocr")


# Waiting


def test_a_model_that_waits_says_what_it_needs_and_who_holds_it() -> None:
    story = Story(spec("a", pin=True), spec("b"), spec("c"), sizes={"a": 4, "b": 3, "c": 4})
    story.hot("a")
    call = story.get("b")
    story.ready("b")
    story.call(call)
    story.get("c", timeout=60)
    story.wait(1)
    assert said(story, "c") == [
        "It is cold: it has not been loaded yet.",
        "It is wanted: a request waits for it, the first for 1.0 s.",
        "It needs 4.0 GiB of ram, where 3.0 GiB of 10.0 GiB are free: "
        "a holds 4.0 GiB and is pinned; b holds 3.0 GiB: a call is in flight.",
    ]


def test_a_timeout_says_who_held_what() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    call = story.get("a", hold_s=60)
    story.ready("a")
    story.call(call)
    request = story.get("b", timeout=5)
    story.wait(5)
    outcome = story.answers[request]
    assert isinstance(outcome, answers.Timeout)
    assert outcome.reason is not None
    assert "it needs 6.0 GiB of ram, where 4.0 GiB of 10.0 GiB are free" in outcome.reason
    assert "a holds 6.0 GiB: a call is in flight" in outcome.reason


def test_a_model_that_waits_for_a_place_of_its_family_says_so() -> None:
    story = Story(spec("strategy/*", max_loaded=1))
    call = story.get("strategy/x")
    story.ready("strategy/x")
    story.call(call)
    story.get("strategy/y", timeout=60)
    assert "It needs 1 place of strategy/*, where 0 places of 1 place are free" in text(story, "strategy/y")
    assert "strategy/* holds 1 place: a call is in flight (strategy/x)" in text(story, "strategy/y")


def test_a_model_behind_a_driver_that_does_not_answer_says_so() -> None:
    story = Story(spec("a", device=("gpu0",)), gpus_gib=[8], settings=NO_MARGIN)
    story.wait(10)
    story.silent.add("gpu0")
    story.get("a", timeout=60)
    assert "A new sample of gpu0 is awaited." in said(story, "a")
    story.wait(3)
    assert "The driver of gpu0 has not answered for 3.0 s, and nothing is loaded there until it does." in said(
        story, "a"
    )


def test_a_model_says_who_stands_before_it() -> None:
    story = Story(*map(spec, "abcdef"), sizes=dict.fromkeys("abcdef", 8))
    call = story.get("a", hold_s=100)
    story.ready("a")
    story.call(call)
    for name in "bcdef":
        story.get(name, timeout=60)
        story.wait(0.1)
    assert "Before it in the line: b." in said(story, "c")
    assert "Before it in the line: b, c, d and 1 more." in said(story, "f")


def test_a_model_whose_needs_are_not_known_yet_says_so() -> None:
    story = Story(spec("a"))
    story.core.handle(events.Get(request=99, model="a", holder=0), story.now)
    assert "What it needs is being found out." in said(story, "a")


def test_a_model_waits_for_the_worker_host() -> None:
    story = Story(spec("a"), host=False)
    story.get("a")
    assert "The worker host is not connected, and nothing is loaded until it is." in said(story, "a")


# Who holds a device


def test_holders_are_named_the_largest_first_and_beyond_a_number_added_up() -> None:
    names = [f"m{number:02}" for number in range(NAMED + 3)]
    story = Story(*map(spec, names), ram_gib=100, sizes={name: 1 + int(name[1:]) for name in names})
    for name in names:
        story.hot(name)
    story.wait(10)
    phrases = on(story)
    assert phrases[0] == f"m{NAMED + 2:02} holds {NAMED + 3}.0 GiB and may leave"
    assert phrases[NAMED:] == ["3 others hold 6.0 GiB"]


def test_reservations_strangers_and_quarantine_are_holders_too() -> None:
    story = Story(spec("a"), gpus_gib=[22], settings=NO_MARGIN)
    story.tell(events.Reserve(request=99, device="gpu0", bytes=8 * GIB, holder=7, pid=4711, command="python train.py"))
    story.strangers["gpu0"] = 2 * GIB
    story.sample("gpu0")
    assert on(story, "gpu0") == [
        "a reservation of pid 4711 (python train.py) holds 8.0 GiB",
        "other programs use 2.0 GiB",
    ]


def test_strangers_beside_a_small_budget_are_in_nobodys_way() -> None:
    story = Story(spec("a"), gpus_gib=[22], settings=Settings(budget={"gpu0": 4 * GIB}, gpu_margin_bytes=0))
    for used_gib, named in ((18, []), (19, ["other programs use 19.0 GiB"])):
        story.strangers["gpu0"] = used_gib * GIB
        story.sample("gpu0")
        assert on(story, "gpu0") == named


def test_who_is_told_that_it_can_never_fit_hears_of_what_does_not_go_by_itself_alone() -> None:
    story = Story(spec("a", pin=True), spec("b"), spec("c"), sizes={"a": 4, "b": 3, "c": 8})
    story.hot("a")
    story.hot("b")
    assert on(story, lasting=True) == [
        "a holds 4.0 GiB and is pinned",
    ]
    refused = story.answers[story.get("c")]
    assert isinstance(refused, answers.NoRoom)
    assert refused.reason == (
        "it needs 8.0 GiB of ram, whose budget is 10.0 GiB; a holds 4.0 GiB and is pinned; "
        "6.0 GiB of ram can be had once all that may leave has left"
    )


def test_looking_changes_nothing() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    call = story.get("a")
    story.ready("a")
    story.call(call)
    story.get("b", timeout=60)
    story.wait(4)
    before, due, sent = repr(story.core), story.core.next_deadline(), len(story.effects)
    for name in "ab":
        said(story, name)
    assert (repr(story.core), story.core.next_deadline(), len(story.effects)) == (before, due, sent)
    assert not story.core.world.out
    assert story.count(effects.StartWorker) == 1
