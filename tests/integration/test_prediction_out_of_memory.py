"""Real workers that find no memory: host and worker say so, and of no other failure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from .host_driver import CallError, Channel, Client, Manager, python_spec, running_host

CUDA = "RuntimeError: CUDA error: out of memory"
NAMES = (f"w{number}" for number in itertools.count())
NOT_MEMORY = "CUDA error: an illegal memory access was encountered"


@pytest.fixture(scope="module")
def manager() -> Iterator[Manager]:
    with running_host() as host:
        yield host.manager()


@pytest.fixture
def worker(manager: Manager) -> str:
    name = next(NAMES)
    manager.load(name, python_spec("memory:hungry"))
    return name


@pytest.fixture
def client(manager: Manager, worker: str) -> Client:
    return manager.connect(worker, "thing", f"lease of {worker}")


@pytest.fixture
def channel(manager: Manager, worker: str) -> Channel:
    return manager.workers[worker]


@pytest.mark.parametrize(
    ("method", "args"),
    [("array", ()), ("said", (CUDA,)), ("wrapped", ()), ("stream", ())],
    ids=lambda each: str(each)[:8],
)
def test_a_call_that_finds_no_memory_is_told_once_and_the_model_serves_on(
    client: Client, channel: Channel, method: str, args: tuple[Any, ...]
) -> None:
    with pytest.raises(CallError) as caught:
        client.call(method, *args)
    assert caught.value.name == "CallFailed"
    channel.expect("ran_out", model="thing")
    assert client.call("works") == "well"
    assert not [message for message in channel.read_dry() if message["is"] == "ran_out"]


def test_a_call_that_fails_otherwise_is_not_told_as_that(client: Client, channel: Channel) -> None:
    with pytest.raises(CallError):
        client.call("said", NOT_MEMORY)
    assert client.call("works") == "well"
    assert not [message for message in channel.read_dry() if message["is"] == "ran_out"]


@pytest.mark.parametrize(
    ("options", "is_memory"),
    [
        ({"error": "MemoryError"}, True),
        ({"error": "OSError"}, True),
        ({"error": "", "text": "failed to allocate CUDA0 buffer of size 536870912"}, True),
        ({"error": "FileNotFoundError"}, False),
        ({"error": "", "text": "failed to load model"}, False),
        ({"error": "", "text": NOT_MEMORY}, False),
    ],
    ids=str,
)
def test_a_load_says_whether_it_found_no_memory(manager: Manager, options: dict[str, str], is_memory: bool) -> None:
    name = next(NAMES)
    channel = manager.start(name, python_spec("memory:loads_with", options=options))
    channel.send({"do": "load", "model": "thing"})
    assert channel.expect("failed")["out_of_memory"] is is_memory
    manager.stop(name)


@pytest.mark.parametrize(
    ("text", "how", "is_memory"),
    [
        ("terminate called after throwing an instance of 'std::bad_alloc'", "abort", True),
        ("CUDA error: out of memory\n  current device: 0, in function alloc", "abort", True),
        ("ggml_aligned_malloc: insufficient memory (attempted to allocate 9.00 MB)", "crash", True),
        ("MemoryError", 1, True),
        (NOT_MEMORY, "abort", False),
        ("warning: failed to mlock 9-byte buffer: Cannot allocate memory", "crash", False),
        ("", "abort", False),
        ("MemoryError", 0, False),
        ("CUDA error: out of memory", "kill", False),
    ],
)
def test_a_worker_that_ends_says_whether_it_found_no_memory(
    manager: Manager, worker: str, client: Client, text: str, how: str | int, is_memory: bool
) -> None:
    client.ask("writes_and_ends", text, how)
    assert manager.host.expect("exited", worker=worker)["out_of_memory"] is is_memory


def test_it_says_so_though_it_has_told_at_length_where_it_was_after(
    manager: Manager, worker: str, client: Client
) -> None:
    client.ask("writes_and_ends", "CUDA error: out of memory", "abort", 90)
    exited = manager.host.expect("exited", worker=worker)
    assert exited["out_of_memory"] is True
    assert exited["log"].startswith("CUDA error: out of memory\nFatal Python error: Aborted\n")


def test_a_worker_that_aborts_while_it_loads_says_so_too(manager: Manager) -> None:
    spec = python_spec("memory:aborts_while_loading", options={"text": "unable to allocate CUDA0 buffer"})
    manager.start("early", spec).send({"do": "load", "model": "thing"})
    assert manager.host.expect("exited", worker="early")["out_of_memory"] is True


def test_one_that_was_told_to_end_has_not_run_out(manager: Manager, worker: str) -> None:
    assert manager.stop(worker, grace_s=0)["out_of_memory"] is False
