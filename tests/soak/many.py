"""Many schedules, each in a process of its own, a few at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .programs import ROOT
from .run import Result

LIMIT_S = 300.0
"""How long one may take, whatever happens."""


def run_many(seeds: Sequence[int], jobs: int) -> Iterator[Result]:
    """The results, in the order of the seeds."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(run_apart, seeds)


def run_apart(seed: int) -> Result:
    command = [sys.executable, "-m", "tests.soak", "--seed", str(seed), "--json"]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return Result(**json.loads(ended.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return Result(seed, [], [f"it had not ended after {LIMIT_S:g} s"])
    except (ValueError, IndexError):
        return Result(seed, [], [f"it told nothing: {ended.stderr[-4000:]}"])


@dataclass
class Total:
    """What many schedules have seen."""

    schedules: int = 0
    violations: int = 0
    admissions: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    traits: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0

    def add(self, result: Result) -> None:
        self.schedules += 1
        self.violations += bool(result.violations)
        self.admissions += result.admissions
        self.longest_s = max(self.longest_s, result.lasted_s)
        self.traits.update(result.traits or ["none"])
        for name, counts in result.counts.items():
            self.counts.setdefault(name, Counter()).update(counts)

    def told(self, seconds: float) -> str:
        requests = self.counts.get("requests", Counter())
        events = self.counts.get("events", Counter())
        lines = [
            f"{self.schedules} schedules in {seconds:.0f} s, the longest {self.longest_s:.0f} s; "
            f"{self.violations} with violations",
            f"{requests.total()} requests, {self.admissions} admissions, {events['ready']} loads, "
            f"{events['evicted']} evictions",
            f"traits: {listed(self.traits)}",
            f"requests: {listed(requests)}",
            f"allocations that were refused: {listed(self.counts.get('refusals', Counter())) or 'none'}",
            f"events: {listed(events)}",
        ]
        return "\n".join(lines)


def listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.most_common())
