"""The blocking client among threads, processes and signals."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy
import pytest

import lazyd
from lazyd import errors

from .fakes import DEADLINE_S, CallInWorker, FakeDaemon, FakeWorker, eventually


@pytest.fixture
def client(daemon: FakeDaemon) -> Iterator[lazyd.Client]:
    with lazyd.connect(str(daemon.path)) as client:
        yield client


def test_threads_share_one_connection_and_each_gets_its_own_answers(client: lazyd.Client, worker: FakeWorker) -> None:
    model = client.model("gemma")
    model.echo(0)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(model.echo, range(400))) == list(range(400))
    assert worker.accepted == 1


def test_answers_come_out_of_order(client: lazyd.Client, worker: FakeWorker) -> None:
    gates = [threading.Event() for _ in range(4)]

    def run(call: CallInWorker) -> int:
        gates[call.args[0]].wait(DEADLINE_S)
        return int(call.args[0])

    worker.on["run"] = run
    model = client.model("gemma")
    model.echo(0)
    done: list[int] = []
    threads = [threading.Thread(target=lambda i=i: done.append(model.run(i))) for i in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: worker.called.count("run") == 4)
    for i in (2, 0, 3, 1):
        gates[i].set()
        threads[i].join(DEADLINE_S)
    assert done == [2, 0, 3, 1]
    assert worker.accepted == 1


def test_first_calls_at_once_wait_side_by_side_and_keep_one_connection(
    client: lazyd.Client, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    barrier = threading.Barrier(4)

    def grant(_: dict[str, Any]) -> dict[str, Any]:
        barrier.wait(DEADLINE_S)  # all four are asking
        return worker.grant()

    daemon.on["Get"] = grant
    model = client.model("gemma")
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(model.echo, range(4))) == [0, 1, 2, 3]
    eventually(lambda: len(worker.connections) == 1)
    assert model.echo(9) == 9
    assert worker.accepted == 4


def test_large_arrays_of_many_threads_cross_each_other(client: lazyd.Client) -> None:
    model = client.model("ocr")

    def through(number: int) -> bool:
        array = numpy.full(300_000, number, "i4")
        return bool((model.echo(array) == array).all())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(through, range(24)))


def test_one_threads_deadline_leaves_the_others_alone(client: lazyd.Client, worker: FakeWorker) -> None:
    release = threading.Event()
    worker.on["run"] = lambda _: release.wait(DEADLINE_S) and "done"
    model = client.model("gemma")
    with ThreadPoolExecutor(2) as pool:
        patient = pool.submit(model.run)
        eventually(lambda: worker.called == ["run"])
        with pytest.raises(lazyd.Timeout):
            model.call("run", timeout=0.05)
        release.set()
        assert patient.result(DEADLINE_S) == "done"


def test_a_death_is_told_to_every_thread(client: lazyd.Client, daemon: FakeDaemon, worker: FakeWorker) -> None:
    def bury(_: dict[str, Any]) -> dict[str, Any]:
        raise errors.WorkerDied(model="gemma", signal=9)

    worker.on["run"] = lambda call: call.cancelled.wait(DEADLINE_S)
    daemon.on["Release"] = bury
    model = client.model("gemma")
    model.echo(0)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(model.run) for _ in range(4)]
        eventually(lambda: worker.called.count("run") == 4)
        for connection in list(worker.connections):
            worker.hang_up(connection)
        assert [type(call.exception(DEADLINE_S)) for call in calls] == [lazyd.WorkerDied] * 4


def test_a_revocation_among_threads_loses_no_call(client: lazyd.Client, daemon: FakeDaemon, worker: FakeWorker) -> None:
    def grant(_: dict[str, Any]) -> dict[str, Any]:
        eventually(lambda: not worker.draining)
        return worker.grant()

    daemon.on["Get"] = grant
    model = client.model("gemma")
    stop = threading.Event()

    def traffic(number: int) -> int:
        calls = 0
        while not stop.is_set():
            assert model.echo([number, calls]) == [number, calls]
            calls += 1
        return calls

    with ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(traffic, number) for number in range(4)]
        for _ in range(20):
            seen = len(worker.called)
            eventually(partial(more_than, worker, seen))
            worker.drain_and_revoke()
        stop.set()
        assert all(count.result(DEADLINE_S) > 0 for count in counts)


def test_an_iterator_closed_by_the_garbage_collector_inside_the_lock_does_not_block(
    client: lazyd.Client, worker: FakeWorker
) -> None:
    """A collection may happen anywhere, also where this very thread holds the connection's lock."""

    def count(call: CallInWorker) -> Iterator[int]:
        yield from iter(call.cancelled.is_set, True)

    worker.on["count"] = count
    model = client.model("gemma")
    cycle: list[Any] = [model.stream.count()]
    cycle.append(cycle)
    next(cycle[0])
    (line,) = client._session.lines.all()
    gc.disable()
    try:
        del cycle
        with line._changed:  # type: ignore[attr-defined]
            gc.collect()
    finally:
        gc.enable()
    assert model.echo(1) == 1
    eventually(lambda: worker.cancels == [1])


def more_than(worker: FakeWorker, calls: int) -> bool:
    return len(worker.called) > calls


# Signals.


def interrupt_soon(when: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        eventually(when)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_ctrl_c_cancels_a_call_and_the_client_goes_on(client: lazyd.Client, worker: FakeWorker) -> None:
    worker.on["run"] = lambda call: call.cancelled.wait(DEADLINE_S)
    model = client.model("gemma")
    thread = interrupt_soon(lambda: worker.called)
    with pytest.raises(KeyboardInterrupt):
        model.run()
    thread.join()
    eventually(lambda: worker.cancels == [1])
    assert model.echo(1) == 1


def test_ctrl_c_cancels_a_request(client: lazyd.Client, daemon: FakeDaemon) -> None:
    asked = threading.Event()

    def load(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"state": "loading", "phase": "queued"}
        asked.set()
        while daemon.connections:
            time.sleep(0.01)
            yield {"state": "loading", "phase": "queued"}

    daemon.on["Load"] = load
    thread = interrupt_soon(asked.is_set)
    with pytest.raises(KeyboardInterrupt):
        client.load("gemma", progress=lambda _: None)
    thread.join()
    eventually(lambda: not daemon.connections)


# Processes.


def in_child(work: Callable[[], None]) -> int:
    """Forks; the exit status of a child that does `work`: 0 if it raised nothing."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_uses_connections_of_its_own(
    client: lazyd.Client, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    model = client.model("gemma")
    model.echo(0)

    def work() -> None:
        assert [model.echo(i) for i in range(10)] == list(range(10))

    assert in_child(work) == 0
    assert model.echo(1) == 1
    assert worker.accepted == 2
    assert daemon.accepted == 2
    assert len(worker.connections) == 1


def test_a_child_that_closes_its_client_ends_nothing_of_the_parents(client: lazyd.Client, worker: FakeWorker) -> None:
    model = client.model("gemma")
    model.echo(0)
    assert in_child(client.close) == 0
    assert model.echo(1) == 1
    assert worker.accepted == 1


def test_a_child_does_not_cancel_the_parents_stream(client: lazyd.Client, worker: FakeWorker) -> None:
    worker.on["count"] = lambda call: iter(range(1_000_000)) if not call.cancelled.is_set() else None
    pieces = client.model("gemma").stream.count()
    assert next(pieces) == 0

    def work() -> None:
        with pytest.raises(lazyd.Closed):
            for _ in pieces:  # what had arrived before the fork is there
                pass

    assert in_child(work) == 0
    assert [next(pieces) for _ in range(100)] == list(range(1, 101))
    pieces.close()
    eventually(lambda: worker.cancels == [1])


def test_a_fork_while_another_thread_calls_leaves_the_child_free(client: lazyd.Client, worker: FakeWorker) -> None:
    worker.on["run"] = lambda call: call.cancelled.wait(DEADLINE_S)
    model = client.model("gemma")
    model.echo(0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(model.run)
        eventually(lambda: "run" in worker.called)
        assert in_child(lambda: model.echo(1) == 1 or os._exit(2)) == 0
        client.close()
        assert type(running.exception(DEADLINE_S)) is lazyd.Closed


def test_programs_started_by_the_caller_do_not_inherit_the_connections(client: lazyd.Client) -> None:
    client.model("gemma").echo(1)
    listing = "import os; print(*[os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if n > '2'])"
    found = subprocess.run(
        [sys.executable, "-c", listing], close_fds=False, capture_output=True, text=True, check=False
    )
    assert "socket:" not in found.stdout
