"""What a right configuration becomes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lazyd import config
from lazyd.config import Files, Loaded
from lazyd.core.spec import MIB, Config, ModelSpec, Settings, Split, Tier

from .conftest import Write

Accepted = Callable[..., Config]

GEMMA = '[models.gemma]\nruntime = "llama_cpp"\npath = "/models/gemma.gguf"\n'


def test_nothing_but_defaults_in_an_empty_file(accepted: Accepted) -> None:
    assert accepted("") == Config()


def test_the_daemons_settings(accepted: Accepted) -> None:
    text = """
        [daemon]
        first_call_timeout = "never"
        linger = "1min"
        max_zygotes = 0
        [budget]
        ram = "20GiB"
        max_pinned = "50%"
        max_hold = "30s"
    """
    assert accepted(text).settings == Settings(
        first_call_timeout_s=None,
        linger_s=60,
        max_zygotes=0,
        budget={"ram": 20 * 1024 * MIB},
        max_pinned=0.5,
        max_hold_s=30,
    )


def test_every_key_of_a_model(accepted: Accepted, tmp_path: Path) -> None:
    text = """
        [models."a/b:3"]
        runtime = "python"
        factory = "pack.module:Class.make"
        path = "/data/weights"
        tier = "resident"
        idle_timeout = "never"
        load_timeout = "30s"
        device = "ram"
        memory = "700MiB"
        pin = true
        min_residency = "5s"
        max_wait = "500ms"
        idempotent = ["run"]
        env = {OMP_NUM_THREADS = "2"}
        env_file = "/etc/secret.env"
        python = "/opt/venv/bin/python"
        python_path = ["/opt/a", "/opt/b"]
        [models."a/b:3".options]
        deep = {list = [1, 2.5, true, "x"]}
    """
    assert accepted(text).models == {
        "a/b:3": ModelSpec(
            name="a/b",
            version="3",
            runtime="python",
            factory="pack.module:Class.make",
            path="/data/weights",
            tier=Tier.RESIDENT,
            idle_timeout_s=None,
            idle_written=True,
            load_timeout_s=30,
            device=("ram",),
            memory_bytes=700 * MIB,
            pin=True,
            min_residency_s=5,
            max_wait_s=0.5,
            idempotent=("run",),
            env={"OMP_NUM_THREADS": "2"},
            env_file="/etc/secret.env",
            python="/opt/venv/bin/python",
            python_path=("/opt/a", "/opt/b"),
            options={"deep": {"list": [1, 2.5, True, "x"]}},
            source=str(tmp_path / "0.toml"),
        )
    }


def test_times_of_the_daemon_hold_for_models_that_have_none(accepted: Accepted) -> None:
    models = accepted(
        '[daemon]\nidle_timeout = "1min"\nload_timeout = "3s"\n'
        + GEMMA
        + '[models.b]\nruntime = "python"\nfactory = "m:f"\nidle_timeout = "2min"\n'
    ).models
    assert (models["gemma"].idle_timeout_s, models["gemma"].load_timeout_s) == (60, 3)
    assert (models["b"].idle_timeout_s, models["b"].load_timeout_s) == (120, 3)


def test_a_family(accepted: Accepted) -> None:
    family = accepted('[models."strategy/*"]\nruntime = "python"\nfactory = "m:f"\nmax_loaded = 10\n').models[
        "strategy/*"
    ]
    assert family.is_family
    assert family.max_loaded == 10


@pytest.mark.parametrize("device", ['"auto"', '["auto"]'])
def test_auto_is_any_device(accepted: Accepted, device: str) -> None:
    assert accepted(f"{GEMMA}device = {device}").models["gemma"].device == ()


@pytest.mark.parametrize(
    ("device", "held"),
    [
        ('"gpu"', ("gpu",)),
        ('"gpu1"', ("gpu1",)),
        ('["gpu0", "gpu12"]', ("gpu0", "gpu12")),
        ('["gpu", "ram"]', ("gpu", "ram")),
    ],
)
def test_devices_are_held_as_they_are_named(accepted: Accepted, device: str, held: tuple[str, ...]) -> None:
    assert accepted(f"{GEMMA}device = {device}").models["gemma"].device == held


def test_the_budget_of_each_device(accepted: Accepted) -> None:
    text = '[budget]\ngpu0 = "20GiB"\ngpu1 = "50%"\ngpu_margin = "0B"\nmax_reserved = "10%"\n'
    settings = accepted(text).settings
    assert settings.budget == {"ram": 0.8, "gpu0": 20 << 30, "gpu1": 0.5}
    assert (settings.gpu_margin_bytes, settings.max_reserved) == (0, 0.1)
    assert accepted('[budget]\nram = "1GiB"').settings.budget == {"ram": 1 << 30}


def test_models_beside_it_may_be_named_in_every_way(accepted: Accepted) -> None:
    family = (
        '[models."s/*"]\nruntime = "python"\nfactory = "m:f"\n[models."v:1"]\nruntime = "python"\nfactory = "m:f"\n'
    )
    text = f'{family}[aliases]\nreader = "v:1"\n{GEMMA}beside = ["gemma", "v", "v:1", "s/a", "reader"]'
    assert accepted(text).models["gemma"].beside == ("gemma", "v", "v:1", "s/a", "reader")


def test_a_later_file_overrides_key_by_key(accepted: Accepted, tmp_path: Path) -> None:
    first = GEMMA + 'idle_timeout = "5min"\nidempotent = ["a", "b"]\noptions = {n_ctx = 1, seed = 2}\n'
    second = (
        '[models.gemma]\nidle_timeout = "1min"\nidempotent = ["c"]\noptions = {n_ctx = 3}\n[daemon]\nlinger = "1s"\n'
    )
    both = accepted(first, second)
    assert both.settings.linger_s == 1
    gemma = both.models["gemma"]
    assert gemma.path == "/models/gemma.gguf"
    assert gemma.idle_timeout_s == 60
    assert gemma.idempotent == ("c",)
    assert gemma.options == {"n_ctx": 3, "seed": 2}
    assert gemma.source == str(tmp_path / "0.toml"), "the file that says what it is"


def test_a_relative_path_starts_from_the_file_that_has_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "a.toml").write_text('[models.m]\nruntime = "llama_cpp"\npath = "sub/../m.gguf"\npython_path = ["lib"]\n')
    (two / "b.toml").write_text('[models.m]\nenv_file = "m.env"\n')
    loaded = config.load(Files(paths=(str(one / "a.toml"), str(two / "b.toml"))), paths_must_exist=False)
    assert loaded.config is not None
    spec = loaded.config.models["m"]
    assert (spec.path, spec.env_file) == (str(one / "m.gguf"), str(two / "m.env"))
    assert spec.python_path == (str(one / "lib"),)


def test_a_tilde_is_the_home_of_lazyds_user(accepted: Accepted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    spec = accepted('[models.m]\nruntime = "llama_cpp"\npath = "~/m.gguf"\n').models["m"]
    assert spec.path == "/home/someone/m.gguf"


def test_an_interpreter_that_is_a_link_stays_that_link(accepted: Accepted, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to("/usr/bin/env")
    spec = accepted('[models.m]\nruntime = "python"\nfactory = "m:f"\npython = "./python"\n').models["m"]
    assert spec.python == str(tmp_path / "python")


def test_a_byte_order_mark_does_no_harm(accepted: Accepted) -> None:
    assert "gemma" in accepted("\ufeff" + GEMMA).models


def test_aliases_lead_to_models(accepted: Accepted) -> None:
    aliases = accepted(
        GEMMA
        + '[models."ocr:3"]\nruntime = "python"\nfactory = "m:f"\n'
        + '[models."s/*"]\nruntime = "python"\nfactory = "m:f"\n'
        + '[aliases]\ng = "gemma"\nreader = "ocr:3"\nany = "ocr"\nbest = "s/alpha"\n"ocr:stable" = "reader"\n'
    ).aliases
    assert aliases == {"g": "gemma", "reader": "ocr:3", "any": "ocr", "best": "s/alpha", "ocr:stable": "reader"}


def test_a_key_of_the_model_under_options_is_a_warning(load: Callable[..., Loaded], tmp_path: Path) -> None:
    loaded = load(GEMMA + "[models.gemma.options]\nn_ctx = 1\npin = true\n")
    assert loaded.config is not None
    assert loaded.config.models["gemma"].options == {"n_ctx": 1, "pin": True}
    assert [str(warning) for warning in loaded.warnings] == [
        f"{tmp_path}/0.toml:6: models.gemma.options.pin: a key of the model, given to the runtime here; "
        "if the model's is meant, move it to [models.gemma]"
    ]


def test_config_names_one_file_alone(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(GEMMA)
    monkeypatch.chdir(os.path.dirname(files.paths[0]))
    assert config.find("0.toml", environ={}, uid=0) == files


def test_the_machines_files_are_read_in_name_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazyd.config.files.SYSTEM_CONFIG", str(tmp_path))
    (tmp_path / "lazyd.toml").touch()
    (tmp_path / "lazyd.d").mkdir()
    for name in ("20-b.toml", "10-a.toml", "README", "old.toml~", ".hidden.toml"):
        (tmp_path / "lazyd.d" / name).touch()
    assert config.find(None, environ={}, uid=0).paths == (
        str(tmp_path / "lazyd.toml"),
        str(tmp_path / "lazyd.d/10-a.toml"),
        str(tmp_path / "lazyd.d/20-b.toml"),
    )


def test_a_users_own_configuration_replaces_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazyd.config.files.SYSTEM_CONFIG", str(tmp_path / "etc"))
    for directory in ("etc", "home/.config/lazyd", "xdg/lazyd"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "lazyd.toml").touch()
    home = {"HOME": str(tmp_path / "home")}
    xdg = home | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert config.find(None, environ=xdg, uid=1000).paths == (str(tmp_path / "xdg/lazyd/lazyd.toml"),)
    assert config.find(None, environ=home, uid=1000).paths == (str(tmp_path / "home/.config/lazyd/lazyd.toml"),)
    assert config.find(None, environ={}, uid=1000).paths == (str(tmp_path / "etc/lazyd.toml"),)
    assert config.find(None, environ=xdg, uid=0).paths == (str(tmp_path / "etc/lazyd.toml"),)


def test_without_any_file_there_are_no_models_and_a_warning() -> None:
    loaded = config.load(Files())
    assert loaded.config == Config()
    assert ["no configuration file found" in str(warning) for warning in loaded.warnings] == [True]


def test_an_alias_may_mean_several_models_with_weights_and_a_shadow(accepted: Accepted) -> None:
    models = "".join(GEMMA.replace("gemma", f'"ocr:{n}"', 1) for n in (3, 4, 5))
    shares = '"ocr:3" = 10, "ocr:4" = 90, "ocr:5" = "shadow"'
    config = accepted(f"{models}[aliases]\nreader = {{{shares}}}\ntext = 'reader'")
    split = Split(weights={"ocr:3": 10, "ocr:4": 90}, shadow="ocr:5")
    assert config.splits == {"reader": split}
    assert config.aliases == {"reader": "ocr:4", "text": "reader"}


def test_a_later_file_changes_one_weight(accepted: Accepted) -> None:
    models = "".join(GEMMA.replace("gemma", f'"ocr:{n}"', 1) for n in (3, 4))
    first = f"{models}[aliases]\nreader = {{'ocr:3' = 90, 'ocr:4' = 10}}"
    assert accepted(first, "[aliases.reader]\n'ocr:4' = 50").splits["reader"].weights == {"ocr:3": 90, "ocr:4": 50}


@pytest.mark.parametrize(("written", "meant"), [("", "overlap"), ('swap = "stop-first"', "stop-first")])
def test_how_a_name_goes_over_to_a_version(accepted: Accepted, written: str, meant: str) -> None:
    assert accepted(GEMMA + written).models["gemma"].swap == meant
