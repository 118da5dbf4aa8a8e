"""What is known of all workers is what a look at each of them would find, whatever has happened."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from lazyd.core import events, eviction
from lazyd.core.answers import Granted
from lazyd.core.ledger import RAM
from lazyd.core.lifecycle import LOADS, State
from lazyd.core.records import Instance, Worker
from lazyd.core.spec import GIB
from lazyd.core.world import World

from .story import RESIDENT, TRANSIENT, Story, spec, ways

SPECS = (
    *(spec(name) for name in "abc"),
    spec("quick", idle_timeout_s=3.0, min_residency_s=0.5),
    spec("slow", min_residency_s=8.0),
    spec("once", tier=TRANSIENT),
    spec("always", tier=RESIDENT),
    spec("parks", idle_timeout_s=2.0, device=("gpu0",), park_timeout_s=6.0),
    spec("left", device=("ram",)),
    spec("right", device=("ram",)),
    spec("s/*", max_loaded=3),
)
NAMES = [*"abc", "quick", "slow", "once", "always", "parks", "left", "right", "s/x", "s/y", "s/z", "s/w"]
SHARED = {"file": GIB}


# A look at each, which remembers nothing.


def leaves_with_its_worker(worker: Worker) -> bool:
    return worker.stopping or (bool(worker.instances) and all(map(eviction.goes, worker.instances.values())))


def going(world: World) -> dict[str, int]:
    """By device: what is on its way to be free."""
    parts: list[dict[str, int]] = []
    for worker in world.workers.values():
        if not worker.stuck:
            parts += [world.ledger.freed_by(worker.id)] if leaves_with_its_worker(worker) else []
            inside = worker.instances.values()
            parts += [world.ledger.held(i.holder) for i in inside if worker.stopping or eviction.goes(i)]
    return added(parts)


def keepers(world: World) -> set[str]:
    return {
        worker.id
        for worker in world.workers.values()
        if not worker.stopping
        and not worker.stuck
        and any(i.model.kept and not eviction.goes(i) for i in worker.instances.values())
    }


def movable(world: World, *, finish: bool) -> dict[frozenset[str], dict[str, int]]:
    """What may leave, by the places of those that leave with it."""
    found: dict[frozenset[str], dict[str, int]] = {}
    for worker in world.workers.values():
        if worker.stopping or worker.stuck or not worker.instances:
            continue
        may = [i for i in worker.instances.values() if eviction.may_leave(world, i, finish=finish)]
        for instance in may:
            if places := world.ledger.held(instance.holder):
                found[frozenset([instance.holder])] = places
        if len(may) == len(worker.instances):
            whole = [world.ledger.freed_by(worker.id), *(world.ledger.held(i.holder) for i in may)]
            found[frozenset(i.holder for i in may)] = added(whole)
    return {holders: freed for holders, freed in found.items() if any(freed.values())}


def moment(world: World) -> float:
    """When something will be that is not now, if nothing but time passes: found by going there."""
    moments = {
        moment
        for instance in world.instances()
        for moment in (
            eviction.quantum_until(instance),
            instance.ask_again,
            *(m for lease in instance.leases.values() for m in (lease.protected_until, lease.hold_until)),
        )
        if world.now < moment < float("inf")
    }
    now, at_present = world.now, [movable(world, finish=finish) for finish in (False, True)]
    try:
        for later in sorted(moments):
            world.now = later
            if [movable(world, finish=finish) for finish in (False, True)] != at_present:
                return later
        return float("inf")
    finally:
        world.now = now


def added(parts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, n in part.items():
            total[name] = total.get(name, 0) + n
    return {name: n for name, n in total.items() if n}


def compare(world: World) -> None:
    devices = [*world.ledger.devices]
    assert {name: n for name in devices if (n := eviction.leaving_bytes(world, name))} == going(world)
    assert {worker.id for worker in eviction.keepers(world)} == keepers(world)
    for finish in (False, True):
        units = eviction.units(world, devices, finish=finish)
        # An object that is alone in its worker is a unit, and so is the worker, which gives back more.
        units.sort(key=lambda unit: sum(unit.freed.values()))
        found = {frozenset(i.holder for i in unit.instances): unit for unit in units}
        expected = movable(world, finish=finish)
        assert {holders: clean(unit.freed) for holders, unit in found.items()} == expected
        for unit in units:
            assert unit.last_used == max(i.last_used for i in unit.instances)
        whole = [freed for holders, freed in expected.items() if not any(holders < other for other in expected)]
        assert clean(eviction.most_freed(world, finish=finish)) == added(whole)
    assert eviction.next_moment(world) <= moment(world)


def clean(booking: Any) -> dict[str, int]:
    return {name: n for name, n in booking.items() if n}


# Stories at random.


class Life(Story):
    """A machine on which anything happens. After every event all is compared."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.open: list[int] = []
        mapped = {name: events.Predicted(model=name, ways=ways(1.0), files=SHARED) for name in ("left", "right")}
        sizes = {name: self.rng.choice([0.5, 1, 2, 3]) for name in NAMES}
        super().__init__(*SPECS, ram_gib=9, gpus_gib=[6, 4], sizes=sizes, predictions=mapped)

    def tell(self, event: events.Event) -> list[Any]:
        found = super().tell(event)
        compare(self.core.world)
        return found

    def go_on(self) -> None:
        often = [self.ask, self.use, self.report] * 3
        step: Callable[[], None] = self.rng.choice([*often, self.pass_time, self.pass_time, self.command, self.measure])
        step()

    def ask(self) -> None:
        held = {"hold_s": self.rng.choice([1.0, 4.0])} if self.rng.random() < 0.2 else {}
        self.open.append(self.get(self.rng.choice(NAMES), timeout=self.rng.choice([2, 20]), **held))

    def use(self) -> None:
        leases = list(self.core.world.leases.values())
        if leases:
            lease = self.rng.choice(leases)
            kind = self.rng.choice([events.LeasePresented, events.LeaseBusy, events.LeaseIdle, events.LeaseClosed])
            self.tell(kind(worker=lease.instance.worker.id, lease=lease.id))

    def report(self) -> None:
        """Somebody answers what was asked of him, one way or the other."""
        instances = list(self.core.world.instances())
        workers = [worker for worker in self.core.world.workers.values() if worker.exited is None]
        if workers and self.rng.random() < 0.3:
            worker = self.rng.choice(workers)
            if worker.stopping or self.rng.random() < 0.1:
                self.tell(events.WorkerExited(worker=worker.id, status=0))
        elif instances:
            self.answer(self.rng.choice(instances))

    def answer(self, instance: Instance) -> None:
        about = {"worker": instance.worker.id, "model": instance.model.key}
        if instance.state in LOADS:
            if self.rng.random() < 0.1:
                self.tell(events.ObjectFailed(reason="it would not", **about))
            else:
                self.tell(events.ObjectReady(parks=instance.model.key == "parks", **about))
        elif instance.state is State.DRAINING and instance.leaving is not None:
            busy = instance.in_flight or self.rng.random() < 0.1
            if not (busy and instance.leaving.finish):
                kind = events.StillBusy if busy else events.Drained
                self.tell(kind(drain=instance.leaving.number, **about))
        elif instance.state is State.PARKING:
            self.tell(events.ObjectParked(**about))
        elif instance.state is State.UNLOADING and not instance.worker.stopping:
            self.tell(events.ObjectUnloaded(**about))

    def pass_time(self) -> None:
        self.wait(self.rng.choice([0.1, 0.3, 1.0, 3.0, 7.0]))

    def command(self) -> None:
        name = self.rng.choice(NAMES)
        what = self.rng.random()
        if what < 0.3:
            self.unload(name, timeout=3, force=self.rng.random() < 0.3)
        elif what < 0.7:
            self.pin(name, self.rng.random() < 0.4)
        elif what < 0.8 and self.open:
            self.tell(events.Cancel(request=self.rng.choice(self.open)))
        elif what < 0.9:
            granted = [outcome for outcome in self.answers.values() if isinstance(outcome, Granted)]
            if granted:
                request = next(self.requests)
                lease = self.rng.choice(granted).lease
                self.tell(events.Release(request=request, lease=lease, holder=1000))
        else:
            self.configure(*self.rng.sample(SPECS, len(SPECS) - self.rng.randint(0, 1)))

    def measure(self) -> None:
        """A worker has grown, strangers have come or gone."""
        workers = [worker for worker in self.core.world.workers.values() if worker.exited is None]
        if workers and self.rng.random() < 0.5:
            worker = self.rng.choice(workers)
            n = int(self.core.world.ledger.held(worker.id).get(RAM, 0) * self.rng.uniform(0.5, 1.2))
            self.tell(events.WorkerMeasured(worker=worker.id, bytes_by_device={RAM: n}))
        else:
            name = self.rng.choice(sorted(self.devices))
            self.strangers[name] = self.rng.choice([0, GIB])
            self.sample(name)


@pytest.mark.parametrize("seed", range(8))
def test_after_every_event_it_is_what_a_look_at_each_finds(seed: int) -> None:
    life = Life(seed)
    for _ in range(500):
        life.go_on()
    assert life.core.world.steps > 50


def test_what_a_step_of_the_same_event_changes_is_seen_by_who_comes_next() -> None:
    """`b` may leave for the first of two who have waited; the second cannot count on it too."""
    story = Story(*map(spec, "abcd"), ram_gib=4, sizes={"a": 2, "b": 2, "c": 2, "d": 2})
    story.hot("a")
    story.hot("b")
    story.wait(10)
    story.pin("a")
    first, second = story.get("c", timeout=60), story.get("d", timeout=60)
    assert [story.state(name) for name in "ab"] == [State.READY, State.DRAINING]
    assert story.core.world.plans.keys() == {"c"}
    story.answer_drain("b")
    story.exit("b", status=0)
    story.ready("c")
    assert first in story.answers
    assert second not in story.answers


def test_a_file_that_another_one_maps_too_is_not_given_back_until_it_is_alone() -> None:
    mapped = {name: events.Predicted(model=name, ways=ways(1.0), files=SHARED) for name in "ab"}
    story = Story(spec("a"), spec("b"), predictions=mapped)
    world = story.core.world
    story.hot("a")
    story.wait(10)
    assert eviction.most_freed(world, finish=False) == {RAM: 2 * GIB}
    story.hot("b")
    story.wait(10)
    assert eviction.most_freed(world, finish=False) == {RAM: 2 * GIB}
    story.unload("a")
    story.answer_drain("a")
    story.exit("a", status=0)
    assert eviction.most_freed(world, finish=False) == {RAM: 2 * GIB}


def test_who_is_kept_no_more_may_leave_at_once() -> None:
    story = Story(spec("a"), sizes={"a": 3})
    world = story.core.world
    story.hot("a")
    story.wait(10)
    story.pin("a")
    assert not clean(eviction.most_freed(world, finish=False))
    assert len(eviction.keepers(world)) == 1
    story.pin("a", False)
    assert eviction.most_freed(world, finish=False) == {RAM: 3 * GIB}
    assert not eviction.keepers(world)
