"""The accepted configuration in the state directory: quick, and there when the files are wrong."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from lazyd import config
from lazyd.config import Files, Loaded, Origin, accepted
from lazyd.places import accepted_config

from .conftest import Write, let_settle

GOOD = '[models.m]\nruntime = "python"\nfactory = "m:f"\nenv = {KEY = "secret"}\noptions = {pin = 1}\n'
WRONG = "[models.m]\nruntime = 'pyton'\n"


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def start(files: Files, state: str) -> Loaded:
    """As the manager does it."""
    loaded = config.load_for_start(files, state)
    assert config.accept(loaded, state) is None
    return loaded


def started_once(write: Write, state: str) -> Files:
    files = write(GOOD)
    let_settle(files)
    assert start(files, state).origin is Origin.FILES
    return files


def test_unchanged_files_are_not_read_again(write: Write, state: str) -> None:
    files = started_once(write, state)
    again = start(files, state)
    assert again.origin is Origin.UNCHANGED
    assert again.from_quick
    first = config.load(files, paths_must_exist=False)
    assert (again.config, again.warnings) == (first.config, first.warnings)
    assert again.warnings, "a warning does not get lost on the quick way"


def test_a_start_from_the_quick_form_imports_no_toml(write: Write, state: str) -> None:
    files = started_once(write, state)
    code = (
        "import sys; from lazyd import config; "
        f"loaded = config.load_for_start(config.find({files.paths[0]!r}), {state!r}); "
        "print(loaded.origin.name, *(m for m in ('tomllib', 'difflib', 'lazyd.config.keys') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["UNCHANGED"]


def test_a_changed_file_is_read_even_with_the_old_time_and_size(write: Write, state: str) -> None:
    files = started_once(write, state)
    path = files.paths[0]
    before = os.stat(path)
    Path(path).write_text(GOOD.replace("m:f", "m:g"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_size == before.st_size
    loaded = start(files, state)
    assert loaded.config is not None
    assert loaded.config.models["m"].factory == "m:g"


def test_a_file_written_just_now_is_read_again_at_the_next_start(write: Write, state: str) -> None:
    files = write(GOOD)
    future = os.stat(files.paths[0]).st_ctime_ns

    def same_instant() -> int:
        return future

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lazyd.config.files.time.time_ns", same_instant)
        start(files, state)
    let_settle(files)
    assert start(files, state).origin is Origin.FILES, "it might have changed within the same tick"
    assert start(files, state).origin is Origin.UNCHANGED


@pytest.mark.parametrize("change", ["added", "removed", "replaced"])
def test_another_set_of_files_is_read(write: Write, state: str, change: str) -> None:
    files = write(GOOD, "")
    let_settle(files)
    start(files, state)
    other = write(GOOD, "", "") if change == "added" else files
    if change == "removed":
        other = Files(paths=files.paths[:1])
    if change == "replaced":
        os.rename(files.paths[1], files.paths[1] + ".old")
        os.link(files.paths[1] + ".old", files.paths[1])
        os.rename(files.paths[0], files.paths[0] + "x")
        Path(files.paths[0]).write_text(GOOD)
    let_settle(other)
    assert start(other, state).origin is Origin.FILES


def test_another_version_of_lazyd_reads_the_files_anew(
    write: Write, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = started_once(write, state)
    monkeypatch.setattr("lazyd.__version__", "99")
    assert start(files, state).origin is Origin.FILES
    assert start(files, state).origin is Origin.UNCHANGED


def test_wrong_files_at_a_start_leave_the_last_accepted_one_in_force(write: Write, state: str) -> None:
    started_once(write, state)
    good = config.load(write(GOOD)).config
    files = write(WRONG)
    for _ in range(2):
        loaded = start(files, state)
        assert loaded.origin is Origin.LAST_ACCEPTED
        assert loaded.config == good
        assert ["did you mean python?" in str(problem) for problem in loaded.problems] == [True]


def test_wrong_files_at_the_first_start_leave_nothing(write: Write, state: str) -> None:
    loaded = config.load_for_start(write(WRONG), state)
    assert loaded.config is None
    assert loaded.problems
    assert not os.path.exists(accepted_config(state))


def test_files_that_have_vanished_do_not_make_everything_cold(write: Write, state: str) -> None:
    started_once(write, state)
    loaded = start(Files(), state)
    assert loaded.origin is Origin.LAST_ACCEPTED
    assert loaded.config is not None
    assert list(loaded.config.models) == ["m"]
    assert "where there was one before" in str(loaded.problems[0])


def test_an_empty_file_means_no_models(write: Write, state: str) -> None:
    started_once(write, state)
    loaded = start(write(""), state)
    assert loaded.config is not None
    assert loaded.config.models == {}


def test_no_files_and_none_before_is_a_start_without_models(state: str) -> None:
    assert start(Files(), state).problems == ()
    assert start(Files(), state).problems == ()


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "garbage", "a directory"])
def test_a_damaged_quick_form_counts_as_absent(write: Write, state: str, damage: str) -> None:
    files = started_once(write, state)
    path = Path(accepted_config(state))
    whole = path.read_bytes()
    if damage == "a directory":
        path.unlink()
        path.mkdir()
        (path / "in the way").touch()
    else:
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        path.write_bytes({"empty": b"", "cut": whole[:-1], "flipped": flipped, "garbage": b"\xc1" * 100}[damage])
    assert config.load_for_start(files, state).origin is Origin.FILES
    assert config.load_for_start(write(WRONG), state).config is None


def test_a_quick_form_of_another_schema_counts_as_absent(
    write: Write, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = started_once(write, state)
    monkeypatch.setattr(accepted, "SCHEMA", accepted.SCHEMA + 1)
    assert config.load_for_start(files, state).origin is Origin.FILES


def test_a_quick_form_with_a_field_that_has_gone_counts_as_absent(
    write: Write, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = started_once(write, state)
    monkeypatch.setattr(accepted, "FIELDS", (*accepted.FIELDS, "ModelSpec.new"))
    assert config.load_for_start(files, state).origin is Origin.FILES, "they may say something of a new field"
    assert config.load_for_start(write(WRONG), state).origin is Origin.LAST_ACCEPTED, "a new field has its default"
    files = started_once(write, state)
    monkeypatch.setattr(accepted, "FIELDS", tuple(name for name in accepted.FIELDS if name != "ModelSpec.path"))
    assert config.load_for_start(files, state).origin is Origin.FILES


def test_a_spec_that_no_longer_fits_counts_as_absent(write: Write, state: str) -> None:
    files = started_once(write, state)
    kept = accepted.read(state)
    assert kept is not None
    stored = msgspec.structs.replace(kept._stored, config=msgspec.Raw(msgspec.msgpack.encode({"models": 3})))
    body = msgspec.msgpack.encode(stored)
    Path(accepted_config(state)).write_bytes(zlib.crc32(body).to_bytes(4, "little") + body)
    assert start(files, state).origin is Origin.FILES


@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_a_full_disk_is_a_warning_and_keeps_the_older_one(
    write: Write, state: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    started_once(write, state)
    before = Path(accepted_config(state)).read_bytes()

    def full(*_arguments: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"os.{step}", full)
    loaded = config.load_for_start(write(GOOD.replace("m:f", "m:g")), state)
    warning = config.accept(loaded, state)
    assert warning is not None
    assert "could not be kept: No space left on device; make room" in str(warning)
    assert Path(accepted_config(state)).read_bytes() == before
    assert os.listdir(state) == ["accepted.msgpack"], "nothing half-written stays"


def test_a_full_disk_for_real(write: Write) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    loaded = config.load(write(GOOD))
    warning = config.accept(loaded, "/dev/full/state")
    assert warning is not None
    assert "could not be kept: Not a directory" in str(warning)


def test_a_wrong_configuration_is_never_kept(write: Write, state: str) -> None:
    assert config.accept(config.load(write(WRONG)), state) is None
    assert not os.path.exists(state)


def test_only_its_owner_may_read_it(write: Write, state: str) -> None:
    started_once(write, state)
    path = accepted_config(state)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o700
    assert b"secret" in Path(path).read_bytes(), "that is why"
