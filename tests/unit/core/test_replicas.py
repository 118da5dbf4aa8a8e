"""Models that may have several workers: which of them answers, and when one more is loaded."""

from typing import Any

import pytest

from lazyd.core import answers, effects, events, replicas, view
from lazyd.core.lifecycle import State
from lazyd.core.names import model_key, replica_key
from lazyd.core.spec import Config, ModelSpec, Split, Tier

from .story import RESIDENT, Story, spec

IDLE_S = 60.0


def model(name: str = "x", n: int = 3, **fields: Any) -> ModelSpec:
    return spec(name, replicas=n, **{"idle_timeout_s": IDLE_S, **fields})


def busy(n: int = 1, **fields: Any) -> tuple[Story, list[int]]:
    """`n` calls are in flight, each in a worker of its own."""
    story = Story(model(**fields))
    calls = [story.get("x")]
    story.ready("x")
    story.call(calls[0])
    for number in range(2, n + 1):
        if story.state(f"x#{number}") is State.COLD:  # one that finds all busy has one more loaded
            story.end_call(story.call(request := story.get("x")))
            story.close(request)
        story.ready(f"x#{number}")
        calls.append(story.call(story.get("x")))
    return story, calls


def member_in_two() -> tuple[Story, int]:
    """A member of a family is in both of its workers; a call is in flight in the first."""
    story = Story(model("strategy/*", n=2))
    first = story.get("strategy/a")
    story.ready("strategy/a")
    story.call(first)
    story.get("strategy/a")
    story.ready("strategy/a#2")
    return story, first


def where(story: Story, request: int) -> str:
    """The worker that a lease is on."""
    worker = story.core.world.workers[story.granted(request).worker]
    return worker.spec.key


def states(story: Story, n: int = 3, name: str = "x") -> list[State]:
    return [story.state(name), *(story.state(f"{name}#{number}") for number in range(2, n + 1))]


def test_a_first_use_loads_one_worker() -> None:
    story = Story(model())
    story.get("x")
    assert states(story) == [State.LOADING, State.COLD, State.COLD]


def test_a_load_loads_one_worker_and_a_second_one_finds_it() -> None:
    story = Story(model())
    request = story.load("x")
    story.ready("x")
    assert isinstance(story.answers[request], answers.Loaded)
    assert isinstance(story.answers[story.load("x")], answers.Loaded)
    assert states(story) == [State.READY, State.COLD, State.COLD]


def test_who_finds_all_busy_is_served_at_once_and_one_more_is_loaded() -> None:
    story, _ = busy()
    second = story.get("x")
    assert where(story, second) == "x"
    assert states(story) == [State.READY, State.LOADING, State.COLD]


def test_a_worker_that_loads_already_counts_so_that_each_call_too_many_loads_one() -> None:
    story, _ = busy()
    for _ in range(5):
        story.get("x")
    assert states(story) == [State.READY, State.LOADING, State.LOADING]


def test_those_who_waited_for_the_first_load_have_more_loaded_as_soon_as_it_is_ready() -> None:
    story = Story(model())
    requests = [story.get("x") for _ in range(3)]
    assert states(story) == [State.LOADING, State.COLD, State.COLD]
    story.ready("x")
    assert {where(story, request) for request in requests} == {"x"}
    assert states(story) == [State.READY, State.LOADING, State.LOADING]


def test_no_more_than_were_allowed_are_ever_loaded() -> None:
    story, _ = busy(3)
    for _ in range(10):
        story.get("x")
    assert story.core.world.find("x#4") is None
    assert len(story.core.world.workers) == 3


def test_as_many_calls_as_it_answers_at_once_keep_a_worker_from_being_busy() -> None:
    story = Story(model(concurrency=2))
    story.get("x")
    story.ready("x")
    story.get("x")
    assert states(story)[1] is State.COLD
    story.get("x")
    assert states(story) == [State.READY, State.LOADING, State.COLD]


def test_the_least_busy_answers_and_of_equals_the_lowest_number() -> None:
    story, calls = busy(3)
    assert [where(story, call) for call in calls] == ["x", "x#2", "x#3"]
    for call in calls[1:]:
        story.end_call(call)
    assert where(story, story.get("x")) == "x#2"
    assert where(story, story.get("x")) == "x#3"
    assert where(story, story.get("x")) == "x"


def test_a_lease_that_is_not_used_yet_counts_and_one_that_is_idle_does_not() -> None:
    story, calls = busy(2)
    story.end_call(calls[0])
    story.end_call(calls[1])
    first = story.get("x")
    assert where(story, first) == "x"
    assert where(story, story.get("x")) == "x#2"
    story.end_call(story.call(first))
    assert where(story, story.get("x")) == "x"


def test_each_call_asks_anew_and_is_told_the_models_own_name() -> None:
    story, calls = busy(2)
    granted = story.granted(calls[1])
    assert (granted.model, granted.takes_turns) == ("x", True)


def test_the_later_ones_leave_first_by_their_own_idle_time() -> None:
    story, calls = busy(2)
    story.end_call(calls[1])
    story.close(calls[1])
    story.wait(IDLE_S + 1)
    story.answer_drain("x#2")
    story.exit("x#2")
    assert states(story) == [State.READY, State.COLD, State.COLD]


def test_what_is_said_of_keeping_holds_for_the_first() -> None:
    config = {"x": model(tier=RESIDENT, pin=True, min_residency_s=9.0)}
    other = replicas.with_replicas(config)["x#2"]
    assert (other.tier, other.pin, other.min_residency_s, other.replicas) == (Tier.ON_DEMAND, False, 0.0, 1)
    assert replicas.with_replicas({"y": spec("y")}).keys() == {"y"}


def test_a_replica_is_the_same_model_to_what_is_learned_of_it() -> None:
    config = {"x:1": model("x:1")}
    known = replicas.with_replicas(config)
    assert known["x#2:1"].identity == known["x:1"].identity


def test_no_client_can_name_a_replica() -> None:
    story, _ = busy(2)
    for request in (story.get("x#2"), story.load("x#2"), story.unload("x#2"), story.pin("x#2")):
        assert story.answers[request] == answers.ModelNotFound(model="x#2", nearest="x")


def test_it_is_loaded_only_into_what_is_free() -> None:
    story = Story(model(), spec("y", idle_timeout_s=None), ram_gib=2)
    story.hot("y")
    story.get("x")
    story.ready("x")
    story.get("x")
    assert states(story) == [State.READY, State.COLD, State.COLD]
    assert story.state("y") is State.READY


def test_it_is_loaded_when_room_comes_if_it_is_still_wanted() -> None:
    story = Story(model(), spec("y", idle_timeout_s=5.0), ram_gib=2)
    story.hot("y")
    calls = [story.get("x")]
    story.ready("x")
    calls += [story.get("x")]
    for call in calls:
        story.call(call)
    story.wait(6)
    story.answer_drain("y")
    story.exit("y")
    assert states(story) == [State.READY, State.LOADING, State.COLD]


def test_one_that_nobody_has_used_leaves_for_whoever_needs_its_room() -> None:
    story = Story(model(n=2), spec("y"), ram_gib=2)
    first = story.get("x")
    story.ready("x")
    story.call(first)
    story.get("x")
    story.ready("x#2")
    story.get("y")
    assert story.state("x#2") is State.DRAINING


def test_the_death_of_one_ends_its_own_calls_and_new_ones_go_to_the_others() -> None:
    story, calls = busy(2)
    story.exit("x#2", signal=9)
    story.end_call(calls[0])
    asked = story.get("x")
    assert where(story, asked) == "x"
    release = story.core.world.obituaries[story.granted(calls[1]).lease]
    assert release.model == "x"


def test_the_death_of_the_first_leaves_the_others_to_answer() -> None:
    story, calls = busy(2)
    story.end_call(calls[1])
    story.exit("x", signal=9)
    assert where(story, story.get("x")) == "x#2"


def test_one_that_leaves_for_being_idle_is_rescued_instead_of_loading_the_first_anew() -> None:
    story, calls = busy(2)
    for call in calls:
        story.end_call(call)
        story.close(call)
    story.exit("x", signal=9)
    story.wait(IDLE_S + 1)
    assert states(story) == [State.COLD, State.DRAINING, State.COLD]
    assert where(story, story.get("x")) == "x#2"
    assert states(story) == [State.COLD, State.READY, State.COLD]


def test_while_it_is_paused_one_that_leaves_for_being_idle_answers() -> None:
    story, calls = busy(3)
    story.end_call(calls[2])
    story.close(calls[2])
    story.exit("x", signal=11)
    story.wait(IDLE_S - 0.5)
    story.exit("x#2", signal=11)
    story.wait(0.6)
    assert states(story) == [State.COLD, State.COLD, State.DRAINING]
    assert where(story, story.get("x")) == "x#3"


def test_one_that_leaves_because_it_has_changed_is_not_rescued() -> None:
    story, calls = busy(2)
    story.exit("x", signal=9)
    story.configure(model(env={"A": "1"}))
    request = story.get("x")
    assert states(story) == [State.LOADING, State.DRAINING, State.COLD]
    assert request not in story.answers
    story.end_call(calls[1])


def test_two_deaths_in_a_row_pause_the_model_whichever_workers_have_died() -> None:
    story, _ = busy(2)
    story.exit("x#2", signal=11)
    story.exit("x", signal=11)
    assert isinstance(story.answers[story.get("x")], answers.LoadFailed)


def test_a_call_that_ends_well_between_two_deaths_makes_them_accidents() -> None:
    story, calls = busy(2)
    story.exit("x#2", signal=11)
    story.end_call(calls[0])
    story.exit("x", signal=11)
    story.get("x")
    assert story.state("x") is State.LOADING


def test_while_it_is_paused_those_that_are_left_answer_and_none_is_loaded() -> None:
    story, _ = busy(3)
    story.exit("x", signal=11)
    story.exit("x#2", signal=11)
    assert where(story, story.get("x")) == "x#3"
    story.get("x")
    assert states(story) == [State.COLD, State.COLD, State.READY]


def test_a_failed_load_of_one_is_tried_again_after_its_own_pause() -> None:
    story, _ = busy()
    story.call(story.get("x"))
    story.tell(events.ObjectFailed(worker=story.worker("x#2"), model="x#2", reason="no"))
    story.exit("x#2")
    assert story.state("x#2") is State.FAILED
    assert where(story, story.get("x")) == "x"
    story.wait(2)
    assert story.state("x#2") is State.LOADING


def test_an_unload_frees_all_and_names_the_model_once() -> None:
    story, calls = busy(3)
    for call in calls:
        story.end_call(call)
    request = story.unload("x")
    for name in ("x", "x#2", "x#3"):
        story.answer_drain(name)
        story.exit(name)
    assert story.answers[request] == answers.Unloaded(unloaded=("x",))
    assert view.is_empty(story.core)


def test_a_model_whose_first_worker_is_left_alone_is_not_told_to_be_free() -> None:
    story, calls = busy(2, tier=RESIDENT)
    for call in calls:
        story.end_call(call)
        story.close(call)
    request = story.unload(all=True)
    story.answer_drain("x#2")
    story.exit("x#2")
    assert states(story) == [State.READY, State.COLD, State.COLD]
    assert story.answers[request] == answers.Unloaded(unloaded=())


def test_an_unload_that_finds_a_call_in_any_is_told_of_the_model() -> None:
    story, calls = busy(2)
    story.end_call(calls[0])
    request = story.unload("x", timeout=5)
    story.wait(6)
    outcome = story.answers[request]
    assert isinstance(outcome, answers.Busy)
    assert outcome.model == "x"


def test_fewer_replicas_after_a_reload_let_the_others_finish_and_leave() -> None:
    story, calls = busy(3)
    story.configure(model(n=1))
    assert states(story) == [State.READY, State.DRAINING, State.DRAINING]
    assert where(story, story.get("x")) == "x"
    assert [(shown.name, len(shown.workers)) for shown in view.models(story.core, story.now)] == [("x", 3)]
    for number, call in ((2, calls[1]), (3, calls[2])):
        story.end_call(call)
        story.answer_drain(f"x#{number}")
        story.exit(f"x#{number}")
    assert "x#2" not in story.core.world.models
    assert not story.core.world.models["x"].siblings


def test_more_replicas_after_a_reload_are_loaded_when_they_are_needed() -> None:
    story = Story(model(n=1))
    first = story.get("x")
    story.ready("x")
    story.call(first)
    story.call(story.get("x"))
    story.configure(model(n=2))
    assert states(story, 2) == [State.READY, State.LOADING]


def test_a_changed_spec_sends_all_away_and_a_removed_model_too() -> None:
    story, _ = busy(2)
    story.configure(model(env={"A": "1"}))
    assert states(story)[:2] == [State.DRAINING, State.DRAINING]
    story.configure()
    assert isinstance(story.answers[story.get("x")], answers.ModelNotFound)
    story.exit("x")
    assert [(shown.name, len(shown.workers)) for shown in view.models(story.core, story.now)] == [("x", 1)]
    story.exit("x#2")
    assert not story.core.world.models


def test_it_is_shown_as_one_model_with_its_workers() -> None:
    story, _ = busy(3)
    shown = view.models(story.core, story.now)
    assert [(m.name, m.state, m.in_flight, m.leases, len(m.workers), m.loads) for m in shown] == [
        ("x", "ready", 3, 3, 3, 3)
    ]
    assert view.health(story.core) == {"x": "loaded"}
    assert view.counts(story.core)["x"].in_flight == 3
    assert view.model(story.core, "x#2", story.now) is None


def test_it_is_shown_as_it_serves_when_its_first_worker_has_gone() -> None:
    story, _ = busy(2)
    story.exit("x", signal=9)
    shown = view.model(story.core, "x", story.now)
    assert shown is not None
    assert (shown.state, shown.residency, shown.in_flight) == ("ready", "hot", 1)


def test_the_names_of_a_model_lead_to_its_least_busy_worker() -> None:
    story = Story(model("ocr:3"), model("ocr:4"), splits={"reader": Split(weights={"ocr:3": 1, "ocr:4": 1})})
    story.hot("ocr:4")
    for _ in range(2):
        story.call(story.get("ocr"))
    story.ready("ocr#2:4")
    assert where(story, story.get("ocr")) == "ocr#2:4"
    story.hot("ocr:3")
    asked = [story.get("reader", sticky="a") for _ in range(2)]
    assert {story.granted(request).version for request in asked} in ({"3"}, {"4"})


def test_a_swap_moves_the_clients_of_all_and_lets_all_go() -> None:
    story = Story(model("x:1"))
    story.hot("x:1")
    calls = [story.call(story.get("x")) for _ in range(2)]
    story.ready("x#2:1")
    calls.append(story.call(story.get("x")))
    story.configure(model("x:1"), model("x:2"))
    calls.append(story.call(story.get("x")))
    story.ready("x:2")
    revoked = [effect for effect in story.effects if isinstance(effect, effects.Revoke)]
    assert {where(story, call) for call in calls} == {"x:1", "x#2:1"}
    assert {effect.lease for effect in revoked} >= {story.granted(call).lease for call in calls}
    assert story.granted(story.get("x")).version == "2"
    for call in calls:
        story.end_call(call)
        story.close(call)
    assert [story.state(key) for key in ("x:1", "x#2:1")] == [State.DRAINING, State.DRAINING]


def test_a_member_of_a_family_has_another_in_another_worker_of_the_family() -> None:
    story = Story(model("strategy/*", n=2, max_loaded=1))
    first = story.get("strategy/a")
    story.ready("strategy/a")
    story.call(first)
    second = story.get("strategy/a")
    assert where(story, second) == "strategy/*"
    story.ready("strategy/a#2")
    third = story.get("strategy/a")
    assert where(story, third) == "strategy/*#2"
    assert story.granted(third).model == "strategy/a"
    assert isinstance(story.answers[story.get("strategy/a#2")], answers.ModelNotFound)
    assert isinstance(story.answers[story.get("strategy/b#2")], answers.ModelNotFound)
    assert [m.name for m in view.models(story.core, story.now)] == ["strategy/a"]


def test_an_unload_of_a_family_frees_the_members_in_all_its_workers() -> None:
    story, first = member_in_two()
    story.end_call(first)
    story.unload("strategy/*", force=True)
    assert states(story, 2, "strategy/a") == [State.UNLOADING, State.UNLOADING]


def test_a_new_manager_finds_all_workers_and_goes_on_with_them() -> None:
    story, calls = busy(2)
    story.end_call(calls[1])
    reports = [
        events.WorkerReport(
            worker=worker.id,
            pid=number,
            started=worker.started,
            endpoint=None,
            memo={"model": worker.spec.key, "identity": worker.identity, "booking": {"ram": 1 << 30}},
            objects=[events.ObjectReport(model=key, state="ready", since=story.now, load_s=1.0, last_used=story.now)],
            leases=[
                events.LeaseReport(
                    lease=lease.id,
                    token=lease.token,
                    model=key,
                    holder=1000,
                    granted=lease.granted,
                    in_flight=int(lease.is_busy),
                    called=True,
                    presented=True,
                )
                for lease in story.core.world.leases.values()
                if lease.instance.model.key == key
            ],
        )
        for number, worker in enumerate(story.core.world.workers.values(), 1)
        for key in worker.instances
    ]
    later = Story(model(), host=False)
    later.now = story.now
    later.tell(events.HostFound(workers=reports))
    assert states(later) == [State.READY, State.READY, State.COLD]
    assert where(later, later.get("x")) == "x#2"


def test_members_at_rest_are_forgotten_with_their_replicas_only_when_all_are() -> None:
    story, _ = member_in_two()
    story.call(story.get("strategy/a"))
    story.exit("strategy/a", signal=9)
    for number in range(1100):
        story.core.world.find(f"strategy/m{number}")
    assert "strategy/a" in story.core.world.models


def test_a_model_without_replicas_costs_nothing_more() -> None:
    config = Config(models={"y": spec("y")})
    assert replicas.with_replicas(config.models) is config.models


@pytest.mark.parametrize("key", ["x", "x:1", "strategy/*"])
def test_a_replicas_key_leads_back_to_its_model(key: str) -> None:
    assert model_key(replica_key(key, 2)) == key == replica_key(key, 1)
