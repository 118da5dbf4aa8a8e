"""The proxy (see `lazyd.proxy`) as the host sees it: there as long as some service is to be found at an address.

It is told what to serve by the manager, and tells it what is wrong. One that ends by itself is started again. It goes
on while managers come and go, and when the host executes itself anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..runtimes import MARKER
from ..worker.loop import Loop
from .assistant import Assistant, Keep, LinkState
from .logs import LogFile
from .reaper import Reaper

AGAIN_S = 1.0


class Proxying:
    """`env` is what the process is started with, `marker` what it inherits; `tell` speaks to the manager, `note` to
    the log. `on_ended` is called when the process has gone."""

    def __init__(
        self,
        loop: Loop,
        reaper: Reaper,
        log: LogFile,
        env: Mapping[str, str],
        marker: str,
        tell: Callable[[dict[str, Any]], None],
        note: Callable[[str], None],
        on_ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._env = {**env, MARKER: marker}
        self._tell = tell
        self._note = note
        self._on_ended = on_ended
        self._services: dict[str, str] = {}
        """Addresses by model, as ``127.0.0.1:8188``."""
        self._process = Assistant("lazyd.proxy.main", loop, reaper, log, self._says, self._ended)

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    def serve(self, services: dict[str, str]) -> None:
        """These from now on. What is wrong with them is told, also if nothing is."""
        self._services = services
        if not services:
            self.end()
            self._tell({"is": "proxy", "problems": {}})
        elif not self.is_alive:
            self._start()
        else:
            self._order()

    def end(self) -> None:
        """Ends the process, and all conversations of its clients."""
        self._services = {}
        self._process.end()

    def state(self, keep: Keep, link_state: LinkState) -> dict[str, Any] | None:
        """For the host's next self."""
        state = self._process.state(keep, link_state)
        return None if state is None else {**state, "services": self._services}

    def adopt(self, state: dict[str, Any]) -> None:
        """Goes on with the process of an earlier self."""
        self._services = state["services"]
        self._process.adopt(state)

    def _start(self) -> None:
        try:
            self._process.start(self._env)
        except OSError as error:
            self._failed(f"the proxy cannot be started: {error}")
        else:
            self._order()

    def _order(self) -> None:
        self._process.send({"do": "serve", "services": self._services})

    def _says(self, message: dict[str, Any]) -> None:
        if not self._services:
            return  # it was about to be ended, and nothing is wrong with what is served no more
        for problem in message["problems"].values():
            self._note(problem)
        self._tell(message)

    def _ended(self, how: str, said: str) -> None:
        if self._services:
            self._failed(f"the proxy has ended with {how}{said and ': '}{said}")
        self._on_ended()

    def _failed(self, why: str) -> None:
        self._note(f"{why}; it is started again")
        self._tell({"is": "proxy", "problems": dict.fromkeys(self._services, why)})
        self._loop.after(AGAIN_S, self._start_again)

    def _start_again(self) -> None:
        if self._services and not self.is_alive:
            self._start()
