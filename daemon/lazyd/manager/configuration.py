"""The configuration in force, and how another one comes into force: whole or not at all.

It changes by a reload, by what clients register (`registering`), and by what is found on the disk (`watching`): one
change at a time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from lazyd import config as configs
from lazyd.config import Changes, Files, Loaded, Origin, Problem
from lazyd.config.files import Mark
from lazyd.core import replicas
from lazyd.core.names import MARK, model_key, resolve
from lazyd.core.spec import Config, ModelSpec
from lazyd.errors import InvalidConfig

from .failures import EX_CONFIG, CannotStart
from .fetching.places import placed
from .systemd import Systemd

log = logging.getLogger("lazyd.configuration")

MOST_NAMED = 5
"""So many models are named in an event; all of them are in its data."""


def load_for_start(given: str | None, state: str, promoted: Collection[str] = ()) -> Loaded:
    """What to start with: the files, or, where they are wrong, what was accepted last. Blocks.

    Versions that were `promoted` stay configured.

    Raises:
        CannotStart: the files are wrong, and nothing was ever accepted.
    """
    loaded = configs.load_for_start(configs.find(given), state, promoted)
    if loaded.config is None:
        lines = "\n".join(str(problem) for problem in loaded.problems)
        raise CannotStart(f"{lines}\nthe configuration is wrong, and there is no accepted one to go on with", EX_CONFIG)
    return loaded


@dataclass(frozen=True)
class Change:
    """Another configuration, made of the one in force."""

    config: Config
    registered: Mark | None = None
    """Of what is registered, if that has been written anew."""
    found: tuple[Problem, ...] | None = None
    """What is to be told of the files that were found, if they were looked for."""


Alter = Callable[[Config], Change]
"""Makes a change; may block. Raises `LazydError`: nothing changes."""


class Configuration:
    """`on_change` puts another configuration in force; `note` is told of it, as an event. `promoted` are the versions
    that names mean by a person's will."""

    def __init__(
        self,
        given: str | None,
        state: str,
        loaded: Loaded,
        systemd: Systemd,
        note: Callable[..., None],
        promoted: Callable[[], Collection[str]],
    ) -> None:
        assert loaded.config is not None
        self._given = given
        self._loaded = loaded
        self._systemd = systemd
        self._note = note
        self.promoted = promoted
        self._changing = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self.state = state
        self.config: Config = placed(loaded.config, state)
        self.problems = _lines(loaded.problems)
        """Why the files are not what is in force."""
        self.refused: list[str] = []
        """Why what was found on the disk is not in force."""
        self.on_change: Callable[[Config], None] = lambda _: None
        for problem in loaded.problems:
            log.error("%s", problem)
        if loaded.problems:
            log.error("the configuration is wrong: the one that was accepted last is in force")
        _warn(*loaded.warnings, *loaded.unreadable, *loaded.found)

    @property
    def warnings(self) -> list[str]:
        """What is in force and probably not meant, or does not work; and what was found and is not in force."""
        loaded = self._loaded
        refused = [f"what was found on the disk is not in force: {problem}" for problem in self.refused]
        return [*refused, *_lines((*loaded.warnings, *loaded.unreadable, *loaded.found))]

    def spec_of(self, key: str) -> ModelSpec | None:
        """The spec of a model, a replica, a family or a family's member; None: it is not configured any more."""
        if MARK in key:
            return replicas.spec_named(key, self.spec_of(model_key(key)))
        spec = self.config.models.get(key)
        if spec is not None:
            return spec
        found = resolve(key, self.config.models, {})
        return found[1] if found is not None else None

    async def keep(self) -> None:
        """Keeps what is in force as the last accepted, for a start with wrong files. The newest is written last."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="accepted configuration")
        await asyncio.shield(self._keeper)

    async def _keep(self) -> None:
        kept: Loaded | None = None
        try:
            while kept is not self._loaded:
                kept = self._loaded
                problem = await asyncio.to_thread(configs.accept, kept, self.state)
                if problem is not None:
                    log.warning("%s", problem)
        finally:
            self._keeper = None

    async def reload(self) -> Changes:
        """Reads the files again and puts them in force.

        Raises:
            InvalidConfig: any of it is wrong; nothing has changed.
        """
        async with self._changing:
            self._systemd.reloading()
            try:
                return await self._reload()
            finally:
                self._systemd.ready()

    async def _reload(self) -> Changes:
        loaded = await asyncio.to_thread(self._read)
        self.problems = _lines(loaded.problems)
        if loaded.config is None:
            raise InvalidConfig(problems=self.problems)
        _warn(*loaded.warnings, *loaded.unreadable, *loaded.found)
        self.refused = []
        return await self._put_in_force(loaded, loaded.config, "reloaded")

    async def change(self, kind: str, alter: Alter) -> Changes:
        """Puts in force what `alter` makes of the configuration. `kind` names the event.

        Raises what `alter` raises: nothing has changed.
        """
        async with self._changing:
            change = await asyncio.to_thread(alter, self.config)
            loaded = dataclasses.replace(self._loaded, config=change.config, origin=Origin.CHANGED)
            if change.registered is not None and loaded.marks is not None:
                loaded = dataclasses.replace(loaded, marks=(*loaded.marks[:-1], change.registered))
            if change.found is not None:
                _warn(*(problem for problem in change.found if problem not in self._loaded.found))
                loaded = dataclasses.replace(loaded, found=change.found)
                self.refused = []
            if change.config is self.config and change.registered is None:
                self._loaded = dataclasses.replace(loaded, origin=self._loaded.origin)
                return Changes((), (), ())
            return await self._put_in_force(loaded, change.config, kind)

    async def _put_in_force(self, loaded: Loaded, config: Config, kind: str) -> Changes:
        config = placed(config, self.state)
        changes = await asyncio.to_thread(configs.diff, self.config, config)
        self._loaded = loaded
        self.config = config
        self.on_change(config)
        self._note(kind, reason=in_words(changes), data=changes._asdict())
        await self.keep()
        return changes

    def refuse(self, problems: list[str]) -> None:
        """What was found on the disk cannot be put in force."""
        for problem in problems:
            if problem not in self.refused:
                log.error("%s", problem)
        if problems != self.refused:
            self._note("configuration refused", reason=problems[0])
        self.refused = problems

    def files(self) -> Files:
        """Those that there are now. Blocks."""
        return configs.find(self._given)

    def _read(self) -> Loaded:
        return configs.load_again(self.files(), self.state, self.config, self.promoted())


def in_words(changes: Changes) -> str:
    """``2 added (a, b), 1 removed (c)``."""
    parts = [
        f"{len(keys)} {kind} ({', '.join(keys[:MOST_NAMED])}{', …' if len(keys) > MOST_NAMED else ''})"
        for kind, keys in changes._asdict().items()
        if keys
    ]
    return ", ".join(parts) or "no model changed"


def _lines(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


def _warn(*problems: Any) -> None:
    for problem in problems:
        log.warning("%s", problem)
