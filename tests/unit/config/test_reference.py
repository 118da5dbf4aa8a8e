"""The commented configuration, the examples and the page are held to the table of keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lazyd import config
from lazyd.config import Files, keys, reference
from lazyd.config.keys import Group, Key
from lazyd.core.services import Ready, Stop
from lazyd.core.spec import Config, Fallback, ModelSpec, Prewarm, Settings, Warmup

ROOT = Path(__file__).parents[3]
COMMENTED = ROOT / "etc/lazyd.toml"
ALL_KEYS = keys.DAEMON + keys.BUDGET + keys.MODEL


def groups(table: tuple[Key, ...]) -> list[Group]:
    """The tables inside a table, and those inside them."""
    found = [key.kind for key in table if isinstance(key.kind, Group)]
    return found + [inner for group in found for inner in groups(group.keys)]


INNER = [key for group in groups(keys.MODEL) for key in group.keys]
STRUCTS = {"warmup": Warmup(), "prewarm": Prewarm(), "fallback": Fallback(model="m"), "ready": Ready(), "stop": Stop()}


def accepted(path: Path) -> Config:
    loaded = config.load(Files(paths=(str(path),)), paths_must_exist=False)
    assert [str(told) for told in (*loaded.problems, *loaded.warnings)] == []
    assert loaded.config is not None
    return loaded.config


def test_the_commented_configuration_is_the_one_that_the_table_writes() -> None:
    assert COMMENTED.read_text() == reference.toml(), "python -m lazyd.config.reference toml > etc/lazyd.toml"


def test_the_commented_configuration_changes_nothing() -> None:
    assert accepted(COMMENTED) == Config()


def test_the_commented_configuration_names_every_key() -> None:
    text = COMMENTED.read_text()
    missing = [
        key.name
        for key in (*ALL_KEYS, *INNER)
        if not re.search(
            rf"^#(( Not built yet: | Or: )?{key.written} = |\[models.(?:gemma|comfyui)\.(\w+\.)?{key.name}\]$)",
            text,
            re.M,
        )
    ]
    assert missing == []


def test_every_commented_key_is_accepted_once_uncommented(tmp_path: Path) -> None:
    path = tmp_path / "lazyd.toml"
    path.write_text(re.sub(r"^#(?=\S)", "", COMMENTED.read_text(), flags=re.M))
    every = accepted(path)
    assert sorted(every.models) == ["comfyui", "gemma", "gemma-small", "strategy/*"]
    assert every.aliases == {"reader": "gemma", "writer": "gemma"}
    one_gpu = Settings(budget={**Settings().budget, "gpu0": 20 << 30})
    assert every.settings == one_gpu, "but for a GPU's budget, the values shown are the defaults"


def test_defaults_of_the_table_are_those_of_the_spec() -> None:
    model = ModelSpec(name="m", runtime="python")
    for key in (key for key in ALL_KEYS if key.kind is not None and key.default is not None):
        if key in keys.MODEL or key.target in ("idle_timeout_s", "load_timeout_s"):
            held = getattr(model, key.target)
        else:
            held = Settings().budget["ram"] if key.name == "ram" else getattr(Settings(), key.target)
        assert key.kind is not None
        assert key.default == written(key.kind.show(held)), key.name


def written(shown: object) -> str:
    if isinstance(shown, bool):
        return str(shown).lower()
    return f'"{shown}"' if isinstance(shown, str) else str(shown)


@pytest.mark.parametrize("name", STRUCTS)
def test_defaults_of_a_table_inside_are_those_of_its_struct(name: str) -> None:
    (group,) = (key.kind for key in keys.MODEL if key.name == name)
    assert isinstance(group, Group)
    assert {key.target for key in group.keys} == set(STRUCTS[name].__struct_fields__)
    defaults = [key for key in group.keys if key.default is not None]
    assert defaults
    for key in defaults:
        assert key.kind is not None
        assert key.default == written(key.kind.show(getattr(STRUCTS[name], key.target))), key.name


def test_every_key_of_a_table_inside_is_built() -> None:
    assert [key.name for key in INNER if not key.built] == []


def test_every_built_key_is_a_field_that_exists() -> None:
    for key in keys.MODEL:
        assert not key.built or key.target in ModelSpec.__struct_fields__, key.name
    for key in keys.DAEMON + keys.BUDGET:
        places = (*Settings.__struct_fields__, "ram", keys.EACH_GPU, "idle_timeout_s", "load_timeout_s")
        assert not key.built or key.target in places, key.name


def test_every_field_of_a_spec_can_be_configured() -> None:
    configured = {key.target for key in keys.MODEL if key.built}
    others = {"name", "version", "source", "found_by", "idle_written", "fetched"}
    assert set(ModelSpec.__struct_fields__) - configured == others


def test_the_page_has_the_tables_of_keys() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    assert reference.markdown().strip() in page, "python -m lazyd.config.reference markdown"


@pytest.mark.parametrize("path", sorted((ROOT / "etc/examples").glob("*.toml")), ids=lambda path: path.name)
def test_examples_are_accepted(path: Path) -> None:
    assert accepted(path).models
