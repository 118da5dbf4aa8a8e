"""The host's parts that need no other process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lazyd.host import linger, processes
from lazyd.host.cgroups import Cgroup
from lazyd.host.logs import KEPT, MAX_FILE, TAIL, LogFile, LogPipe
from lazyd.host.recipe import Recipe, base_environment
from lazyd.runtimes import MARKER
from lazyd.worker.loop import Loop


def process(pid: int, parent: int, session: int = 0, state: str = "S") -> processes.Process:
    return processes.Process(pid, state, parent, session, pid)


def test_a_family_is_a_session_with_all_its_descendants() -> None:
    table = {
        p.pid: p
        for p in (
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 1, 10),  # its parent has ended, its session has not
            process(13, 11, 13),  # a session of its own below
            process(14, 13, 13, "Z"),
            process(20, 1, 20),
        )
    }
    assert processes.family(10, "none@none", table) == {10, 11, 12, 13}


def test_a_program_that_inherited_the_marker_is_of_the_family() -> None:
    program = [sys.executable, "-c", "print(flush=True); input()"]
    child = subprocess.Popen(
        program,
        env={**os.environ, MARKER: "w1@1-2"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    table = processes.table()
    assert child.pid in processes.family(-1, "w1@1-2", table)
    assert child.pid not in processes.family(-1, "w1@1-23", table)
    assert child.pid not in processes.family(-1, "w1@1", table)
    child.communicate(b"\n")


def test_a_process_knows_itself() -> None:
    me = processes.look(os.getpid())
    assert me is not None
    assert (me.parent, me.session) == (os.getppid(), os.getsid(0))
    assert processes.identity() == processes.identity() == f"{me.pid}-{me.started}"


def test_a_cgroups_numbers_are_read(tmp_path: Path) -> None:
    cgroup = Cgroup(tmp_path)
    assert cgroup.memory_bytes() is None
    assert cgroup.memory_kills() is None
    assert cgroup.is_empty()
    (tmp_path / "memory.stat").write_text("anon 1000\nfile 5\nshmem 24\nslab 7\n")
    (tmp_path / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert cgroup.memory_bytes() == 1024
    assert cgroup.memory_kills() == 2
    assert not cgroup.is_empty()


@pytest.mark.parametrize(
    ("shown", "gone"),
    [
        ("ActiveState=inactive\n", True),
        ("ActiveState=failed\nJob=0\n", True),
        ("ActiveState=inactive\nJob=17\n", False),
        ("ActiveState=active\n", False),
        ("ActiveState=deactivating\n", False),
        ("Failed to connect to bus\n", None),
        ("", None),
    ],
)
def test_what_systemctl_shows_says_whether_a_manager_comes_back(shown: str, gone: bool | None) -> None:
    assert linger.nobody_comes_back(shown) is gone


def test_a_log_is_rotated_once(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "x.log"))
    line = b"x" * 9_999 + b"\n"
    for _ in range(250):
        log.write(line)
    assert (tmp_path / "x.log").stat().st_size <= MAX_FILE
    assert (tmp_path / "x.log.1").stat().st_size <= MAX_FILE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.log.1"]


def test_a_log_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    LogFile(str(tmp_path / "no" / "such" / "x.log")).write(b"lost")


def test_the_last_lines_of_a_crash_are_those_of_its_thread_and_the_ones_before(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    pipe = LogPipe(Loop(), reads, LogFile(str(tmp_path / "x.log")))
    frames = "".join(f'  File "/srv/models/engine.py", line {n} in step{n}\n' for n in range(30))
    others = "\n".join(f"Thread 0x{n} (most recent call first):\n{frames}" for n in range(6))
    current = 'Current thread 0x7 (most recent call first):\n  File "/srv/models/engine.py", line 7 in crash\n'
    chatter = "".join(f"call {n}\n" for n in range(500))
    os.write(writes, f"{chatter}about to read\nFatal Python error: Aborted\n\n{others}\n{current}\n{others}".encode())
    os.close(writes)
    pipe.finish()
    told = pipe.last_lines
    assert "about to read\nFatal Python error: Aborted\n\nCurrent thread" in told
    assert told.endswith("line 7 in crash\n")
    assert "Thread 0x1" not in told
    assert told.startswith("call ")
    assert len(told.encode()) <= TAIL


def test_the_last_lines_are_kept_whole(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    pipe = LogPipe(Loop(), reads, LogFile(str(tmp_path / "x.log")))
    for i in range(1000):
        os.write(writes, f"line {i} ä\n".encode())
        if i % 100 == 0:
            pipe.catch_up()
    os.close(writes)
    pipe.finish()
    lines = pipe.last_lines.splitlines()
    assert lines[-1] == "line 999 ä"
    assert all(line.startswith("line ") for line in lines)
    assert len(pipe.last_lines.encode()) <= TAIL
    assert pipe.kept_lines.startswith("line 0 ä\n")
    assert pipe.kept_lines.endswith(pipe.last_lines)


def test_more_than_is_told_is_kept_and_that_is_bounded_too(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    pipe = LogPipe(Loop(), reads, LogFile(str(tmp_path / "x.log")))
    for i in range(2000):
        os.write(writes, f"line {i} {'x' * 20}\n".encode())
        pipe.catch_up()
    os.close(writes)
    pipe.finish()
    assert TAIL < len(pipe.kept_lines.encode()) <= KEPT
    assert all(line.startswith("line ") for line in pipe.kept_lines.splitlines())


def test_recipes_differ_in_what_cannot_be_changed_after_the_start() -> None:
    base = base_environment("/run/lazyd/control.sock")
    spec = {"name": "m", "runtime": "python", "factory": "a:b"}
    one = Recipe.of(spec, base)
    assert Recipe.of({**spec, "name": "other", "options": {"x": 1}}, base) == one
    assert Recipe.of({**spec, "env": {"OMP_NUM_THREADS": "2"}}, base) != one
    assert Recipe.of({**spec, "python_path": ["/opt"]}, base) != one
    assert Recipe.of({**spec, "imports": ["pandas"]}, base) != one
    assert Recipe.of({**spec, "python": "/bin/sh"}, base) != one


def test_a_models_own_environment_wins_and_systemds_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.delenv("LAZYD_SOCKET", raising=False)
    base = base_environment("/run/lazyd/control.sock")
    spec = {"name": "m", "runtime": "python", "factory": "a:b", "env": {"ORT_DISABLE_TELEMETRY": "0"}}
    env = dict(Recipe.of(spec, base).env)
    assert env["ORT_DISABLE_TELEMETRY"] == "0"
    assert env["LAZYD_SOCKET"] == "/run/lazyd/control.sock"
    assert "NOTIFY_SOCKET" not in env
    assert "LISTEN_FDS" not in env


def test_a_mistake_in_a_callback_ends_one_step_if_somebody_takes_it() -> None:
    loop = Loop()
    taken: list[Exception] = []
    loop.on_error = taken.append
    loop.soon(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    loop.soon(loop.stop)
    loop.run()
    assert [type(error) for error in taken] == [ZeroDivisionError]
    loop.on_error = None
    loop.soon(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(ZeroDivisionError):
        loop.run()


def test_the_host_is_light() -> None:
    program = "import sys, lazyd.host.main; print([m for m in ('asyncio', 'msgspec', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"
