"""Objects that answer several calls at once, each in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lazyd.client import context
from lazyd.runtimes.python import RUNTIME, Instance
from lazyd.worker.calls import Call
from lazyd.worker.objects import ModelThread
from lazyd.worker.records import Lease
from lazyd.worker.warmup import Order

LIMIT_S = 60.0


class Thing:
    """Records which threads do what with it."""

    def __init__(self) -> None:
        self.made_in = threading.get_ident()
        self.met = threading.Barrier(3, timeout=LIMIT_S)
        self.go = threading.Event()
        self.entered: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.inside = 0
        self.parked_with: int | None = None

    def thread(self) -> int:
        return threading.get_ident()

    def meet(self) -> int:
        self.met.wait()
        return threading.get_ident()

    def lease(self) -> str | None:
        self.met.wait()
        return context.parent_lease()

    def stay(self) -> str:
        self.inside += 1
        self.entered.put(threading.get_ident())
        assert self.go.wait(LIMIT_S)
        self.inside -= 1
        return "stayed"

    def park(self) -> None:
        self.parked_with = self.inside

    def unpark(self) -> None:
        pass

    def close(self) -> None:
        self.closed_with = self.inside


class Cloning(Instance):
    """What it offers to each further thread is another one of it."""

    def __init__(self, thing: Any, refuses: int = 0) -> None:
        super().__init__(thing, "Thing")
        self.thing = thing
        self.refuses = refuses
        self.clones: list[Clone] = []

    def for_thread(self) -> Clone:
        if self.refuses:
            self.refuses -= 1
            raise MemoryError("no clone today")
        clone = Clone(self.thing)
        self.clones.append(clone)
        return clone


class Clone(Instance):
    def __init__(self, thing: Any) -> None:
        super().__init__(thing, "Thing")
        self.made_in, self.called_in = threading.get_ident(), set[int]()
        self.closed_in: int | None = None

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self.called_in.add(threading.get_ident())
        return super().call(*args, **kwargs)

    def close(self) -> None:
        self.closed_in = threading.get_ident()


class House:
    """The loop, the connection and the watcher of one object: what they are told waits to be taken by the test."""

    def __init__(self, model: Any, concurrency: int) -> None:
        self.told: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()
        self.answers: dict[int, Any] = {}
        self.calls = 0
        self.object = ModelThread("thing", lambda _: model, RUNTIME, Order(), self, self, concurrency)  # type: ignore[arg-type]
        self.object.start()
        self.expect("loaded")

    def soon(self, callback: Callable[[], None]) -> None:
        callback()

    def after(self, delay_s: float, callback: Callable[[], None]) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **_: self.told.put((name, args))

    def put_answer(self, call: Call, header: dict[str, Any], _: Any) -> None:
        self.told.put(("answer", (call, header.get("result", header.get("parameters")))))

    def expect(self, what: str) -> tuple[Any, ...]:
        name, args = self.told.get(timeout=LIMIT_S)
        assert name == what
        return args

    def ask(self, method: str, lease: str = "l") -> None:
        self.calls += 1
        call = Call(self, Lease(lease, "t", "thing", 0, 0.0), {"id": self.calls, "method": method}, ())  # type: ignore[arg-type]
        self.object.submit(call)

    def answer(self) -> tuple[str, Any]:
        """The lease of the next call that is answered, and what it is answered."""
        call, result = self.expect("answer")
        self.object.ended()
        return call.lease.id, result

    def call(self, method: str) -> Any:
        self.ask(method)
        return self.answer()[1]

    def threads(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("thing")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("thing"):
            thread.join(LIMIT_S)
            assert not thread.is_alive(), thread.name


def closed(house: House) -> None:
    house.object.close()
    house.expect("closed")


def test_an_object_with_one_thread_is_made_called_and_closed_there() -> None:
    thing = Thing()
    house = House(Instance(thing, "Thing"), 1)
    owner = house.threads()[0].ident
    assert {house.call("thread") for _ in range(3)} == {owner}
    closed(house)


def test_so_many_calls_are_made_at_once() -> None:
    house = House(Instance(Thing(), "Thing"), 3)
    for _ in range(3):
        house.ask("meet")
    assert len({house.answer()[1] for _ in range(3)}) == 3
    closed(house)


def test_no_more_than_that_are_made_at_once() -> None:
    thing = Thing()
    house = House(Instance(thing, "Thing"), 2)
    for _ in range(3):
        house.ask("stay")
    assert len({thing.entered.get(timeout=LIMIT_S) for _ in range(2)}) == 2
    assert len(house.threads()) == 2
    thing.go.set()
    assert [house.answer()[1] for _ in range(3)] == ["stayed"] * 3
    closed(house)


def test_threads_are_started_only_for_calls_that_come_at_once() -> None:
    house = House(Instance(Thing(), "Thing"), 8)
    assert len({house.call("thread") for _ in range(20)}) == 1
    closed(house)


def test_each_call_works_under_its_own_lease() -> None:
    house = House(Instance(Thing(), "Thing"), 3)
    for lease in "abc":
        house.ask("lease", lease)
    assert {house.answer() for _ in range(3)} == {("a", "a"), ("b", "b"), ("c", "c")}
    closed(house)


@pytest.mark.parametrize("order", ["park", "close"])
def test_an_order_is_carried_out_when_no_thread_is_in_a_call(order: str) -> None:
    thing = Thing()
    house = House(Instance(thing, "Thing"), 2)
    for _ in range(2):
        house.ask("stay")
    for _ in range(2):
        thing.entered.get(timeout=LIMIT_S)
    getattr(house.object, order)()
    thing.go.set()
    assert [house.answer()[1] for _ in range(2)] == ["stayed"] * 2
    house.expect("parked" if order == "park" else "closed")
    assert (thing.parked_with if order == "park" else thing.closed_with) == 0
    if order == "park":
        closed(house)


def test_it_answers_several_calls_at_once_also_after_it_has_come_back() -> None:
    thing = Thing()
    house = House(Instance(thing, "Thing"), 3)
    for again in range(2):
        for _ in range(3):
            house.ask("meet")
        assert len({house.answer()[1] for _ in range(3)}) == 3, again
        house.object.park()
        house.expect("parked")
        house.object.unpark()
        house.expect("progressed")
        house.expect("loaded")
    closed(house)


def test_each_further_thread_calls_something_of_its_own() -> None:
    model = Cloning(Thing())
    house = House(model, 3)
    for _ in range(2):
        for _ in range(3):
            house.ask("meet")
        threads = {house.answer()[1] for _ in range(3)}
        assert len(threads) == 3
    assert len(model.clones) == 2
    assert {clone.made_in for clone in model.clones} < threads
    assert all(clone.called_in == {clone.made_in} for clone in model.clones)
    closed(house)
    assert [clone.closed_in for clone in model.clones] == [clone.made_in for clone in model.clones]


def test_what_a_thread_had_of_its_own_is_closed_before_a_model_parks_and_made_anew_after() -> None:
    model = Cloning(Thing())
    house = House(model, 3)
    for round_ in range(1, 3):
        for _ in range(3):
            house.ask("meet")
        for _ in range(3):
            house.answer()
        house.object.park()
        house.expect("parked")
        assert all(clone.closed_in == clone.made_in for clone in model.clones)
        assert len(model.clones) == 2 * round_
        house.object.unpark()
        house.expect("progressed")
        house.expect("loaded")
    closed(house)


def test_a_thread_that_gets_nothing_of_its_own_fails_the_call_and_asks_again() -> None:
    thing = Thing()
    model = Cloning(thing, refuses=1)
    house = House(model, 2)
    house.ask("stay")
    thing.entered.get(timeout=LIMIT_S)
    assert "no clone today" in house.call("thread")["reason"]
    assert house.call("thread") == model.clones[0].made_in
    thing.go.set()
    assert house.answer()[1] == "stayed"
    closed(house)


def test_a_way_back_that_fails_ends_all_threads() -> None:
    class Lost(Thing):
        def unpark(self) -> None:
            raise RuntimeError("the device is gone")

    house = House(Instance(Lost(), "Lost"), 3)
    for _ in range(3):
        house.ask("meet")
    for _ in range(3):
        house.answer()
    house.object.park()
    house.expect("parked")
    house.object.unpark()
    house.expect("progressed")
    assert "the device is gone" in house.expect("failed")[1]
