"""Zygotes that are likely to be needed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lazyd import runtimes
from lazyd.core.spec import Config, ModelSpec, Settings, Tier
from lazyd.manager.processes.placing import Gpus
from lazyd.manager.processes.preparing import Preparing, likely
from lazyd.manager.tasks import Background

from ..waiting import until

NO_GPU = Gpus()
TWO_GPUS = Gpus(lambda: True, {"gpu0": "GPU-a", "gpu1": "GPU-b"}.get)
NOBODY: frozenset[str] = frozenset()


def spec(name: str = "m", **fields: object) -> ModelSpec:
    return ModelSpec(name=name, **{"runtime": "python", "factory": "a:b", **fields})  # type: ignore[arg-type]


def config(*specs: ModelSpec, max_zygotes: int = 4) -> Config:
    return Config(settings=Settings(max_zygotes=max_zygotes), models={spec.key: spec for spec in specs})


def names(found: list[dict[str, Any]]) -> list[str]:
    return [told["name"] for told in found]


def visible(found: list[dict[str, Any]]) -> dict[str, str]:
    """What each is shown."""
    return {told["name"]: told["env"]["CUDA_VISIBLE_DEVICES"] for told in found}


class Runtime:
    """One that can use a GPU, or not."""

    def __init__(self, *, gpu: bool) -> None:
        self.asked: list[str] = []
        self._needs = {"ram": {"ram": 1, "gpu": []}, "gpu": {"ram": 1, "gpu": [1]} if gpu else None}

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(spec["name"])
        if spec.get("path") == "/nonexistent":
            raise FileNotFoundError
        return self._needs


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """The runtime of all models can use a GPU."""
    runtime = Runtime(gpu=True)
    monkeypatch.setattr(runtimes, "runtime_named", lambda _: runtime)
    return runtime


def test_models_that_can_share_a_zygote_ask_for_one() -> None:
    specs = [spec("a"), spec("b"), spec("c", env={"X": "1"}), spec("d", python="/opt/python")]
    assert names(likely(config(*specs), NOBODY, NO_GPU)) == ["a", "c", "d"]


def test_zygotes_of_residents_and_pinned_models_come_first_and_no_more_than_fit() -> None:
    specs = [
        spec("a"),
        spec("b", env={"X": "1"}, tier=Tier.RESIDENT),
        spec("c", env={"X": "2"}),
        spec("d", env={"X": "3"}, pin=True),
    ]
    assert names(likely(config(*specs, max_zygotes=3), frozenset({"c"}), NO_GPU)) == ["b", "c", "d"]
    assert likely(config(*specs, max_zygotes=0), NOBODY, NO_GPU) == []


def test_a_zygote_has_the_environment_of_its_workers(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("TOKEN=x\nCUDA_VISIBLE_DEVICES=7\n")
    model = spec("a", env={"A": "1"}, env_file=str(tmp_path / "env"))
    (found,) = likely(config(model), NOBODY, NO_GPU)
    assert found["env"] == {"A": "1", "TOKEN": "x", "CUDA_VISIBLE_DEVICES": "7"}
    (found,) = likely(config(model), NOBODY, TWO_GPUS)
    assert found["env"] == {"A": "1", "TOKEN": "x", **TWO_GPUS.environment(("ram",))}


def test_a_model_whose_env_file_cannot_be_read_prepares_nothing() -> None:
    specs = [spec("a", env_file="/nonexistent"), spec("b")]
    assert names(likely(config(*specs), NOBODY, NO_GPU)) == ["b"]


def test_a_python_model_that_asks_for_no_gpu_is_shown_none() -> None:
    assert visible(likely(config(spec("a")), NOBODY, TWO_GPUS)) == {"a": ""}


@pytest.mark.usefixtures("library")
def test_a_model_that_can_use_a_gpu_is_prepared_for_the_first_that_it_may_use() -> None:
    specs = [
        spec("any"),
        spec("one", device=("gpu",), env={"X": "1"}),
        spec("named", device=("gpu1", "gpu0"), env={"X": "2"}),
        spec("ram", device=("ram",), env={"X": "3"}),
    ]
    shown = visible(likely(config(*specs), NOBODY, TWO_GPUS))
    assert shown == {"any": "GPU-a", "one": "GPU-a", "named": "GPU-b", "ram": ""}


@pytest.mark.usefixtures("library")
def test_before_a_gpu_has_answered_a_model_is_prepared_for_ram() -> None:
    assert visible(likely(config(spec("a")), NOBODY, Gpus(lambda: True))) == {"a": ""}


@pytest.mark.usefixtures("library")
def test_models_that_differ_in_their_devices_alone_share_a_zygote_if_they_are_shown_the_same() -> None:
    specs = [spec("a"), spec("b", device=("gpu0",)), spec("c", device=("ram",)), spec("d", device=("gpu1",))]
    assert visible(likely(config(*specs), NOBODY, TWO_GPUS)) == {"a": "GPU-a", "c": "", "d": "GPU-b"}


def test_a_runtime_is_asked_once_for_models_that_are_alike(library: Runtime) -> None:
    likely(config(*(spec(f"m{number}") for number in range(100))), NOBODY, TWO_GPUS)
    assert library.asked == ["m0"]


@pytest.mark.usefixtures("library")
def test_a_model_that_cannot_be_loaded_says_nothing_of_the_others() -> None:
    specs = [spec("a", path="/nonexistent"), spec("b")]
    assert visible(likely(config(*specs), NOBODY, TWO_GPUS)) == {"b": "GPU-a"}


def test_without_a_driver_no_runtime_is_asked(library: Runtime) -> None:
    (found,) = likely(config(spec("a")), NOBODY, NO_GPU)
    assert (library.asked, found["env"]) == ([], {})


async def test_a_file_that_hangs_keeps_zygotes_from_being_prepared_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 0.1)
    file = tmp_path / "env"
    os.mkfifo(file)
    told: list[dict[str, Any]] = []
    link = SimpleNamespace(ended=asyncio.Event(), send=told.append)
    configuration = SimpleNamespace(config=config(spec(env_file=str(file))))
    background = Background()
    preparing = Preparing(configuration, SimpleNamespace(pins=NOBODY), background, NO_GPU, lambda: None)  # type: ignore[arg-type]
    preparing.connected(link)  # type: ignore[arg-type]
    await until(lambda: "no zygotes are prepared" in caplog.text)
    assert [message["do"] for message in told] == ["settings"]
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 30.0)
    configuration.config = config(spec())
    preparing.tell()
    await until(lambda: told[-1]["do"] == "prepare")
    assert not background.deaths
    os.close(os.open(file, os.O_RDWR))
