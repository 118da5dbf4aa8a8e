"""Parts of the manager that are small enough to be tested in a few lines each."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from lazyd import places
from lazyd.core.spec import ModelSpec
from lazyd.manager import pins
from lazyd.manager.control.logs import LogReader
from lazyd.manager.control.roles import Role, Roles
from lazyd.manager.pins import PinKeeper
from lazyd.manager.processes.environment import merged_environment
from lazyd.manager.tasks import Background
from lazyd.varlink.peer import Peer

from .conftest import until


def spec(name: str = "m", **fields: object) -> ModelSpec:
    return ModelSpec(name=name, runtime="python", **fields)  # type: ignore[arg-type]


# Roles.


@pytest.mark.parametrize(
    ("peer", "role"),
    [
        (Peer(1, 0, 0), Role.ADMIN),
        (Peer(1, 500, 500), Role.ADMIN),
        (Peer(1, 1000, 77), Role.USER),
        (Peer(1, 1000, 1000, frozenset({5, 77})), Role.USER),
        (Peer(1, 1000, 1000, frozenset({5})), Role.NONE),
        (Peer(1, 65534, 65534), Role.NONE),
    ],
)
def test_a_peer_has_the_role_of_its_uid_or_group(peer: Peer, role: Role) -> None:
    assert Roles(group=77, own_uid=500).role_of(peer) == role


def test_without_the_group_only_root_and_the_daemons_user_may_do_anything() -> None:
    assert Roles(group=None, own_uid=500).role_of(Peer(1, 1000, 0)) == Role.NONE


# The environment.


def test_the_spec_wins_over_its_env_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("# a comment\n\nTOKEN='s p a c e'\nOMP_NUM_THREADS=1\nEMPTY=\n")
    merged = merged_environment(spec(env={"OMP_NUM_THREADS": "2"}, env_file=str(file)))
    assert merged == {"TOKEN": "s p a c e", "OMP_NUM_THREADS": "2", "EMPTY": ""}


def test_a_wrong_line_of_an_env_file_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("A=1\nhunter2\n")
    with pytest.raises(ValueError, match=":2: expected NAME=value") as wrong:
        merged_environment(spec(env_file=str(file)))
    assert "hunter2" not in str(wrong.value)


# Pins.


async def test_pins_outlive_the_process(tmp_path: Path) -> None:
    keeper = PinKeeper(str(tmp_path / "state"), frozenset())
    keeper.keep(frozenset({"a"}))
    keeper.keep(frozenset({"a", "b:1"}))
    await keeper.settled()
    assert pins.load(str(tmp_path / "state")) == {"a", "b:1"}


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "[1]"])
def test_a_damaged_file_of_pins_pins_nothing(tmp_path: Path, text: str) -> None:
    Path(places.pins_file(str(tmp_path))).write_text(text)
    assert pins.load(str(tmp_path)) == frozenset()


async def test_pins_on_a_full_disk_leave_the_old_file_and_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins.save(str(tmp_path), frozenset({"old"}))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    keeper = PinKeeper(str(tmp_path), frozenset({"old"}))
    keeper.keep(frozenset({"new"}))
    await keeper.settled()
    assert keeper.problem is not None
    assert "No space left on device" in keeper.problem
    assert pins.load(str(tmp_path)) == {"old"}
    assert os.listdir(tmp_path) == ["pins.json"]


async def test_pins_that_could_not_be_kept_are_kept_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    keeper = PinKeeper(str(tmp_path), frozenset())
    with monkeypatch.context() as patched:
        patched.setattr(pins, "save", full)
        keeper.keep(frozenset({"a"}))
        await keeper.settled()
        assert keeper.problem is not None
    keeper.keep(frozenset({"a"}))
    await keeper.settled()
    assert keeper.problem is None
    assert pins.load(str(tmp_path)) == {"a"}


# Logs.


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = Path(places.worker_log(str(tmp_path), "strategy/*"))
    path.parent.mkdir(parents=True)
    return path


def test_a_model_that_never_ran_has_no_lines(tmp_path: Path) -> None:
    assert LogReader(str(tmp_path), "nobody").more() == []


def test_the_older_file_is_read_first_and_unfinished_lines_wait(tmp_path: Path, log: Path) -> None:
    log.with_name(log.name + ".1").write_bytes(b"one\ntwo\n")
    log.write_bytes(b"three\r\nfo")
    reader = LogReader(str(tmp_path), "strategy/*")
    assert reader.more() + reader.more() == ["one", "two", "three"]
    with log.open("ab") as file:
        file.write(b"ur\nfi")
    assert reader.more() == ["four"]
    assert reader.more() == []
    assert reader.rest() == ["fi"]
    reader.close()


def test_a_log_that_is_turned_over_is_followed(tmp_path: Path, log: Path) -> None:
    log.write_bytes(b"one\n")
    reader = LogReader(str(tmp_path), "strategy/*")
    assert reader.more() == ["one"]
    with log.open("ab") as file:
        file.write(b"two\n")
    log.rename(log.with_name(log.name + ".1"))
    log.write_bytes(b"three\n")
    assert reader.more() + reader.more() == ["two", "three"]
    reader.close()


def test_bytes_that_are_no_text_and_lines_without_an_end_do_no_harm(tmp_path: Path, log: Path) -> None:
    log.write_bytes(b"\xff\xfe\n" + b"x" * 100_000)
    reader = LogReader(str(tmp_path), "strategy/*")
    assert reader.more()[0] == "\ufffd\ufffd"
    reader.close()


# Background tasks.


async def test_a_task_that_dies_is_counted_and_started_again() -> None:
    background = Background()
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise ZeroDivisionError("made for a test")
        await asyncio.Event().wait()

    background.keep("work", work)
    await until(lambda: len(runs) == 3)
    assert background.deaths == {"work": 2}
    await background.stop()


async def test_a_task_that_ends_is_not_started_again() -> None:
    background = Background()
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)

    background.keep("work", work)
    await until(lambda: runs)
    await until(lambda: not background._tasks)
    assert len(runs) == 1
