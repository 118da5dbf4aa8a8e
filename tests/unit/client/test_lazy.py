"""`lazyd.lazy`: existing loaders, by the daemon or in this process, each once."""

from __future__ import annotations

import asyncio
import os
import pathlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyd
from lazyd.client import lazy_daemon
from lazyd.client.blocking.proxy import Model

from .fakes import FakeDaemon

LIMIT_S = 30.0


class Engine:
    def __init__(self, key: str = "") -> None:
        self.key = key

    def twice(self, n: int) -> int:
        return 2 * n

    def thread(self) -> int:
        return threading.get_ident()


@pytest.fixture(autouse=True)
def no_daemon(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody listens, and nothing is known of any daemon."""
    monkeypatch.setenv("LAZYD_SOCKET", str(tmp_path / "control.sock"))
    monkeypatch.setattr(lazy_daemon, "_clients", {})
    lazy_daemon.forget()
    yield
    for client in lazy_daemon._clients.values():
        client.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Objects belong to their name, so each test has one of its own."""
    return str(request.node.name)


class Loads:
    """A loader that counts, and may be held up or fail."""

    def __init__(self, *failures: BaseException) -> None:
        self.count = 0
        self.failures = list(failures)
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Semaphore(0)

    def __call__(self, *key: str) -> Engine:
        self.count += 1
        self.begun.release()
        assert self.go.wait(LIMIT_S)
        if self.failures:
            raise self.failures.pop(0)
        return Engine(*key)


def in_threads(count: int, run: Callable[[], Any]) -> list[threading.Thread]:
    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# In this process.


def test_without_a_daemon_it_is_loaded_here_on_first_use_and_once(name: str) -> None:
    loads = Loads()
    engine = lazyd.lazy(name, loads)
    assert not engine.is_ready
    assert loads.count == 0
    first = engine()
    assert engine.is_ready
    assert engine() is first
    assert first.twice(2) == 4
    assert loads.count == 1


def test_as_a_decorator_it_looks_like_the_function_that_it_decorates(name: str) -> None:
    @lazyd.lazy(name)
    def engine() -> Engine:
        """The engine."""
        return Engine()

    assert (engine.__name__, engine.__doc__) == ("engine", "The engine.")
    assert isinstance(engine(), Engine)


def test_what_is_unloaded_is_loaded_again_when_it_is_next_asked_for(name: str) -> None:
    loads = Loads()
    engine = lazyd.lazy(name, loads)
    first = engine()
    engine.unload()
    assert not engine.is_ready
    assert engine() is not first
    assert loads.count == 2


def test_threads_that_ask_at_once_share_one_load(name: str) -> None:
    loads, got = Loads(), list[Any]()
    loads.go.clear()
    engine = lazyd.lazy(name, loads)
    threads = in_threads(16, lambda: got.append(engine()))
    assert loads.begun.acquire(timeout=LIMIT_S)
    loads.go.set()
    joined(threads)
    assert loads.count == 1
    assert len(got) == 16
    assert len(set(map(id, got))) == 1


def test_a_load_that_fails_fails_for_all_who_wait_and_the_next_tries_again(name: str) -> None:
    error, raised = ValueError("no such file"), list[BaseException]()
    loads = Loads(error)
    loads.go.clear()
    engine = lazyd.lazy(name, loads)

    def ask() -> None:
        try:
            engine()
        except ValueError as found:
            raised.append(found)

    threads = in_threads(1, ask)
    assert loads.begun.acquire(timeout=LIMIT_S)
    threads += in_threads(4, ask)
    until(lambda: len(lazy_waits()) == 4)
    loads.go.set()
    joined(threads)
    assert raised == [error] * 5
    assert not engine.is_ready
    assert isinstance(engine(), Engine)
    assert loads.count == 2


def lazy_waits() -> dict[int, Any]:
    from lazyd.client import lazy_shelf

    return lazy_shelf._waits


def test_a_load_whose_thread_is_interrupted_is_taken_up_by_one_who_waits(name: str) -> None:
    loads, got = Loads(KeyboardInterrupt()), list[Any]()
    loads.go.clear()
    engine = lazyd.lazy(name, loads)

    def interrupted() -> None:
        with pytest.raises(KeyboardInterrupt):
            engine()

    threads = in_threads(1, interrupted)
    assert loads.begun.acquire(timeout=LIMIT_S)
    threads += in_threads(3, lambda: got.append(engine()))
    until(lambda: len(lazy_waits()) == 3)
    loads.go.set()
    joined(threads)
    assert loads.count == 2
    assert len(got) == 3
    assert len(set(map(id, got))) == 1


def test_a_loader_may_ask_for_others_and_for_others_of_its_own_family(name: str) -> None:
    tool = lazyd.lazy(f"{name}-tool", lambda: Engine("tool"))

    @lazyd.lazy(name, maxsize=3)
    def node(depth: int) -> Engine:
        below = node(depth - 1).key if depth else ""
        return Engine(f"{below}{depth}{tool().key[0]}")

    assert node(2).key == "0t1t2t"


def test_a_loader_that_asks_for_itself_is_told_so(name: str) -> None:
    engine: Any = lazyd.lazy(name, lambda: engine())
    with pytest.raises(RecursionError, match="asks for"):
        engine()
    assert not engine.is_ready


def test_loaders_in_two_threads_that_ask_for_each_other_do_not_wait_for_ever(name: str) -> None:
    met, raised = threading.Barrier(2, timeout=LIMIT_S), list[str]()

    def ask(wanted: Any) -> None:
        try:
            wanted()
        except RecursionError as error:
            raised.append(str(error))

    def make(other: str) -> Any:
        met.wait()
        return parts[other]()

    parts: dict[str, Any] = {}
    parts["a"] = lazyd.lazy(f"{name}-a", lambda: make("b"))
    parts["b"] = lazyd.lazy(f"{name}-b", lambda: make("a"))
    threads = [threading.Thread(target=ask, args=(parts[part],)) for part in "ab"]
    for thread in threads:
        thread.start()
    joined(threads)
    assert len(raised) == 2


@pytest.mark.parametrize("seed", range(5))
def test_whatever_threads_do_each_object_is_loaded_once_at_a_time(name: str, seed: int) -> None:
    under_way: set[str] = set()
    wrong: list[str] = []
    most = 4

    @lazyd.lazy(name, maxsize=most)
    def part(key: str) -> Engine:
        if key in under_way:
            wrong.append(f"two loads of {key}")
        under_way.add(key)
        time.sleep(random.random() * 0.002)
        under_way.discard(key)
        if random.random() < 0.1:
            raise ValueError(key)
        return Engine(key)

    def hammer(number: int) -> None:
        dice = random.Random(seed * 100 + number)
        for _ in range(60):
            key = dice.choice("abcdefgh")
            act = dice.random()
            try:
                if act < 0.05:
                    part.unload(key)
                elif part(key).key != key:
                    wrong.append(f"not {key}")
            except ValueError as error:
                if str(error) != key:
                    wrong.append(f"{error} for {key}")
            if len(part._shelf._loaded) > most:
                wrong.append("too many are kept")

    numbers = iter(range(8))
    joined(in_threads(8, lambda: hammer(next(numbers))))
    assert not wrong
    assert not lazy_waits()


def test_the_least_recently_used_leaves_and_two_wrappers_of_one_name_share(name: str) -> None:
    loads = Loads()
    part, same = lazyd.lazy(name, loads, maxsize=2), lazyd.lazy(name, loads, maxsize=2)
    part("b")
    a = part("a")
    part("b")
    assert same("a") is a
    part("c")
    assert [part.of(key).is_ready for key in "abc"] == [True, False, True]
    assert part.of("b").name == f"{name}/b"
    assert loads.count == 3
    part.unload()
    assert not part.of("a").is_ready


def test_what_nobody_asks_for_leaves_and_the_process_stays(name: str) -> None:
    loads = Loads()
    engine = lazyd.lazy(name, loads, idle_timeout=0.05)
    engine()
    until(lambda: not engine.is_ready)
    assert isinstance(engine(), Engine)
    assert loads.count == 2


def test_a_use_prolongs_its_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyd.client import lazy_shelf

    now = [1000.0]
    monkeypatch.setattr(lazy_shelf.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(lazy_shelf.threading.Timer, "start", lambda _: None)
    engine = lazyd.lazy(name, Loads(), idle_timeout=10)
    engine()
    now[0] += 9
    engine()
    now[0] += 9
    engine._shelf._look()
    assert engine.is_ready
    now[0] += 1
    engine._shelf._look()
    assert not engine.is_ready


def test_wrong_uses_are_told_in_plain_words(name: str) -> None:
    async def load() -> Engine:
        return Engine()

    with pytest.raises(TypeError, match=r"coroutine function.*aload"):
        lazyd.lazy(name, load)
    with pytest.raises(ValueError, match="at least 1"):
        lazyd.lazy(name, Loads(), maxsize=0)


# asyncio.


def test_in_asyncio_loads_and_calls_run_beside_the_loop(name: str) -> None:
    loads = Loads()
    loads.go.clear()
    engine = lazyd.lazy(name, loads)

    async def main() -> tuple[int, int]:
        waiting = [asyncio.ensure_future(engine.aload()) for _ in range(5)]
        assert await asyncio.to_thread(loads.begun.acquire, timeout=LIMIT_S)  # the loop is free meanwhile
        loads.go.set()
        first, *_ = await asyncio.gather(*waiting)
        return await first.twice(4), await first.thread()

    doubled, thread = asyncio.run(main())
    assert doubled == 8
    assert thread != threading.get_ident()
    assert loads.count == 1
    assert isinstance(engine(), Engine)  # the same object for threads


# Forks.


def in_child(run: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if run() else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_a_child_has_what_its_parent_had_loaded(name: str) -> None:
    loads = Loads()
    engine = lazyd.lazy(name, loads)
    first = engine()
    assert in_child(lambda: engine() is first and loads.count == 1)


def test_a_child_does_not_wait_for_a_load_of_its_parent(name: str) -> None:
    loads = Loads()
    loads.go.clear()
    engine = lazyd.lazy(name, loads)
    threads = in_threads(2, engine)
    assert loads.begun.acquire(timeout=LIMIT_S)

    def child() -> bool:
        loads.go = threading.Event()
        loads.go.set()
        return isinstance(engine(), Engine)

    assert in_child(child)
    loads.go.set()
    joined(threads)
    assert loads.count == 1


# With a daemon.


def test_with_a_daemon_it_is_the_daemons_model_and_nothing_is_loaded_here(daemon: FakeDaemon, name: str) -> None:
    daemon.on["Status"] = lambda _: {"models": [{"name": name, "state": "ready"}], "devices": []}
    loads = Loads()
    engine = lazyd.lazy(name, loads)
    model = engine()
    assert isinstance(model, Model)
    assert model.name == name
    assert model.echo(3) == 3
    assert engine.is_ready
    assert loads.count == 0
    assert in_child(lambda: bool(engine().echo(4) == 4))


@pytest.mark.usefixtures("daemon")
def test_a_family_asks_the_daemon_for_each_member() -> None:
    strategy = lazyd.lazy("strategy", Loads(), maxsize=10)
    assert strategy("alpha").name == "strategy/alpha"
    assert lazyd.lazy("signal/*/fast", Loads(), maxsize=10)("beta").name == "signal/beta/fast"


def test_what_the_daemon_does_not_know_is_loaded_here(daemon: FakeDaemon, name: str) -> None:
    def unknown(_: dict[str, Any]) -> dict[str, Any]:
        raise lazyd.ModelNotFound(model=name, nearest=[])

    daemon.on["Describe"] = unknown
    assert isinstance(lazyd.lazy(name, Loads())(), Engine)


def test_a_daemon_that_comes_later_is_found_when_the_answer_is_old(
    tmp_path: pathlib.Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = lazyd.lazy(name, Loads())
    assert isinstance(engine(), Engine)
    daemon = FakeDaemon(tmp_path / "control.sock")
    daemon.on["Describe"] = lambda _: {"model": {}, "spec": {}, "metadata": {}, "prediction": {}}
    try:
        engine.unload()
        assert isinstance(engine(), Engine)  # the answer that nobody is there still counts
        monkeypatch.setattr(lazy_daemon, "RENEW_S", 0.0)
        assert isinstance(engine(), Engine)  # and what was loaded here stays here
        engine.unload()
        assert isinstance(engine(), Model)
    finally:
        daemon.kill()


def test_a_daemon_that_was_stopped_leaves_the_load_to_this_process(
    daemon: FakeDaemon, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_daemon, "RENEW_S", 0.0)

    def stops(_: dict[str, Any]) -> dict[str, Any]:
        raise lazyd.errors.ShuttingDown()

    engine = lazyd.lazy(name, Loads())
    assert isinstance(engine(), Model)
    daemon.on["Describe"] = stops
    assert isinstance(engine(), Engine)


@pytest.mark.usefixtures("daemon")
def test_in_asyncio_the_daemons_model_is_one_for_asyncio(name: str) -> None:
    engine = lazyd.lazy(name, Loads())

    async def main() -> int:
        model = await engine.aload()
        result: int = await model.echo(5)
        return result

    assert asyncio.run(main()) == 5
