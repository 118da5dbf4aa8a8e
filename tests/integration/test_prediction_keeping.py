"""The file in which a daemon keeps what loads have needed, and what may be wrong with it: models load all the same."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Client, Daemon, Refused

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
LIBC = ctypes.CDLL(None, use_errno=True)

HELD_BYTES = 32 << 20
HOLDS = f"""
import os, time

class Model:
    def hold(self, gate):
        held = b"x" * {HELD_BYTES}
        while not os.path.exists(gate): time.sleep(0.01)
        return len(held)

def make(): return Model()
def broken(): raise RuntimeError("this model cannot be made")
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system of its own")


@pytest.fixture
def daemon(daemon: Daemon) -> Daemon:
    (daemon.root / "holds.py").write_text(HOLDS)
    configure(daemon, "one")
    return daemon


def configure(daemon: Daemon, *models: str, factory: str = "holds:make") -> None:
    daemon.configure("\n".join(f'@{model} factory="{factory}"' for model in models))


def learned_db(daemon: Daemon) -> Path:
    daemon.state.mkdir(parents=True, exist_ok=True)
    return daemon.state / "learned.db"


def source(client: Client, model: str = "one") -> str:
    prediction: dict[str, Any] = client.call("Describe", model=model)["prediction"]["ram"]
    return str(prediction["source"])


def live(daemon: Daemon, client: Client, model: str = "one") -> None:
    """A load, a call in which it is measured, and the end."""
    gate = daemon.root / "gate"
    gate.unlink(missing_ok=True)
    with daemon.client() as caller:
        caller.send("Call", {"model": model, "method": "hold", "args": [str(gate)]})
        daemon.until(lambda: daemon.model(model)["measuredBytes"].get("ram", 0) > HELD_BYTES)
        gate.touch()
        caller.result()
    client.call("Unload", models=[model])
    daemon.until_state(model, "cold")


def teach(daemon: Daemon, client: Client, model: str = "one") -> None:
    """A life whose needs are known after it, wherever they are kept."""
    live(daemon, client, model)
    daemon.until(lambda: source(client, model) == "learned")


def problems(client: Client) -> list[str]:
    found: list[str] = client.call("Status")["daemon"].get("problems", [])
    return [line for line in found if "learned.db" in line]


def times_told(daemon: Daemon, text: str) -> int:
    """How often the journal has it."""
    return sum("learned needs" in line and text in line for line in daemon.log_text().splitlines())


def in_namespace(mount: Callable[[], None]) -> Callable[[], None]:
    """For a process that is to be started: mounts that it alone sees."""

    def prepare() -> None:
        checked(LIBC.unshare(CLONE_NEWNS))
        checked(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        mount()

    return prepare


def started(daemon: Daemon, prepare: Callable[[], None]) -> Client:
    """A daemon whose process was prepared so, where this machine lets root do that."""
    try:
        return daemon.start(preexec_fn=prepare)
    except subprocess.SubprocessError as error:
        pytest.skip(f"not even root may do this here: {error}")


def checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def as_the_daemon_sees(daemon: Daemon, path: Path) -> Path:
    assert daemon.process is not None
    return Path(f"/proc/{daemon.process.pid}/root{path}")


def test_what_was_learned_last_is_kept_by_a_daemon_that_stops(daemon: Daemon) -> None:
    with daemon.start() as client, daemon.client() as caller:
        caller.send("Call", {"model": "one", "method": "hold", "args": [str(daemon.root / "gate")]})
        daemon.until(lambda: daemon.model("one")["measuredBytes"].get("ram", 0) > HELD_BYTES)
        (daemon.root / "gate").touch()
        caller.result()
        assert source(client) != "learned"
    daemon.signal(15)
    with daemon.start() as client:
        assert source(client) == "learned"


def test_what_was_learned_is_known_to_a_manager_that_takes_over(daemon: Daemon) -> None:
    with daemon.start() as client:
        teach(daemon, client)
    with daemon.start("--replace") as client:
        assert source(client) == "learned"
        teach(daemon, client)
        assert problems(client) == []


def test_a_damaged_file_is_said_once_and_set_aside(daemon: Daemon) -> None:
    learned_db(daemon).write_bytes(b"nonsense" * 1000)
    with daemon.start() as client, daemon.client() as follower:
        follower.send("Subscribe", more=True)
        teach(daemon, client)
        (problem,) = problems(client)
        assert "learned.db was damaged" in problem
        assert (daemon.state / "learned.db.corrupt-1").read_bytes() == b"nonsense" * 1000
        while (event := follower.receive()["parameters"])["kind"] != "learned needs":
            pass
        assert event["reason"] == problem
    daemon.signal(15)
    with daemon.start() as client:
        assert source(client) == "learned"
        assert problems(client) == []
    assert times_told(daemon, "was damaged") == 1


def test_a_newer_versions_file_is_used_said_once_and_not_written(daemon: Daemon) -> None:
    with daemon.start() as client:
        teach(daemon, client)
    daemon.signal(15)
    path = learned_db(daemon)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    configure(daemon, "one", "other")
    with daemon.start() as client:
        assert source(client) == "learned"
        teach(daemon, client, "other")
        (problem,) = problems(client)
        assert "is of version 99" in problem
    daemon.signal(15)
    assert path.read_bytes() == before
    assert times_told(daemon, "is of version 99") == 1


def test_where_a_directory_is_in_its_place_models_load_all_the_same(daemon: Daemon) -> None:
    learned_db(daemon).mkdir()
    with daemon.start() as client:
        teach(daemon, client)
        (problem,) = problems(client)
        assert problem.startswith("what loads need cannot be kept in")


@needs_root
def test_on_a_disk_that_has_become_full_models_load_and_it_is_said_once(daemon: Daemon) -> None:
    configure(daemon, "one", "two", "three")
    learned_db(daemon)

    def mount() -> None:
        checked(LIBC.mount(b"none", os.fsencode(daemon.state), b"tmpfs", 0, b"size=256k"))

    with started(daemon, in_namespace(mount)) as client:
        teach(daemon, client)
        state = as_the_daemon_sees(daemon, daemon.state)
        fill(state / "filling")
        for model in ("two", "three", "one"):
            teach(daemon, client, model)
        (problem,) = problems(client)
        assert problem.startswith(f"what loads need cannot be kept in {daemon.state}/learned.db")
        assert times_told(daemon, "cannot be kept") == 1
        copy = daemon.root / "copy.db"  # SQLite itself would follow the link to the other root by its name
        copy.write_bytes((state / "learned.db").read_bytes())
        with contextlib.closing(sqlite3.connect(copy)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert database.execute("SELECT count(*) FROM peaks").fetchone() == (1,)


def fill(path: Path) -> None:
    """Takes all the room that its disk has."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def test_in_a_directory_that_may_not_be_written_models_load_all_the_same(daemon: Daemon) -> None:
    learned_db(daemon)
    daemon.state.chmod(0o500)

    def as_anybody() -> None:
        """Root keeps to permissions only without this."""
        if os.geteuid() == 0:
            checked(LIBC.prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0))

    try:
        with started(daemon, as_anybody) as client:
            teach(daemon, client)
            (problem,) = problems(client)
            assert problem.startswith("what loads need cannot be kept in")
        assert list(daemon.state.iterdir()) == []
        assert times_told(daemon, "cannot be kept") == 1
    finally:
        daemon.state.chmod(0o700)


def test_while_another_process_has_the_file_models_load_and_nothing_is_lost(daemon: Daemon) -> None:
    with daemon.start() as client:
        teach(daemon, client)
        configure(daemon, "one", "other")
        client.call("Reload")
        with contextlib.closing(sqlite3.connect(learned_db(daemon), isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            live(daemon, client, "other")
            assert source(client, "other") == "learned"  # it waits to be written
            other.execute("COMMIT")
        assert problems(client) == []
    daemon.signal(15)
    with daemon.start() as client:
        assert source(client, "other") == "learned"


def test_a_model_that_cannot_be_loaded_is_no_lesson(daemon: Daemon) -> None:
    configure(daemon, "one", factory="holds:broken")
    with daemon.start() as client:
        with pytest.raises(Refused, match="this model cannot be made"):
            client.call("Load", model="one")
        assert source(client) == "default"
    daemon.signal(15)
    assert not learned_db(daemon).exists()
