"""So many commits at each interval, first without lazyd, then with it."""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..processes import python_time
from .clock import compressed
from .commits import HERE, Beat
from .sides import MODEL, Before, Side, sentiment, with_lazyd

INTERVALS_S = (300.0, 60.0, 10.0)
FLOOR_ROUNDS = 5


@dataclass(frozen=True)
class Length:
    """How many commits at each interval: without lazyd, where each loads everything again, and with it."""

    before: int
    lazyd: int


DEFAULT = Length(before=3, lazyd=8)
SHORT = Length(before=1, lazyd=3)


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
        told.cold.append(side.commit(0, INTERVALS_S[0]))
        told.lazyd = beats(side, length.lazyd, progress)
    told.before = beats(Before(), length.before, progress)
    return told


def beats(side: Side, count: int, progress: Callable[[str], None]) -> list[Beat]:
    found: list[Beat] = []
    for interval_s in INTERVALS_S:
        progress(f"{side.name}: {count} commits every {interval_s:.0f} s, of which a wait takes {compressed(1):.3f}")
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
