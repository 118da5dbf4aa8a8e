"""How long a model rests between two uses: a histogram of its gaps, and from it the rate of return at every age.

The *age* is the time since the last use. At each age there is a rate at which it ends, the *hazard*: of all gaps that
became so old, so many ended per second then. A histogram of the gaps gives it (as those of "Serverless in the
Wild", Shahrad et al., 2020: minutes, up to some hours; here finer below five minutes), if one counts for each bin
the gaps that ended in it and the time that all gaps spent in it. Two things are added:

- A bin that has seen little is believed little: it is drawn to the hazard of its octave, and that to the hazard
  of a model of which nothing is known, `PRIOR` / age (the older, the less likely to come back soon).
- Gaps that a beat had foretold (see `beats`) count as time, not as returns: they say nothing of the other uses.

Old gaps count less: half after `HALF_LIFE_S`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise, zip_longest

import msgspec

EDGES = (
    *range(0, 120, 10),
    *range(120, 300, 20),
    *range(300, 900, 60),
    *(round(900 * 96 ** (step / 65)) for step in range(66)),
)
"""Where the bins begin, in seconds: they are 10 s wide up to 2 min, 20 s up to 5 min, 1 min up to 15 min, then 7 % up
to a day."""
LAST = len(EDGES) - 1
"""The bin of all that is longer: such gaps count only as time in the others."""
WIDTHS = tuple(end - start for start, end in pairwise(EDGES))
MIDDLES = tuple((start + end) / 2 for start, end in pairwise(EDGES))
OCTAVES = tuple(int(math.log2(middle)) for middle in MIDDLES)

PRIOR = 1.0
"""The hazard of an unknown model is this / age: half of the gaps that became so old end before twice that age. Then it
is worth keeping for as long as a cold start is worth, which is what a fixed idle time does."""
BELIEF_OCTAVE = 1.0
"""So many returns weighs what is believed of an octave before any is seen."""
BELIEF_BIN = 6.0
"""So many returns weighs what the octave says of a bin."""

HALF_LIFE_S = 7 * 86400.0
"""A habit is one of days and weeks: what is a week old counts half."""
LARGEST = 2.0**20
"""Weights grow rather than fade, and are scaled down when the newest would be larger than this."""
ITEM = 4
"""Bytes of a number in a packed row."""


def bin_of(gap_s: float) -> int:
    return bisect_right(EDGES, gap_s) - 1


class Intervals(msgspec.Struct, omit_defaults=True, gc=False):
    """The histogram of one model: two rows of packed floats, as long as the longest gap asks for (400 bytes each)."""

    ended: bytearray = msgspec.field(default_factory=bytearray)
    """Gaps that ended in a bin by themselves."""
    foretold: bytearray = msgspec.field(default_factory=bytearray)
    """Gaps that a beat ended."""
    weight: float = 1.0
    """Of the newest gap."""

    def __post_init__(self) -> None:
        """What was kept in a file may be damaged.

        :raises ValueError: it is no histogram
        """
        if not 1.0 <= self.weight <= LARGEST or not all(map(is_row, (self.ended, self.foretold))):
            raise ValueError("damaged histogram")

    def add(self, gap_s: float, foretold: float = 0.0) -> None:
        """Counts a gap that has ended.

        :param foretold: how sure it is that a beat has ended it, from 0 to 1
        """
        self.weight *= math.exp2(min(gap_s, HALF_LIFE_S) / HALF_LIFE_S)
        if self.weight > LARGEST:
            self._scale_down()
        index = bin_of(gap_s)
        if foretold < 1.0:
            count(self.ended, index, (1.0 - foretold) * self.weight)
        if foretold > 0.0:
            count(self.foretold, index, foretold * self.weight)

    def explain(self, gap_s: float, slack_s: float, gaps: float) -> None:
        """So many gaps of about this length were ended by a beat, as is seen now."""
        left = gaps * self.weight
        for index in range(bin_of(max(0.0, gap_s - slack_s)), bin_of(gap_s + slack_s) + 1):
            if (index + 1) * ITEM <= len(self.ended):
                left -= self._move(index, left)

    def _move(self, index: int, most: float) -> float:
        """From ended by themselves to foretold."""
        moved = min(most, numbers(self.ended)[index])
        count(self.ended, index, -moved)
        count(self.foretold, index, moved)
        return moved

    def chance(self, age_s: float, until_s: float) -> float:
        """How likely a gap that became so old ends before it is `until_s` old, for whatever reason.

        Of one more gap it is not known, as in Jeffreys' estimate of a part: a few alone prove nothing.
        """
        gaps = [
            ended + foretold
            for ended, foretold in zip_longest(*map(numbers, (self.ended, self.foretold)), fillvalue=0.0)
        ]
        first, last = bin_of(age_s), bin_of(until_s)
        return (sum(gaps[first:last]) / self.weight + 0.5) / (sum(gaps[first:]) / self.weight + 1.0)

    def hazards(self, prior: float = PRIOR) -> list[float]:
        """Returns per second to be expected in each bin, up to the last bin that any gap reached.

        :param prior: what is believed before anything is seen: that it is this / age
        """
        ended, spent = self._ended_and_spent()
        by_octave: dict[int, list[float]] = {}
        for octave, ends, time in zip(OCTAVES, ended, spent, strict=False):
            sums = by_octave.setdefault(octave, [0.0, 0.0])
            sums[0] += ends
            sums[1] += time
        believed = {
            octave: (ends + BELIEF_OCTAVE) / (time + BELIEF_OCTAVE * 1.5 * 2**octave / prior)
            for octave, (ends, time) in by_octave.items()
        }
        return [
            (ends + BELIEF_BIN) / (time + BELIEF_BIN / believed[octave])
            for octave, ends, time in zip(OCTAVES, ended, spent, strict=False)
        ]

    def _ended_and_spent(self) -> tuple[list[float], list[float]]:
        """Per bin the gaps that ended in it, and the seconds that all gaps spent in it; the newest gap counts one."""
        ended, foretold = numbers(self.ended), numbers(self.foretold)
        length = max(len(ended), len(foretold))
        ended += [0.0] * (length - len(ended))
        foretold += [0.0] * (length - len(foretold))
        spent = [0.0] * length
        older = 0.0
        for index in range(length - 1, -1, -1):
            here = ended[index] + foretold[index]
            if index < LAST:
                spent[index] = WIDTHS[index] * (older + here / 2) / self.weight
            older += here
        return [ends / self.weight for ends in ended], spent

    def _scale_down(self) -> None:
        for row in (self.ended, self.foretold):
            with memoryview(row).cast("f") as scaled:
                for index, number in enumerate(scaled):
                    scaled[index] = number / self.weight
        self.weight = 1.0


def is_row(row: bytearray) -> bool:
    """Whether it is one of finite numbers that are not negative, but for what they were rounded."""
    fits = len(row) % ITEM == 0 and len(row) <= len(EDGES) * ITEM
    return fits and all(-0.01 < number < math.inf for number in numbers(row))


def count(row: bytearray, index: int, weight: float) -> None:
    """Adds to a number of a packed row, which grows as needed."""
    row.extend(bytes(max(0, (index + 1) * ITEM - len(row))))
    with memoryview(row).cast("f") as packed:
        packed[index] += weight


def numbers(row: bytearray) -> list[float]:
    with memoryview(row).cast("f") as packed:
        return [float(number) for number in packed]
