"""The configuration in force, and how another one comes into force: whole or not at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lazyd import config as configs
from lazyd.config import Changes, Files, Loaded, Problem
from lazyd.core.names import resolve
from lazyd.core.spec import Config, ModelSpec
from lazyd.errors import InvalidConfig

from .failures import EX_CONFIG, CannotStart
from .systemd import Systemd

log = logging.getLogger("lazyd.configuration")


def load_for_start(given: str | None, state: str) -> Loaded:
    """What to start with: the files, or, where they are wrong, what was accepted last. Blocks.

    Raises:
        CannotStart: the files are wrong, and nothing was ever accepted.
    """
    loaded = configs.load_for_start(configs.find(given), state)
    if loaded.config is None:
        lines = "\n".join(str(problem) for problem in loaded.problems)
        raise CannotStart(f"{lines}\nthe configuration is wrong, and there is no accepted one to go on with", EX_CONFIG)
    return loaded


class Configuration:
    """`on_change` puts another configuration in force."""

    def __init__(self, given: str | None, state: str, loaded: Loaded, systemd: Systemd) -> None:
        assert loaded.config is not None
        self._given = given
        self._state = state
        self._loaded = loaded
        self._systemd = systemd
        self._reloading = asyncio.Lock()
        self.config: Config = loaded.config
        self.problems = [str(problem) for problem in loaded.problems]
        """Why the files are not what is in force."""
        self.warnings = [str(warning) for warning in (*loaded.warnings, *loaded.unreadable)]
        """What is in force and probably not meant, or does not work."""
        self.on_change: Callable[[Config], None] = lambda _: None
        for problem in loaded.problems:
            log.error("%s", problem)
        if loaded.problems:
            log.error("the configuration is wrong: the one that was accepted last is in force")
        _warn(*loaded.warnings, *loaded.unreadable)

    def spec_of(self, key: str) -> ModelSpec | None:
        """The spec of a model, a family or a family's member; None: it is not configured any more."""
        spec = self.config.models.get(key)
        if spec is not None:
            return spec
        found = resolve(key, self.config.models, {})
        return found[1] if found is not None else None

    async def keep(self) -> None:
        """Keeps what was loaded as the last accepted, for a start with wrong files."""
        loaded = self._loaded
        problem = await asyncio.to_thread(configs.accept, loaded, self._state)
        if problem is not None:
            log.warning("%s", problem)

    async def reload(self) -> Changes:
        """Reads the files again and puts them in force.

        Raises:
            InvalidConfig: any of it is wrong; nothing has changed.
        """
        async with self._reloading:
            self._systemd.reloading()
            try:
                return await self._reload()
            finally:
                self._systemd.ready()

    async def _reload(self) -> Changes:
        loaded = await asyncio.to_thread(self._read)
        self.problems = [str(problem) for problem in loaded.problems]
        if loaded.config is None:
            raise InvalidConfig(problems=self.problems)
        _warn(*loaded.warnings)
        self.warnings = [str(warning) for warning in loaded.warnings]
        changes = await asyncio.to_thread(configs.diff, self.config, loaded.config)
        self._loaded = loaded
        self.config = loaded.config
        await self.keep()
        self.on_change(loaded.config)
        log.info(
            "reloaded: %d added, %d changed, %d removed",
            len(changes.added),
            len(changes.changed),
            len(changes.removed),
        )
        return changes

    def files(self) -> Files:
        """Those that there are now. Blocks."""
        return configs.find(self._given)

    def _read(self) -> Loaded:
        return configs.load(self.files())


def _warn(*problems: Problem) -> None:
    for problem in problems:
        log.warning("%s", problem)
