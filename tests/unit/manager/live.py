"""A configuration in force, with what changes it, and no daemon around it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from lazyd.core.spec import Config
from lazyd.manager.configuration import Configuration, load_for_start
from lazyd.manager.registering import Registering
from lazyd.manager.systemd import Systemd
from lazyd.manager.tasks import Background
from lazyd.manager.watching import Watching


class Live:
    """`events` are those told, by kind; what is `gone` a test says."""

    def __init__(self, root: Path, text: str = "") -> None:
        self.file = root / "lazyd.toml"
        self.state = str(root / "state")
        self.file.write_text(text)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.gone: set[str] = set()
        self.in_force: list[Config] = []
        self.background = Background()
        loaded = load_for_start(str(self.file), self.state)
        self.promoted: set[str] = set()
        self.configuration = Configuration(
            str(self.file), self.state, loaded, Systemd(), self._note, lambda: self.promoted
        )
        self.configuration.on_change = self._changed
        self.watching = Watching(self.configuration, self.background)
        self.registering = Registering(self.configuration, self.background, self._until, self.gone.__contains__)
        self.waiting: list[Any] = []

    @property
    def models(self) -> set[str]:
        return set(self.configuration.config.models)

    def restarted(self, root: Path) -> Live:
        """Another manager, after this one was killed."""
        return Live(root, self.file.read_text())

    def damage(self) -> None:
        """Somebody else has written to the file of what is registered."""
        Path(self.state, "registered.json").write_bytes(b"nonsense")

    def end_waiting(self) -> None:
        for condition, done in self.waiting:
            if not done.done() and condition():
                done.set_result(None)

    def _until(self, condition: Any) -> Any:
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((condition, done))
        self.end_waiting()
        return done

    def _note(self, kind: str, reason: str | None = None, data: dict[str, Any] | None = None) -> None:
        self.events.append((kind, data or {"reason": reason}))

    def _changed(self, config: Config) -> None:
        self.in_force.append(config)
        self.watching.look()
