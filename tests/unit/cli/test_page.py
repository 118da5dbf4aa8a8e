"""What docs/lazyctl.md shows: a moment on one machine, played through the real core and drawn by the real command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lazyd.core import events, view
from lazyd.core.needs import Forecast, Need
from lazyd.core.shown import Stranger
from lazyd.core.spec import GIB, MIB, Settings
from lazyd.core.why import why

from ..core.story import Story, spec
from . import samples
from .conftest import Daemon, Lazyctl

PAGE = Path(__file__).parents[3] / "docs" / "lazyctl.md"
COMFYUI = Stranger(pid=3381, bytes=int(3.4 * GIB), name="comfyui")
SIZES = {"ocr:3": 1.6, "vision": 5.9, "llava-13b": 7.0, "qwen2.5-14b": 11.8, "tts": 1.6, "clip": 0.7}
"""GiB of a GPU that loads need."""


def shown() -> dict[str, str]:
    """By command what the page says that it prints."""
    blocks = re.findall(r"^```console\n\$ (.*)\n((?s:.*?))^```", PAGE.read_text(), re.MULTILINE)
    return dict(blocks)


def foretold(model: str) -> events.Predicted:
    if model not in SIZES:
        return events.Predicted(model=model, ways={"ram": Forecast(peak=Need(ram_bytes=int(4.5 * GIB)))})
    need = Need(ram_bytes=300 * MIB, gpu_bytes=(int(SIZES[model] * GIB),))
    return events.Predicted(model=model, ways={"gpu": Forecast(peak=need)})


class Moment:
    """Two cards of 22 GiB, of which gpu1 has a budget of 18, and 64 GiB of RAM."""

    def __init__(self) -> None:
        on = {"ocr:3": "gpu0", "vision": "gpu0", "llava-13b": "gpu0", "qwen2.5-14b": "gpu1"}
        on |= {"tts": "gpu1", "clip": "gpu1", "backup": "ram", "strategy/*": "ram"}
        self.story = Story(
            *(spec(name, device=(device,), pin=name == "ocr:3") for name, device in on.items()),
            spec("gemma"),
            ram_gib=64,
            gpus_gib=(22, 22),
            predictions={name: foretold(name) for name in (*SIZES, "backup", "strategy/fx")},
            settings=Settings(budget={"ram": 0.8, "gpu1": 18 * GIB}),
        )
        self.others_come()
        self.programs_reserve("gpu0", 48213, "python train.py --epochs 3 --lr 0.001")
        self.some_fail()
        self.some_serve()
        self.some_wait()
        self.all_is_measured()

    def others_come(self) -> None:
        self.story.strangers = {"ram": int(14.2 * GIB), "gpu0": COMFYUI.bytes, "gpu1": 700 * MIB}
        for device in self.story.devices:
            self.story.sample(device)

    def programs_reserve(self, device: str, pid: int, command: str) -> None:
        wish = events.Reserve(request=pid, device=device, bytes=8 * GIB, holder=1000, pid=pid, command=command)
        self.story.tell(wish)

    def some_fail(self) -> None:
        """`tts` crashes and leaves 1.2 GiB behind; the file of `backup` is no good, and it is not the first time."""
        self.story.hot("tts")
        worker = self.story.worker("tts")
        self.story.tell(events.WorkerStarted(worker=worker, pid=4655))
        self.story.sticky[worker, "gpu1"] = int(1.2 * GIB)
        self.story.exit("tts", signal=11)
        for _ in range(4):
            self.backup_fails()
            self.story.wait(10)

    def backup_fails(self) -> None:
        self.story.load("backup")
        reason = "the file is truncated: 1.2 GiB of 4.1 GiB are there"
        self.story.tell(events.ObjectFailed(worker=self.story.worker("backup"), model="backup", reason=reason))
        self.story.exit("backup", status=0)

    def some_serve(self) -> None:
        """`llava-13b` leaves for `vision`."""
        self.story.hot("strategy/fx")
        self.story.hot("llava-13b")
        self.story.wait(400)
        for model in ("ocr:3", "clip", "qwen2.5-14b"):
            self.story.hot(model)
        vision = self.story.get("vision")
        self.story.answer_drain("llava-13b")
        self.story.exit("llava-13b", status=0)
        self.story.ready("vision")
        self.story.call(vision)
        self.story.call(self.story.get("qwen2.5-14b"))
        self.story.wait(150)

    def some_wait(self) -> None:
        self.backup_fails()
        self.story.stick("clip", "gpu1")
        self.story.unload("clip")
        self.story.answer_drain("clip")
        self.story.exit("clip", status=0)
        self.programs_reserve("gpu1", 48391, "./render.sh")
        self.story.wait(0.3)
        self.story.get("llava-13b", timeout=60)
        self.story.wait(0.4)

    def all_is_measured(self) -> None:
        """What they have is less than what they are booked with."""
        for model, gib in {"ocr:3": 1.2, "vision": 5.3, "qwen2.5-14b": 11.4}.items():
            worker = self.story.worker(model)
            self.story.holds |= {(worker, device): int(gib * GIB) for device in ("gpu0", "gpu1")}
            self.story.tell(events.WorkerMeasured(worker=worker, bytes_by_device={"ram": 200 * MIB}))
        worker = self.story.worker("strategy/fx")
        self.story.tell(events.WorkerMeasured(worker=worker, bytes_by_device={"ram": int(4.2 * GIB)}))
        self.story.sample("gpu0", temperature_c=64, power_w=171.0)
        self.story.sample("gpu1", temperature_c=41, power_w=39.0)

    def status(self) -> dict[str, Any]:
        """As the daemon replies. Whose processes others' are it is not told by the core."""
        devices = [
            msgspec.structs.replace(device, strangers=[COMFYUI] if device.name == "gpu0" else None)
            for device in view.devices(self.story.core)
        ]
        now = self.story.now
        told = {
            "devices": devices,
            "models": view.models(self.story.core, now),
            "reservations": view.reservations(self.story.core),
            "wishes": view.wishes(self.story.core, now),
        }
        return {**samples.status(), **msgspec.to_builtins(told)}

    def why(self, name: str) -> dict[str, Any]:
        """As the daemon replies to the question about one model."""
        world = self.story.core.world
        (model,) = [model for model in view.models(self.story.core, self.story.now) if model.name == name]
        told = msgspec.structs.replace(model, why=why(world, world.models[name]))
        return {**self.status(), "models": [msgspec.to_builtins(told)]}


@pytest.mark.parametrize("command", ["lazyctl status", "lazyctl status --why llava-13b"])
def test_a_sample_on_the_page_is_what_the_command_prints(daemon: Daemon, lazyctl: Lazyctl, command: str) -> None:
    moment = Moment()
    words = command.split()[1:]
    daemon.answer("Status", moment.why(words[-1]) if "--why" in words else moment.status())
    assert lazyctl(*words).out == shown()[command]


def test_every_sample_of_status_on_the_page_is_checked() -> None:
    found = [command for command in shown() if command.startswith("lazyctl status")]
    assert found == ["lazyctl status", "lazyctl status --why llava-13b"]
