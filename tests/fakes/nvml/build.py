"""Compiles the stand-in driver: ``python tests/fakes/nvml/build.py``, or `library` from a test."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parents[2] / "build" / "fakes" / "libnvidia-ml.so.1"
SOURCES = ("nvml.c", "state.c", "state.h")
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread")


def library() -> Path:
    """The library's path; it is compiled first if it is missing or older than its sources.

    Raises:
        subprocess.CalledProcessError: the compiler refused, or is not there (FileNotFoundError).
    """
    newest = max((HERE / name).stat().st_mtime for name in SOURCES)
    if LIBRARY.exists() and LIBRARY.stat().st_mtime >= newest:
        return LIBRARY
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    # Moved into place whole: several tests may compile it at once, and one may use it already.
    handle, new = tempfile.mkstemp(dir=str(LIBRARY.parent), suffix=".so")
    os.close(handle)
    try:
        files = [str(HERE / name) for name in SOURCES if name.endswith(".c")]
        subprocess.run(["gcc", *FLAGS, f"-Wl,-soname,{LIBRARY.name}", "-o", new, *files], check=True)
        os.chmod(new, 0o755)
        os.replace(new, LIBRARY)
    except BaseException:
        os.unlink(new)
        raise
    return LIBRARY


if __name__ == "__main__":
    print(library())
    sys.exit(0)
