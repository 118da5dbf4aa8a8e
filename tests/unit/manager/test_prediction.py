"""The predictor: what it asks, whom, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from lazyd.core.effects import Learn, Predict
from lazyd.core.events import Event, Predicted, Unpredictable
from lazyd.core.needs import Forecast, Need
from lazyd.core.spec import ModelSpec
from lazyd.manager.learning import Learning
from lazyd.manager.messages import DryRun
from lazyd.manager.placing import Gpus
from lazyd.manager.prediction import Predictor
from lazyd.manager.tasks import Background

from ..runtimes.test_gguf import model
from ..runtimes.test_llama_cpp_needs import EMBEDDING, LAYERS, SHAPE
from .waiting import until

RESULT = {"ram": {"ram": 777, "gpu": []}, "gpu": None, "layers": None, "files": {"1:1": 5}, "source": "dry run"}


class Host:
    """Answers dry runs."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.asked: list[dict[str, Any]] = []
        self.answer = DryRun(id=1, result=RESULT)

    async def dry_run(self, spec: dict[str, Any], within_s: float) -> DryRun:
        assert within_s > 2
        self.asked.append(spec)
        return self.answer


class Desk:
    """A predictor with all that it needs. `start_anew` is a restart of the manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = Host()
        self.specs: dict[str, ModelSpec] = {}
        self.gpus = Gpus()
        self.background = Background()
        self._told: asyncio.Queue[Event] = asyncio.Queue()
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
        self.predictor.predict(Predict(model=name, dry_run=dry_run))
        async with asyncio.timeout(10):
            return await self._told.get()

    async def in_ram(self, name: str = "m", *, dry_run: bool = True) -> Forecast:
        event = await self.told(name, dry_run=dry_run)
        assert isinstance(event, Predicted), event
        return event.ways["ram"]

    async def learn(self, peak: int, service: int | None = None, name: str = "m") -> None:
        needs = Need(peak), None if service is None else Need(service)
        identity = self.specs[name].identity
        self.predictor.learn(Learn(model=name, identity=identity, way="ram", peak=needs[0], service=needs[1]))
        await self.learning.settled()


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
    assert (await desk.predictor.ways(spec))["ram"].source == "file size"
    assert not (desk.folder / "state").exists()
    await desk.in_ram()
    assert (await desk.predictor.ways(spec))["ram"].source == "dry run"
    await desk.learn(900)
    assert (await desk.predictor.ways(spec))["ram"].source == "learned"
    assert len(desk.host.asked) == 1


async def test_it_is_told_which_gpus_are_shown_none(desk: Desk) -> None:
    desk.gpus = Gpus(driver=lambda: True)
    (desk.folder / "env").write_text("TOKEN=x\n")
    desk.add(env_file=str(desk.folder / "env"), env={"CUDA_VISIBLE_DEVICES": "0"})
    await desk.in_ram()
    (asked,) = desk.host.asked
    assert asked["env"] == {"TOKEN": "x", "CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    "answer", [DryRun(id=1, reason="it took more than 2 s"), DryRun(id=1, result={**RESULT, "ram": {"ram": "much"}})]
)
async def test_one_in_vain_is_not_made_again(desk: Desk, answer: DryRun) -> None:
    desk.add()
    desk.host.answer = answer
    for _ in range(2):
        assert (await desk.in_ram()).source == "file size"
    assert len(desk.host.asked) == 1


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
    identity = desk.specs["m"].identity
    desk.predictor.learn(Learn(model="m", identity=identity, way="ram", peak=Need(10**9)))
    assert await desk.in_ram(dry_run=False) == Forecast(peak=Need(10**9), source="learned")


async def test_what_was_loaded_under_an_earlier_manager_teaches_too(desk: Desk) -> None:
    desk.add()
    await desk.learn(5000)
    async with asyncio.timeout(10):
        while (await desk.in_ram(dry_run=False)).source != "learned":
            await desk.learning.settled()


async def test_a_spec_that_has_changed_meanwhile_learns_nothing(desk: Desk) -> None:
    desk.add()
    desk.predictor.learn(Learn(model="m", identity="of before", way="ram", peak=Need(10**9)))
    desk.predictor.learn(Learn(model="gone", identity="of before", way="ram", peak=Need(10**9)))
    assert (await desk.in_ram(dry_run=False)).source == "file size"
    await desk.learning.settled()
    assert not (desk.folder / "state").exists()


async def test_loads_correct_the_estimates_of_other_models_of_their_runtime(desk: Desk) -> None:
    desk.add()
    estimated = (await desk.in_ram(dry_run=False)).peak.ram_bytes
    await desk.learn(2 * estimated)
    desk.add("other")
    assert await desk.in_ram("other", dry_run=False) == Forecast(peak=Need(2 * estimated), source="file size")


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
    assert await desk.told() == Unpredictable(model="m", reason="it is not configured any more")


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
