"""Where a worker loads, as its runtime and the driver are told."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.manager.processes.placing import Gpus, placement

UUIDS = {"gpu0": "GPU-a", "gpu1": "GPU-b", "gpu2": "MIG-c"}


def machine(uuids: dict[str, str], *, driver: bool = True) -> Gpus:
    return Gpus(lambda: driver, uuids.get)


@pytest.mark.parametrize(
    ("devices", "layers", "told"),
    [
        (("ram",), {}, {"on": "ram"}),
        (("gpu1",), {}, {"on": "gpu"}),
        (("gpu1", "ram"), {}, {"on": "gpu"}),
        (("gpu1", "gpu0"), {"gpu0": 12, "gpu1": 20}, {"on": "gpu", "layers": [20, 12]}),
        (("gpu0", "ram"), {"gpu0": 20, "ram": 13}, {"on": "gpu", "layers": [20], "of": 33}),
        (("gpu0", "gpu1", "ram"), {"gpu0": 20, "gpu1": 12, "ram": 1}, {"on": "gpu", "layers": [20, 12], "of": 33}),
    ],
)
def test_a_runtime_is_told_where_and_how_divided(
    devices: tuple[str, ...], layers: dict[str, int], told: dict[str, Any]
) -> None:
    assert placement(devices, layers) == told


@pytest.mark.parametrize(
    ("devices", "visible"),
    [(("ram",), ""), (("gpu1",), "GPU-b"), (("gpu1", "gpu0", "ram"), "GPU-b,GPU-a"), (("gpu2",), "MIG-c")],
)
def test_a_worker_is_shown_its_gpus_alone_in_their_order(devices: tuple[str, ...], visible: str) -> None:
    shown = machine(UUIDS).environment(devices)
    assert shown == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}


def test_without_a_driver_nothing_is_set() -> None:
    assert machine({}, driver=False).environment(("ram",)) == {}


def test_before_any_gpu_has_answered_a_worker_in_ram_is_shown_none_all_the_same() -> None:
    assert machine({}).environment(("ram",))["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_whose_name_is_not_known_is_none_that_a_worker_can_be_kept_to() -> None:
    with pytest.raises(LookupError, match="the driver does not say what gpu3 is called"):
        machine(UUIDS).environment(("gpu0", "gpu3"))


def test_the_first_gpu_is_one_that_answers() -> None:
    assert machine({"gpu1": "GPU-b", "gpu2": "GPU-c"}).first() == "gpu1"
    assert machine(UUIDS).first(("gpu7", "gpu2")) == "gpu2"
    assert machine({}).first() is None
