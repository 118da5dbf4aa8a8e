"""A private lazyd in a temporary directory, which leaves nothing behind however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

COMMANDS = Path(sys.executable).parent
"""Where this environment's lazyd and lazyctl are."""
MODELS = Path(__file__).resolve().parent.parent / "build" / "models"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0


class Failed(Exception):
    """Something did not go as it should; the text says what."""


class Stage:
    """A daemon of one's own: configuration, sockets, state and log lie in a directory that goes with it.

    The daemon runs in a session of its own, so that Ctrl-C reaches whoever uses the stage alone,
    and leaving the ``with`` block then ends the daemon, its host and its workers.
    """

    def __init__(self, configuration: str, columns: int = 80) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="lazyd-"))
        self.config = self.root / "lazyd.toml"
        self.config.write_text(configuration)
        self.runtime_dir = self.root / "run"
        self.runtime_dir.mkdir(mode=0o700)
        self.socket = self.runtime_dir / "control.sock"
        self.log = self.root / "lazyd.log"
        self.manager: subprocess.Popen[bytes] | None = None
        self.commands: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "LISTEN_FDS")},
            "LAZYD_SOCKET": str(self.socket),
            "COLUMNS": str(columns),
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with undisturbed():
            for process in self.commands:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            self.stop()
            shutil.rmtree(self.root, ignore_errors=True)

    def start(self) -> float:
        """Starts the manager and waits until it answers. Returns the seconds that took.

        Raises:
            Failed: it ended, or gave no answer within `START_LIMIT_S`.
        """
        began = time.monotonic()
        with self.log.open("ab") as log, undisturbed():
            self.manager = subprocess.Popen(
                [
                    str(COMMANDS / "lazyd"),
                    *("--config", str(self.config), "--socket", str(self.socket)),
                    *("--state-dir", str(self.root / "state"), "--runtime-dir", str(self.runtime_dir)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        while not self.answers():
            if self.manager.poll() is not None:
                raise Failed(f"lazyd ended with status {self.manager.returncode}:\n{self.log_tail()}")
            if time.monotonic() - began > START_LIMIT_S:
                raise Failed(f"lazyd does not answer after {START_LIMIT_S:.0f} s:\n{self.log_tail()}")
            time.sleep(0.001)
        return time.monotonic() - began

    def run(self, *words: str, stdout: int | None = None, stderr: int | None = None) -> subprocess.Popen[bytes]:
        """Starts a command of this environment, such as lazyctl; it does not outlive the stage."""
        with undisturbed():
            process = subprocess.Popen(
                [str(COMMANDS / words[0]), *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=self.environment,
            )
            self.commands.append(process)
        return process

    def wait_until_running(self) -> None:
        """Waits until the manager has found its host and what runs there.

        Raises:
            Failed: it did not within `START_LIMIT_S`.
        """
        give_up = time.monotonic() + START_LIMIT_S
        while (state := self.ask("Status")["daemon"]["state"]) != "running":
            if time.monotonic() > give_up:
                raise Failed(f"lazyd is still {state} after {START_LIMIT_S:.0f} s:\n{self.log_tail()}")
            time.sleep(0.005)

    def answers(self) -> bool:
        """Whether the manager answers `Status`. The answer is not looked at: that takes time if it is long."""
        try:
            self.exchange("Status", {})
        except OSError:
            return False
        return True

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of io.lazyd on a connection of its own, by hand.

        Raises:
            OSError: nobody listens, or the connection ended before the answer.
            Failed: the answer is an error.
        """
        reply = json.loads(self.exchange(method, parameters))
        if "error" in reply:
            raise Failed(f"{method}: {reply['error']} {reply.get('parameters')}")
        return dict(reply.get("parameters") or {})

    def exchange(self, method: str, parameters: dict[str, Any]) -> bytes:
        request = {"method": f"io.lazyd.{method}", "parameters": parameters}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(START_LIMIT_S)
            connection.connect(str(self.socket))
            connection.sendall(json.dumps(request).encode() + b"\0")
            answer = bytearray()
            while not answer.endswith(b"\0"):
                piece = connection.recv(1 << 20)
                if not piece:
                    raise ConnectionResetError("the daemon closed the connection")
                answer += piece
        return bytes(answer[:-1])

    def model(self, name: str) -> dict[str, Any]:
        """What `Status` says of one model."""
        (model,) = self.ask("Status", model=name)["models"]
        return dict(model)

    def kill_manager(self) -> None:
        """SIGKILL, as the kernel does when memory runs out. Host and workers stay."""
        assert self.manager is not None
        self.manager.kill()
        self.manager.wait()
        self.manager = None

    def stop(self) -> None:
        """SIGTERM, upon which lazyd frees everything; what is left after `STOP_LIMIT_S` is killed."""
        host = self.host_pid()
        if self.manager is not None:
            self.manager.terminate()
            try:
                self.manager.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.manager.kill()
                self.manager.wait()
            self.manager = None
        # A host is left over only if its manager was killed; its workers die with it.
        if host is not None and is_ours(host, self.runtime_dir):
            with contextlib.suppress(ProcessLookupError):
                os.kill(host, signal.SIGKILL)

    def host_pid(self) -> int | None:
        try:
            return int((self.runtime_dir / "host" / "host.pid").read_text())
        except (OSError, ValueError):
            return None

    def own_bytes(self) -> int:
        """What manager, host and zygotes hold together; memory that several share is counted once."""
        pids = [self.manager.pid] if self.manager is not None else []
        host = self.host_pid()
        return sum(proportional_bytes(pid) for pid in (*pids, *([host, *children(host)] if host else [])))

    def log_tail(self, lines: int = 15) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


def children(pid: int) -> list[int]:
    """The processes that this one has started, as far as they still run."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def proportional_bytes(pid: int) -> int:
    """The process's part of memory: what it shares with others is divided among them. 0: it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def is_ours(pid: int, runtime_dir: Path) -> bool:
    """Whether the process is of this stage: the environment it was started with names the stage's directory.

    A number in a file may by now belong to somebody else's process.
    """
    try:
        return os.fsencode(runtime_dir) in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C and other requests to end wait until the block is over.

    A process that is being started would otherwise run without anybody knowing of it, and a second Ctrl-C
    would cut the cleaning up short.
    """
    asked: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: asked.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        raise KeyboardInterrupt
