"""What somebody with a fresh clone relies on."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib

import pytest

from .tree import ROOT

PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$")


def make(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"
    }
    return subprocess.run(["make", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def pins(name: str) -> dict[str, str]:
    """The releases that a file of requirements/ pins, by normalised name."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    found = [PIN.match(line) for line in lines if line and not line.startswith("#")]
    assert all(found), f"requirements/{name}: every line must pin one release"
    return {normal(match[1]): match[2] for match in found if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_first_two_commands_of_the_readme_are_demo_and_test() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    commands = [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]
    assert commands[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("target", ["setup", "demo", "test", "bench", "install", "uninstall"])
def test_target_exists(target: str) -> None:
    shown = make("--dry-run", target)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize("target", ["demo", "test", "bench"])
def test_target_sets_itself_up(target: str) -> None:
    assert "scripts/setup/all" in make("--dry-run", target).stdout


def test_make_alone_lists_the_targets() -> None:
    listed = make().stdout
    for target in ("setup", "demo", "test", "bench"):
        assert f"make {target}" in listed


def test_ci_runs_what_a_person_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "exec make test" in script.read_text()


def test_pinned_packages_are_those_that_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pinned = pins("dev.txt") | pins("llama.txt")
    asked = [*project["dependencies"], *extras["dev"], *extras["llama"]]
    for requirement in asked:
        name = re.split(r"[<>=!~ ;\[]", requirement)[0]
        assert normal(name) in pinned, f"{name} is not pinned"


def test_builder_is_the_pinned_one() -> None:
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert system["requires"] == [f"hatchling=={pins('build.txt')['hatchling']}"]


def test_nothing_of_the_set_up_names_a_host() -> None:
    files = [
        ROOT / "Makefile",
        ROOT / ".ci" / "run",
        *(ROOT / "requirements").iterdir(),
        *(ROOT / "scripts").rglob("*"),
    ]
    for path in files:
        if path.is_file() and path.suffix != ".pyc":
            assert not re.search(r"://|\.(org|com|io)\b", path.read_text()), path


def test_changelog_has_the_version_that_the_package_says() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    assert f'__version__ = "{version}"' in (ROOT / "daemon" / "lazyd" / "__init__.py").read_text()
