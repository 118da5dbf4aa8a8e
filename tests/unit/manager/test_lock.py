"""One manager a runtime directory, and sockets of the dead and the living."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lazyd.manager import lock
from lazyd.manager.control import sockets
from lazyd.manager.failures import CannotStart

HOLDER = """
import signal, sys
from lazyd.manager import lock
signal.signal(signal.SIGUSR2, lambda *_: sys.exit(0))
lock.acquire(sys.argv[1], replace=False)
print("held", flush=True)
while True:
    signal.pause()
"""


def holder(path: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_manager_is_told_who_has_the_lock(directory: str) -> None:
    path = os.path.join(directory, "lazyd.lock")
    with holder(path) as process:
        with pytest.raises(CannotStart, match=rf"pid {process.pid}.*--replace"):
            lock.acquire(path, replace=False)
        process.kill()


def test_the_lock_of_a_manager_that_was_killed_is_free(directory: str) -> None:
    path = os.path.join(directory, "lazyd.lock")
    with holder(path) as process:
        process.kill()
        process.wait()
    os.close(lock.acquire(path, replace=False))
    assert Path(path).read_text() == f"{os.getpid()}\n"


def test_replace_makes_the_holder_leave(directory: str) -> None:
    path = os.path.join(directory, "lazyd.lock")
    with holder(path) as process:
        os.close(lock.acquire(path, replace=True))
        assert process.wait(20) == 0


def test_replace_without_a_holder_just_starts(directory: str) -> None:
    os.close(lock.acquire(os.path.join(directory, "lazyd.lock"), replace=True))


def test_replace_gives_up_on_a_holder_that_does_not_leave(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "TAKE_OVER_S", 0.2)
    path = os.path.join(directory, "lazyd.lock")
    with holder(path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(CannotStart, match=f"kill -9 {process.pid}"):
            lock.acquire(path, replace=True)
        process.kill()


def test_a_socket_without_a_group_is_for_its_owner_alone(directory: str) -> None:
    path = os.path.join(directory, "control.sock")
    with sockets.listen(path, None):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_socket_with_a_group_is_for_the_group_too(directory: str) -> None:
    path = os.path.join(directory, "control.sock")
    with sockets.listen(path, os.getgid()):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        assert os.stat(path).st_gid == os.getgid()


def test_the_socket_of_a_dead_daemon_is_taken_over(directory: str) -> None:
    path = os.path.join(directory, "control.sock")
    sockets.listen(path, None).close()
    with sockets.listen(path, None), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def test_the_socket_of_a_live_daemon_is_refused_with_who_holds_it(directory: str) -> None:
    path = os.path.join(directory, "control.sock")
    with sockets.listen(path, None), pytest.raises(CannotStart, match=f"live daemon .pid {os.getpid()}, "):
        sockets.listen(path, None)
    assert os.path.exists(path)


def test_what_is_no_socket_is_not_removed(directory: str) -> None:
    path = os.path.join(directory, "control.sock")
    Path(path).write_text("precious")
    with pytest.raises(CannotStart, match="is no socket"):
        sockets.listen(path, None)
    assert Path(path).read_text() == "precious"


def test_a_path_that_is_too_long_is_one_clear_line(directory: str) -> None:
    with pytest.raises(CannotStart, match="--socket"):
        sockets.listen(os.path.join(directory, "x" * 120), None)


INHERITS = """
import os, sys
os.dup2(int(sys.argv[3]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
from lazyd.manager.control import sockets
from lazyd.manager.failures import CannotStart
try:
    sock, inherited = sockets.control_socket(sys.argv[1] or None, sys.argv[2], None)
    print(sock.fileno(), inherited, sock.getsockname(), os.environ.get("LISTEN_FDS"))
except CannotStart as error:
    print(error)
"""


def inherit(directory: str, fd: int, given: str = "") -> list[str]:
    """What a process prints that got `fd` as systemd passes it on: as descriptor 3."""
    done = subprocess.run(
        [sys.executable, "-c", INHERITS, given, directory, str(fd)],
        env={**os.environ, "LISTEN_FDS": "1", "LAZYD_SOCKET": ""},
        pass_fds=[fd],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_an_inherited_socket_is_used_and_not_passed_on(directory: str) -> None:
    path = os.path.join(directory, "systemd.sock")
    with sockets.listen(path, None) as listening:
        assert inherit(directory, listening.fileno()) == ["3", "True", path, "None"]


def test_an_inherited_socket_of_the_path_that_was_asked_for_is_used(directory: str) -> None:
    path = os.path.join(directory, "systemd.sock")
    with sockets.listen(path, None) as listening:
        assert inherit(directory, listening.fileno(), path)[1] == "True"


def test_what_was_asked_for_goes_before_an_inherited_socket(directory: str) -> None:
    path = os.path.join(directory, "asked.sock")
    with sockets.listen(os.path.join(directory, "systemd.sock"), None) as listening:
        assert inherit(directory, listening.fileno(), path)[1:3] == ["False", path]


def test_an_inherited_descriptor_that_is_no_socket_is_one_clear_line(directory: str) -> None:
    with open("/dev/null") as nothing:
        assert "ListenStream=" in inherit(directory, nothing.fileno())
