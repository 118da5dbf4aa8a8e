"""Makes the environment of an installed lazyd: an interpreter, lazyd, and what they need, nothing else.

    .venv/bin/python scripts/install/environment.py [--python EXE] [--root DESTDIR] /usr/local/lib/lazyd/venv

The packages are those of the environment that runs this, file by file: what was tested is what is installed,
nothing is fetched, and nothing (llama-cpp-python) compiled twice. Each of lazyd's extras comes along if it is
complete there, `dev` aside. With --root the files go below that directory and name no path of it.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
LEFT_OUT = {"direct_url.json", "REQUESTED"}
"""What an installer writes about where a package came from."""


def main() -> None:
    """Makes the environment beside its place and moves it there, so that a running lazyd always has one."""
    parser = argparse.ArgumentParser(description="Makes the environment of an installed lazyd.")
    parser.add_argument("--python", default="", help="the interpreter it is to run on")
    parser.add_argument("--root", default="", help="the directory to stage the files below")
    parser.add_argument("place", type=Path, help="where the environment will be used")
    arguments = parser.parse_args()
    place: Path = arguments.place
    if not place.is_absolute():
        sys.exit(f"{place} is not an absolute path; give PREFIX one that starts with /")
    python = interpreter(arguments.python)
    final = Path(arguments.root) / place.relative_to("/") if arguments.root else place
    target = final.with_name(f"{final.name}.new")
    shutil.rmtree(target, ignore_errors=True)
    packages = target / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (target / "bin").mkdir()
    (target / "bin" / "python3").symlink_to(python)
    version = ".".join(map(str, sys.version_info[:3]))
    (target / "pyvenv.cfg").write_text(
        f"home = {python.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    for needed in closure("lazyd"):
        copy(needed, packages)
    unpack_lazyd(packages)
    compileall.compile_dir(packages, quiet=2, workers=0, stripdir=str(target), prependdir=str(place))
    replace(final, target)


def replace(final: Path, target: Path) -> None:
    """Puts `target` in the place of `final`, and removes what was there."""
    old = final.with_name(f"{final.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    target.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def interpreter(asked: str) -> Path:
    """The interpreter to use: of this one's version, and one that users other than its owner may run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = Path(sys.base_prefix) / "bin" / name
    candidates = [Path(asked)] if asked else [own, Path("/usr/bin") / name, Path("/usr/local/bin") / name]
    for candidate in candidates:
        if candidate.is_absolute() and candidate.exists() and open_to_all(candidate) and is_version(candidate):
            return candidate
    sys.exit(
        f"no {name} found that other users may run (tried {', '.join(map(str, candidates))}): "
        f"install {name}, or name one with PYTHON="
    )


def open_to_all(path: Path) -> bool:
    """Whether any user may execute `path`: each directory on the way, and the file that it leads to."""
    real = path.resolve()
    return all(each.stat().st_mode & 0o001 for each in (path, *path.absolute().parents, real, *real.parents))


def is_version(candidate: Path) -> bool:
    """Whether compiled packages of this interpreter fit `candidate`."""
    tag = "import sys; print(sys.implementation.cache_tag)"
    answer = subprocess.run([candidate, "-I", "-c", tag], capture_output=True, text=True, check=False)
    return answer.stdout.strip() == sys.implementation.cache_tag


def closure(root: str) -> list[Distribution]:
    """What `root` and its installed extras need, directly or not, without `root` itself."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(f"{root}[{','.join(complete_extras(root))}]")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        found[key[0]] = distribution(wanted.name)
        waiting.extend(requirements(found[key[0]], wanted.extras))
    del found[canonicalize_name(root)]
    return list(found.values())


def requirements(of: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """The requirements of `of` that apply here, with these extras."""
    for line in of.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield requirement


def complete_extras(root: str) -> list[str]:
    """The extras of `root` of which everything is installed here; `dev` is not for a running system."""
    named = distribution(root).metadata.get_all("Provides-Extra") or []
    return [extra for extra in named if extra != "dev" and complete(root, extra)]


def complete(root: str, extra: str) -> bool:
    """Whether all that `extra` of `root` names is installed."""
    try:
        for requirement in requirements(distribution(root), {extra}):
            distribution(requirement.name)
    except PackageNotFoundError:
        return False
    return True


def copy(package: Distribution, packages: Path) -> None:
    """Copies a package's files, apart from its commands, and its record without what was left out."""
    source = Path(str(package.locate_file("")))
    for file in package.files or ():
        if file.parts[0] == ".." or file.name in LEFT_OUT or file.suffix == ".pyc":
            continue
        destination = packages / file
        destination.parent.mkdir(parents=True, exist_ok=True)
        if file.name == "RECORD":
            lines = (source / file).read_text().splitlines(keepends=True)
            destination.write_text("".join(line for line in lines if is_kept(line.split(",")[0])))
        else:
            shutil.copy2(source / file, destination)


def is_kept(recorded: str) -> bool:
    """Whether a file that a record names has been copied."""
    path = Path(recorded)
    return path.parts[0] != ".." and path.name not in LEFT_OUT and path.suffix != ".pyc"


def unpack_lazyd(packages: Path) -> None:
    """Builds lazyd as it would be published, and unpacks that."""
    with tempfile.TemporaryDirectory() as built:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built]
        subprocess.run(build, cwd=CHECKOUT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (wheel,) = Path(built).iterdir()
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)


if __name__ == "__main__":
    os.umask(0o022)
    main()
