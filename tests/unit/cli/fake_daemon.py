"""A daemon that answers what a test has written down, over a real socket with the real codec."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lazyd.errors import LazydError
from lazyd.wire.varlink import Splitter, encode

Answer = dict[str, Any] | LazydError
Answers = Answer | list[Answer] | Callable[[dict[str, Any]], Iterable[Answer]]
"""One reply, several (for ``more``), or a function of the parameters that yields them."""


@dataclass
class FakeDaemon:
    """Serves each connection in a thread of its own; `calls` is what was asked, in order."""

    path: Path
    answers: dict[str, Answers]
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    silent: bool = False
    """It takes connections and requests, and answers nothing."""

    def __enter__(self) -> FakeDaemon:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def asked(self, method: str) -> dict[str, Any]:
        """The parameters of the last request of this method."""
        return [parameters for name, parameters in self.calls if name == method][-1]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        splitter = Splitter()
        with connection:
            while data := connection.recv(65536):
                for message in splitter.feed(data):
                    try:
                        self._answer(connection, message)
                    except OSError:  # the client has left in the middle of a stream
                        return

    def _answer(self, connection: socket.socket, message: dict[str, Any]) -> None:
        method = message["method"].removeprefix("io.lazyd.").removeprefix("org.varlink.service.")
        parameters = message.get("parameters") or {}
        self.calls.append((method, parameters))
        if self.silent:
            return
        answers = self.answers[method]
        if callable(answers):
            replies: Iterable[Answer] = answers(parameters)
        else:
            replies = answers if isinstance(answers, list) else [answers]
        more = message.get("more", False)
        previous: Answer | None = None
        for reply in replies:
            if previous is not None and more:
                connection.sendall(_encoded(previous, continues=True))
            previous = reply
        if previous is not None:
            connection.sendall(_encoded(previous, continues=False))


def _encoded(answer: Answer, continues: bool) -> bytes:
    if isinstance(answer, LazydError):
        return encode({"error": answer.varlink_name, "parameters": answer.to_parameters()})
    return encode({"parameters": answer, **({"continues": True} if continues else {})})
