"""What clients register and deregister: written down before it is answered, and each is answered for itself."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lazyd import config as configs
from lazyd import durable
from lazyd.config import Origin, accepted, registered
from lazyd.config.files import marks_of
from lazyd.errors import Conflict, InvalidSpec, ModelNotFound, NotKept
from lazyd.manager.adding import key_of

from .live import Live
from .waiting import until

SPEC = {"runtime": "python", "factory": "m:f"}
FILE = '[daemon]\nidle_timeout = "7min"\n[models.m]\nruntime = "python"\nfactory = "m:f"\n[aliases]\nother = "m"\n'


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    live = Live(tmp_path, FILE)
    yield live
    await live.background.stop()


async def test_what_is_registered_is_in_force_told_and_survives_a_kill(live: Live, tmp_path: Path) -> None:
    await live.registering.register("r", SPEC)
    assert live.models == {"m", "r"}
    assert live.in_force[-1].models["r"].idle_timeout_s == 420.0, "[daemon] holds for it, too"
    assert live.events == [("registered", {"added": ("r",), "changed": (), "removed": ()})]
    again = live.restarted(tmp_path)
    assert again.models == {"m", "r"}
    assert again.configuration.config.models["r"].source == "registered"


async def test_it_is_there_even_if_the_manager_is_killed_before_it_is_in_force(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = asyncio.Event()

    def kill(*_: Any) -> NoReturn:
        killed.set()
        raise asyncio.CancelledError

    monkeypatch.setattr(live.configuration, "_put_in_force", kill)
    with pytest.raises(asyncio.CancelledError):
        await live.registering.register("r", SPEC)
    assert killed.is_set()
    assert live.restarted(tmp_path).models == {"m", "r"}


async def test_an_equal_one_changes_nothing_and_another_one_takes_its_place(live: Live) -> None:
    await live.registering.register("r", SPEC)
    await live.registering.register("r", dict(SPEC))
    await live.registering.register("r", {**SPEC, "pin": False})
    assert len(live.events) == 1, "a default that is written out is the same"
    assert (await live.registering.register("r", {**SPEC, "pin": True})).changed == ("r",)


async def test_a_reload_keeps_what_is_registered(live: Live) -> None:
    await live.registering.register("r", SPEC)
    live.file.write_text(FILE.replace("[models.m]", "[models.n]").replace('"m"', '"n"'))
    changes = await live.configuration.reload()
    assert changes == ((("n",)), (), ("m",))
    assert live.models == {"n", "r"}


@pytest.mark.parametrize(
    ("spec", "key", "reason"),
    [
        ({}, "name", "missing"),
        ({"name": ""}, "name", "missing"),
        ({"name": "r:1", "version": "2"}, "version", "write it once"),
        ({"name": "a b"}, "name", "is not a name"),
        ({"name": "r", "runtime": "pyton"}, "runtime", "did you mean python?"),
        ({"name": "r", "runtime": "python"}, "factory", "missing"),
        ({"name": "r", **SPEC, "idle_timeout": 5}, "idle_timeout", "expected a duration"),
        ({"name": "r", **SPEC, "warmup": {"calls": 0}}, "warmup.calls", "out of range"),
        ({"name": "r", "runtime": "llama_cpp", "path": "m.gguf"}, "path", "write the whole path"),
        ({"name": "r", "runtime": "llama_cpp", "path": "/nowhere/m.gguf"}, "path", "cannot be read"),
        ({"name": "r", **SPEC, "uses": ["nobody"]}, "uses", 'no model "nobody"'),
        ({"name": "r", **SPEC, "fallback": {"model": "r"}}, "fallback.model", "goes round"),
        ({"name": "other:2", **SPEC}, "name", "a model has this name"),
        ({"name": "r/*", **SPEC, "tier": "resident"}, "tier", "a family cannot be resident"),
    ],
)
async def test_it_is_checked_as_the_files_are(live: Live, spec: dict[str, Any], key: str, reason: str) -> None:
    async def register() -> None:
        await live.registering.register(*key_of(spec))

    with pytest.raises(InvalidSpec) as refused:
        await register()
    assert refused.value.key == key
    assert reason in refused.value.reason
    assert live.events == []
    assert registered.read(live.state).tables == {}


async def test_all_that_is_wrong_is_told_at_once(live: Live) -> None:
    with pytest.raises(InvalidSpec) as refused:
        await live.registering.register("r", {"runtime": "python", "pim": 1})
    assert (refused.value.key, "factory: missing" in refused.value.reason) == ("pim", True), refused.value.reason


@pytest.mark.parametrize(("key", "source"), [("m", "lazyd.toml"), ("other", "[aliases] other")])
async def test_a_name_of_the_files_is_a_conflict_that_names_both(live: Live, key: str, source: str) -> None:
    with pytest.raises(Conflict) as refused:
        await live.registering.register(key, SPEC)
    assert [os.path.basename(name) for name in refused.value.sources] == [source, "registered"]


async def test_two_may_describe_one_file(live: Live, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    for key in ("a", "b"):
        await live.registering.register(key, {"runtime": "llama_cpp", "path": f"{tmp_path}/m.gguf"})
    assert live.models == {"m", "a", "b"}


async def test_deregistering_answers_when_it_is_gone_and_not_sooner(live: Live, tmp_path: Path) -> None:
    await live.registering.register("r", SPEC)
    asked = asyncio.create_task(live.registering.deregister("r"))
    await until(lambda: live.models == {"m"})
    assert live.events[-1] == ("deregistered", {"added": (), "changed": (), "removed": ("r",)})
    assert not asked.done(), "a call is in flight"
    assert live.restarted(tmp_path).models == {"m"}, "that is written down at once"
    live.gone.add("r")
    live.end_waiting()
    await asked


async def test_only_what_is_registered_and_named_by_nobody_can_be_deregistered(live: Live) -> None:
    await live.registering.register("r", SPEC)
    await live.registering.register("user", {**SPEC, "uses": ["r"]})
    for key, said in (("m", f"it stands in {live.file}"), ("r", "it is named by models.user.uses (registered)")):
        with pytest.raises(Conflict, match="cannot be removed") as refused:
            await live.registering.deregister(key)
        assert said in str(refused.value)
    with pytest.raises(ModelNotFound) as missing:
        await live.registering.deregister("usr")
    assert missing.value.nearest == "user"
    assert live.models == {"m", "r", "user"}


async def test_many_at_once_are_written_together_and_each_gets_its_own_answer(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    replace = durable.replace
    monkeypatch.setattr(durable, "replace", lambda path, *parts: (written.append(path), replace(path, *parts))[1])
    asked = [
        live.registering.register(f"r{n}", SPEC if n % 4 else {"runtime": "python", "factory": "x"}) for n in range(200)
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(answer, InvalidSpec) for answer in answers] == [n % 4 == 0 for n in range(200)]
    assert len(live.models) == 151
    assert len([path for path in written if path.endswith("registered.json")]) < 5


async def test_who_registers_during_a_reload_waits_for_it_and_is_not_lost(live: Live) -> None:
    live.file.write_text(FILE + '[models.n]\nruntime = "python"\nfactory = "m:f"\n')
    _, _, changes = await asyncio.gather(
        live.registering.register("before", SPEC),
        live.configuration.reload(),
        live.registering.register("after", SPEC),
    )
    assert live.models == {"m", "n", "before", "after"}
    assert "after" in changes.added


async def test_a_full_disk_refuses_it_and_nothing_has_changed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(durable, "replace", full)
        with pytest.raises(NotKept, match="r stays as it was: it cannot be written down"):
            await live.registering.register("r", SPEC)
    assert live.models == {"m"}
    await live.registering.register("r", SPEC)
    assert live.models == {"m", "r"}


async def test_the_client_may_leave_while_it_is_registered(live: Live, tmp_path: Path) -> None:
    asked = asyncio.create_task(live.registering.register("r", SPEC))
    await asyncio.sleep(0)
    asked.cancel()
    await until(lambda: live.models == {"m", "r"})
    await until(lambda: live.events)
    await live.configuration.keep()
    assert live.restarted(tmp_path).models == {"m", "r"}


async def test_a_registry_that_is_damaged_while_the_daemon_runs_loses_nothing(live: Live) -> None:
    await live.registering.register("r", SPEC)
    live.damage()
    await live.registering.register("s", SPEC)
    assert live.models == {"m", "r", "s"}
    assert registered.read(live.state).tables.keys() == {"r", "s"}


async def test_registering_while_the_files_are_wrong_changes_what_was_accepted_last(live: Live, tmp_path: Path) -> None:
    await live.registering.register("r", SPEC)
    wrong = Live(tmp_path, "nonsense")
    assert wrong.models == {"m", "r"}
    await wrong.registering.register("s", SPEC)
    assert wrong.models == {"m", "r", "s"}
    assert wrong.configuration.problems != [], "the files are still wrong"
    again = Live(tmp_path, "nonsense")
    assert (again.models, again.configuration.problems != []) == ({"m", "r", "s"}, True)
    await wrong.background.stop()


async def test_the_quick_form_follows_what_is_registered(live: Live) -> None:
    await until(lambda: marks_of((str(live.file),)))  # old enough that a change of it could not go unseen
    await live.configuration.reload()
    await live.registering.register("r", SPEC)
    loaded = configs.load_for_start(configs.find(str(live.file)), live.state)
    assert loaded.origin is Origin.UNCHANGED
    assert loaded.config is not None
    assert loaded.config.models.keys() == {"m", "r"}


async def test_what_is_kept_last_is_the_newest(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    accept, entered, going_on = configs.accept, threading.Event(), threading.Event()

    def slowly(*given: Any) -> Any:
        if not entered.is_set():
            entered.set()
            going_on.wait(20)
        return accept(*given)

    monkeypatch.setattr(configs, "accept", slowly)
    first = asyncio.create_task(live.configuration.keep())
    await until(entered.is_set)
    second = asyncio.create_task(live.registering.register("r", SPEC))
    await until(lambda: "r" in live.models)
    going_on.set()
    await asyncio.gather(first, second)
    kept = accepted.read(live.state)
    config = kept.config() if kept is not None else None
    assert config is not None
    assert config.models.keys() == {"m", "r"}
