"""A configuration is held against the devices of the machine whenever one of them changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lazyd import config as configs
from lazyd.config import Files
from lazyd.core.spec import GIB, Config
from lazyd.manager.fitting import Fit
from lazyd.manager.tasks import Background

from .conftest import until

TEXT = '[budget]\ngpu1 = "50%"\n[models.m]\nruntime = "python"\nfactory = "m:f"\ndevice = "gpu0"\n'


class Stage:
    """A configuration on disk, and devices that come and go."""

    def __init__(self, path: Path) -> None:
        self.files = Files(paths=(str(path),))
        self.devices: dict[str, int] | None = None
        self.config = Config()
        self.path = path
        self.fit = Fit(lambda: self.config, lambda: self.devices, lambda: self.files, Background())
        self.configure(TEXT)

    def configure(self, text: str) -> None:
        self.path.write_text(text)
        loaded = configs.load(self.files)
        assert loaded.config is not None
        self.config = loaded.config


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "lazyd.toml")


async def test_nothing_is_said_before_the_devices_are_known(stage: Stage) -> None:
    stage.fit.look()
    await stage.fit.settle()
    assert stage.fit.warnings == []


async def test_what_is_not_there_is_said_with_its_place_and_logged_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.devices = {"ram": 64 * GIB}
    with caplog.at_level(logging.WARNING):
        stage.fit.look()
        await until(lambda: len(stage.fit.warnings) == 2)
        await stage.fit.settle()
    assert stage.fit.warnings[0].startswith(f"{stage.path}:2: budget.gpu1: there is no gpu1 here")
    assert stage.fit.warnings[1].startswith(f"{stage.path}:6: models.m.device: there is no gpu0 here")
    assert caplog.messages == stage.fit.warnings


async def test_a_gpu_that_comes_is_noticed(stage: Stage) -> None:
    stage.devices = {"ram": 64 * GIB}
    await stage.fit.settle()
    stage.devices = {"ram": 64 * GIB, "gpu0": 22 * GIB}
    stage.fit.look()
    await until(lambda: len(stage.fit.warnings) == 1)
    assert "gpu1" in stage.fit.warnings[0]


async def test_another_configuration_is_looked_at(stage: Stage) -> None:
    stage.devices = {"ram": 64 * GIB}
    await stage.fit.settle()
    stage.configure("")
    stage.fit.look()
    await until(lambda: not stage.fit.warnings)


async def test_who_waits_for_it_has_the_newest_although_another_look_is_under_way(stage: Stage) -> None:
    stage.devices = {"ram": 64 * GIB}
    await stage.fit.settle()
    stage.configure("")
    stage.fit.look()
    await stage.fit.settle()
    assert stage.fit.warnings == []


async def test_looking_at_the_same_again_costs_no_thread(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.devices = {"ram": 64 * GIB}
    await stage.fit.settle()

    async def never() -> None:
        raise AssertionError("nothing has changed")

    monkeypatch.setattr(stage.fit, "settle", never)
    stage.fit.look()
    stage.devices = dict(stage.devices)
    stage.fit.look()
