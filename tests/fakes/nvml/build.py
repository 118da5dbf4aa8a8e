"""Compiles the stand-in driver: ``python tests/fakes/nvml/build.py``, or `library` from a test."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build" / "fakes"
NVML = BUILD / "libnvidia-ml.so.1"
CUDA = BUILD / "cuda" / "libcuda.so.1"
"""In a folder of its own: libraries of models would find it beside the other one."""
SOURCES = {NVML: ("nvml.c", "state.c"), CUDA: ("cuda.c", "state.c")}
REMEDY = "make setup, or sudo apt-get install gcc libc6-dev"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread")


def library(which: Path = NVML) -> Path:
    """The path of `NVML` or `CUDA`, which is compiled first if it is missing or older than its sources.

    Raises:
        FileNotFoundError: there is no gcc.
        subprocess.CalledProcessError: it refused.
    """
    sources = [HERE / name for name in SOURCES[which]]
    newest = max(file.stat().st_mtime for file in (*sources, HERE / "state.h"))
    if which.exists() and which.stat().st_mtime >= newest:
        return which
    which.parent.mkdir(parents=True, exist_ok=True)
    # Moved into place whole: several tests may compile it at once, and one may use it already.
    handle, new = tempfile.mkstemp(dir=str(which.parent), suffix=".so")
    os.close(handle)
    try:
        compile_(new, which.name, sources)
        os.chmod(new, 0o755)
        os.replace(new, which)
    except BaseException:
        os.unlink(new)
        raise
    return which


def compile_(to: str, name: str, sources: list[Path]) -> None:
    """Raises as `library` does."""
    try:
        subprocess.run(["gcc", *FLAGS, f"-Wl,-soname,{name}", "-o", to, *map(str, sources)], check=True)
    except FileNotFoundError:
        raise FileNotFoundError("gcc compiles the stand-in driver and is not installed: " + REMEDY) from None


def main() -> int:
    try:
        for each in SOURCES:
            library(each)
    except FileNotFoundError as missing:
        print(f"fakes: {missing}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        print(f"fakes: gcc did not compile the stand-in driver; if a header is missing: {REMEDY}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
