"""Models that call models: the caller is never a victim, and nobody waits in a circle."""

from lazyd.core import answers, events
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, Fallback

from .story import Story, spec


def calling(story: Story, model: str, **fields: object) -> int:
    """A call in flight on a model that is loaded for it."""
    request = story.get(model, **fields)
    if request not in story.answers:
        story.ready(model, after=0.1)
    return story.call(request)


def test_the_model_whose_call_asks_is_not_evicted_for_its_own_request() -> None:
    story = Story(*map(spec, ("pipeline", "idle", "det")), sizes={"pipeline": 4, "idle": 4, "det": 4})
    story.hot("idle")
    story.wait(10)
    parent = calling(story, "pipeline")
    story.get("det", parent=story.granted(parent).lease)
    assert story.state("idle") is State.DRAINING
    story.wait(10)
    assert story.state("pipeline") is State.READY


def test_a_nested_request_goes_before_the_line() -> None:
    story = Story(*map(spec, ("p", "hog", "rival", "det")), sizes={"p": 4, "hog": 6, "rival": 6, "det": 6})
    hog = calling(story, "hog")
    parent = calling(story, "p")
    story.get("rival", timeout=100)
    story.wait(1)
    story.get("det", parent=story.granted(parent).lease, timeout=100)
    story.wait(4)
    story.end_call(hog)
    story.answer_drain("hog")
    story.exit("hog", status=0)
    assert story.state("det") is State.LOADING
    assert story.state("rival") is State.COLD


def test_a_nested_request_may_enter_a_draining_model() -> None:
    story = Story(*map(spec, ("p", "det", "rival")), sizes={"p": 2, "det": 6, "rival": 6})
    parent = calling(story, "p")
    calling(story, "det")
    story.wait(1)
    story.get("rival", timeout=100)
    story.wait(3)
    assert story.state("det") is State.DRAINING
    ordinary = story.get("det", timeout=100)
    assert ordinary not in story.answers
    nested = story.get("det", parent=story.granted(parent).lease)
    story.granted(nested)


def test_a_request_that_closes_a_cycle_of_waiting_is_refused_at_once() -> None:
    story = Story(*map(spec, ("p", "q", "x", "y")), sizes={"p": 5, "q": 5, "x": 3, "y": 3})
    p, q = calling(story, "p"), calling(story, "q")
    first = story.get("x", parent=story.granted(p).lease)
    assert first not in story.answers, "q may finish, and then there is room"
    second = story.get("y", parent=story.granted(q).lease)
    refused = story.answers[second]
    assert isinstance(refused, answers.NoRoom)
    assert (refused.reason, refused.remedy) == (
        "a cycle of waiting: the calls that wait for it hold the memory that it needs, and cannot end before it "
        "answers",
        "name it in the uses of the model that calls it, or give both more memory",
    )
    story.end_call(q)
    story.close(q)
    story.wait(1)
    story.answer_drain("q")
    story.exit("q", status=0)
    assert story.state("x") is State.LOADING


def test_a_request_that_can_have_the_room_of_a_pinned_model_that_is_leaving_waits_for_it() -> None:
    story = Story(*map(spec, ("p", "pinned", "det")), sizes={"p": 3, "pinned": 3, "det": 5})
    story.pin("pinned")
    story.hot("pinned")
    parent = calling(story, "p")
    story.unload("pinned")
    story.answer_drain("pinned")
    nested = story.get("det", parent=story.granted(parent).lease, timeout=100)
    assert nested not in story.answers
    story.exit("pinned", status=0)
    assert story.state("det") is State.LOADING


def test_a_chain_that_needs_more_than_the_device_is_refused_at_once() -> None:
    story = Story(*map(spec, ("p", "x")), sizes={"p": 6, "x": 5})
    parent = calling(story, "p")
    request = story.get("x", parent=story.granted(parent).lease)
    assert isinstance(story.answers[request], answers.NoRoom)


def test_a_plan_gives_way_to_the_request_of_a_caller_that_it_waits_for() -> None:
    story = Story(*map(spec, ("p", "idle", "rival", "x")), sizes={"p": 4, "idle": 4, "rival": 10, "x": 5})
    story.hot("idle")
    parent = calling(story, "p")
    story.get("rival", timeout=300)
    story.wait(10)
    assert story.state("p") is story.state("idle") is State.DRAINING
    nested = story.get("x", parent=story.granted(parent).lease, timeout=300)
    story.answer_drain("idle")
    story.exit("idle", status=0)
    story.ready("x")
    story.granted(nested)


def test_a_parent_that_is_gone_makes_an_ordinary_request() -> None:
    story = Story(spec("x"))
    request = story.get("x", parent="no such lease")
    story.ready("x")
    story.granted(request)
    assert events.Get(request=1, model="x", holder=0).parent is None


def test_plans_do_not_come_and_go_while_a_nested_request_is_blocked() -> None:
    story = Story(*map(spec, ("p", "busy", "rival", "x")), sizes={"p": 4, "busy": 6, "rival": 6, "x": 6})
    calling(story, "busy", hold_s=60.0)
    parent = calling(story, "p")
    story.wait(1)
    story.get("rival", timeout=300)
    story.wait(4)
    nested = story.get("x", parent=story.granted(parent).lease, timeout=300)
    story.wait(20)
    assert nested not in story.answers
    assert story.state("busy") is State.READY


def test_a_call_that_would_wait_for_its_own_caller_is_refused_at_once() -> None:
    story = Story(*map(spec, ("p", "q", "r")))
    outer = calling(story, "p")
    middle = calling(story, "q", parent=story.granted(outer).lease)
    itself = story.get("q", parent=story.granted(middle).lease)
    around = story.get("p", parent=story.granted(middle).lease)
    for request in (itself, around):
        refused = story.answers[request]
        assert isinstance(refused, answers.NoRoom)
        assert (refused.reason, refused.remedy) == (
            "a cycle of waiting: it runs one call at a time, and the one that it runs cannot end before this one is "
            "answered",
            "models must not call each other, or themselves, in a circle",
        )
    story.granted(calling(story, "r", parent=story.granted(middle).lease))


def test_two_calls_that_would_wait_for_each_other_are_not_both_let_in() -> None:
    story = Story(*map(spec, ("p", "q")))
    p, q = calling(story, "p"), calling(story, "q")
    story.call(story.get("q", parent=story.granted(p).lease))
    refused = story.answers[story.get("p", parent=story.granted(q).lease)]
    assert isinstance(refused, answers.NoRoom)


def test_an_idle_connection_of_a_caller_makes_no_cycle() -> None:
    story = Story(*map(spec, ("p", "q")))
    p, q = calling(story, "p"), calling(story, "q")
    nested = story.call(story.get("q", parent=story.granted(p).lease))
    story.end_call(nested)
    story.granted(story.get("p", parent=story.granted(q).lease))


def test_a_call_whose_fallback_is_its_own_caller_is_refused_though_that_needs_no_room() -> None:
    big = spec("big", fallback=Fallback(model="s/x"))
    story = Story(spec("s/*"), big, sizes={"s/x": 6, "big": 6})
    parent = calling(story, "s/x")
    nested = story.get("big", parent=story.granted(parent).lease)
    assert isinstance(story.answers[nested], answers.NoRoom)


def caller_found(story: Story) -> None:
    """The host tells of a call in flight on `p`, which holds 4 of 10 GiB."""
    memo = {"model": "p", "identity": spec("p").identity, "booking": {"ram": 4 * GIB}}
    lease = events.LeaseReport(
        lease="l1", token="t", model="p", holder=1000, granted=60.0, presented=True, called=True, in_flight=1
    )
    ready = events.ObjectReport(model="p", state="ready", since=60.0, load_s=1.0, last_used=60.0)
    worker = events.WorkerReport(
        worker="w1", pid=7, started=50.0, endpoint="/w1", memo=memo, objects=(ready,), leases=(lease,)
    )
    story.tell(events.HostFound(workers=(worker,)))


def test_a_nested_request_that_comes_before_the_host_is_found_is_nested() -> None:
    story = Story(spec("p"), spec("det"), sizes={"p": 4, "det": 8}, host=False)
    nested = story.get("det", parent="l1")
    caller_found(story)
    assert isinstance(story.answers[nested], answers.NoRoom)


def test_one_that_names_a_lease_that_is_not_there_is_none() -> None:
    story = Story(spec("p"), spec("det"), sizes={"p": 4, "det": 8}, host=False)
    request = story.get("det", parent="l2")
    caller_found(story)
    assert not story.core.world.models["det"].nested
    assert request not in story.answers
