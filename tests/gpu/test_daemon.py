"""A daemon with a real GPU: what it loads there is booked, seen and given back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.nvml import GIB
from tests.integration.conftest import DataLine

from .conftest import NOISE, ROOT, Gpu


@pytest.fixture
def on(daemon: Any, gpu: Gpu) -> Any:
    """A daemon with a model that takes a GiB of the GPU, declared with what a context may cost."""
    daemon.configure(
        f"""
        [models.big]
        runtime = "python"
        factory = "tests.gpu.cuda_model:make"
        python_path = {json.dumps([str(ROOT)])}
        device = ["{gpu.name}"]
        memory = "3GiB"
        options = {{ size_mib = 1024 }}
        """
    )
    daemon.start(env=gpu.environment)
    return daemon


def device(daemon: Any, name: str) -> dict[str, Any]:
    with daemon.client() as client:
        found: dict[str, Any] = next(d for d in client.call("Status")["devices"] if d["name"] == name)
    return found


def test_a_model_on_a_gpu_is_kept_to_it_and_what_it_holds_is_not_taken_for_a_strangers(on: Any, gpu: Gpu) -> None:
    on.until(lambda: device(on, gpu.name))
    before = device(on, gpu.name)["foreignBytes"]
    with on.client() as client, DataLine(client.call("Get", model="big")) as line:
        told = line.call("tell")
        assert told["visible"] == gpu.uuid
        if str(told["pid"]) not in gpu.sample()["processes"]:
            pytest.skip("the driver shows no processes here, which a container may be the reason for")
        on.until(lambda: device(on, gpu.name)["foreignBytes"] <= before + NOISE)
        assert device(on, gpu.name)["bookedBytes"] >= GIB


def test_what_an_unloaded_model_had_is_booked_until_the_driver_shows_it_and_no_longer(on: Any, gpu: Gpu) -> None:
    before = gpu.used()
    with on.client() as client:
        client.call("Load", model="big")
        gpu.until(lambda: gpu.used() >= before + GIB)
        client.call("Unload", models=["big"])
        gpu.until(lambda: gpu.used() <= before + NOISE)
        on.until(lambda: device(on, gpu.name)["bookedBytes"] == 0)
        assert device(on, gpu.name)["quarantinedBytes"] == 0
