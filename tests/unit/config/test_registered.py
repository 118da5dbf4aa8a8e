"""What clients have registered: kept in the state directory, checked as the files are, never lost."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from lazyd import config
from lazyd.config import Files, Loaded, Origin, loading, registered
from lazyd.config.whole_paths import with_whole_paths
from lazyd.core.spec import REGISTERED, Config
from lazyd.places import registered_file

from .conftest import Write, let_settle

SPEC = {"runtime": "python", "factory": "m:f", "env": {"KEY": "secret"}, "options": {"n": 1}}
FILE = '[models.m]\nruntime = "python"\nfactory = "m:f"\n'


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def start(files: Files, state: str) -> Loaded:
    loaded = config.load_for_start(files, state)
    assert config.accept(loaded, state) is None
    return loaded


def keys_of(loaded: Loaded) -> dict[str, str]:
    assert loaded.config is not None
    return {key: os.path.basename(spec.source) for key, spec in loaded.config.models.items()}


def test_what_is_registered_stands_beside_what_the_files_describe(write: Write, state: str) -> None:
    registered.write(state, {"r": SPEC})
    assert keys_of(start(write(FILE), state)) == {"m": "0.toml", "r": REGISTERED}


def test_the_file_is_its_owners_alone(state: str) -> None:
    registered.write(state, {"r": SPEC})
    assert stat.S_IMODE(os.stat(registered_file(state)).st_mode) == 0o600
    assert b"secret" in Path(registered_file(state)).read_bytes(), "that is why"


def test_what_is_registered_is_in_the_quick_form_until_it_changes(write: Write, state: str) -> None:
    files = write(FILE)
    let_settle(files)
    for tables in ({"r": SPEC}, {"r": SPEC, "s": SPEC}, {}):
        registered.write(state, tables)
        assert start(files, state).origin is Origin.FILES
        again = start(files, state)
        assert again.origin is Origin.UNCHANGED
        assert keys_of(again).keys() == {"m", *tables}


def test_files_may_name_what_is_registered_and_the_other_way_round(write: Write, state: str) -> None:
    registered.write(state, {"r": {**SPEC, "fallback": {"model": "m"}}})
    files = write(FILE + 'uses = ["r"]\n[aliases]\nother = "r"\n')
    assert start(files, state).problems == ()
    registered.write(state, {})
    told = config.load_again(files, state, Config()).problems
    assert sorted(problem.key for problem in told) == ["aliases.other", "models.m.uses"]


def test_a_name_that_a_file_describes_too_refuses_a_reload_and_names_both(write: Write, state: str) -> None:
    registered.write(state, {"m": SPEC})
    files = write(FILE)
    loaded = loading.load(files, registered.read(state))
    assert loaded.config is None
    (problem,) = loaded.problems
    assert str(problem) == (
        f"{files.paths[0]}:1: models.m: registered by a client, and described here too; "
        "leave one: take it out of the file, or 'lazyctl remove m'"
    )


def test_at_a_start_the_file_wins_and_what_is_registered_comes_back_when_it_is_gone(write: Write, state: str) -> None:
    registered.write(state, {"m": SPEC})
    loaded = start(write(FILE), state)
    assert keys_of(loaded) == {"m": "0.toml"}
    assert "registered by a client" in str(loaded.warnings[0])
    assert keys_of(start(write(""), state)) == {"m": REGISTERED}


def test_at_a_start_what_is_registered_and_wrong_is_left_out_and_told(write: Write, state: str) -> None:
    wrong = {"w": {**SPEC, "fallback": {"model": "gone"}}, "v": {"runtime": "python"}, "r": SPEC}
    registered.write(state, wrong)
    files = write(FILE)
    loaded = start(files, state)
    assert keys_of(loaded) == {"m": "0.toml", "r": REGISTERED}
    assert sorted(problem.key for problem in loaded.warnings) == ["models.v.factory", "models.w.fallback.model"]
    assert {problem.file for problem in loaded.warnings} == {REGISTERED}
    assert registered.read(state).tables == wrong, "it stays registered"
    assert loading.load(files, registered.read(state)).config is None, "who reloads is there to put it right"


def test_a_file_that_is_gone_is_the_models_own_problem(write: Write, state: str) -> None:
    registered.write(state, {"r": {"runtime": "llama_cpp", "path": "/not/there.gguf"}})
    for loaded in (start(write(FILE), state), loading.load(write(FILE), registered.read(state))):
        assert keys_of(loaded).keys() == {"m", "r"}
        assert [problem.key for problem in loaded.unreadable] == ["models.r.path"]


@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"crc32": 1, "models": {}}', b"\xff" * 9, b"[]"])
def test_a_damaged_file_is_told_and_kept_aside_and_what_was_accepted_stands_in(
    write: Write, state: str, damage: bytes | None
) -> None:
    registered.write(state, {"r": SPEC})
    start(write(FILE), state)
    path = Path(registered_file(state))
    if damage is None:
        damage = path.read_bytes().replace(b'"n":1', b'"n":2')
    path.write_bytes(damage)
    loaded = start(write(FILE), state)
    assert loaded.config is not None
    assert loaded.config.models["r"].options == {"n": 1}
    assert loaded.config.models["r"].env == {"KEY": "secret"}
    (warning,) = loaded.warnings
    aside = re.search(r"set aside as (\S+): what was accepted last stands in for it", str(warning))
    assert aside is not None
    assert path.with_name(aside[1]).read_bytes() == damage
    again = start(write(FILE), state)
    assert keys_of(again).keys() == {"m", "r"}, "and is kept anew"


def test_a_damaged_file_without_anything_accepted_leaves_the_rest(write: Write, state: str) -> None:
    registered.write(state, {})
    Path(registered_file(state)).write_bytes(b"nonsense")
    loaded = start(write(FILE), state)
    assert keys_of(loaded) == {"m": "0.toml"}
    assert "what clients have registered is lost" in str(loaded.warnings[0])


def test_a_check_reads_what_is_registered_and_repairs_nothing(write: Write, state: str) -> None:
    files = write(FILE + 'uses = ["r"]\n')
    assert config.check(files, state)[1] == 1
    registered.write(state, {"r": SPEC})
    assert config.check(files, state) == ([f"ok: 2 models ({files.paths[0]})"], 0)
    Path(registered_file(state)).write_bytes(b"nonsense")
    lines, status = config.check(files, state)
    assert status == 1
    assert any("damaged" in line for line in lines)
    assert os.listdir(state) == ["registered.json"]


def test_a_layout_cannot_be_registered_and_a_path_is_a_whole_one(write: Write, state: str) -> None:
    registered.write(
        state,
        {
            "a": {"runtime": "llama_cpp", "path": "/x/${version}/m.gguf"},
            "b": {"runtime": "llama_cpp", "path": "m.gguf"},
        },
    )
    assert [problem.what for problem in loading.load(write(""), registered.read(state)).problems] == [
        "${version} can stand in a configuration file only",
        '"m.gguf" starts from no directory',
    ]


def test_paths_are_made_whole_for_another_place() -> None:
    table = {
        "path": "m.gguf",
        "python_path": ["src", "/abs"],
        "env_file": 3,
        "options": {"path": "m.gguf"},
        "warmup": {"args": [{"file": "page.npy"}, "page.npy"]},
    }
    assert with_whole_paths(table, "/here") == {
        "path": "/here/m.gguf",
        "python_path": ["/here/src", "/abs"],
        "env_file": 3,
        "options": {"path": "m.gguf"},
        "warmup": {"args": [{"file": "/here/page.npy"}, "page.npy"]},
    }
    assert table["path"] == "m.gguf"
