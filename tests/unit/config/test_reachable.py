"""Files that a configuration names: an error for who checks or reloads, none at a start."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyd import config
from lazyd.config import Files, reachable
from lazyd.core.spec import Config, ModelSpec

from .conftest import Write


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A directory, and the rights of somebody who is not root."""
    with tempfile.TemporaryDirectory() as name:
        root = os.geteuid() == 0
        if root:
            os.chown(name, 65534, -1)
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)
            os.chmod(os.path.join(name, "closed"), 0o700)


def problems(files: Files) -> list[str]:
    return [f"{problem.key}: {problem.what}; {problem.remedy}" for problem in config.load(files).problems]


def model(**keys: str) -> str:
    more = "".join(f"{name} = {value}\n" for name, value in keys.items())
    return f'[models.m]\nruntime = "python"\nfactory = "m:f"\n{more}'


def test_a_missing_model_is_told_the_nearest_file(write: Write, tmp_path: Path) -> None:
    (tmp_path / "gemma-q4.gguf").touch()
    assert problems(write('[models.m]\nruntime = "llama_cpp"\npath = "gema-q4.gguf"\n')) == [
        f'models.m.path: "{tmp_path}/gema-q4.gguf" cannot be read: No such file or directory; '
        "did you mean gemma-q4.gguf?"
    ]


def test_a_directory_is_no_gguf(write: Write) -> None:
    (line,) = problems(write('[models.m]\nruntime = "llama_cpp"\npath = "."\n'))
    assert "is a directory" in line


@pytest.mark.parametrize("key", ["env_file", "python", "path"])
def test_each_path_is_looked_at(write: Write, key: str) -> None:
    (line,) = problems(write(model(**{key: '"./gone/x"'})))
    assert line.startswith(f"models.m.{key}: ")
    assert "its directory is not there either" in line


def test_directories_for_python_are_looked_at_one_by_one(write: Write, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (line,) = problems(write(model(python_path='["lib", "lib2"]')))
    assert line.startswith(f'models.m.python_path: "{tmp_path}/lib2" cannot be read')


def test_an_interpreter_must_be_executable(write: Write, tmp_path: Path) -> None:
    (tmp_path / "python").touch()
    (line,) = problems(write(model(python='"./python"')))
    assert "cannot be executed" in line


def test_what_may_not_be_read_is_told_apart_from_what_is_missing(ordinary_user: Path) -> None:
    (ordinary_user / "secret.env").touch(mode=0)
    (ordinary_user / "closed").mkdir(mode=0)
    told: list[str] = []
    models = {
        name: ModelSpec(name=name, runtime="python", env_file=str(ordinary_user / file))
        for name, file in (("a", "secret.env"), ("b", "closed/x.env"))
    }
    reachable.check(Config(models=models), lambda key, what, remedy: told.append(f"{key[1]} {what[-17:]}; {remedy}"))
    assert told == [
        "a Permission denied; let lazyd's user read it",
        "b Permission denied; let lazyd's user into its directory",
    ]


def test_a_fifo_is_not_a_file_and_nothing_waits_for_it(write: Write, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (line,) = problems(write(model(env_file='"pipe"')))
    assert "is not a file" in line


def test_at_a_start_a_missing_model_keeps_nothing_cold(write: Write, tmp_path: Path) -> None:
    loaded = config.load_for_start(write(model(path='"gone.bin"')), str(tmp_path / "state"))
    assert loaded.config is not None
    assert loaded.problems == ()
    assert ["gone.bin" in str(told) for told in loaded.unreadable] == [True]
