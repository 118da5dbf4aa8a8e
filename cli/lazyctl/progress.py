"""The progress of a load, or of something else that takes its time, drawn on standard error while somebody looks.

The only user of rich: it costs more to import than a whole ``lazyctl status``, and a load hides it.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .session import Reply
from .terminal import one_line


class LoadBar:
    """A bar for one load; it disappears when the load has ended."""

    def __init__(self, model: str) -> None:
        self._bar = Progress(
            TextColumn("{task.fields[model]}", style="bold", markup=False),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[percent]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        # Without a total the bar pulses: something is under way, nobody knows how far.
        self._task = self._bar.add_task("waiting", total=None, model=one_line(model), percent="")

    def __enter__(self) -> LoadBar:
        self.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Draw from now on."""
        self._bar.start()

    def stop(self) -> None:
        """Leave no trace on the terminal."""
        self._bar.stop()

    def show(self, step: Reply) -> None:
        """One reply of ``Load``."""
        fraction = step.get("fraction")
        self._bar.update(
            self._task,
            description=one_line(step.get("phase") or step["state"]),
            total=None if fraction is None else 1.0,
            completed=fraction or 0.0,
            percent="" if fraction is None else f"{fraction:4.0%}",
        )


class PartBar:
    """A bar for something of which it is known how far it is; it disappears when that has ended."""

    def __init__(self, title: str) -> None:
        self._bar = Progress(
            TextColumn(one_line(title), markup=False),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> PartBar:
        self._bar.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._bar.stop()

    def show(self, part: float) -> None:
        """So much is done."""
        self._bar.update(self._task, completed=part)
