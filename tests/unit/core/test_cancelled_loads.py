"""A load that is not wanted any more, at each of its stages: nothing stays booked, and nobody else is held up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.core import Core
from lazyd.core.lifecycle import State
from lazyd.core.records import Instance
from lazyd.core.spec import GIB, Settings

from .story import Story, spec
from .test_placement import layered

NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0)
PATIENCE_S = 4.0
"""How long the client waits for the model "a" before it is cancelled."""


class Machine(Story):
    """A GPU of 10 GiB, and models of 6 GiB that may be nowhere else. `mine` is the request that will be cancelled.

    Predictions of models in `unforeseen` are kept back in `owed`.
    """

    def __init__(self) -> None:
        self.unforeseen: set[str] = set()
        self.owed: list[events.Event] = []
        models = [spec(name, device=("gpu0",), idle_timeout_s=30.0) for name in ("a", "rival", "holder")]
        divided = spec("divided", device=("gpu1", "gpu2"), idle_timeout_s=30.0)
        family = spec("family/*", device=("gpu0",), idle_timeout_s=30.0, max_loaded=2)
        sizes = dict.fromkeys(("a", "rival", "holder", "family/*", "family/one", "family/two"), 6.0)
        super().__init__(
            *(*models, divided, family),
            gpus_gib=(10, 6, 8),
            sizes=sizes,
            predictions={"divided": divided_need()},
            settings=NO_MARGIN,
        )
        self.model = "a"
        self.mine = 0

    def tell(self, event: events.Event) -> list[effects.Effect]:
        if isinstance(event, events.Predicted) and event.model in self.unforeseen:
            self.owed.append(event)
            return []
        return super().tell(event)

    def tell_late(self, event: events.Event) -> None:
        self.unforeseen.clear()
        self.tell(event)

    def ask(self, model: str = "a") -> None:
        self.model = model
        self.mine = self.get(model, timeout=PATIENCE_S)

    def instance(self, model: str) -> Instance:
        found = self.core.world.models[model].instance
        assert found is not None
        return found


def divided_need() -> events.Predicted:
    need = layered(10, 1)
    return events.Predicted(model="divided", ways=need.ways, layers=need.layers)


# The stages. Each leaves the load of a model where its name says.


def waiting_for_the_host(story: Machine) -> None:
    story.tell(events.HostAway())
    story.ask()
    assert story.state("a") is State.COLD


def waiting_in_line(story: Machine) -> None:
    """Behind a call."""
    story.call(hot_now(story, "holder"))
    story.ask()
    assert story.state("a") is State.COLD


def being_foreseen(story: Machine) -> None:
    """A dry run is booked and under way."""
    story.unforeseen.add("a")
    story.ask()
    assert story.owed
    assert "dry run 1 of a" in story.core.world.ledger.bookings


def having_room_made(story: Machine) -> None:
    """Another model drains for it."""
    story.hot("holder")
    story.wait(10)
    story.ask()
    assert story.state("holder") is State.DRAINING


def waiting_for_a_worker_to_go(story: Machine) -> None:
    having_room_made(story)
    story.answer_drain("holder")
    assert story.state("holder") is State.UNLOADING
    assert story.state("a") is State.COLD


def waiting_for_the_driver(story: Machine) -> None:
    """The worker has gone, its bytes still show."""
    waiting_for_a_worker_to_go(story)
    story.stick("holder", "gpu0")
    story.exit("holder", status=0)
    assert story.state("a") is State.COLD


def starting(story: Machine) -> None:
    """There is no process yet."""
    story.ask()
    assert story.state("a") is State.LOADING


def loading(story: Machine) -> None:
    starting(story)
    worker = story.worker("a")
    story.tell(events.WorkerStarted(worker=worker, pid=7))
    story.tell(events.LoadProgress(worker=worker, model="a", phase="loading", fraction=0.5))
    story.holds[worker, "gpu0"] = 3 * GIB
    story.sample("gpu0")


def warming_up(story: Machine) -> None:
    loading(story)
    story.tell(events.LoadProgress(worker=story.worker("a"), model="a", phase="warming"))


def divided(story: Machine) -> None:
    """It is being loaded on two GPUs."""
    story.ask("divided")
    assert story.devices_of("divided") == ["gpu1", "gpu2", "ram"]


def joining_a_family(story: Machine) -> None:
    """Another member is in the worker."""
    story.hot("family/one")
    story.ask("family/two")
    assert story.state("family/two") is State.LOADING
    assert story.worker("family/one") == story.worker("family/two")


def having_run_out_of_memory(story: Machine) -> None:
    """The first process has not gone; the second try waits for its bytes."""
    loading(story)
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason="out of memory", out_of_memory=True))
    assert story.state("a") is State.COLD


def being_tried_once_more(story: Machine) -> None:
    having_run_out_of_memory(story)
    story.exit("a", status=0)
    assert story.state("a") is State.LOADING
    assert story.count(effects.StartWorker) == 2


def parked(story: Machine) -> None:
    """Not a stage: where the next two begin."""
    request = story.get("a")
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(31)
    story.answer_drain("a")
    story.holds[story.worker("a"), "gpu0"] = 0
    story.tell(events.ObjectParked(worker=story.worker("a"), model="a"))
    assert story.state("a") is State.PARKED


def waiting_for_its_way_back(story: Machine) -> None:
    """Its GPU has been taken by a call."""
    parked(story)
    story.call(hot_now(story, "holder"))
    story.ask()
    assert story.state("a") is State.PARKED


def on_its_way_back(story: Machine) -> None:
    parked(story)
    story.ask()
    assert story.state("a") is State.LOADING
    assert story.count(effects.UnparkObject) == 1


STAGES: list[Callable[[Machine], None]] = [
    waiting_for_the_host,
    waiting_in_line,
    being_foreseen,
    having_room_made,
    waiting_for_a_worker_to_go,
    waiting_for_the_driver,
    starting,
    loading,
    warming_up,
    divided,
    joining_a_family,
    having_run_out_of_memory,
    being_tried_once_more,
    waiting_for_its_way_back,
    on_its_way_back,
]

# How the wish for it ends.


def its_client_leaves(story: Machine) -> None:
    story.tell(events.Cancel(request=story.mine))


def its_deadline_passes(story: Machine) -> None:
    story.wait(PATIENCE_S)
    assert isinstance(story.answers[story.mine], answers.Timeout)


def it_is_unloaded(story: Machine) -> None:
    story.unload(story.model)


def it_is_unloaded_by_force(story: Machine) -> None:
    story.unload(story.model, force=True)


def it_is_configured_no_more(story: Machine) -> None:
    others = [s for key, s in story.core.world.config.models.items() if key not in (story.model, "family/*")]
    story.configure(*others)


def the_host_dies(story: Machine) -> None:
    story.tell(events.HostLost())
    its_client_leaves(story)
    story.tell(events.HostFound())


def the_daemon_stops(story: Machine) -> None:
    story.tell(events.Stop(deadline=story.now + 10))


ENDINGS: list[Callable[[Machine], None]] = [
    its_client_leaves,
    its_deadline_passes,
    it_is_unloaded,
    it_is_unloaded_by_force,
    it_is_configured_no_more,
    the_host_dies,
    the_daemon_stops,
]


# What host, workers, driver and other clients do then.


def hot_now(story: Machine, model: str) -> int:
    """Loads a model that is free to be loaded; the request, which has its lease."""
    request = story.get(model)
    story.tell(events.ObjectReady(worker=story.worker(model), model=model))
    return request


def goes_on(story: Machine) -> None:
    """Everybody does what he was asked, and nobody asks for more, until there is nothing in memory."""
    for _ in range(200):
        if not does_something(story):
            if not story.core.world.workers and story.core.next_deadline() is None:
                return
            story.wait(10)
    raise AssertionError(f"it has no end: {story.core.world.workers}, {story.core.world.wanting}")


def does_something(story: Machine) -> bool:
    """The next thing that somebody was asked for, if there is one."""
    story.unforeseen.clear()
    if story.owed:
        story.tell(story.owed.pop(0))
        return True
    if story.sticky:
        for _, device in list(story.sticky):
            story.unstick(device)
        return True
    if not story.core.world.host_found and not story.core.world.stopping:
        story.tell(events.HostFound())
        return True
    for worker in list(story.core.world.workers.values()):
        if worker.exited is None and worker.stopping:
            story.tell(events.WorkerExited(worker=worker.id, status=0))
            return True
        if any(obeys(story, instance) for instance in list(worker.instances.values())):
            return True
    return False


def obeys(story: Machine, instance: Instance) -> bool:
    worker, model = instance.worker.id, instance.model.key
    if instance.worker.stopping:
        return False
    for lease in list(instance.leases.values()):
        if lease.is_busy:
            story.tell(events.LeaseIdle(worker=worker, lease=lease.id))
            story.tell(events.LeaseClosed(worker=worker, lease=lease.id))
            return True
    if instance.state is State.LOADING:
        story.tell(events.ObjectReady(worker=worker, model=model))
    elif instance.state is State.UNLOADING:
        story.tell(events.ObjectUnloaded(worker=worker, model=model))
    elif instance.leaving is not None and not instance.leaving.drained:
        story.tell(events.Drained(worker=worker, model=model, drain=instance.leaving.number))
    else:
        return False
    return True


def all_came_back(core: Core) -> None:
    world = core.world
    assert world.ledger.bookings == {}
    for device in world.ledger.devices.values():
        assert device.free_bytes == device.budget_bytes, device
        assert not device.quarantine
    assert not world.workers
    assert not world.waiters
    assert not world.wanting
    assert not world.plans
    assert not world.unloads


@pytest.fixture
def story() -> Machine:
    return Machine()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("stage", STAGES)
def test_all_that_was_booked_comes_back(
    story: Machine, stage: Callable[[Machine], None], ending: Callable[[Machine], None]
) -> None:
    stage(story)
    ending(story)
    goes_on(story)
    all_came_back(story.core)
    if ending in (its_client_leaves, the_host_dies):
        assert story.mine not in story.answers
    elif ending is its_deadline_passes:
        assert isinstance(story.answers[story.mine], answers.Timeout)
    elif ending is the_daemon_stops:
        assert story.answers[story.mine] == answers.ShuttingDown()


GIVEN_UP: list[Callable[[Machine], None]] = [its_client_leaves, its_deadline_passes]
"""Endings that are the client's own affair."""


@pytest.mark.parametrize("ending", GIVEN_UP)
@pytest.mark.parametrize("stage", STAGES)
def test_who_else_waits_for_the_model_gets_it_from_the_same_load(
    story: Machine, stage: Callable[[Machine], None], ending: Callable[[Machine], None]
) -> None:
    stage(story)
    other = story.get(story.model, timeout=1000)
    before = loads_of(story)
    ending(story)
    goes_on(story)
    assert story.granted(other)
    assert loads_of(story) - before == (stage not in UNDER_WAY)
    all_came_back(story.core)


@pytest.mark.parametrize("ending", ENDINGS[:-1])
@pytest.mark.parametrize("stage", STAGES)
def test_who_waits_for_its_bytes_is_served(
    story: Machine, stage: Callable[[Machine], None], ending: Callable[[Machine], None]
) -> None:
    stage(story)
    rival = story.get("rival", timeout=1000)
    ending(story)
    goes_on(story)
    assert story.granted(rival)
    all_came_back(story.core)


@pytest.mark.parametrize("stage", [starting, loading, warming_up, being_tried_once_more, on_its_way_back])
def test_a_load_that_nobody_waits_for_goes_on_until_its_bytes_are_needed(
    story: Machine, stage: Callable[[Machine], None]
) -> None:
    stage(story)
    its_client_leaves(story)
    story.wait(20)
    assert story.state("a") is State.LOADING
    story.get("rival", timeout=1000)
    assert story.state("a") is State.UNLOADING


@pytest.mark.parametrize("stage", [starting, loading, warming_up, being_tried_once_more, on_its_way_back])
def test_a_load_that_somebody_waits_for_is_not_given_up_for_another(
    story: Machine, stage: Callable[[Machine], None]
) -> None:
    stage(story)
    story.get("a", timeout=1000)
    its_client_leaves(story)
    story.get("rival", timeout=1000)
    story.wait(20)
    assert story.state("a") is State.LOADING


@pytest.mark.parametrize("ending", [*GIVEN_UP, it_is_unloaded])
def test_who_was_to_leave_for_it_serves_on(story: Machine, ending: Callable[[Machine], None]) -> None:
    having_room_made(story)
    ending(story)
    assert story.state("holder") is State.READY
    assert story.count(effects.StopWorker) == 0


@pytest.mark.parametrize("ending", [*GIVEN_UP, it_is_unloaded])
@pytest.mark.parametrize("stage", [waiting_in_line, being_foreseen, waiting_for_the_driver, having_run_out_of_memory])
def test_what_was_not_begun_is_not_begun_any_more(
    story: Machine, stage: Callable[[Machine], None], ending: Callable[[Machine], None]
) -> None:
    stage(story)
    before = loads_of(story)
    ending(story)
    goes_on(story)
    assert loads_of(story) == before


def test_a_dry_run_that_nobody_waits_for_is_booked_until_it_has_ended(story: Machine) -> None:
    being_foreseen(story)
    its_client_leaves(story)
    assert "dry run 1 of a" in story.core.world.ledger.bookings
    story.unforeseen.clear()
    story.tell(story.owed.pop())
    assert story.core.world.ledger.bookings == {}


def loads_of(story: Machine) -> int:
    """How often the model that `mine` is for was ordered to load."""
    orders = (effects.LoadObject, effects.UnparkObject)
    return sum(isinstance(effect, orders) and effect.model == story.model for effect in story.effects)


UNDER_WAY = [starting, loading, warming_up, divided, joining_a_family, being_tried_once_more, on_its_way_back]


def test_a_load_that_somebody_comes_for_again_is_not_given_up_with_the_others() -> None:
    """It was to leave together with a model that has not drained yet."""
    specs = [spec(name, device=("gpu0",)) for name in ("a", "idle", "big")]
    story = Story(*specs, gpus_gib=(10,), sizes={"a": 6, "idle": 3, "big": 9}, settings=NO_MARGIN)
    story.hot("idle")
    story.wait(10)
    story.tell(events.Cancel(request=story.get("a")))
    big = story.get("big", timeout=1000)
    assert story.state("idle") is State.DRAINING
    again = story.get("a", timeout=1000)
    assert [story.state(name) for name in ("a", "idle")] == [State.LOADING, State.READY]
    story.ready("a")
    assert story.granted(again)
    assert big not in story.answers


def test_what_was_foreseen_for_nobody_is_asked_anew_by_the_next_request(story: Machine) -> None:
    """Its file may have changed meanwhile."""
    waiting_in_line(story)
    its_client_leaves(story)
    before = story.count(effects.Predict)
    story.get("a", timeout=1000)
    assert story.count(effects.Predict) == before + 1


def test_what_was_foreseen_of_a_model_that_has_changed_meanwhile_does_not_count(story: Machine) -> None:
    being_foreseen(story)
    models = story.core.world.config.models
    larger = spec("a", device=("gpu0",), idle_timeout_s=30.0, options={"n_ctx": 8192})
    story.sizes["a"] = 9.0
    story.configure(*(larger if key == "a" else each for key, each in models.items()))
    outdated, present = story.owed
    story.tell_late(outdated)
    assert story.state("a") is State.COLD
    story.tell_late(present)
    assert story.core.world.ledger.held(story.worker("a"))["gpu0"] == 9 * GIB
    assert not any(holder.startswith("dry run") for holder in story.core.world.ledger.bookings)


def test_what_nobody_foresees_keeps_a_model_that_has_changed_meanwhile_from_nothing(story: Machine) -> None:
    """The disk of its old file is dead."""
    being_foreseen(story)
    models = story.core.world.config.models
    elsewhere = spec("a", device=("gpu0",), idle_timeout_s=30.0, options={"path": "/elsewhere"})
    story.unforeseen.clear()
    story.configure(*(elsewhere if key == "a" else each for key, each in models.items()))
    assert story.state("a") is State.LOADING
    assert "dry run 1 of a" in story.core.world.ledger.bookings
    for late in story.owed:
        story.tell_late(late)
    assert story.state("a") is State.LOADING
    assert "dry run 1 of a" not in story.core.world.ledger.bookings


def test_a_load_that_failed_otherwise_in_between_starts_the_count_of_those_that_ran_out_anew(story: Machine) -> None:
    being_tried_once_more(story)
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason="no such file"))
    story.exit("a", status=0)
    story.wait(2)
    again = story.get("a", timeout=1000)
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason="out of memory", out_of_memory=True))
    story.exit("a", status=0)
    assert again not in story.answers
    assert story.state("a") is State.LOADING


def test_what_is_foreseen_for_a_client_that_has_left_meanwhile_is_not_kept(story: Machine) -> None:
    being_foreseen(story)
    its_client_leaves(story)
    story.unforeseen.clear()
    story.tell(story.owed.pop())
    before = story.count(effects.Predict)
    story.get("a", timeout=1000)
    assert story.count(effects.Predict) == before + 1
