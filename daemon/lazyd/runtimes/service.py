"""The runtime ``service``: any program with a port as a model.

Its worker starts the program with a port that is free, and waits until it is ready: the port is open, and opened by the
program or what it started, and what `ready` says is so. While it serves, the worker ends if the program does, with its
status or signal. Standard library alone.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

from . import MARKER, needs, out_of_memory, service_http, service_ports
from .service_model import Service
from .service_program import Program
from .service_words import filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Progress
    from .option_tables import Option

TRIES = 3
"""So many ports are tried, where others were quicker to take them."""
LOOK_S, SELDOM_S = 0.05, 0.5
"""How often it is looked whether it is ready: at first, and when it takes long, as each look may be a request."""
PART_OF_TIMEOUT = 0.9
"""A program that shows no progress is given up a little before the manager would, as here it is known why."""
DEFAULT_LOAD_TIMEOUT_S = 120.0


METHODS = {
    "request": "request(method, path, body=…, headers=…) -> {status, headers, body}; streams the body as it comes",
    "hold": "hold() streams {url}, and keeps it in use until it is cancelled",
}
"""What each takes and answers, in a line for people."""


class ServiceFailed(Exception):
    """The program did not become a service. Its text says why, and what it wrote last."""


class PortTaken(Exception):
    """Another program was quicker."""


class ServiceRuntime:
    """Starts programs."""

    name = "service"
    imports: Sequence[str] = ("http.client", "subprocess")
    dry_run = None
    OUT_OF_MEMORY = out_of_memory.signs()

    def options(self) -> Sequence[Option]:
        return ()

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:  # noqa: ARG002
        return {"PYTHONUNBUFFERED": "1"}  # what a program in Python writes is seen when it is written

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "methods": METHODS,
            "command": list(spec["command"]),
            **({"proxy": spec["proxy"]} if spec.get("proxy") else {}),
        }

    def files(self, spec: dict[str, Any]) -> list[str]:
        found = shutil.which(spec["command"][0])
        return [path for path in (spec.get("path"), found) if path]

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        program = spec["command"][0]
        if shutil.which(program) is None:
            raise ValueError(f"the program {program} is missing or cannot be executed")
        return needs.unknown(spec)

    def out_of_memory(self, error: BaseException) -> bool:
        return out_of_memory.is_in(error, self.OUT_OF_MEMORY)

    def version(self) -> str:
        return self.name

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> Service:  # noqa: ARG002
        for _ in range(TRIES):
            start = Start(spec, service_ports.free_port(), progress)
            try:
                return start.service()
            except PortTaken:
                print(f"port {start.port} was taken by another program: trying another one", flush=True)
        raise ServiceFailed(f"{TRIES} ports, one after the other, were taken by other programs before it opened them")


class Start:
    """One try to start a program, on one port."""

    def __init__(self, spec: dict[str, Any], port: int, progress: Progress) -> None:
        self._spec = spec
        self._ready = spec.get("ready") or {}
        self._progress = progress
        self.port = port
        self._is_open = self._is_its_own = False
        on_gpu = (spec.get("placement") or {}).get("on") == "gpu"
        self._words = {
            "port": str(port),
            "device": "cuda" if on_gpu else "cpu",
            "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", "") if on_gpu else "",
        }

    def service(self) -> Service:
        """The service, ready. Raises `ServiceFailed`, `PortTaken`; whatever is raised, the program has ended."""
        program = self._started()
        service = Service(self._spec, program, self._words)
        try:
            self._wait(program)
        except BaseException:
            service.close()
            raise
        service.ends_with_program()
        return service

    def _started(self) -> Program:
        self._progress("starting", None)
        own = self._spec.get("env", {})
        env = {**os.environ, **dict(zip(own, filled(own.values(), self._words)))}
        command = filled(self._spec["command"], self._words)
        line = re.compile(self._ready["line"]) if self._ready.get("line") else None
        try:
            return Program(command, env, self._spec.get("directory") or "/", line)
        except OSError as error:
            raise ServiceFailed(f"{command[0]} cannot be started: {error.strerror or error}") from None

    def _wait(self, program: Program) -> None:
        """Until it is ready. That its port opens is progress, and what it writes before; later it may write of nothing
        but how often it was asked whether it is ready."""
        limit_s = self._spec.get("load_timeout_s", DEFAULT_LOAD_TIMEOUT_S)
        heard, begun = 0, time.monotonic()
        last = begun
        while not self._is_ready(program):
            if program.ended.is_set():
                raise self._ended(program)
            if self._has_progressed(program, heard):
                heard, last = program.written, time.monotonic()
                self._progress("starting", None)
            elif limit_s is not None and time.monotonic() - last > PART_OF_TIMEOUT * limit_s:
                raise ServiceFailed(_with(f"{self._what_is_missing(program)} (load_timeout)", program))
            program.ended.wait(min(SELDOM_S, max(LOOK_S, (time.monotonic() - begun) / 20)))

    def _ended(self, program: Program) -> Exception:
        """What that means."""
        how = f"the program has ended with {program.how_it_ended} before it was ready"
        if service_ports.is_open(self.port) and not self._ready.get("elsewhere"):
            if not self._has_its_port():
                return PortTaken()
            how += ", and has left a process behind that has its port: it must stay in the foreground"
        return ServiceFailed(_with(how, program))

    def _has_its_port(self) -> bool:
        """Whether it is its own program that has it; asked no more once it was."""
        mark = f"{MARKER}={os.environ[MARKER]}" if MARKER in os.environ else None
        self._is_its_own = self._is_its_own or service_ports.is_ours(self.port, mark)
        return self._is_its_own

    def _has_progressed(self, program: Program, heard: int) -> bool:
        was_open, self._is_open = self._is_open, self._is_open or service_ports.is_open(self.port)
        return not was_open and (self._is_open or program.written > heard)

    def _is_ready(self, program: Program) -> bool:
        if not service_ports.is_open(self.port) or not program.is_running:
            return False
        if not self._ready.get("elsewhere") and not self._has_its_port():
            raise PortTaken
        if self._ready.get("http"):
            status = service_http.status_of(self.port, self._ready["http"])
            return status is not None and status < service_http.FAILED
        return not self._ready.get("line") or program.line_found.is_set()

    def _what_is_missing(self, program: Program) -> str:
        """Why it is not ready, as far as can be seen."""
        if not service_ports.is_open(self.port):
            others = sorted(service_ports.ours())
            if self.port in others:
                return f"the program has opened its port {self.port}, but not on {service_ports.ADDRESS}"
            opened = f" but {', '.join(map(str, others))}: does its command use ${{port}}?" if others else ""
            return f"the program has not opened its port {self.port}{opened}"
        if self._ready.get("http"):
            status = service_http.status_of(self.port, self._ready["http"])
            answer = "does not answer" if status is None else f"is answered with {status}"
            return f"GET {self._ready['http']} {answer}"
        return (
            f"no line of its output was as {self._ready.get('line')!r}" if not program.line_found.is_set() else "slow"
        )


def _with(reason: str, program: Program) -> str:
    said = program.last_lines
    return f"{reason}: {said}" if said else reason


RUNTIME = ServiceRuntime()
