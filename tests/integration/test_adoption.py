"""The manager comes and goes; the workers, their leases and their calls stay."""

from __future__ import annotations

import os
import signal

import pytest

from .conftest import LIMIT_S, Daemon, DataLine, Refused, gone


def test_after_sigkill_the_next_manager_has_the_same_worker_and_lease(daemon: Daemon) -> None:
    with daemon.start() as client:
        lease = client.call("Get", model="echo")
        with DataLine(lease) as line:
            pid = line.call("pid")
            before = daemon.model("echo")
            daemon.kill()
            assert line.call("pid") == pid, "the data socket does not notice"
            daemon.start().close()
            after = daemon.model("echo")
            assert [worker["pid"] for worker in after["workers"]] == [pid]
            assert after["state"] == "ready"
            assert after["leases"] == 1
            assert after["bookedBytes"] == before["bookedBytes"]
            assert line.call("pid") == pid
            with daemon.client() as again:
                assert again.call("Get", model="echo", lease=lease["lease"])["lease"] == lease["lease"]
                hot = again.call("Get", model="echo")
                assert not hot["coldStart"]


def test_a_call_in_flight_never_notices_and_protects_its_model(daemon: Daemon) -> None:
    gate = daemon.root / "gate"
    daemon.configure('@echo idle_timeout="200ms"')
    with daemon.start() as client, DataLine(client.call("Get", model="echo")) as line:
        line.begin("wait_for", str(gate))
        daemon.until(lambda: daemon.model("echo")["inFlight"] == 1)
        daemon.kill()
        with daemon.start() as again:
            assert daemon.model("echo")["inFlight"] == 1
            with pytest.raises(Refused, match="Busy"):
                again.call("Unload", models=["echo"], timeoutSec=0.5)
            gate.touch()
            assert line.end() == "came"
            daemon.until_state("echo", "cold")


def test_a_load_goes_on_without_a_manager_and_is_adopted(daemon: Daemon) -> None:
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    with daemon.start() as client:
        client.send("Load", {"model": "slow"})
        pid = daemon.until_it_loads("slow", gate)
        daemon.kill()
    with daemon.start() as again:
        assert daemon.model("slow")["state"] == "loading"
        again.send("Get", {"model": "slow"})
        daemon.until(lambda: daemon.model("slow")["waiting"] == 1)
        gate.touch()
        assert again.result()["model"] == "slow"
        assert [worker["pid"] for worker in daemon.model("slow")["workers"]] == [pid]


def test_a_load_that_ended_without_a_manager_is_ready_for_the_next(daemon: Daemon) -> None:
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    with daemon.start() as client:
        client.send("Load", {"model": "slow"})
        daemon.until_it_loads("slow", gate)
        daemon.kill()
    gate.touch()
    daemon.start().close()
    daemon.until_state("slow", "ready")
    assert daemon.model("slow")["loads"] <= 1


def test_workers_of_a_killed_manager_are_adopted_or_ended_and_never_unknown(daemon: Daemon) -> None:
    """The manager is killed; an orphan answers on its port."""
    daemon.configure("@keeps\n@leaves")
    with daemon.start() as client:
        keeps, leaves = (client.call("Call", model=name, method="pid")["result"] for name in ("keeps", "leaves"))
        daemon.kill()
    daemon.configure("@keeps")
    with daemon.start() as client:
        assert client.call("Call", model="keeps", method="pid")["result"] == keeps
        daemon.until(lambda: gone(leaves))
        known = {worker["pid"] for model in client.call("Status")["models"] for worker in model["workers"]}
        assert known == {keeps}


def test_a_worker_that_died_without_a_manager_is_not_claimed_to_live(daemon: Daemon) -> None:
    with daemon.start() as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        daemon.kill()
    os.kill(pid, signal.SIGKILL)
    daemon.until(lambda: gone(pid))
    with daemon.start() as client:
        assert daemon.until(lambda: daemon.model("echo")["state"] == "cold")
        assert client.call("Call", model="echo", method="pid")["result"] != pid


def test_ten_kills_in_a_row_lose_nothing(daemon: Daemon) -> None:
    with daemon.start() as client, DataLine(client.call("Get", model="echo")) as line:
        pid = line.call("pid")
        for _ in range(10):
            daemon.kill()
            with daemon.start() as again:
                assert again.call("Call", model="echo", method="pid")["result"] == pid
                assert line.call("pid") == pid
        assert daemon.model("echo")["loads"] <= 1


def test_pins_outlive_a_kill(daemon: Daemon) -> None:
    with daemon.start() as client:
        client.call("Pin", model="echo")
        daemon.kill()
    with daemon.start() as client:
        assert daemon.model("echo")["pinned"]
        client.call("Unpin", model="echo")
        daemon.kill()
    daemon.start().close()
    assert not daemon.model("echo")["pinned"]


def test_replace_takes_over_with_the_workers(daemon: Daemon) -> None:
    gate = daemon.root / "gate"
    with daemon.start() as client, DataLine(client.call("Get", model="echo")) as line:
        pid = line.call("pid")
        line.begin("wait_for", str(gate))
        old = daemon.process
        assert old is not None
        with daemon.start("--replace") as again:
            assert old.wait(LIMIT_S) == 0
            gate.touch()
            assert line.end() == "came"
            assert again.call("Call", model="echo", method="pid")["result"] == pid
            assert len({daemon.host_pid()}) == 1


def test_replace_with_nobody_there_is_a_start(daemon: Daemon) -> None:
    with daemon.start("--replace") as client:
        assert client.call("Health")["live"]


def test_a_client_that_waits_for_a_load_when_the_manager_dies_gets_its_answer_by_asking_again(daemon: Daemon) -> None:
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    with daemon.start() as client:
        client.send("Get", {"model": "slow"})
        daemon.until_it_loads("slow", gate)
        daemon.kill()
        with pytest.raises(OSError):
            client.receive()
    with daemon.start() as again:
        again.send("Get", {"model": "slow"})
        gate.touch()
        assert again.result()["model"] == "slow"
        assert daemon.model("slow")["loads"] == 1


def test_a_host_that_dies_is_replaced_and_the_next_call_works(daemon: Daemon) -> None:
    with daemon.start() as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        host = daemon.host_pid()
        assert host is not None
        os.kill(host, signal.SIGKILL)
        daemon.until(lambda: gone(pid))
        assert client.call("Call", model="echo", method="pid")["result"] != pid
        assert daemon.host_pid() != host
        daemon.until(lambda: client.call("Status")["daemon"]["state"] == "running")


def test_after_sigkill_the_next_call_is_hot(daemon: Daemon) -> None:
    """How soon it comes stands in the benchmarks."""
    with daemon.start() as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        daemon.kill()
        with daemon.start() as again:
            answer = again.call("Call", model="echo", method="pid")
    assert (answer["result"], answer["coldStart"]) == (pid, False)
