"""Models come, change and go while the daemon serves: clients register them, files and versions are found."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lazyd

from .conftest import LAZYCTL, LIMIT_S, Client, Daemon, DataLine, Refused, gone

SMOLLM2 = Path(__file__).parents[2] / "build/models/smollm2.gguf"


def actor(daemon: Daemon, name: str, **keys: Any) -> dict[str, Any]:
    """A spec of a model of actors.py."""
    return {
        "name": name,
        "runtime": "python",
        "factory": "actors:actor",
        "python_path": [str(daemon.root)],
        **keys,
    }


def names(client: Client) -> set[str]:
    return {f"{m['name']}:{m['version']}".rstrip(":") for m in client.call("Status")["models"]}


class Held:
    """A call that is in flight until it is let go."""

    def __init__(self, daemon: Daemon, model: str) -> None:
        self._gate = daemon.root / f"gate of {model}"
        with daemon.client() as client:
            self._line = DataLine(client.call("Get", model=model))
        self._line.begin("wait_for", str(self._gate))
        daemon.until(lambda: daemon.model(model)["inFlight"] == 1)

    def end(self) -> Any:
        self._gate.touch()
        with self._line:
            return self._line.end()


def test_what_a_client_registers_serves_at_once_and_after_a_kill(daemon: Daemon) -> None:
    daemon.start()
    with lazyd.connect(daemon.socket) as client:
        assert client.register(actor(daemon, "r:1", options={"x": 1})) == "r:1"
        assert client.register(actor(daemon, "fx/*")) == "fx/*"
        pid = client.call("r", "pid")
        client.register(actor(daemon, "last", fallback={"model": "r"}))
        daemon.kill()
        daemon.start()
        assert client.register(actor(daemon, "r:1", options={"x": 1})) == "r:1", "an equal one changes nothing"
        assert client.call("r", "pid") == pid
        status = {model["name"]: model["source"] for model in client.status()["models"]}
        assert status == {"echo": str(daemon.config), "r": "registered", "last": "registered"}
        assert client.call("fx/one", "echo", 1) == {"args": [1], "kwargs": {}}
        assert client.describe("r:1")["spec"]["options"] == {"x": 1}
        with pytest.raises(lazyd.Conflict, match=r"echo is described in several places: .*lazyd.toml, registered"):
            client.register(actor(daemon, "echo"))
        with pytest.raises(lazyd.InvalidSpec, match="wrong at factory"):
            client.register(actor(daemon, "wrong", factory="nonsense"))


def test_a_model_that_is_removed_finishes_its_calls_and_only_then_is_it_answered(daemon: Daemon) -> None:
    daemon.start()
    with daemon.client() as client:
        client.call("Register", spec=actor(daemon, "r"))
        held = Held(daemon, "r")
        (worker,) = daemon.model("r")["workers"]
        with daemon.client() as other:
            other.send("Deregister", {"model": "r"})
            daemon.until(lambda: "io.lazyd.ModelNotFound" in errors_of(client, "Describe", model="r"))
            other.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                other.result()
            assert not gone(worker["pid"])
            assert held.end() == "came"
            other.socket.settimeout(LIMIT_S)
            assert other.result() == {}
            assert names(client) == {"echo"}
        daemon.until(lambda: gone(worker["pid"]))
        assert errors_of(client, "Deregister", model="r") == ["io.lazyd.ModelNotFound"]
        assert errors_of(client, "Deregister", model="echo") == ["io.lazyd.Conflict"]


def errors_of(client: Client, method: str, **parameters: Any) -> list[str]:
    try:
        client.call(method, **parameters)
    except Refused as refused:
        return [refused.name]
    return []


def test_what_has_changed_is_loaded_again_by_choice_and_nothing_else(daemon: Daemon) -> None:
    daemon.configure("@echo\n@file")
    daemon.start()
    with daemon.client() as client:
        for name in ("r", "s"):
            client.call("Register", spec=actor(daemon, name))
        pids = {name: client.call("Call", model=name, method="pid")["result"] for name in ("echo", "file", "r", "s")}
        client.call("Register", spec=actor(daemon, "r", options={"x": 1}))
        daemon.until(lambda: gone(pids["r"]))
        assert daemon.until_state("r", "cold")["waiting"] == 0, "it is loaded when it is asked for"
        client.call("Register", spec=actor(daemon, "s", options={"x": 1}), now=True)
        daemon.configure("@echo\n@file options.x=1")
        client.call("Reload", now=True)
        for name in ("s", "file"):
            daemon.until(lambda name=name: gone(pids[name]))  # type: ignore[misc]
            daemon.until_state(name, "ready")
        assert client.call("Call", model="echo", method="pid")["result"] == pids["echo"]


def test_two_hundred_at_once_during_reloads_are_all_kept(daemon: Daemon) -> None:
    daemon.start()
    reloading = threading.Event()

    def reload() -> None:
        with daemon.client() as client:
            while not reloading.is_set():
                client.call("Reload")

    def register(number: int) -> str:
        with lazyd.connect(daemon.socket) as client:
            return client.register(actor(daemon, f"r{number}"))

    other = threading.Thread(target=reload)
    other.start()
    try:
        with ThreadPoolExecutor(20) as pool:
            registered = set(pool.map(register, range(200)))
    finally:
        reloading.set()
        other.join()
    assert len(registered) == 200
    daemon.kill()
    with daemon.start() as client:
        assert names(client) == {"echo"} | registered


def test_what_is_registered_and_gone_or_damaged_is_told_and_the_rest_serves(daemon: Daemon) -> None:
    model = daemon.root / "m.gguf"
    shutil.copy(SMOLLM2, model)
    daemon.start()
    with lazyd.connect(daemon.socket) as client:
        client.register({"name": "gone", "runtime": "llama_cpp", "path": str(model)})
        client.register({"name": "shares", "runtime": "llama_cpp", "path": str(model), "options": {"n_ctx": 256}})
        client.register(actor(daemon, "r"))
    daemon.kill()
    model.unlink()
    with daemon.start() as client:
        assert errors_of(client, "Load", model="gone") == ["io.lazyd.LoadFailed"]
        assert client.call("Call", model="r", method="echo")["result"] == {"args": [], "kwargs": {}}
    daemon.kill()
    (daemon.state / "registered.json").write_text("nonsense")
    with daemon.start() as client:
        assert names(client) == {"echo", "gone", "shares", "r"}, "what was accepted last stands in for it"
        assert any("damaged" in warning for warning in client.call("Status")["daemon"]["warnings"])
        assert len(list(daemon.state.glob("registered.json.damaged-*"))) == 1


@pytest.fixture
def finding(daemon: Daemon) -> Iterator[tuple[Daemon, Client]]:
    """A daemon that looks for models in two places."""
    daemon.configure(
        f"""
        [discover."{daemon.root}/found/**/*.gguf"]
        options = {{n_ctx = 256}}
        @v path="{daemon.root}/v/${{version}}/m"
        """
    )
    with daemon.start() as client:
        yield daemon, client


def test_a_file_that_is_put_there_is_a_model_until_it_is_taken_away(finding: tuple[Daemon, Client]) -> None:
    daemon, client = finding
    part = daemon.root / "smol.part"
    shutil.copy(SMOLLM2, part)
    (daemon.root / "found/a").mkdir(parents=True)
    os.rename(part, daemon.root / "found/a/smol.gguf")
    daemon.until(lambda: "a/smol" in names(client))
    assert client.call("Call", model="a/smol", method="complete", args=["Hi"], kwargs={"max_tokens": 2})["result"]
    assert daemon.model("a/smol")["source"] == str(daemon.config)
    (worker,) = daemon.model("a/smol")["workers"]
    shutil.rmtree(daemon.root / "found")
    daemon.until(lambda: names(client) == set())
    daemon.until(lambda: gone(worker["pid"]))


def test_a_version_that_goes_while_it_is_used_finishes_its_calls(finding: tuple[Daemon, Client]) -> None:
    daemon, client = finding

    for version in ("1", "2", "10"):
        (daemon.root / "made" / version).mkdir(parents=True)
        (daemon.root / "made" / version / "m").write_text("weights")
    (daemon.root / "v").mkdir()

    def put(version: str) -> None:
        os.rename(daemon.root / "made" / version, daemon.root / "v" / version)

    put("1")
    daemon.until(lambda: names(client) == {"v:1"})
    held = Held(daemon, "v:1")
    put("2")
    daemon.until(lambda: names(client) == {"v:1", "v:2"})
    put("10")
    daemon.until(lambda: names(client) == {"v:1", "v:2", "v:10"}, within_s=2 * LIMIT_S)
    assert daemon.model("v:10")["version"] == "10"
    assert errors_of(client, "Get", model="v:1") == ["io.lazyd.ModelNotFound"], (
        "two are kept: the latest, and one to go back to"
    )
    assert held.end() == "came"
    daemon.until(lambda: names(client) == {"v:2", "v:10"})
    daemon.kill()
    shutil.rmtree(daemon.root / "v/10")
    with daemon.start() as again:
        daemon.until(lambda: names(again) == {"v:2"} or names(again) == {"v:1", "v:2"})
        assert again.call("Call", model="v", method="echo")["result"] == {"args": [], "kwargs": {}}


def test_add_and_remove_on_the_command_line(daemon: Daemon) -> None:
    daemon.start()
    (daemon.root / "models.toml").write_text(
        '[models.one]\nruntime = "python"\nfactory = "actors:actor"\npython_path = ["."]\nuses = ["two"]\n'
        '[models.two]\nruntime = "python"\nfactory = "actors:actor"\npython_path = ["."]\n'
    )

    def lazyctl(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [LAZYCTL, *words],
            capture_output=True,
            text=True,
            cwd=daemon.root,
            timeout=LIMIT_S,
            env={**os.environ, "LAZYD_SOCKET": daemon.socket, "COLUMNS": "80"},
        )
        return done.returncode, done.stdout, done.stderr

    assert lazyctl("add", "models.toml") == (0, "two is registered\none is registered\n", "")
    assert lazyctl("call", "one", "echo", "[1]")[0] == 0
    settings = ["--set", "factory=actors:actor", "--set", f'python_path=["{daemon.root}"]', "--set", "options.x=1"]
    assert lazyctl("add", "three", "--runtime", "python", *settings) == (0, "three is registered\n", "")
    assert lazyctl("--json", "add", "models.toml")[1] == '{"models":["one","two"]}\n'
    for words, status, said in (
        (("remove", "two"), 2, "it is named by models.one.uses (registered); change that first"),
        (("remove", "echo"), 2, "it stands in "),
        (("remove", "thre"), 4, "did you mean three?"),
        (("add", "echo", "--runtime", "python", *settings), 2, "echo is described in several places"),
        (("add", "four", "--path", "not there.gguf"), 2, "wrong at path"),
        (("add", "not there"), 2, "to add a model called not there, say --path or --runtime"),
    ):
        code, out, err = lazyctl(*words)
        assert (code, out) == (status, ""), err
        assert said in err
    assert lazyctl("remove", "one", "two", "three") == (0, "one is removed\ntwo is removed\nthree is removed\n", "")
