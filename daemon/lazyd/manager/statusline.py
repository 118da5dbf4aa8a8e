"""The daemon's state in one line of words, for ``systemctl status``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lazyd.core import view
from lazyd.core.core import Core
from lazyd.core.wording import size

from .phase import Phase
from .systemd import Systemd

PAUSE_S = 1.0
"""Between two lines: what changes more often is told together."""


class StatusLine:
    """Tells systemd when something has changed, where systemd listens."""

    def __init__(self, systemd: Systemd, line: Callable[[], str]) -> None:
        self._systemd = systemd
        self._line = line
        self._due = False

    def changed(self) -> None:
        if self._systemd.present and not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(PAUSE_S, self.say)

    def say(self) -> None:
        self._due = False
        if self._systemd.present:
            self._systemd.status(self._line())


def words(core: Core, phase: Phase, problems: Sequence[str]) -> str:
    """``3 of 200 models loaded, ram 2.1 GiB of 19.2 GiB booked``, and what is wrong."""
    health = view.health(core)
    loaded = sum(word == "loaded" for word in health.values())
    parts = [f"{loaded} of {len(health)} models loaded"]
    parts += [
        f"{each.name} {size(each.booked_bytes)} of {size(each.budget_bytes)} booked" for each in view.devices(core)
    ]
    line = ", ".join(parts)
    if phase is not Phase.RUNNING:
        line = f"{phase}: {line}"
    if problems:
        line += f"; {len(problems)} problem{'' if len(problems) == 1 else 's'}, first: {problems[0]}"
    return line
