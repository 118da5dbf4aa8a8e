"""The fetcher's socket: one connection asks for one thing, and hears how far it is and how it ends.

All that is understood is answered with {"on": "heard"} first, at once.

    {"do": "fetch", "key", "url", "sha256", "disk", "kept", "loaded", "used"}
        -> {"on": "progress", "fraction", "bytes"} …, {"on": "fetched", "changed", "note"} or {"on": "failed", "reason"}
    {"do": "stop"}                      within it: it is not wanted any more
    {"do": "head", "key", "url"}        -> {"on": "head", "folder"} or {"on": "failed", "reason"}
    {"do": "remove", "keys", "kept", "unfinished"}  -> {"on": "removed", "bytes"}
    {"do": "quit"}                      the process ends

A connection that closes leaves the download to whoever asks next.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lazyd.wire import packets

from . import heads, manifest
from .cache import Cache
from .failures import Failed
from .jobs import Job, Jobs, Wanted
from .remote import Remote

log = logging.getLogger("lazyd.fetch")

IDLE_S = 10.0
"""With nothing to do it ends after so long."""
TELL_S = 0.25
PATIENCE_S = 10.0
"""So long an answer waits for who does not read."""


class Server:
    """`sock` listens. `run` returns when there is nothing left to do."""

    def __init__(self, sock: socket.socket, cache: Cache) -> None:
        self._sock = sock
        self._cache = cache
        self._jobs = Jobs(cache)
        self._serving: set[socket.socket] = set()
        self._quit = threading.Event()
        self._table: dict[str, Callable[[socket.socket, dict[str, Any]], None]] = {
            "fetch": self._fetch,
            "head": self._head,
            "remove": self._remove,
            "quit": lambda *_: self._quit.set(),
        }

    def run(self) -> None:
        idle_since = time.monotonic()
        self._sock.setblocking(False)
        while not self._quit.is_set():
            if select.select([self._sock], [], [], TELL_S)[0]:
                with suppress(BlockingIOError):
                    connection, _ = self._sock.accept()
                    self._serving.add(connection)
                    threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            if self._serving or self._jobs.are_under_way:
                idle_since = time.monotonic()
            elif time.monotonic() > idle_since + IDLE_S:
                return

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(PATIENCE_S)
                question = _received(connection)
                if question is not None:
                    answer = self._table[question["do"]]
                    with suppress(OSError):  # who asks it to quit need not wait
                        _send(connection, {"on": "heard"})
                    answer(connection, question)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.info("a connection has ended: %r", error)
        except Exception:
            log.exception("a bug in lazyd: a question was not answered")
        finally:
            self._serving.discard(connection)

    def _fetch(self, connection: socket.socket, asked: dict[str, Any]) -> None:
        self._jobs.used(asked.get("used", {}))
        kept, loaded = (frozenset(asked.get(name, ())) for name in ("kept", "loaded"))
        wanted = Wanted(asked["key"], asked["url"], asked.get("sha256"), asked.get("disk", 0.5), kept, loaded)
        job = self._jobs.join(wanted)
        stop = False
        try:
            stop = self._tell_until_done(connection, job)
        finally:
            self._jobs.leave(job, stop=stop)

    def _tell_until_done(self, connection: socket.socket, job: Job) -> bool:
        """Whether it was stopped."""
        told: tuple[float | None, int] | None = None
        while not job.done.wait(TELL_S):
            if select.select([connection], [], [], 0)[0]:
                said = _received(connection)
                return said is not None and said.get("do") == "stop"
            now = job.fraction, job.bytes
            if now != told:
                told = now
                _send(connection, {"on": "progress", "fraction": job.fraction, "bytes": job.bytes})
        if job.error:
            _send(connection, {"on": "failed", "reason": job.error})
        else:
            _send(connection, {"on": "fetched", "changed": job.changed, "note": job.note})
        return False

    def _head(self, connection: socket.socket, asked: dict[str, Any]) -> None:
        folder = self._cache.head(asked["key"])
        try:
            os.makedirs(os.path.dirname(folder), mode=0o750, exist_ok=True)
            heads.fetch(folder, manifest.files(asked["url"], Remote), Remote)
        except (Failed, ValueError, OSError) as error:
            _send(connection, {"on": "failed", "reason": " ".join(str(error).split())})
        else:
            _send(connection, {"on": "head", "folder": folder})

    def _remove(self, connection: socket.socket, asked: dict[str, Any]) -> None:
        kept, unfinished = frozenset(asked["kept"]), asked.get("unfinished", False)
        _send(connection, {"on": "removed", "bytes": self._jobs.remove(asked["keys"], kept, unfinished=unfinished)})


def _received(connection: socket.socket) -> dict[str, Any] | None:
    data, ancillary, _, _ = connection.recvmsg(packets.MAX_PACKET_BYTES, packets.ANCILLARY, packets.CLOSE_ON_EXEC)
    fds = packets.received(ancillary)
    try:
        said = json.loads(data) if data else None
        if fds and isinstance(said, dict) and "memfd" in said:  # as long messages come
            said = json.loads(packets.contents(fds[-1]))
    finally:
        packets.close(fds)
    return said if isinstance(said, dict) else None


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.send(json.dumps(message).encode())
