"""What is told of the past, and what of the present is told with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lazyd.core import events
from lazyd.core.core import Core
from lazyd.core.effects import Used
from lazyd.core.events import Predicted
from lazyd.core.monitoring import Past
from lazyd.core.needs import RAM, Forecast, Need
from lazyd.core.records import Model, Prediction
from lazyd.core.spec import GIB, Config, Fallback, ModelSpec, Warmup
from lazyd.manager.control import recorded
from lazyd.manager.control.recorded import Recorded, facts, without_secrets
from lazyd.manager.readiness.history import History
from lazyd.manager.readiness.uses import Use
from lazyd.manager.tasks import Background
from lazyd.replay.facts import told
from lazyd.varlink import parameters
from lazyd.varlink.call import Call

WAYS = {RAM: Forecast(peak=Need(ram_bytes=GIB), source="learned")}


def spec(name: str, **fields: Any) -> ModelSpec:
    return ModelSpec(**{"name": name, "runtime": "python", **fields})


def record(spec: ModelSpec, **fields: Any) -> Model:
    return Model(key=spec.key, spec=spec, identity="", **fields)


def of(*specs: ModelSpec) -> Config:
    return Config(models={spec.key: spec for spec in specs})


class Client:
    """Hears the replies of one call."""

    peer: Any = None
    role = "user"
    clogged = False

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []
        self.ended = asyncio.Event()

    def until_closed(self, _: Any) -> None: ...

    def send_reply(self, _: Call, parameters: Any, *, continues: bool) -> None:
        self.replies.append(msgspec.to_builtins(parameters))
        if not continues:
            self.ended.set()

    def send_error(self, _: Call, name: str, parameters: Any) -> None:
        pytest.fail(f"{name} {parameters}")


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    background = Background()
    yield History(str(tmp_path / "history.db"), lambda: 100, background, lambda reason: pytest.fail(reason))
    await background.stop()
    assert not background.deaths


async def foresee(spec: ModelSpec) -> Predicted:
    if spec.name == "gone":
        raise FileNotFoundError("it is not there")
    if spec.name == "slow":
        await asyncio.sleep(3600)
    return Predicted(model=spec.key, ways=WAYS)


async def asked(config: Config, history: History, core: Core | None = None, **given: Any) -> list[dict[str, Any]]:
    client = Client()
    method = Recorded(core or Core(str), lambda: config, history, foresee)
    method.history(Call(client, "io.lazyd.History", True, False), parameters.History(**given))
    async with asyncio.timeout(20):
        await client.ended.wait()
    return client.replies


async def test_first_what_is_known_then_uses_then_problems(history: History) -> None:
    config = of(spec("a"))
    for ago_s in (7200, 60, 5):
        history.used(Used(model="a", began=time.monotonic() - ago_s, busy_s=0.5))
    await history.settled()
    known, page, last = await asked(config, history)
    assert told(known).config == config
    assert told(known).facts.models["a"].ways == WAYS
    assert [use["model"] for use in page["uses"]] == ["a", "a", "a"]
    assert page["uses"][1]["began"] == pytest.approx(time.time() - 60, abs=10)
    assert page["uses"][1]["busySec"] == 0.5
    assert last == {"problems": []}


async def test_what_was_used_longer_ago_is_not_told(history: History) -> None:
    for ago_s in (7200, 60):
        history.used(Used(model="a", began=time.monotonic() - ago_s, busy_s=0.5))
    await history.settled()
    _, page, _ = await asked(of(spec("a")), history, since_sec=3600.0)
    assert len(page["uses"]) == 1
    replies = await asked(of(spec("a")), history, since_sec=1.0)
    assert len(replies) == 2


async def test_of_a_disk_that_does_not_answer_the_rest_is_told_and_what_is_wrong(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pages() -> AsyncIterator[list[Use]]:
        yield [Use(1.0, "a", 0.5)]
        raise TimeoutError("the disk does not answer")

    monkeypatch.setattr(history, "pages", pages)
    _, page, last = await asked(of(spec("a")), history)
    assert len(page["uses"]) == 1
    assert last == {"problems": ["the disk does not answer"]}


async def test_a_history_that_is_broken_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"no database at all" * 100)
    background = Background()
    history = History(str(path), lambda: 100, background, [].append)
    *_, last = await asked(of(spec("a")), history)
    assert "history.db was damaged" in last["problems"][0]
    await background.stop()


async def test_a_model_whose_files_are_gone_or_do_not_answer_holds_up_nothing(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "FORESEE_S", 0.2)
    known = told((await asked(of(spec("gone"), spec("slow"), spec("a")), history))[0])
    assert set(known.facts.models) == {"a"}


async def test_devices_and_pins_are_told(history: History) -> None:
    core = Core(iter("abcdef").__next__)
    config = of(spec("a"), spec("b", pin=True))
    ram = events.DeviceSeen(name="ram", kind="host", total_bytes=64 * GIB, begun=1)
    for event in (ram, events.Configure(config=config, pins=frozenset({"a"})), events.HostFound()):
        core.handle(event, 1.0)
    known = told((await asked(config, history, core))[0])
    assert [(device.name, device.total_bytes) for device in known.facts.devices] == [("ram", 64 * GIB)]
    assert known.pins == ("a",)


async def test_what_a_load_is_booked_with_is_what_is_told(history: History) -> None:
    core, config = Core(str), of(spec("slow"))
    other = {RAM: Forecast(peak=Need(ram_bytes=5))}
    core.world.models["slow"] = record(config.models["slow"], prediction=Prediction(ways=other))
    known = told((await asked(config, history, core))[0])
    assert known.facts.models["slow"].ways == other


@pytest.mark.parametrize(
    ("warmup", "load_sec", "warmup_sec"),
    [(None, 5.0, 0.0), (Warmup(), 4.0, 1.0)],
)
def test_a_warm_up_that_is_not_configured_is_a_part_of_the_load(
    warmup: Warmup | None, load_sec: float, warmup_sec: float
) -> None:
    a = spec("a", warmup=warmup)
    past = Past(loads_s=(3.0, 4.0, 40.0), warmups_s=(1.0,))
    found = facts(of(a), {"a": record(a, past=past)}, {})
    assert (found["a"].load_sec, found["a"].warmup_sec) == (load_sec, warmup_sec)


def test_members_have_their_own_times_and_of_the_unknown_nothing_is_told() -> None:
    family = spec("s/*")
    member = Model(key="s/a", spec=family, identity="", past=Past(loads_s=(2.0,)))
    found = facts(of(family, spec("b")), {"s/a": member}, {"s/*": Predicted(model="s/*", ways=WAYS)})
    assert set(found) == {"s/*", "s/a"}
    assert (found["s/a"].load_sec, found["s/*"].ways) == (2.0, WAYS)


def test_secrets_are_not_told() -> None:
    secret = spec(
        "a",
        env={"TOKEN": "hush"},
        env_file="/hush",
        options={"key": "hush"},
        path="/hush",
        warmup=Warmup(args=("hush",)),
        fallback=Fallback(value="hush", after_s=2.0),
        idle_timeout_s=7.0,
    )
    shown = without_secrets(of(secret))
    assert b"hush" not in msgspec.json.encode(shown)
    assert shown.models["a"].idle_timeout_s == 7.0
    assert shown.models["a"].fallback == Fallback(after_s=2.0)
