"""A service that runs: what clients may ask of it, and what has it park and end."""

from __future__ import annotations

import contextlib
import faulthandler
import http.client
import os
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from . import CallCancelled, service_http, service_ports
from .service_ports import ADDRESS
from .service_words import filled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from . import Cancellation
    from .service_program import Program

LOOK_AGAIN_S = 0.5
"""How often a service that works for nobody's request is asked whether it still does."""
LOOK_AT_PORT_S, CLOSED_LOOKS = 10.0, 3
"""A program whose port is closed at so many looks in a row, one each so often, serves nobody any more."""
PARK_S = 60.0
"""One that does not answer for so long when it is to give back its memory is ended."""
_DEATH_S = 2.0
"""A connection that breaks may be the first sign of the program's end, which is waited for so long."""


class Service:
    """Safe to be called by several threads at once."""

    def __init__(self, spec: dict[str, Any], program: Program, words: dict[str, str]) -> None:
        self._spec = spec
        self._program = program
        self._words = words
        self._port = int(words["port"])
        self._work = Work(self._port, spec.get("busy"), program)
        self.url = f"http://{ADDRESS}:{self._port}"
        """Where it is, as long as this worker lives."""

    def methods(self) -> Sequence[str]:
        return ("hold", "request")

    def call(
        self, method: str, args: Sequence[Any], kwargs: dict[str, Any], *, stream: bool, cancelled: Cancellation
    ) -> Any:
        if method == "hold":
            return self._hold(cancelled)
        return self._request(stream, cancelled, *args, **kwargs)

    # A warm-up is what is configured: the program itself decides when it is ready.

    warms_itself = False
    warmup_method = None

    def output_of(self, method: str, result: Any) -> Any:
        """The body. Raises `ValueError` for a response that tells of a failure."""
        if method == "request" and result["status"] >= service_http.FAILED:
            raise ValueError(f"the service answered with {result['status']}: {str(result['body'])[:200]}")
        return result["body"] if method == "request" else result

    # Parking.

    @property
    def parks(self) -> bool:
        return self._spec.get("park") is not None

    def park(self) -> None:
        service_http.carry_out(self._port, self._spec["park"]["http"], PARK_S)

    def unpark(self) -> None:
        if self._spec.get("unpark") is not None:
            service_http.carry_out(self._port, self._spec["unpark"]["http"], self._spec.get("load_timeout_s"))

    def close(self) -> None:
        how = self._spec.get("stop") or {}
        self._program.stop(how, filled(how.get("command", ()), self._words))

    def ends_with_program(self) -> None:
        """From now on this process ends like the program, which nobody has told to; so it does if the port is closed
        while the program goes on, as nobody could reach it any more."""
        self._program.when_ended(self._end_likewise)
        threading.Thread(target=self._watch_port, name="port", daemon=True).start()

    # Calls.

    def _request(
        self,
        stream: bool,
        cancelled: Cancellation,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """One request. Its answer has `status`, `headers` and `body`; a stream's first piece has no body, the others
        are it. A status that tells of a failure is an answer like any other."""
        with self._perhaps_dying():
            answer = service_http.ask(self._port, method, path, body, headers, cancelled)
            if stream:
                return self._pieces(answer, cancelled)
            with service_http.told_of_cancelling(answer, cancelled):
                read = answer.body()
            answer.close()
            if cancelled():
                raise CallCancelled
            return {**answer.head, "body": read}

    def _pieces(self, answer: service_http.Answer, cancelled: Cancellation) -> Iterator[Any]:
        with self._perhaps_dying(), service_http.told_of_cancelling(answer, cancelled):
            yield answer.head
            yield from answer.pieces()
            answer.close()

    def _hold(self, cancelled: Cancellation) -> Iterator[Any]:
        """Keeps the service in use until the call is cancelled, and as long as it works on what it was asked meanwhile.

        The first piece says where it is; there is no other.
        """
        let_go = threading.Event()
        try:
            yield {"url": self.url}
            cancelled.then(let_go.set)
            let_go.wait()
        finally:
            self._work.finish()
        raise CallCancelled

    @contextlib.contextmanager
    def _perhaps_dying(self) -> Iterator[None]:
        """A connection that breaks because the program has ended is told of as the end of this process, not before."""
        try:
            yield
        except (OSError, http.client.HTTPException):
            if self._program.ended.wait(_DEATH_S):
                time.sleep(_DEATH_S)
            raise

    def _watch_port(self) -> None:
        closed = 0
        while not self._program.ended.wait(LOOK_AT_PORT_S):
            closed = 0 if service_ports.is_open(self._port) else closed + 1
            if closed == CLOSED_LOOKS:
                self._program.give_up(f"the program goes on, and its port {self._port} is closed")

    def _end_likewise(self, status: int) -> None:
        print(f"the program has ended with {self._program.how_it_ended} while it served", flush=True)
        sys.stdout.flush()
        if status < 0:
            faulthandler.disable()  # the fault was not here
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with contextlib.suppress(OSError):
                os.kill(os.getpid(), -status)
            time.sleep(0.5)
            os._exit(128 - status)
        os._exit(status)


class Work:
    """Whether a service still works, although no request is under way."""

    def __init__(self, port: int, busy: dict[str, Any] | None, program: Program) -> None:
        self._port = port
        self._busy = busy
        self._program = program
        self._lock = threading.Lock()
        self._waits = False
        self._asked_again = False

    def finish(self) -> None:
        """Returns when it works no more, or when another thread waits for that already."""
        if self._busy is None:
            return
        with self._lock:
            if self._waits:
                self._asked_again = True
                return
            self._waits = True
        while self._goes_on():
            self._program.ended.wait(LOOK_AGAIN_S)

    def _goes_on(self) -> bool:
        with self._lock:
            self._asked_again = False
        if not self._program.ended.is_set() and self._is_busy():
            return True
        with self._lock:
            self._waits = self._asked_again
            return self._waits

    def _is_busy(self) -> bool:
        assert self._busy is not None
        try:
            answer = service_http.ask(self._port, "GET", self._busy["http"], timeout_s=service_http.LOOK_S)
            said = answer.body()
        except (OSError, http.client.HTTPException) as error:
            print(f"whether it is busy cannot be seen: {error!r}", file=sys.stderr, flush=True)
            return False
        answer.close()
        return any(_field(said, field) for field in self._busy["fields"])


def _field(value: Any, path: str) -> Any:
    """``exec_info.queue_remaining`` of an object; None if it is not there."""
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
