"""So many commits at each interval, first without lazyd, then with it."""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..processes import python_time
from .commits import HERE, Beat
from .sides import MODEL, Before, Side, sentiment, with_lazyd

FLOOR_ROUNDS = 5


@dataclass(frozen=True)
class Length:
    """At which intervals, and how many commits at each: without lazyd, which loads everything again, and with it."""

    intervals_s: tuple[float, ...]
    before: int
    lazyd: int


DEFAULT = Length((300.0, 60.0, 10.0), before=3, lazyd=6)
SHORT = Length((60.0, 10.0), before=1, lazyd=4)
"""Five minutes are left out: what ends within one minute ends within five."""


@dataclass
class Told:
    """Everything that was seen. Times are in seconds."""

    before: list[Beat] = field(default_factory=list)
    lazyd: list[Beat] = field(default_factory=list)
    cold: list[Beat] = field(default_factory=list)
    """The first heartbeat after lazyd itself was started."""
    bare_python: list[float] = field(default_factory=list)
    """``python -c pass``."""
    numpy: list[float] = field(default_factory=list)
    """``python -c 'import numpy'``."""

    def answers_agree(self) -> bool:
        """Whether the language model and every strategy said the same on both sides."""
        beats = [*self.before, *self.cold, *self.lazyd]
        signals: dict[str, set[float]] = {}
        for beat in beats:
            for name, found in beat.signals.items():
                signals.setdefault(name, set()).add(found)
        texts = {beat.text for beat in beats if beat.felt_call is not None}
        return len(texts) <= 1 and all(len(found) == 1 for found in signals.values())


def tell(length: Length, progress: Callable[[str], None] = lambda _: None) -> Told:
    """Runs it all; `progress` hears what comes next."""
    told = Told()
    make_warm()
    progress("floors")
    for _ in range(FLOOR_ROUNDS):
        told.bare_python.append(python_time("pass")() / 1000)
        told.numpy.append(python_time("import numpy")() / 1000)
    with with_lazyd() as side:
        progress("with lazyd, nothing loaded yet")
        told.cold.append(side.commit(0, length.intervals_s[0]))
        told.lazyd = beats(side, length.intervals_s, length.lazyd, progress)
    told.before = beats(Before(), length.intervals_s, length.before, progress)
    return told


def beats(side: Side, intervals_s: Sequence[float], count: int, progress: Callable[[str], None]) -> list[Beat]:
    found: list[Beat] = []
    for interval_s in intervals_s:
        progress(f"{side.name}: a commit every {interval_s:.0f} s, {count} in all")
        found += [side.commit(len(found) + number + 1, interval_s) for number in range(count)]
    return found


def make_warm() -> None:
    """What both sides read lies in the page cache, and their code is compiled, before anything is measured."""
    compileall.compile_dir(HERE / "application", quiet=2)
    libraries = "import numpy"
    if sentiment():
        libraries += ", llama_cpp"
        with MODEL.open("rb") as file:
            while file.read(1 << 24):
                pass
    subprocess.run([sys.executable, "-c", libraries], check=True)


def intervals_s(told: Told) -> list[float]:
    """The intervals at which both sides were seen, the longest first."""
    return sorted({beat.interval_s for beat in told.lazyd}, reverse=True)


def at(beats: Sequence[Beat], interval_s: float) -> list[Beat]:
    return [beat for beat in beats if beat.interval_s == interval_s]


def seen(beats: Sequence[Beat], what: Callable[[Beat], float | None]) -> list[float]:
    """What is known of the beats that came so far."""
    return [value for beat in beats if (value := what(beat)) is not None]


def succeeded(beats: Sequence[Beat]) -> float:
    """The part of the heartbeats that succeeded, in percent."""
    return 100 * statistics.mean(beat.succeeded for beat in beats)


def up(beats: Sequence[Beat]) -> float:
    """The part of the time in which the application was there for more than its first heartbeat, in percent."""
    return 100 * statistics.mean(beat.up if beat.succeeded else 0.0 for beat in beats)
