"""`make install` and `make uninstall`, staged below a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .machine import CHECKOUT, Machine
from .units import MANAGER, Units

if not shutil.which("make"):
    pytest.skip("needs make", allow_module_level=True)


def make(target: str, stage: Path, prefix: str = "/usr/local") -> None:
    done = subprocess.run(
        ["make", "-C", str(CHECKOUT), target, f"DESTDIR={stage}", f"PREFIX={prefix}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def files(below: Path) -> set[str]:
    """What is there, files and links, named from `below`."""
    return {os.path.relpath(os.path.join(path, name), below) for path, _, names in os.walk(below) for name in names}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation for a package: PREFIX=/usr, below a directory."""
    place = tmp_path_factory.mktemp("a stage")
    make("install", place, prefix="/usr")
    return place


def test_a_staged_installation_names_no_path_of_the_build(stage: Path) -> None:
    for path in map(stage.joinpath, files(stage)):
        told = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        assert str(stage).encode() not in told, path
        assert str(CHECKOUT).encode() not in told, path


def test_a_staged_installation_runs_as_itself(stage: Path) -> None:
    python = stage / "usr/lib/lazyd/venv/bin/python3"
    where = [str(python), "-I", "-c", "import lazyd, lazyctl.main, click, msgspec, psutil, rich; print(lazyd.__file__)"]
    shown = subprocess.run(where, capture_output=True, text=True, check=True, cwd="/")
    assert shown.stdout.startswith(str(stage))


def test_units_and_commands_name_the_prefix(stage: Path) -> None:
    assert "usr/lib/systemd/system/lazyd.service" in files(stage)
    assert "ExecStart=/usr/bin/lazyd " in (stage / "usr/lib/systemd/system/lazyd.service").read_text()
    for command in ("lazyd", "lazyctl"):
        assert (stage / "usr/bin" / command).read_text().startswith("#!/usr/lib/lazyd/venv/bin/python3 -I\n")


def test_anybody_may_read_and_run_what_is_installed(stage: Path) -> None:
    for path in map(stage.joinpath, files(stage)):
        if not path.is_symlink():
            assert path.stat().st_mode & 0o444 == 0o444, path
    assert os.access(stage / "usr/bin/lazyctl", os.X_OK)


def test_tools_for_development_are_not_installed(stage: Path) -> None:
    assert not [name for name in files(stage) if "/site-packages/pytest" in name or "/site-packages/mypy" in name]


def test_another_installation_keeps_the_configuration(stage: Path) -> None:
    configuration = stage / "etc/lazyd/lazyd.toml"
    configuration.write_text("# mine\n")
    make("install-configuration", stage, prefix="/usr")
    assert configuration.read_text() == "# mine\n"


def test_uninstall_removes_what_was_installed_and_leaves_the_rest(tmp_path: Path) -> None:
    others = ["usr/local/bin/other", "usr/local/lib/systemd/system/other.service", "var/lib/lazyd/pins.json"]
    for other in map(tmp_path.joinpath, others):
        other.parent.mkdir(parents=True)
        other.write_text("")
    make("install", tmp_path)
    make("uninstall", tmp_path)
    assert files(tmp_path) == {*others, "etc/lazyd/lazyd.toml"}
    empty = [path for path, directories, names in os.walk(tmp_path / "usr") if not directories and not names]
    assert empty == [str(tmp_path / "usr/local/share/doc")]


def test_a_prefix_that_systemd_does_not_search_has_its_units_in_etc(tmp_path: Path) -> None:
    make("install-units", tmp_path, prefix="/opt/lazyd")
    assert {"etc/systemd/system/lazyd.socket", "etc/sysusers.d/lazyd.conf"} <= files(tmp_path)


def test_uninstall_stops_a_running_lazyd_and_leaves_configuration_state_and_users(machine: Machine) -> None:
    units = Units(machine)
    units.systemctl("enable", "--now", MANAGER)
    machine.run("lazyctl", "status")
    pins = f"{units.state_directory}/pins.json"
    machine.run("touch", pins)
    machine.run("make", "-C", str(CHECKOUT), "uninstall")
    try:
        units.nothing_left()
        assert units.show(MANAGER, "LoadState") == "not-found"
        assert machine.answer("pgrep", "--uid", "lazyd,lazyd-worker") == ""
        left = ["/usr/local", "/etc/systemd", "/etc/lazyd", units.state_directory]
        named = machine.answer(
            "find", *left, "(", "-name", "*lazyd*", "-o", "-name", "*lazyctl*", ")", "-not", "-type", "d"
        )
        assert named == units.configuration
        machine.run("test", "-e", pins)
    finally:
        machine.run("make", "-C", str(CHECKOUT), "install")
        machine.run("rm", pins)
