from __future__ import annotations

import os
import pathlib

import pytest

from lazyd import places

UID = 4242


@pytest.fixture(autouse=True)
def _ordinary_user(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:  # noqa: ARG001  made while the uid is real
    """No root, and none of the variables set."""
    for name in ("LAZYD_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setattr(os, "getuid", lambda: UID)
    monkeypatch.setattr(os, "geteuid", lambda: UID)


def test_root_owns_the_places_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/0")
    assert places.runtime_dir() == "/run/lazyd"
    assert places.state_dir() == "/var/lib/lazyd"


def test_a_user_owns_the_places_below_home_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.runtime_dir() == f"/run/user/{UID}/lazyd"
    assert places.state_dir() == "/home/someone/.local/state/lazyd"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/x")
    monkeypatch.setenv("XDG_STATE_HOME", "/y")
    assert (places.runtime_dir(), places.state_dir()) == ("/x/lazyd", "/y/lazyd")


def test_what_was_given_comes_first() -> None:
    assert places.runtime_dir("/r") == "/r"
    assert places.state_dir("/s") == "/s"


def test_client_asks_its_argument_then_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYD_SOCKET", "/variable.sock")
    assert places.client_socket("/argument.sock") == "/argument.sock"
    assert places.client_socket() == "/variable.sock"


def test_client_takes_the_users_daemon_if_it_is_there_else_the_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert places.client_socket() == "/run/lazyd/control.sock"
    (tmp_path / "lazyd").mkdir()
    (tmp_path / "lazyd" / "control.sock").touch()
    assert places.client_socket() == str(tmp_path / "lazyd" / "control.sock")


def test_without_the_variable_the_users_daemon_is_looked_for_where_cron_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: path == f"/run/user/{UID}/lazyd/control.sock")
    assert places.client_socket() == f"/run/user/{UID}/lazyd/control.sock"


def test_places_below_the_runtime_directory() -> None:
    assert places.control_socket("/r") == "/r/control.sock"
    assert places.lock_file("/r") == "/r/lazyd.lock"
    assert places.host_socket("/r") == "/r/host/host.sock"
    assert places.host_pid_file("/r") == "/r/host/host.pid"
    assert places.host_log("/r") == "/r/host/host.log"
    assert places.data_socket("/r", "w7") == "/r/host/w/w7.sock"
    assert places.worker_log("/r", "strategy/alpha:2") == "/r/host/logs/strategy%2Falpha%3A2.log"


def test_places_below_the_state_directory() -> None:
    assert places.accepted_config("/s") == "/s/accepted.msgpack"
    assert places.pins_file("/s") == "/s/pins.json"
