"""Figures of devices for Prometheus."""

from __future__ import annotations

from lazyd.core import events
from lazyd.core.core import Core
from lazyd.core.spec import GIB, Config
from lazyd.manager.control import metrics


def figures(core: Core) -> dict[str, float]:
    """Each figure by its name and labels, as they are written."""
    lines = metrics.text(core, 1.0, {}, 2).splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def core_with_a_gpu() -> Core:
    core = Core(iter("abcdef").__next__)
    gpu = events.DeviceSeen(name="gpu0", kind="cuda", total_bytes=22 * GIB, begun=1, temperature_c=64, power_w=171.5)
    ram = events.DeviceSeen(name="ram", kind="host", total_bytes=64 * GIB, begun=1)
    for event in (ram, gpu, events.Configure(config=Config()), events.HostFound()):
        core.handle(event, 1.0)
    return core


def test_what_is_reserved_and_how_a_device_is_are_figures() -> None:
    core = core_with_a_gpu()
    core.handle(events.Reserve(request=1, device="gpu0", bytes=8 * GIB, holder=0), 1.0)
    told = figures(core)
    assert told['lazyd_device_reserved_bytes{device="gpu0"}'] == 8 * GIB
    assert told['lazyd_device_booked_bytes{device="gpu0"}'] == 8 * GIB
    assert told['lazyd_device_margin_bytes{device="gpu0"}'] == GIB / 2
    assert told['lazyd_device_quarantined_bytes{device="gpu0"}'] == 0
    assert told['lazyd_device_temperature_celsius{device="gpu0"}'] == 64
    assert told['lazyd_device_power_watts{device="gpu0"}'] == 171.5
    assert 'lazyd_device_power_watts{device="ram"}' not in told
    assert (told["lazyd_reservations"], told["lazyd_reservations_waiting"]) == (1, 0)
    core.handle(events.Reserve(request=2, device="gpu0", bytes=8 * GIB, holder=1), 2.5)  # on a sample that is too old
    assert figures(core)["lazyd_reservations_waiting"] == 1


def test_a_device_is_in_one_state() -> None:
    core = core_with_a_gpu()
    core.handle(events.DeviceLost(name="gpu0", reason="it has fallen off the bus"), 2.0)
    told = figures(core)
    states = {state: told[f'lazyd_device_state{{device="gpu0",state="{state}"}}'] for state in metrics.DEVICE_STATES}
    assert states == {"ok": 0, "lost": 1, "silent": 0}


def test_what_no_device_has_is_no_figure() -> None:
    core = Core(iter("abcdef").__next__)
    core.handle(events.DeviceSeen(name="ram", kind="host", total_bytes=64 * GIB, begun=1), 1.0)
    assert "lazyd_device_temperature_celsius" not in metrics.text(core, 1.0, {}, 0)
