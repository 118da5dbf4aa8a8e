"""Where services are found by ordinary HTTP clients: told to the host, whose proxy opens these addresses."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lazyd.core.spec import Config

from .hostlink import HostLink
from .messages import Proxy

log = logging.getLogger("lazyd.proxies")


class Proxies:
    """`config` is what is in force; `note` writes an event of a kind, with its reason."""

    def __init__(self, config: Callable[[], Config], note: Callable[[str, str], None]) -> None:
        self._config = config
        self._note = note
        self._link: HostLink | None = None
        self._told: dict[str, str] | None = None
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """A line each."""
        return list(dict.fromkeys(self._problems.values()))

    def connected(self, link: HostLink) -> None:
        """A host that was not told yet, or by another manager."""
        self._link, self._told = link, None
        link.listen_for_proxy(self.hear)
        self.tell()

    def tell(self) -> None:
        """What is in force now, if that is new to the host."""
        wanted = {key: spec.proxy for key, spec in self._config().models.items() if spec.proxy is not None}
        if self._link is not None and not self._link.ended.is_set() and wanted != self._told:
            self._told = wanted
            self._link.send({"do": "proxy", "services": wanted})

    def hear(self, message: Proxy) -> None:
        for line in dict.fromkeys(message.problems.values()):
            if line not in self._problems.values():
                log.warning("%s", line)
                self._note("proxy", line)
        self._problems = message.problems
