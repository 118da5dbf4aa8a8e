"""`lazyd.lazy`: what leaves this process, while somebody has it in hand, while another asks, and at its end."""

from __future__ import annotations

import asyncio
import copy
import gc
import pathlib
import pickle
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

import lazyd
from lazyd.client import lazy_daemon, lazy_shelf

LIMIT_S = 60.0


class Engine:
    def __init__(self, key: str = "") -> None:
        self.key = key


@lazyd.lazy("decorated")
def decorated() -> Engine:
    return Engine()


@lazyd.lazy("family/*", maxsize=1)
def family(key: str) -> Engine:
    return Engine(key)


wrapped = lazyd.lazy("wrapped", Engine)
wrapped_family = lazyd.lazy("wrapped/*", Engine, maxsize=1)


@pytest.fixture(autouse=True)
def no_daemon(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYD_SOCKET", str(tmp_path / "control.sock"))
    monkeypatch.setattr(lazy_daemon, "_clients", {})
    lazy_daemon.forget()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def test_what_somebody_has_in_hand_is_found_again_and_not_loaded_beside_itself(name: str) -> None:
    part = lazyd.lazy(name, Engine, maxsize=1, idle_timeout=3600)
    a = part("a")
    b = part("b")
    assert part("a") is a
    assert part("b") is b
    part._shelf.idle_timeout_s = 0.0
    part._shelf._look()
    assert part("b") is b
    part.unload("b")
    assert part("b") is not b, "who says that it be let go of gets another one"
    assert part("a") is a
    part.unload()
    assert part("a") is not a


def test_what_nobody_has_in_hand_is_gone_at_once(name: str) -> None:
    part = lazyd.lazy(name, Engine, maxsize=1)
    a = weakref.ref(part("a"))
    part("b")
    assert a() is None
    assert not part.of("a").is_ready


def test_what_cannot_be_referred_to_weakly_just_leaves(name: str) -> None:
    part = lazyd.lazy(name, lambda key: [key], maxsize=1)
    a = part("a")
    part("b")
    assert part("a") is not a


@pytest.mark.parametrize("way", ["unload", "maxsize", "idle", "found again"])
def test_the_end_of_an_object_holds_up_nobody(name: str, way: str) -> None:
    """It frees gigabytes, joins a thread, or has another thread ask."""
    other = lazyd.lazy(f"{name} other", Engine)
    ends: list[bool] = []

    class Slow(Engine):
        def __del__(self) -> None:
            if self.key == "slow":
                thread = threading.Thread(target=other)
                thread.start()
                thread.join(LIMIT_S)
                ends.append(not thread.is_alive())

    part = lazyd.lazy(name, Slow, maxsize=1, idle_timeout=3600)
    if way == "found again":
        a = part("a")
        part("slow")
        assert part("a") is a
    else:
        part("slow")
    if way == "unload":
        part.unload()
    elif way == "maxsize":
        part("another")
    elif way == "idle":
        part._shelf.idle_timeout_s = 0.0
        part._shelf._look()
    assert ends == [True]


def test_what_a_load_had_when_it_failed_is_free_as_soon_as_its_error_is(name: str) -> None:
    weights: list[weakref.ref[Engine]] = []
    begun, go = threading.Event(), threading.Event()

    def load() -> Engine:
        half = Engine()
        weights.append(weakref.ref(half))
        begun.set()
        assert go.wait(LIMIT_S)
        raise ValueError("the other half is missing")

    engine = lazyd.lazy(name, load)

    def ask() -> None:
        with pytest.raises(ValueError, match="the other half"):
            engine()

    gc.disable()
    try:
        threads = [threading.Thread(target=ask)]
        threads[0].start()
        assert begun.wait(LIMIT_S)
        threads += [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads[1:]:
            thread.start()
        while len(lazy_shelf._waits) < 3:
            assert threads[0].is_alive()
        go.set()
        for thread in threads:
            thread.join(LIMIT_S)
        assert [weight() for weight in weights] == [None]
    finally:
        gc.enable()


def test_where_no_thread_starts_the_object_is_there_all_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is while the interpreter ends; and later, where there were too many threads, its time runs again."""
    engine = lazyd.lazy(name, Engine, idle_timeout=0.01)

    def none_left(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(lazy_shelf.threading.Timer, "start", none_left)
        assert isinstance(engine(), Engine)
    gone = weakref.ref(engine())
    for _ in range(6000):
        if gone() is None:
            break
        threading.Event().wait(0.01)
    assert gone() is None


@pytest.mark.parametrize("wrapper", [decorated, family], ids=["one", "family"])
def test_what_is_decorated_travels_by_its_name_as_functions_do(wrapper: Any) -> None:
    assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    assert copy.deepcopy(wrapper) is wrapper


@pytest.mark.parametrize("wrapper", [wrapped, wrapped_family], ids=["one", "family"])
def test_what_is_wrapped_travels_with_its_loader(wrapper: Any) -> None:
    there = pickle.loads(pickle.dumps(wrapper))
    args = () if wrapper is wrapped else ("a",)
    assert type(there) is type(wrapper)
    assert there(*args) is wrapper(*args), "objects belong to their name"


def test_a_program_that_ends_while_it_loads_ends() -> None:
    program = """
import lazyd, threading, atexit
begun, end = threading.Event(), threading.Event()
def load():
    begun.set()
    end.wait()
    return {1}
engine = lazyd.lazy("x", load, idle_timeout=5)
threading.Thread(target=engine, daemon=True).start()
begun.wait()
atexit.register(lazyd.lazy("y", set, idle_timeout=5))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_event_loop_that_is_gone_leaves_no_connection() -> None:
    async def ask() -> lazyd.AsyncClient:
        lazy_daemon.async_model("x")
        return lazy_daemon._aio[asyncio.get_running_loop()]

    client = asyncio.run(ask())
    gc.collect()
    with pytest.raises(lazyd.Closed):
        asyncio.run(client.describe("x"))
