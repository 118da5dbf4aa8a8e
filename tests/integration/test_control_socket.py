"""The control socket of a real daemon: what every client can rely on."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import varlink

from .conftest import Client, Daemon, DataLine, Refused

SERVICE = "org.varlink.service"


def test_a_model_is_loaded_on_first_use_and_called(daemon: Daemon) -> None:
    with daemon.start() as client:
        lease = client.call("Get", model="echo")
        assert lease["coldStart"]
        assert lease["model"] == "echo"
        with DataLine(lease) as line:
            assert line.call("echo", 1, "two") == {"args": [1, "two"], "kwargs": {}}
        again = client.call("Get", model="echo")
        assert not again["coldStart"]
        assert again["endpoint"] == lease["endpoint"]
        assert client.call("Release", lease=again["lease"]) == {}


def test_load_tells_its_steps(daemon: Daemon) -> None:
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    with daemon.start() as client:
        client.send("Load", {"model": "slow"}, more=True)
        daemon.until_state("slow", "loading")
        gate.touch()
        steps = [client.receive()]
        while steps[-1].get("continues"):
            steps.append(client.receive())
        assert steps[-1]["parameters"]["state"] == "ready"
        assert steps[-1]["parameters"]["loadSec"] > 0


def test_call_reaches_the_model_without_a_data_socket(daemon: Daemon) -> None:
    with daemon.start() as client:
        reply = client.call("Call", model="echo", method="echo", args=[1, {"$bytes": "aGk="}], kwargs={"a": None})
        assert reply["result"] == {"args": [1, {"$bytes": "aGk="}], "kwargs": {"a": None}}
        assert reply["coldStart"]
        assert daemon.model("echo")["leases"] == 0 or daemon.until(lambda: daemon.model("echo")["leases"] == 0)


def test_call_streams_with_more(daemon: Daemon) -> None:
    with daemon.start() as client:
        results = [reply.get("result") for reply in client.stream("Call", model="echo", method="count", args=[3])]
        assert [result for result in results if result is not None] == [0, 1, 2]


def test_call_says_what_went_wrong(daemon: Daemon) -> None:
    with daemon.start() as client:
        with pytest.raises(Refused) as refused:
            client.call("Call", model="echo", method="fail", args=["made for a test"])
        assert refused.value.name == "io.lazyd.CallFailed"
        assert "made for a test" in refused.value.parameters["reason"]
        with pytest.raises(Refused, match="NoSuchMethod"):
            client.call("Call", model="echo", method="nonsense")
        with pytest.raises(Refused, match=r"io\.lazyd\.Timeout") as timeout:
            client.call("Call", model="echo", method="wait_for", args=["/nonexistent"], timeoutSec=0.3)
        assert timeout.value.parameters["phase"] == "calling"


def test_a_call_whose_worker_dies_says_how(daemon: Daemon) -> None:
    """A worker dies and the next request gets a dead connection: it is told, and the next call works."""
    with daemon.start() as client:
        with pytest.raises(Refused) as died:
            client.call("Call", model="echo", method="exit", args=[7])
        assert died.value.name == "io.lazyd.WorkerDied"
        assert died.value.parameters["exitStatus"] == 7
        assert client.call("Call", model="echo", method="echo")["result"]["args"] == []


def test_a_result_that_is_too_large_for_the_control_socket_is_an_error(daemon: Daemon) -> None:
    with daemon.start() as client:
        with pytest.raises(Refused, match="CallFailed"):
            client.call("Call", model="echo", method="bytes", args=[12_000_000])
        assert (
            len(client.call("Call", model="echo", method="bytes", args=[10_000_000])["result"]["$bytes"]) > 13_000_000
        )


def test_the_stock_varlink_client_works(daemon: Daemon) -> None:
    daemon.start().close()
    with varlink.Client(f"unix:{daemon.socket}") as stock:
        assert list(stock.get_interfaces()) == [SERVICE, "io.lazyd"]
        with stock.open("io.lazyd") as lazyd:
            status = lazyd.Status()
            assert status["schema"] == 1
            assert [model["name"] for model in status["models"]] == ["echo"]
            steps = list(lazyd.Load("echo", _more=True))
            assert steps[-1]["state"] == "ready"
            lease = lazyd.Get("echo")
            assert lazyd.Release(lease["lease"]) == {}
            assert lazyd.Call("echo", "echo", [1], None)["result"] == {"args": [1], "kwargs": {}}
            assert lazyd.Health()["models"] == {"echo": "loaded"}
            assert lazyd.Describe("echo")["spec"]["factory"] == "actors:actor"
            assert lazyd.Unload(["echo"])["unloaded"] == ["echo"]
            with pytest.raises(varlink.VarlinkError) as error:
                lazyd.Get("ecko")
            assert error.value.error() == "io.lazyd.ModelNotFound"
            assert error.value.parameters()["nearest"] == "echo"


def test_a_message_of_20_mb_ends_its_connection_alone(daemon: Daemon) -> None:
    with daemon.start() as other, daemon.client() as large:
        large.send("Get", {"model": "x" * 20_000_000})
        assert large.receive()["error"] == f"{SERVICE}.InvalidParameter"
        with pytest.raises(ConnectionError):
            large.receive()
        assert other.call("Health")["live"]


def test_garbage_ends_its_connection_alone(daemon: Daemon) -> None:
    with daemon.start() as other, daemon.client() as rude:
        rude.socket.sendall(os.urandom(1000).replace(b"\0", b"x") + b"\0")
        assert "not JSON" in rude.receive()["parameters"]["reason"]
        with pytest.raises(ConnectionError):
            rude.receive()
        assert other.call("Health")["live"]


def test_four_first_requests_at_once_are_one_load(daemon: Daemon) -> None:
    """Four copies, or one queued for ever."""
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    daemon.start().close()
    clients = [daemon.client() for _ in range(4)]
    for client in clients:
        client.send("Get", {"model": "slow"})
    daemon.until(lambda: daemon.model("slow")["waiting"] == 4)
    gate.touch()
    leases = [client.result() for client in clients]
    assert len({lease["endpoint"] for lease in leases}) == 1
    assert len({lease["lease"] for lease in leases}) == 4
    assert daemon.model("slow")["loads"] == 1


def test_a_load_goes_on_when_the_first_client_leaves(daemon: Daemon) -> None:
    """The first client leaves during the load and everybody's load is aborted: the load is the manager's."""
    gate = daemon.root / "gate"
    daemon.configure(f'@slow options.gate="{gate}"')
    daemon.start().close()
    with daemon.client() as leaves, daemon.client() as stays:
        leaves.send("Get", {"model": "slow"})
        daemon.until(lambda: daemon.model("slow")["waiting"] == 1)
        stays.send("Get", {"model": "slow"})
        daemon.until(lambda: daemon.model("slow")["waiting"] == 2)
        leaves.close()
        daemon.until(lambda: daemon.model("slow")["waiting"] == 1)
        gate.touch()
        assert stays.result()["model"] == "slow"
    assert daemon.model("slow")["loads"] == 1


def test_the_hot_path_and_looking_do_not_wait_for_another_models_load(daemon: Daemon) -> None:
    """A loaded model waits 50 s behind another model's load; listing hangs during loads."""
    gate = daemon.root / "gate"
    daemon.configure(f'@hot\n@slow options.gate="{gate}"')
    with daemon.start() as client, daemon.client() as waits:
        client.call("Load", model="hot")
        waits.send("Get", {"model": "slow"})
        daemon.until_state("slow", "loading")
        client.call("Get", model="hot")
        for looking in ("Status", "Health", "Metrics"):
            client.call(looking)
        client.call("Describe", model="slow")
        list(client.stream("Logs", model="slow"))
        assert daemon.model("slow")["state"] == "loading"


def test_looking_loads_wakes_and_refreshes_nothing(daemon: Daemon) -> None:
    """A metrics scrape loads or wakes a model."""
    daemon.configure('@cold\n@warm idle_timeout="3s"')
    with daemon.start() as client:
        client.call("Load", model="warm")
        daemon.until(lambda: (daemon.model("warm")["idleSec"] or 0) > 0.5)

        def look() -> bool:
            for looking in ("Status", "Health", "Metrics"):
                client.call(looking)
            for name in ("cold", "warm"):
                client.call("Describe", model=name)
                client.call("Status", model=name)
                list(client.stream("Logs", model=name))
            return daemon.model("warm")["state"] == "cold"

        daemon.until(look, within_s=10)
        assert daemon.model("warm")["loads"] == 1
        assert daemon.model("cold")["state"] == "cold"
        assert daemon.model("cold")["loads"] == 0


def test_events_are_followed(daemon: Daemon) -> None:
    with daemon.start() as client, daemon.client() as follower:
        follower.send("Subscribe", more=True)
        daemon.until(lambda: "clients" in client.call("Metrics")["text"])
        client.call("Load", model="echo")
        kinds = []
        while "ready" not in kinds:
            event = follower.receive()["parameters"]
            if event.get("model") == "echo":
                kinds.append(event["kind"])
            assert event["dropped"] == 0
            assert abs(event["time"] - time.time()) < 60
        assert kinds == ["loading", "ready"]


def test_logs_are_the_workers_own_output_and_can_be_followed(daemon: Daemon) -> None:
    with daemon.start() as client, daemon.client() as follower:
        client.call("Call", model="echo", method="say", args=["one", "two"])
        assert daemon.until(
            lambda: {"one", "two"} <= {reply.get("line") for reply in client.stream("Logs", model="echo")}
        )
        follower.send("Logs", {"model": "echo", "follow": True}, more=True)
        lines: list[str] = []
        while "two" not in lines:
            lines.append(follower.result()["line"])
        client.call("Call", model="echo", method="say", args=["three"])
        while "three" not in lines:
            lines.append(follower.result()["line"])


def test_describe_says_what_the_configuration_says_without_loading(daemon: Daemon) -> None:
    daemon.configure('@echo env={SECRET="hunter2"} memory="300MiB"')
    with daemon.start() as client:
        found = client.call("Describe", model="echo")
        assert found["model"]["state"] == "cold"
        assert "hunter2" not in str(found)
        assert found["spec"]["memory"] == "300MiB"
        assert found["prediction"] == {"ram": {"peakBytes": {"ram": 300 * 1024**2}, "source": "declared"}}


def test_health_has_the_words_of_the_origin(daemon: Daemon) -> None:
    daemon.configure('@ocr\n@detection\n@broken factory="actors:broken"')
    with daemon.start() as client:
        client.call("Load", model="ocr")
        with pytest.raises(Refused, match="LoadFailed"):
            client.call("Load", model="broken")
        health = client.call("Health")
        assert health["live"]
        assert health["ready"]
        assert health["status"] == "ready"
        assert health["models"] == {"ocr": "loaded", "detection": "pending", "broken": "failed"}


def test_metrics_are_prometheus_text(daemon: Daemon) -> None:
    with daemon.start() as client:
        client.call("Load", model="echo")
        lines = client.call("Metrics")["text"].splitlines()
        assert 'lazyd_model_loads_total{model="echo"} 1' in lines
        assert 'lazyd_models{state="ready"} 1' in lines
        assert all(line.startswith("#") or len(line.rsplit(" ", 1)) == 2 for line in lines)


def test_warm_loads_in_the_background_or_waits(daemon: Daemon) -> None:
    daemon.configure("@one\n@two")
    with daemon.start() as client:
        assert [model["name"] for model in client.call("Warm", models=["one"])["models"]] == ["one"]
        daemon.until_state("one", "ready")
        models = client.call("Warm", models=["one", "two"], wait=True)["models"]
        assert [model["state"] for model in models] == ["ready", "ready"]
        with pytest.raises(Refused, match="ModelNotFound"):
            client.call("Warm", models=["one", "nobody"])
        with pytest.raises(Refused, match="one has no files"):
            client.call("Warm", models=["one"], tier="ram")


def test_a_model_is_free_again_when_its_callers_time_is_over_although_the_model_it_called_hangs(daemon: Daemon) -> None:
    daemon.configure("@outer\n@inner")
    gate = daemon.root / "gate"
    with daemon.start() as client:
        client.call("Load", model="inner")
        client.call("Load", model="outer")
        with pytest.raises(Refused, match="Timeout"):
            client.call(
                "Call", model="outer", method="nest", args=["inner", "wait_for", str(gate)], kwargs={}, timeoutSec=0.5
            )
        assert client.call("Call", model="outer", method="echo", args=[1])["result"]["args"] == [1]
        assert daemon.model("inner")["inFlight"] == 1
        gate.touch()
        daemon.until(lambda: daemon.model("inner")["inFlight"] == 0)


def test_unload_frees_by_name_and_spares_the_pinned_with_all(daemon: Daemon) -> None:
    daemon.configure("@one\n@two")
    with daemon.start() as client:
        pids = [client.call("Call", model=name, method="pid")["result"] for name in ("one", "two")]
        client.call("Pin", model="two")
        assert client.call("Unload", all=True)["unloaded"] == ["one"]
        assert client.call("Unload", models=["two"])["unloaded"] == ["two"]
        assert client.call("Unload", models=["two"])["unloaded"] == []
        for pid in pids:
            assert not os.path.exists(f"/proc/{pid}")
        for wrong in ({}, {"models": []}, {"all": True, "idle": True}, {"models": ["one"], "all": True}):
            with pytest.raises(Refused, match="InvalidParameter"):
                client.call("Unload", **wrong)


def test_unload_of_a_busy_model_says_busy_and_it_serves_on(daemon: Daemon) -> None:
    gate = daemon.root / "gate"
    with daemon.start() as client, DataLine(client.call("Get", model="echo")) as line:
        line.begin("wait_for", str(gate))
        daemon.until(lambda: daemon.model("echo")["inFlight"] == 1)
        with pytest.raises(Refused) as busy:
            client.call("Unload", models=["echo"], timeoutSec=0.2)
        assert busy.value.name == "io.lazyd.Busy"
        assert busy.value.parameters == {"model": "echo", "inFlight": 1, "reason": None}
        gate.touch()
        assert line.end() == "came"
        assert client.call("Call", model="echo", method="echo")["result"]["args"] == []


def test_only_the_uid_that_got_a_lease_may_release_it(daemon: Daemon) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to call as somebody else")
    with daemon.start() as client:
        lease = client.call("Get", model="echo")["lease"]
        reply = as_user(daemon, "Release", {"lease": lease})
        assert reply["error"] == "io.lazyd.PermissionDenied"


NOBODY = 65534

AS_USER = """
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
os.setgroups([int(sys.argv[2])])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[3]))
connection.connect(sys.argv[1])
connection.sendall(sys.argv[4].encode() + b"\\0")
data = b""
while not data.endswith(b"\\0"):
    data += connection.recv(65536)
print(data[:-1].decode())
"""


def as_user(daemon: Daemon, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Calls as somebody else, in the group lazyd if there is one; the socket is opened to all for that."""
    import grp
    import json

    try:
        group = grp.getgrnam("lazyd").gr_gid
    except KeyError:
        group = NOBODY
    os.chmod(daemon.root, 0o755)
    os.chmod(daemon.socket, 0o666)
    message = json.dumps({"method": f"io.lazyd.{method}", "parameters": parameters})
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, daemon.socket, str(group), str(NOBODY), message],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply


def test_who_is_neither_admin_nor_in_the_group_may_do_nothing(daemon: Daemon) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to call as somebody else")
    daemon.start().close()
    for method, parameters in (("Reload", {}), ("Register", {"spec": {}}), ("Deregister", {"model": "echo"})):
        reply = as_user(daemon, method, parameters)
        assert reply["error"] == "io.lazyd.PermissionDenied"
        assert reply["parameters"]["method"] == method


def test_the_socket_is_for_those_who_may_open_it(daemon: Daemon) -> None:
    import grp

    daemon.start().close()
    mode = stat.S_IMODE(os.stat(daemon.socket).st_mode)
    groups = {entry.gr_name for entry in grp.getgrall()}
    assert mode == (0o660 if "lazyd" in groups and os.getuid() == 0 else 0o600)


def test_hundreds_of_clients_at_once_are_served(daemon: Daemon) -> None:
    daemon.start().close()
    clients = [Client(daemon.socket) for _ in range(500)]
    for client in clients:
        client.send("Health")
    for client in clients:
        assert client.result()["live"]
        client.close()


def sockets_of(pid: int) -> set[str] | None:
    """The inodes of its open sockets. None: one of its files was closed during the look, which is to be repeated."""
    try:
        targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except FileNotFoundError:
        return None
    return {target[8:-1] for target in targets if target.startswith("socket:[")}


def test_the_manager_opens_no_network_socket_whatever_it_is_asked(daemon: Daemon) -> None:
    with daemon.start() as client:
        client.call("Call", model="echo", method="echo")
        client.call("Describe", model="echo")
        client.call("Metrics")
        assert daemon.process is not None
        inodes = daemon.until(lambda pid=daemon.process.pid: sockets_of(pid))
        network = set()
        for table in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet", "netlink"):
            path = Path(f"/proc/{daemon.process.pid}/net/{table}")
            if path.exists():
                for line in path.read_text().splitlines()[1:]:
                    network.update(line.split())
        assert inodes
        assert not inodes & network
