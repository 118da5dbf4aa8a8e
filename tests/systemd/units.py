"""What the tests ask of the three units."""

from __future__ import annotations

from .machine import Machine, eventually

MANAGER, HOST, SOCKET = "lazyd.service", "lazyd-host.service", "lazyd.socket"


def pid(machine: Machine, unit: str = MANAGER) -> int:
    """The main process of a unit; 0 without one."""
    return int(machine.show(unit, "MainPID"))


def state(machine: Machine) -> dict[str, str]:
    """The state of each unit, in systemd's words."""
    return {unit: machine.show(unit, "ActiveState") for unit in (MANAGER, HOST, SOCKET)}


def reset(machine: Machine) -> None:
    """Stops all three and waits until nothing of them is left."""
    machine.run("systemctl", "stop", MANAGER, HOST, SOCKET)
    machine.run("systemctl", "reset-failed")
    nothing_left(machine)


def nothing_left(machine: Machine, within_s: float = 10) -> None:
    """Waits until the units are stopped, without a process and without a socket."""
    eventually(
        lambda: (
            set(state(machine).values()) <= {"inactive"}
            and not machine.pids(HOST) | machine.pids(MANAGER)
            and machine.run("test", "-e", "/run/lazyd/control.sock", check=False).returncode != 0
        ),
        within_s,
        f"everything stopped: {state(machine)}",
    )
