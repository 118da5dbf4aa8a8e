"""The unit files as such: valid, closed to what lazyd does not need, and alike for the system and a user."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from .machine import CHECKOUT, Machine

USER_UNITS = ["lazyd.socket", "lazyd.service", "lazyd-host.service", "lazyd-fetch.socket", "lazyd-fetch.service"]
SYSTEM_UNITS = [*USER_UNITS, "lazyd-nvidia.service"]
BEHAVIOUR = re.compile(
    r"(Requires|Wants|After|StartLimit|Trigger|Type|Notify|Restart|Watchdog|Timeout|KillMode|Delegate|OOMPolicy|RemoveOnStop)"
)


def settings(path: str) -> list[str]:
    """The settings of a unit file that decide how it starts, stops and comes back."""
    lines = (CHECKOUT / "systemd" / path).read_text().splitlines()
    return sorted(line.replace(" lazyd-nvidia.service", "") for line in lines if BEHAVIOUR.match(line))


@pytest.mark.parametrize("unit", USER_UNITS)
def test_a_users_unit_behaves_as_the_systems(unit: str) -> None:
    wanted = [
        line for line in settings(unit) if line not in ("Wants=lazyd-nvidia.service", "After=lazyd-nvidia.service")
    ]
    assert settings(f"user/{unit}") == [line for line in wanted if "=" in line and not line.endswith("=")]


def test_systemd_finds_nothing_wrong_with_the_units(machine: Machine) -> None:
    paths = [f"/usr/local/lib/systemd/system/{unit}" for unit in SYSTEM_UNITS]
    checked = machine.run("systemd-analyze", "verify", "--man=no", *paths, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_systemd_finds_nothing_wrong_with_a_users_units(machine: Machine) -> None:
    paths = [f"/usr/local/lib/systemd/user/{unit}" for unit in USER_UNITS]
    checked = machine.run(
        "env", "XDG_RUNTIME_DIR=/run", "systemd-analyze", "--user", "verify", "--man=no", *paths, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("unit", "at_most"), [("lazyd.service", 0.8), ("lazyd-host.service", 1.9), ("lazyd-fetch.service", 1.6)]
)
def test_a_service_is_hardly_exposed(unit: str, at_most: float) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    command = ["systemd-analyze", "security", "--offline=yes", str(CHECKOUT / "systemd" / unit)]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", report)
    assert exposure, report
    assert float(exposure[1]) <= at_most, report
