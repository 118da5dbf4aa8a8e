"""The predictor: what it asks, whom, and how often."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lazyd.core.effects import Learn, Predict
from lazyd.core.events import Event, Predicted, Unpredictable
from lazyd.core.needs import Forecast, Need
from lazyd.core.spec import ModelSpec
from lazyd.manager.prediction import predictor
from lazyd.manager.prediction.learning import Learning
from lazyd.manager.prediction.predictor import TRIES, Predictor
from lazyd.manager.processes.messages import DryRun
from lazyd.manager.processes.placing import Gpus
from lazyd.manager.tasks import Background

from ...runtimes.test_gguf import model
from ...runtimes.test_llama_cpp_needs import EMBEDDING, LAYERS, SHAPE
from ..waiting import until

RESULT = {"ram": {"ram": 777, "gpu": []}, "gpu": None, "layers": None, "files": {"1:1": 5}, "source": "dry run"}


class Host:
    """Answers dry runs."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.goes = False
        """When it is asked."""
        self.asked: list[dict[str, Any]] = []
        self.answer = DryRun(id=1, result=RESULT)

    async def dry_run(self, spec: dict[str, Any], within_s: float) -> DryRun:
        assert within_s > 2
        self.asked.append(spec)
        if self.goes:
            self.ended.set()
        return self.answer


class Desk:
    """A predictor with all that it needs. `start_anew` is a restart of the manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = Host()
        self.specs: dict[str, ModelSpec] = {}
        self.gpus = Gpus()
        self.background = Background()
        self.digest = "never looked at"
        """Of the files that the last prediction was made from: those of a load that follows."""
        self._told: asyncio.Queue[Event] = asyncio.Queue()
        self._numbers = itertools.count(1)
        self.start_anew()

    def start_anew(self) -> None:
        self.learning = Learning(str(self.folder / "state" / "learned.db"), self.background, lambda _: None)
        self.predictor = Predictor(
            self.specs.get, self._told.put_nowait, self.background, self.learning, lambda: self.gpus
        )
        self.predictor.connected(self.host)  # type: ignore[arg-type]

    def add(self, name: str = "m", **fields: Any) -> ModelSpec:
        path = self.folder / f"{name}.gguf"
        model(path, pairs=SHAPE, tensors={**EMBEDDING, **LAYERS})
        fields = {"runtime": "llama_cpp", "path": str(path), **fields}
        self.specs[name] = ModelSpec(name=name, **fields)
        return self.specs[name]

    async def told(self, name: str = "m", *, dry_run: bool = True) -> Event:
        number = next(self._numbers)
        self.predictor.predict(Predict(model=name, number=number, dry_run=dry_run))
        async with asyncio.timeout(30):
            event = await self._told.get()
        assert isinstance(event, Predicted | Unpredictable)
        assert event.number == number
        if isinstance(event, Predicted):
            self.digest = event.digest
        return event

    async def in_ram(self, name: str = "m", *, dry_run: bool = True) -> Forecast:
        event = await self.told(name, dry_run=dry_run)
        assert isinstance(event, Predicted), event
        return event.ways["ram"]

    async def learn(self, peak: int, service: int | None = None, name: str = "m") -> None:
        self.lives(Need(peak), None if service is None else Need(service), name)
        await self.learning.settled()

    def lives(self, peak: Need, service: Need | None = None, name: str = "m") -> None:
        """A worker that was loaded as was predicted last has ended."""
        identity, digest = self.specs[name].identity, self.digest
        self.predictor.learn(Learn(model=name, identity=identity, digest=digest, way="ram", peak=peak, service=service))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.background.stop()
    assert not desk.background.deaths


async def test_a_dry_run_is_made_once_for_a_model_and_its_files(desk: Desk) -> None:
    desk.add()
    for _ in range(2):
        assert await desk.in_ram() == Forecast(peak=Need(777), source="dry run")
    desk.start_anew()
    assert (await desk.in_ram(dry_run=False)).source == "dry run"
    assert len(desk.host.asked) == 1


async def test_one_that_is_not_allowed_is_not_made(desk: Desk) -> None:
    desk.add()
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    assert desk.host.asked == []


async def test_another_option_or_a_changed_file_is_another_model(desk: Desk) -> None:
    desk.add()
    await desk.in_ram()
    desk.add(options={"n_ctx": 512})
    await desk.in_ram()
    (desk.folder / "m.gguf").touch()
    await desk.in_ram()
    assert len(desk.host.asked) == 3


async def test_looking_starts_nothing_and_tells_what_is_kept(desk: Desk) -> None:
    spec = desk.add()
    assert (await desk.predictor.foresee(spec)).ways["ram"].source == "file size"
    assert not (desk.folder / "state").exists()
    await desk.in_ram()
    assert (await desk.predictor.foresee(spec)).ways["ram"].source == "dry run"
    await desk.learn(900)
    assert (await desk.predictor.foresee(spec)).ways["ram"].source == "learned"
    assert len(desk.host.asked) == 1


async def test_it_is_told_which_gpus_are_shown_none(desk: Desk) -> None:
    desk.gpus = Gpus(driver=lambda: True)
    (desk.folder / "env").write_text("TOKEN=x\n")
    desk.add(env_file=str(desk.folder / "env"), env={"CUDA_VISIBLE_DEVICES": "0"})
    await desk.in_ram()
    (asked,) = desk.host.asked
    assert asked["env"] == {"TOKEN": "x", "CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


IN_VAIN = [DryRun(id=1, reason="it took more than 2 s"), DryRun(id=1, result={**RESULT, "ram": {"ram": "much"}})]


@pytest.mark.parametrize("answer", IN_VAIN)
async def test_one_in_vain_is_made_again_by_the_next_load(desk: Desk, answer: DryRun) -> None:
    """Ten may have begun at once on two cores."""
    desk.add()
    right, desk.host.answer = desk.host.answer, answer
    assert (await desk.in_ram()).source == "file size"
    desk.host.answer = right
    assert (await desk.in_ram()).source == "dry run"


@pytest.mark.parametrize("answer", IN_VAIN)
async def test_one_that_is_always_in_vain_is_given_up(desk: Desk, answer: DryRun) -> None:
    desk.add()
    desk.host.answer = answer
    for _ in range(TRIES + 2):
        assert (await desk.in_ram()).source == "file size"
    assert len(desk.host.asked) == TRIES


async def test_a_host_that_goes_during_a_dry_run_has_made_none(desk: Desk) -> None:
    desk.add()
    right, desk.host.answer = desk.host.answer, DryRun(id=1, reason="the worker host has gone")
    desk.host.goes = True
    for _ in range(TRIES):
        assert (await desk.in_ram()).source == "file size"
        desk.host.ended.clear()
    desk.host.goes, desk.host.answer = False, right
    assert (await desk.in_ram()).source == "dry run"


async def test_one_that_was_kept_and_is_not_understood_is_made_again(desk: Desk) -> None:
    desk.add()
    await desk.in_ram()
    await desk.learning.settled()
    with sqlite3.connect(desk.folder / "state" / "learned.db") as other:
        other.execute("UPDATE dry_runs SET needs = replace(needs, '777', '-777')")
    assert (await desk.in_ram()).peak == Need(777)
    assert len(desk.host.asked) == 2


async def test_without_a_host_there_is_none_and_the_next_host_is_asked(desk: Desk) -> None:
    desk.add()
    desk.host.ended.set()
    assert (await desk.in_ram()).source == "file size"
    desk.host.ended.clear()
    assert (await desk.in_ram()).source == "dry run"


@pytest.mark.parametrize(
    "prepare",
    [
        lambda desk: desk.add(memory_bytes=1 << 30),
        lambda desk: desk.add(runtime="python", factory="a:b", path=None),
    ],
    ids=["a declared peak", "a runtime that has none"],
)
async def test_where_it_would_tell_nothing_new_it_is_not_made(desk: Desk, prepare: Callable[[Desk], object]) -> None:
    prepare(desk)
    assert (await desk.in_ram()).source in ("declared", "default")
    assert desk.host.asked == []


async def test_what_a_load_needed_is_expected_of_the_next(desk: Desk) -> None:
    desk.add(memory_bytes=1 << 30)
    assert (await desk.in_ram()).source == "declared"
    await desk.learn(5000, 4000)
    assert await desk.in_ram() == Forecast(peak=Need(5000), service=Need(4000), source="learned")
    desk.start_anew()
    assert (await desk.in_ram()).source == "learned"


async def test_what_ran_out_of_memory_is_known_to_the_very_next_prediction(desk: Desk) -> None:
    desk.add()
    await desk.in_ram(dry_run=False)
    desk.lives(Need(10**9))
    assert await desk.in_ram(dry_run=False) == Forecast(peak=Need(10**9), source="learned")


async def test_what_was_loaded_under_an_earlier_manager_teaches_too(desk: Desk) -> None:
    desk.add()
    await desk.in_ram(dry_run=False)
    desk.start_anew()
    await desk.learn(5000)
    assert (await desk.in_ram(dry_run=False)).source == "learned"


async def test_what_a_life_has_taught_is_told_of_the_files_that_it_was_loaded_from(desk: Desk) -> None:
    """They have been replaced meanwhile, and somebody has looked at the new ones."""
    spec = desk.add()
    file = desk.folder / "m.gguf"
    first = file.read_bytes(), file.stat().st_mtime_ns
    await desk.in_ram(dry_run=False)
    file.write_bytes(first[0] + b"larger")
    await desk.predictor.foresee(spec)
    await desk.learn(5000)
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    file.write_bytes(first[0])
    os.utime(file, ns=(first[1], first[1]))
    assert (await desk.in_ram(dry_run=False)).peak == Need(5000)


async def test_what_an_older_version_has_loaded_teaches_nothing(desk: Desk) -> None:
    """It does not say from which files."""
    desk.add()
    desk.digest = ""
    await desk.learn(5000)
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    assert not (desk.folder / "state").exists()


async def test_loads_correct_the_estimates_of_other_models_of_their_runtime(desk: Desk) -> None:
    desk.add()
    estimated = (await desk.in_ram(dry_run=False)).peak.ram_bytes
    await desk.learn(2 * estimated)
    desk.add("other")
    found = await desk.in_ram("other", dry_run=False)
    assert found == Forecast(peak=Need(2 * estimated), source="file size", factor=2.0)


async def test_after_a_dry_run_in_vain_files_count_with_what_loads_have_taken_more(desk: Desk) -> None:
    desk.add()
    estimated = (await desk.in_ram(dry_run=False)).peak.ram_bytes
    await desk.learn(int(1.5 * estimated))
    desk.add("other")
    desk.host.answer = DryRun(id=1, reason="it took more than 2 s")
    found = await desk.in_ram("other")
    assert len(desk.host.asked) == 1
    assert (found.source, found.factor) == ("file size", pytest.approx(1.5))
    assert found.peak.ram_bytes == pytest.approx(1.5 * estimated, rel=0.001)


async def test_what_was_learned_with_other_options_or_of_another_file_is_not_used(desk: Desk) -> None:
    desk.add(options={"n_ctx": 512})
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    await desk.learn(5000)
    desk.add(options={"n_ctx": 1024})
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    desk.add(options={"n_ctx": 512}, idle_timeout_s=5.0)  # written anew, of the same size
    assert (await desk.in_ram(dry_run=False)).source == "file size"


async def test_what_was_learned_with_these_options_is_used_when_they_are_back(desk: Desk) -> None:
    spec = desk.add(options={"n_ctx": 512})
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    await desk.learn(5000)
    desk.specs["m"] = msgspec.structs.replace(spec, options={"n_ctx": 1024})
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    desk.specs["m"] = msgspec.structs.replace(spec, idle_timeout_s=5.0)  # policy
    assert await desk.in_ram(dry_run=False) == Forecast(peak=Need(5000), source="learned")


async def test_what_was_learned_in_ram_is_not_expected_on_a_gpu(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazyd.runtimes.llama_cpp_library.has_gpu_backend", lambda _: True)
    desk.add()
    await desk.told(dry_run=False)
    await desk.learn(5000)
    event = await desk.told(dry_run=False)
    assert isinstance(event, Predicted)
    assert {way: forecast.source for way, forecast in event.ways.items()} == {"ram": "learned", "gpu": "file size"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"path": "/no/such.gguf"}, "/no/such.gguf: No such file or directory"),
        ({"path": "/etc/passwd"}, "/etc/passwd is not a GGUF file: it begins with"),
        ({"options": {"n_ctx": "4k"}}, "the option n_ctx is a whole number, not '4k'"),
    ],
)
async def test_what_cannot_be_loaded_is_said_whatever_else_is_known(
    desk: Desk, fields: dict[str, Any], reason: str
) -> None:
    desk.add(**fields, memory_bytes=5)
    event = await desk.told()
    assert isinstance(event, Unpredictable)
    assert event.reason.startswith(reason)


async def test_a_model_that_is_not_configured_any_more_is_said_so(desk: Desk) -> None:
    assert await desk.told() == Unpredictable(model="m", number=1, reason="it is not configured any more")


async def test_a_bug_of_a_runtime_is_its_models_failure(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.add()
    monkeypatch.setattr("lazyd.runtimes.llama_cpp_needs.estimated", lambda *_: 1 / 0)
    event = await desk.told()
    assert isinstance(event, Unpredictable)
    assert "ZeroDivisionError" in event.reason


@pytest.mark.parametrize(
    ("device", "waits"), [(("gpu0", "ram"), True), (("gpu",), True), (("ram",), False), ((), False)]
)
async def test_who_may_use_a_gpu_waits_until_those_that_there_are_have_been_seen(
    desk: Desk, device: tuple[str, ...], waits: bool
) -> None:
    seen, waiting = asyncio.Event(), list[str]()

    async def until_seen() -> None:
        waiting.append("it")
        await seen.wait()

    desk.gpus = Gpus(until_seen=until_seen)
    desk.specs["m"] = ModelSpec(name="m", runtime="python", factory="a:b", device=device)
    asked = asyncio.create_task(desk.told())
    if waits:
        await until(lambda: waiting)
        assert not asked.done()
        seen.set()
    assert isinstance(await asked, Predicted)
    assert bool(waiting) == waits


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, whoever looks at files called ``hangs…`` waits, as on a disk that has gone."""
    opened = threading.Event()

    def look_at(spec: ModelSpec) -> predictor.Look:
        if "hangs" in str(spec.path):
            opened.wait(60)
        return really(spec)

    really = predictor.look_at
    monkeypatch.setattr(predictor, "look_at", look_at)
    yield opened
    opened.set()


@pytest.mark.usefixtures("gate")
async def test_files_that_hang_hold_up_their_own_model_alone(desk: Desk) -> None:
    count = 2 * min(32, (os.cpu_count() or 1) + 4)  # more than the loop has threads for all
    paths = [desk.folder / f"hangs{number}.gguf" for number in range(count)]
    for path in paths:
        desk.specs[path.stem] = ModelSpec(name=path.stem, runtime="llama_cpp", path=str(path))
        desk.predictor.predict(Predict(model=path.stem, number=0))
    desk.add("well")
    assert isinstance(await desk.told("well"), Predicted)


@pytest.mark.usefixtures("gate")
async def test_files_that_do_not_answer_are_said_to(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 0.1)
    path = desk.folder / "hangs.gguf"
    desk.specs["m"] = ModelSpec(name="m", runtime="llama_cpp", path=str(path))
    event = await desk.told()
    assert isinstance(event, Unpredictable)
    assert event.reason == "its files do not answer: nothing came for 0.1 s"
