"""One schedule, on a machine of its own, from the daemon's start to its end."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import lazyd
from tests.fakes.nvml import MIB, StandIn
from tests.integration.conftest import Daemon

from . import admissions, answers, ending, mischief, people
from .programs import ROOT, Programs
from .refusals import Judge
from .schedule import FAMILY, LONGEST_S, Doing, Model, Schedule, draw
from .watching import Record, Watcher

JOIN_S = 90.0
"""All that was begun has an answer by then."""
START_S = 60.0
"""How long a daemon may take to serve on a busy machine."""


@dataclass
class Result:
    """What became of a schedule."""

    seed: int
    traits: list[str]
    violations: list[str]
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Outcomes, refusals by cause, and lazyd's events by kind."""
    admissions: int = 0
    lasted_s: float = 0.0
    story: str = ""
    """Only of one that has gone wrong, or if it was asked for."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))


class Stage:
    """The machine, and all that happens on it."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.root = Path(tempfile.mkdtemp(prefix="lz-", dir="/tmp"))  # a short path: a socket's has 107 bytes
        self.roll_file = self.root / "roll"
        self.driver = StandIn(
            self.root / "driver", [mib * MIB for mib in schedule.gpus_mib], release_s=schedule.release_s
        )
        self.daemon = Daemon(self.root)
        self.daemon.config.write_text(configuration(schedule, self.roll_file))
        self.record = Record()
        self.outcomes: Counter[str] = Counter()
        self.programs_held: dict[int, tuple[int, int]] = {}
        self.ended = threading.Event()
        self._visitors: list[threading.Thread] = []
        self._count = threading.Lock()
        self._programs: Programs | None = None

    @property
    def environment(self) -> dict[str, str]:
        return self.driver.environment()

    def connect(self) -> Any:
        """A connection that nobody else uses."""
        from tests.integration.conftest import Client

        return Client(self.daemon.socket)

    def start(self) -> None:
        """Starts a manager, and waits until it serves."""
        process = self.daemon.spawn(env=self.environment)
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), self.connect() as client:
                if client.call("Status")["daemon"]["pid"] == process.pid:
                    return
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"lazyd does not serve (status {process.poll()}): {self.daemon.log_text()[-2000:]}")
            time.sleep(0.02)

    # Acting.

    def play(self) -> None:
        """Everybody does what the schedule says."""
        if "programs" in self.schedule.actors:
            environment = {**self.environment, "LAZYD_SOCKET": self.daemon.socket}
            self._programs = Programs(environment, self._program_says)
        actors = [
            threading.Thread(target=self._act, args=[who, doings], name=who, daemon=True)
            for who, doings in self.schedule.actors.items()
        ]
        for actor in actors:
            actor.start()
        deadline = time.monotonic() + JOIN_S
        for actor in actors:
            actor.join(max(0.1, deadline - time.monotonic()))
            if actor.is_alive():
                self.record.violation(f"{actor.name} had no answer after {JOIN_S:g} s")
        if self._programs is not None:
            self._programs.finish()
        self.ended.set()
        for visitor in self._visitors:
            visitor.join(JOIN_S)

    def _act(self, who: str, doings: tuple[Doing, ...]) -> None:
        try:
            with lazyd.connect(self.daemon.socket) as client:
                for doing in doings:
                    time.sleep(doing.pause_s)
                    if time.monotonic() > self.record.began + LONGEST_S:
                        break
                    if who.startswith("client"):
                        self._ask(client, who, doing)
                    else:
                        self.record.note(who, str(doing))
                        self._others[doing.what](self, **doing.words)
        except Exception:
            self.record.violation(f"{who} failed: {traceback.format_exc()}")

    def _ask(self, client: lazyd.Client, who: str, doing: Doing) -> None:
        self.record.note(who, str(doing))
        began, error = time.monotonic(), None
        try:
            people.carry_out(client, self.connect, doing)
        except Exception as raised:
            error = raised
        took_s = time.monotonic() - began
        outcome = answers.judge(self.schedule, self.record, f"{who}: {doing}", error, took_s, people.limit_s(doing))
        with self._count:
            self.outcomes[f"{doing.what}: {outcome}"] += 1
        self.record.note(
            who, f"{doing.what} {doing.words.get('model', '')}: {outcome} after {took_s:.2f} s: {error or ''}"
        )

    def _visit(self, **words: Any) -> None:
        visitor = threading.Thread(target=mischief.visit, args=[self.driver, self.ended], kwargs=words, daemon=True)
        self._visitors.append(visitor)
        visitor.start()

    def _program(self, **words: Any) -> None:
        assert self._programs is not None
        self._programs.start(**words)

    def _program_says(self, line: dict[str, Any]) -> None:
        self.record.note("program", json.dumps(line), at=line["at"])
        if line["what"] == "holds":
            words = line["words"]
            self.programs_held[line["pid"]] = words["gpu"], words["mib"] * MIB
            with self._count:
                self.outcomes["reserve: answered"] += 1
        elif line["what"] == "refused":
            with self._count:
                self.outcomes[f"reserve: {line['error']}"] += 1
            if line["error"] not in ("NoRoom", "Timeout", "Unavailable", "NoSuchDevice"):
                self.record.violation(f"a reservation: {line}")
            if line["took_s"] > line["words"]["timeout_s"] + answers.SLACK_S:
                self.record.violation(f"a reservation was answered late: {line}")
        elif line["what"] == "failed":
            self.record.violation(f"a program failed: {line}")

    def _kill_worker(self, nth: int) -> None:
        with contextlib.suppress(OSError), self.connect() as client:
            workers = [w["pid"] for model in client.call("Status")["models"] for w in model["workers"]]
            pids = sorted({pid for pid in workers if pid})
            if pids:
                mischief.kill(pids[nth % len(pids)])

    def _kill_manager(self, away_s: float) -> None:
        self.daemon.kill()
        time.sleep(away_s)
        self.start()

    def _kill_host(self) -> None:
        pid = self.daemon.host_pid()
        if pid is not None:
            mischief.kill(pid)

    def _driver_fails(self, gpu: int, for_s: float) -> None:
        mischief.fail(self.driver, gpu)
        time.sleep(for_s)
        self.driver.heal()

    def _driver_hangs(self, gpu: int, for_s: float) -> None:
        mischief.hang(self.driver, gpu)
        time.sleep(for_s)
        self.driver.heal()

    def _lose_gpu(self, gpu: int, for_s: float) -> None:
        self.driver.lose(gpu)
        time.sleep(for_s)
        self.driver.find(gpu)

    _others: ClassVar[dict[str, Callable[..., None]]] = {
        "stranger": _visit,
        "program": _program,
        "kill worker": _kill_worker,
        "kill manager": _kill_manager,
        "kill host": _kill_host,
        "driver fails": _driver_fails,
        "driver hangs": _driver_hangs,
        "lose GPU": _lose_gpu,
    }

    # Telling.

    def roll(self) -> dict[int, tuple[str, int]]:
        """By pid that had memory: its model, and its worker's pid."""
        if not self.roll_file.exists():
            return {}
        lines = [line.split(" ", 2) for line in self.roll_file.read_text().splitlines()]
        return {int(pid): (called, int(main)) for pid, main, called in lines}

    def clean_up(self) -> None:
        self.ended.set()
        self.driver.heal()
        if self._programs is not None:
            self._programs.kill()
        self.daemon.clean_up()
        shutil.rmtree(self.root, ignore_errors=True)


def run(seed: int, *, tell: bool = False) -> Result:
    """Plays a schedule and judges it. With `tell` its story is told even if all was well."""
    schedule = draw(seed)
    stage = Stage(schedule)
    record = stage.record
    result = Result(seed, sorted(schedule.traits), record.violations)
    began = time.monotonic()
    try:
        with watched(stage):
            record.began = time.monotonic()
            stage.play()
            ending.check(stage)
        ending.stop(stage)
        result.admissions = admissions.check(record)
        causes = Judge(schedule, record, stage.roll(), stage.programs_held).judge(stage.driver.happened())
        kinds = Counter(each.event["kind"] for each in record.happened if each.event is not None)
        result.counts = {"requests": dict(stage.outcomes), "refusals": dict(causes), "events": dict(kinds)}
    except Exception:
        record.violation(f"the schedule could not be played to its end: {traceback.format_exc()}")
    finally:
        result.lasted_s = time.monotonic() - began
        if tell or record.violations:
            result.story = story(stage)
        stage.clean_up()
    return result


@contextlib.contextmanager
def watched(stage: Stage) -> Iterator[None]:
    """The daemon runs, and is looked at all the time."""
    stage.start()
    stage.daemon.until(stage.daemon.host_pid, START_S)
    watcher = Watcher(stage.connect, stage.record)
    try:
        yield
    finally:
        watcher.end()


def configuration(schedule: Schedule, roll: Path) -> str:
    lines = ["[budget]", f'gpu_margin = "{schedule.margin_mib}MiB"', f'ram = "{schedule.ram_mib}MiB"']
    for model in schedule.models:
        lines += table(model, roll)
    return "\n".join(lines) + "\n"


def table(model: Model, roll: Path) -> list[str]:
    factory = "member" if model.name == FAMILY else "make" if model.spec["park_timeout"] != "0s" else "make_unparkable"
    spec = {
        "runtime": "python",
        "factory": f"tests.fakes.gpu_model:{factory}",
        "python_path": [str(ROOT)],
        **model.spec,
    }
    options = {**model.options, "roll": str(roll), "called": model.name}
    return [
        f'[models."{model.name}"]',
        *(f"{key} = {json.dumps(value)}" for key, value in spec.items()),
        f'[models."{model.name}".options]',
        *(f"{key} = {json.dumps(value)}" for key, value in options.items()),
    ]


def story(stage: Stage) -> str:
    """All that happened, in order: what was done, lazyd's events, the driver's account, and lazyd's own log."""
    record = stage.record
    lines = [(each.at, f"{each.who:>10}  {each.what}") for each in record.happened]
    lines += [(each.at_ns / 1e9, f"{'driver':>10}  {each!r}") for each in stage.driver.happened()]
    told = [f"{at - record.began:8.3f} {line}" for at, line in sorted(lines)]
    log = stage.daemon.log_text().splitlines()[-80:]
    return "\n".join([stage.daemon.config.read_text(), *told, "", "lazyd's log, its end:", *log])
