"""What clients see of a real worker: calls, streams, cancelling, leases, drains. No model library is needed."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from .host_driver import CallError, Client, Manager, places, python_spec, readable, running_host, wait_until

MODEL = "thing"


@pytest.fixture(scope="module")
def manager() -> Iterator[Manager]:
    with running_host() as host:
        yield host.manager()


@pytest.fixture
def worker(manager: Manager, request: pytest.FixtureRequest) -> Iterator[str]:
    """A worker of its own for each test, with one loaded object."""
    name = request.node.name.removeprefix("test_")[:30]
    manager.load(name, python_spec("things:make", options={"a": 1}))
    yield name
    manager.stop(name, grace_s=0)


@pytest.fixture
def client(manager: Manager, worker: str) -> Iterator[Client]:
    client = manager.connect(worker, MODEL, f"lease-of-{worker}")
    yield client
    client.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_arguments_and_results_arrive_as_they_were(client: Client) -> None:
    assert client.call("echo", 1, "zwei", None, key=[True]) == [[1, "zwei", None], {"key": [True]}]


def test_options_are_the_factorys_keyword_arguments(client: Client) -> None:
    assert client.call("who")["options"] == {"a": 1}


def test_arrays_travel_both_ways_as_buffers(client: Client) -> None:
    array = numpy.arange(3_000_000, dtype=numpy.float32).reshape(3, 1000, 1000)
    assert numpy.array_equal(client.call("twice", array), 2 * array)


def test_a_slow_reader_of_a_large_result_does_not_hold_up_the_model(
    manager: Manager, worker: str, client: Client
) -> None:
    slow = manager.connect(worker, MODEL, "slow")
    slow.ask("twice", numpy.ones(10_000_000, dtype=numpy.uint8))
    assert readable(slow.socket, time.monotonic() + 10)
    assert client.call("echo", 1) == [1]
    assert int(slow.answer().sum()) == 20_000_000


def test_a_generator_streams_and_the_last_piece_says_that_it_is(client: Client) -> None:
    client.ask("count", 3, stream=True)
    headers = [client.next().header for _ in range(3)]
    assert headers == [
        {"id": 1, "result": 0, "more": True},
        {"id": 1, "result": 1, "more": True},
        {"id": 1, "result": 2},
    ]


def test_a_piece_is_not_kept_back_until_the_next_one(client: Client, fifo: Path) -> None:
    pieces = client.stream("forever", str(fifo))
    assert next(pieces) == "begun"
    with fifo.open("w") as writer:
        writer.write("one\n")
        writer.flush()
        assert next(pieces) == "one\n"
        writer.write("two\n")
    assert list(pieces) == ["two\n"]


def test_an_empty_stream_ends_with_a_frame_that_holds_no_piece(client: Client) -> None:
    client.ask("count", 0, stream=True)
    assert client.next().header == {"id": 1, "result": None, "end": True}


def test_a_generator_that_is_not_streamed_answers_a_list(client: Client) -> None:
    assert client.call("count", 4) == [0, 1, 2, 3]


def test_a_stream_of_one_result_is_that_result(client: Client) -> None:
    assert list(client.stream("echo", 1)) == [[1]]


def test_a_stream_waits_for_its_reader(manager: Manager, worker: str, client: Client) -> None:
    """Backpressure: what nobody reads is not produced, so the worker's memory stays as it is."""
    client.ask("endless", 100_000, stream=True)
    client.next()
    before = manager.measure(worker)
    for _ in range(100):
        client.next()
    assert manager.measure(worker) < before + 30 * 1024 * 1024


def test_an_exception_fails_the_call_and_not_the_model(client: Client) -> None:
    with pytest.raises(CallError) as caught:
        client.call("fail")
    assert caught.value.name == "CallFailed"
    assert caught.value.parameters["reason"] == "KeyError: 'what was asked for'"
    assert caught.value.parameters["method"] == "fail"
    assert "things.py" in caught.value.parameters["traceback"]
    assert client.call("echo") == []


def test_an_exception_that_cannot_be_shown_fails_the_call_and_not_the_model(client: Client) -> None:
    with pytest.raises(CallError) as caught:
        client.call("fail_without_words")
    assert caught.value.parameters["reason"] == "Wordless: (it cannot be shown: RuntimeError)"
    assert client.call("echo") == []


def test_what_an_exception_says_is_text_of_moderate_length(client: Client) -> None:
    with pytest.raises(CallError) as caught:
        client.call("fail_with", "half a character: \udcff")
    assert caught.value.parameters["reason"] == "ValueError: half a character: \\udcff"
    with pytest.raises(CallError) as caught:
        client.call("fail_with", "x", 20_000_000)
    assert len(caught.value.parameters["reason"]) < 5000
    assert client.call("echo") == []


def test_what_cannot_be_sent_is_said_so(client: Client) -> None:
    with pytest.raises(CallError) as caught:
        client.call("unsendable")
    assert caught.value.name == "CallFailed"
    assert "builtins.object" in caught.value.parameters["reason"]


@pytest.mark.parametrize("method", ["nothing", "_secret", "close", "waiting", "name"])
def test_only_public_methods_can_be_called(manager: Manager, worker: str, method: str) -> None:
    client = manager.connect(worker, MODEL, f"l-{method}")
    with pytest.raises(CallError) as caught:
        client.call(method)
    assert (caught.value.name, caught.value.parameters) == ("NoSuchMethod", {"model": MODEL, "method": method})


def test_calls_of_several_connections_are_run_one_after_the_other(
    manager: Manager, worker: str, client: Client, fifo: Path
) -> None:
    other = manager.connect(worker, MODEL, "other")
    client.ask("wait_for", str(fifo))
    manager.workers[worker].expect("busy", lease=f"lease-of-{worker}")
    other.ask("echo", "second")
    manager.workers[worker].expect("busy", lease="other")
    assert not readable(other.socket, time.monotonic())
    fifo.write_text("first")
    assert client.answer() == "first"
    assert other.answer() == ["second"]


def test_several_calls_on_one_connection_are_answered_by_number(client: Client) -> None:
    numbers = [client.ask("echo", i) for i in range(50)]
    assert [client.next().header["id"] for _ in numbers] == numbers


# Cancelling.


def test_cancelling_a_call_that_waits_answers_at_once(client: Client, fifo: Path) -> None:
    first = client.ask("wait_for", str(fifo))
    second = client.ask("echo", 1)
    client.send({"cancel": second})
    header = client.next().header
    assert (header["id"], header["error"], header["parameters"]) == (second, "Cancelled", {"model": MODEL})
    fifo.write_text("go")
    assert client.next().header == {"id": first, "result": "go"}


def test_a_cancelled_stream_ends_with_cancelled(client: Client) -> None:
    number = client.ask("endless", stream=True)
    client.next()
    client.send({"cancel": number})
    last = client.next().header
    while "error" not in last:
        last = client.next().header
    assert last["error"] == "Cancelled"
    assert client.call("echo") == []


def test_cancelling_what_is_over_does_nothing(client: Client) -> None:
    client.call("echo")
    client.send({"cancel": 1})
    client.send({"cancel": 77})
    assert client.call("echo", 1) == [1]


def test_a_client_that_leaves_cancels_its_calls(manager: Manager, worker: str, client: Client) -> None:
    gone = manager.connect(worker, MODEL, "gone")
    gone.ask("endless", stream=True)
    gone.next()
    gone.close()
    channel = manager.workers[worker]
    channel.expect("idle", lease="gone")
    channel.expect("closed", lease="gone")
    assert client.call("echo") == []


def test_a_call_that_cannot_be_cancelled_keeps_its_lease_until_it_has_ended(
    manager: Manager, worker: str, fifo: Path
) -> None:
    gone = manager.connect(worker, MODEL, "gone")
    gone.ask("wait_for", str(fifo))
    channel = manager.workers[worker]
    with fifo.open("w") as writer:  # opens when the call reads: it is not waiting any more
        gone.close()
        channel.send({"do": "drain", "model": MODEL, "drain": 1, "finish": False})
        channel.expect("still_busy", drain=1)
        writer.write("go")
    channel.expect("closed", lease="gone")
    channel.send({"do": "drain", "model": MODEL, "drain": 2, "finish": False})
    channel.expect("drained", drain=2)


# Leases.


def test_a_wrong_token_gets_no_such_lease_and_the_end(manager: Manager, worker: str) -> None:
    client = Client(places.data_socket(str(manager.runtime_dir), worker), "wrong")
    assert client.greeting["error"] == "NoSuchLease"
    assert client.expect_end() == []


def test_a_token_serves_one_connection(manager: Manager, worker: str, client: Client) -> None:
    second = Client(places.data_socket(str(manager.runtime_dir), worker), f"token-of-lease-of-{worker}")
    assert second.greeting["error"] == "NoSuchLease"
    assert client.call("echo") == []


def test_a_token_that_is_quicker_than_its_grant_is_taken(manager: Manager, worker: str) -> None:
    """The grant is written before the client hears of the token; the worker may see them in any order."""
    endpoint = places.data_socket(str(manager.runtime_dir), worker)
    for i in range(200):
        early = Client(endpoint, None)
        token = manager.grant(worker, MODEL, f"early-{i}")
        early.send({"v": 1, "token": token})
        assert early.next().header == {"v": 1}
        early.close()


def test_what_is_no_frame_ends_that_connection_alone(manager: Manager, worker: str, client: Client) -> None:
    bad = manager.connect(worker, MODEL, "bad")
    bad.socket.sendall(b"\xff\xff\xff\xff")
    assert bad.next().header["error"] == "TooLarge"
    assert bad.expect_end() == []
    odd = manager.connect(worker, MODEL, "odd")
    odd.send({"hello": "there"})
    assert odd.next().header["error"] == "ProtocolError"
    assert client.call("echo") == []


def test_a_result_that_is_too_large_is_said_to_be(client: Client) -> None:
    with pytest.raises(CallError, match=r"the result cannot be sent, its text has \d+ bytes") as caught:
        client.call("text", 20_000_000)
    assert caught.value.name == "CallFailed"
    assert client.call("echo") == []


def test_bad_arguments_fail_the_call_alone(client: Client) -> None:
    client.send({"id": 1, "method": "echo", "args": [{"$array": 9, "dtype": "<f4", "shape": [1]}]})
    with pytest.raises(CallError, match="CallFailed"):
        client.answer()
    client.send({"id": 2, "method": "echo", "args": {"not": "a list"}})
    with pytest.raises(CallError, match="CallFailed"):
        client.answer()


# The hand-shake.


def test_a_busy_model_is_not_drained_and_goes_on(manager: Manager, worker: str, client: Client, fifo: Path) -> None:
    client.ask("wait_for", str(fifo))
    channel = manager.workers[worker]
    channel.expect("busy")
    channel.send({"do": "drain", "model": MODEL, "drain": 4, "finish": False})
    channel.expect("still_busy", drain=4, model=MODEL)
    fifo.write_text("go")
    assert client.answer() == "go"
    assert client.call("echo") == []


def test_an_idle_model_is_drained_and_its_connections_are_told(manager: Manager, worker: str, client: Client) -> None:
    client.call("echo")
    channel = manager.workers[worker]
    channel.send({"do": "drain", "model": MODEL, "drain": 5, "finish": False})
    channel.expect("drained", drain=5)
    assert client.expect_end() == [{"revoked": True}]


def test_a_drain_that_waits_ends_with_the_last_call(manager: Manager, worker: str, client: Client, fifo: Path) -> None:
    client.ask("wait_for", str(fifo))
    channel = manager.workers[worker]
    channel.expect("busy")
    channel.send({"do": "drain", "model": MODEL, "drain": 6, "finish": True})
    channel.send({"do": "unload", "model": "nothing"})
    channel.expect("unloaded")  # so the drain has been heard
    late = client.ask("echo")
    assert client.next().header == {"id": late, "error": "Revoked", "parameters": {"model": MODEL}}
    nested = manager.connect(worker, MODEL, "nested", parent="outer")
    nested.ask("echo", "nested")
    channel.expect("busy", lease="nested")
    fifo.write_text("go")
    assert client.answer() == "go"
    assert nested.answer() == ["nested"]
    channel.expect("drained", drain=6)
    assert client.expect_end() == [{"revoked": True}]
    assert nested.expect_end() == [{"revoked": True}]


def test_a_drained_model_that_is_resumed_serves_again(manager: Manager, worker: str) -> None:
    channel = manager.workers[worker]
    channel.send({"do": "drain", "model": MODEL, "drain": 7, "finish": False})
    channel.expect("drained", drain=7)
    channel.send({"do": "resume", "model": MODEL})
    assert manager.connect(worker, MODEL, "after").call("echo") == []


def test_a_withdrawn_lease_loses_its_connection(manager: Manager, worker: str, client: Client) -> None:
    manager.workers[worker].send({"do": "withdraw", "lease": f"lease-of-{worker}"})
    assert client.expect_end() == []


# The process.


def test_the_lease_of_a_call_is_at_hand_inside_it(client: Client, worker: str) -> None:
    assert client.call("environment", "LAZYD_LEASE") == f"lease-of-{worker}"
    assert client.call("environment", "LAZYD_WORKER").startswith(f"{worker}@")


def test_the_time_that_a_call_has_left_is_at_hand_inside_it(client: Client) -> None:
    assert client.call("time_left") is None
    client.send({"id": 50, "method": "time_left", "timeoutSec": 20})
    assert 10 < client.answer() <= 20
    assert client.call("time_left") is None


@pytest.mark.parametrize("odd", [-1, "20", True, None, [], 10**400, 1e300], ids=lambda odd: str(odd)[:8])
def test_a_time_limit_that_is_none_is_passed_over(client: Client, odd: object) -> None:
    client.send({"id": 50, "method": "time_left", "timeoutSec": odd})
    assert client.answer() is None


def test_forked_workers_have_random_numbers_of_their_own(manager: Manager) -> None:
    spec = python_spec("things:make")
    numbers = set()
    for i in range(3):
        manager.load(f"dice{i}", spec)
        numbers.add(manager.connect(f"dice{i}", MODEL, f"dice{i}").call("random"))
        manager.stop(f"dice{i}", grace_s=0)
    assert len(numbers) == 3


def test_what_a_worker_leaves_unsaid_is_said_before_it_goes(manager: Manager, worker: str, client: Client) -> None:
    """Leaving cancels what is in flight, and lets clients read their answers."""
    client.ask("endless", stream=True)
    client.next()
    answers: list[object] = []
    reader = threading.Thread(target=lambda: answers.extend(client.expect_end()))
    reader.start()
    manager.host.send({"do": "stop", "worker": worker, "grace_s": 20})
    assert manager.host.expect("exited", worker=worker)["status"] == 0
    reader.join()
    assert answers[-2]["error"] == "Cancelled"  # type: ignore[index]
    assert answers[-1] == {"revoked": True}
    manager.load(worker, python_spec("things:make"))


def test_reports_tell_objects_and_leases_as_the_core_spells_them(manager: Manager, worker: str, client: Client) -> None:
    import msgspec

    from lazyd.core.events import WorkerReport

    client.call("echo")
    channel = manager.attach(worker)
    report = msgspec.convert(channel.expect("report")["report"], WorkerReport)
    assert [(each.model, each.state) for each in report.objects] == [(MODEL, "ready")]
    (lease,) = report.leases
    assert (lease.lease, lease.presented, lease.called, lease.in_flight) == (f"lease-of-{worker}", True, True, 0)
    assert report.endpoint == places.data_socket(str(manager.runtime_dir), worker)


def test_a_family_has_a_thread_for_each_member(manager: Manager, fifo: Path) -> None:
    spec = python_spec("things:member", name="strategy/*", options={"calendar": "xnys"})
    channel = manager.load("family", spec, "strategy/alpha")
    channel.send({"do": "load", "model": "strategy/beta"})
    channel.expect("ready", model="strategy/beta")
    alpha = manager.connect("family", "strategy/alpha", "a")
    beta = manager.connect("family", "strategy/beta", "b")
    alpha.ask("wait_for", str(fifo))
    channel.expect("busy", lease="a")
    assert beta.call("who")["name"] == "beta"
    assert beta.call("who")["options"] == {"calendar": "xnys"}
    channel.send({"do": "unload", "model": "strategy/beta"})
    channel.expect("unloaded", model="strategy/beta")
    assert beta.expect_end() == [{"revoked": True}]
    fifo.write_text("go")
    assert alpha.answer() == "go"
    manager.stop("family")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has heaps of threads")
def test_what_a_member_of_a_family_frees_is_not_kept_in_a_heap_of_its_thread(manager: Manager) -> None:
    channel = manager.load("family", python_spec("things:member", name="strategy/*"), "strategy/alpha")
    channel.send({"do": "load", "model": "strategy/beta"})
    channel.expect("ready", model="strategy/beta")
    for name in ("alpha", "beta"):
        assert manager.connect("family", f"strategy/{name}", name).call("heap") == "[heap]"
    manager.stop("family")


def test_an_object_that_is_wanted_again_while_it_closes_is_loaded_again(manager: Manager, worker: str) -> None:
    channel = manager.workers[worker]
    channel.send({"do": "unload", "model": MODEL})
    channel.send({"do": "load", "model": MODEL})
    channel.expect("unloaded", model=MODEL)
    channel.expect("ready", model=MODEL)


def test_unloading_what_is_not_there_is_answered(manager: Manager, worker: str) -> None:
    channel = manager.workers[worker]
    channel.send({"do": "unload", "model": "nothing"})
    channel.expect("unloaded", model="nothing")


def test_the_loss_of_the_managers_channel_changes_nothing_for_calls(
    manager: Manager, worker: str, client: Client, fifo: Path
) -> None:
    client.ask("wait_for", str(fifo))
    manager.workers[worker].expect("busy")
    manager.workers[worker].close()
    fifo.write_text("go")
    assert client.answer() == "go"
    assert client.call("echo") == []
    assert manager.attach(worker).expect("report")["report"]["leases"][0]["lease"] == f"lease-of-{worker}"


def test_a_stream_goes_on_while_the_managers_channel_is_replaced(manager: Manager, worker: str, client: Client) -> None:
    pieces = client.stream("count", 30, 0.01)
    assert next(pieces) == 0
    for _ in range(3):
        report = manager.attach(worker).expect("report")["report"]
        assert report["leases"][0]["inFlight"] == 1
        assert next(pieces)
    assert list(pieces)[-1] == 29


def test_a_shortage_of_descriptors_harms_nobody_who_is_connected(manager: Manager, worker: str, client: Client) -> None:
    client.call("files_left", 3)
    endpoint = places.data_socket(str(manager.runtime_dir), worker)
    waiting = [Client(endpoint, None) for _ in range(20)]
    before = client.call("processor_seconds")
    late = manager.connect_later(worker, MODEL, "late")
    assert not readable(late.socket, time.monotonic() + 0.5)
    assert client.call("processor_seconds") - before < 0.25  # it waits, and does not ask again and again
    for other in waiting:
        other.close()
    assert late.next().header == {"v": 1}
    assert late.call("echo", 1) == [1]


def test_memory_of_a_worker_is_measured(manager: Manager) -> None:
    manager.load("big", python_spec("things:big", options={"size": 50_000_000}))
    measured = wait_until(lambda: manager.measure("big"), "a measurement")
    assert 50_000_000 < measured < 120_000_000
    manager.stop("big", grace_s=0)


def test_several_calls_are_in_flight_in_one_object_and_a_drain_waits_for_all(manager: Manager, tmp_path: Path) -> None:
    name = "several"
    manager.load(name, python_spec("things:make", concurrency=3))
    channel = manager.workers[name]
    client, fifos = manager.connect(name, MODEL, "several"), [tmp_path / "a", tmp_path / "b"]
    for fifo in fifos:
        os.mkfifo(fifo)
    streams = client.ask("forever", str(fifos[0]), stream=True), client.ask("wait_for", str(fifos[1]))
    assert client.next().header["result"] == "begun"
    assert client.call("echo", 1) == [1]
    client.send({"cancel": streams[0]})
    channel.send({"do": "drain", "model": MODEL, "drain": 1, "finish": True})
    fifos[0].write_text("a line")
    assert client.next().header["error"] == "Cancelled"
    with fifos[1].open("w") as fifo:
        assert not [message for message in channel.read_dry() if message["is"] == "drained"]
        fifo.write("came")
    assert client.answer() == "came"
    channel.expect("drained", drain=1)
    manager.stop(name, grace_s=0)
