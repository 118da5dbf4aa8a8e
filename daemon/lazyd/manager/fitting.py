"""Whether this machine has what the configuration asks for. What it has not is said, and nothing is refused for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from lazyd.config.files import Files
from lazyd.core.spec import Config

from .tasks import Background

log = logging.getLogger("lazyd.configuration")


class Fit:
    """Looks again whenever the configuration or the devices have changed.

    `devices` are those of the machine with their bytes; None as long as they are not all known. `files`
    finds those of the configuration; it blocks.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        devices: Callable[[], Mapping[str, int] | None],
        files: Callable[[], Files],
        background: Background,
    ) -> None:
        self._config = config
        self._devices = devices
        self._files = files
        self._background = background
        self._looking = asyncio.Lock()
        self._looked: tuple[Config, Mapping[str, int]] | None = None
        self.warnings: list[str] = []
        """A line each, with file and key."""

    def look(self) -> None:
        """Brings `warnings` up to date, in a moment. Costs next to nothing if nothing has changed."""
        if not self._looking.locked() and self._is_new():
            self._background.once("devices of the configuration", self.settle())

    async def settle(self) -> None:
        """The same, and returns when it is done."""
        async with self._looking:
            config, devices = self._config(), self._devices()
            if devices is None or not self._is_new():
                return
            lines = await asyncio.to_thread(_lines, config, devices, self._files)
            for line in lines:
                if line not in self.warnings:
                    log.warning("%s", line)
            self._looked = config, devices
            self.warnings = lines

    def _is_new(self) -> bool:
        devices = self._devices()
        if devices is None:
            return False
        return self._looked is None or self._looked[0] is not self._config() or self._looked[1] != devices


def _lines(config: Config, devices: Mapping[str, int], files: Callable[[], Files]) -> list[str]:
    from lazyd.config.fitting import located, misfits

    found = misfits(config, devices)
    return [str(problem) for problem in located(found, files(), config.models)] if found else []
