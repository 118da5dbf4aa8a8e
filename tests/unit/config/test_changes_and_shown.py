"""What a reload reports, and how a spec is shown."""

from __future__ import annotations

import json
from collections.abc import Callable

from lazyd import config
from lazyd.config.shown import shown
from lazyd.core.spec import Config, ModelSpec

Accepted = Callable[..., Config]


def configured(*specs: ModelSpec) -> Config:
    return Config(models={spec.key: spec for spec in specs})


def spec(name: str, factory: str = "m:f", source: str = "a.toml") -> ModelSpec:
    return ModelSpec(name=name, runtime="python", factory=factory, source=source)


def test_a_reload_names_what_was_added_changed_and_removed() -> None:
    old = configured(spec("same"), spec("other"), spec("gone2"), spec("gone1"))
    new = configured(spec("new"), spec("same"), spec("other", factory="m:g"))
    assert config.diff(old, new) == (("new",), ("other",), ("gone1", "gone2"))


def test_moving_a_model_to_another_file_changes_nothing() -> None:
    assert config.diff(configured(spec("m")), configured(spec("m", source="b.toml"))) == ((), (), ())


def test_a_default_of_the_daemon_changes_the_models_it_holds_for(accepted: Accepted) -> None:
    own = '[models.own]\nruntime = "python"\nfactory = "m:f"\nidle_timeout = "1s"\n'
    none = '[models.none]\nruntime = "python"\nfactory = "m:f"\n'
    old = accepted(own + none)
    new = accepted('[daemon]\nidle_timeout = "1h"\n' + own + none)
    assert config.diff(old, new).changed == ("none",)


def test_a_spec_is_shown_in_the_words_of_the_configuration(accepted: Accepted) -> None:
    text = """
        [models.m]
        runtime = "llama_cpp"
        path = "/m"
        memory = "700MiB"
        options = {n_ctx = 1}
        idle_timeout = "never"
    """
    assert shown(accepted(text).models["m"]) == {
        "runtime": "llama_cpp",
        "path": "/m",
        "tier": "on-demand",
        "idle_timeout": "never",
        "load_timeout": "2min",
        "device": "auto",
        "memory": "700MiB",
        "hard_limit": False,
        "beside": [],
        "uses": [],
        "park_timeout": "10min",
        "pin": False,
        "min_residency": "0s",
        "max_wait": "2s",
        "swap": "overlap",
        "concurrency": 1,
        "replicas": 1,
        "trust": False,
        "idempotent": [],
        "ram_lock": False,
        "priority": 0,
        "load_slow_above": "3x",
        "prewarm": {"when": "learned"},
        "options": {"n_ctx": 1},
    }


def test_secrets_are_masked(accepted: Accepted) -> None:
    text = '[models.m]\nruntime = "python"\nfactory = "m:f"\nenv = {API_KEY = "sesame"}\nenv_file = "/etc/secret.env"\n'
    view = shown(accepted(text).models["m"])
    assert view["env"] == {"API_KEY": "***"}
    assert view["env_file"] == "/etc/secret.env"
    assert "sesame" not in json.dumps(view)


def test_what_is_shown_is_accepted_again(accepted: Accepted) -> None:
    text = """
        [models."s/*"]
        runtime = "python"
        factory = "m:f"
        tier = "transient"
        idle_timeout = "90s"
        device = ["gpu1", "ram"]
        hard_limit = true
        beside = ["s/a"]
        park_timeout = "never"
        memory = "1.5GiB"
        max_loaded = 3
        idempotent = ["a"]
        python = "/opt/python"
        python_path = ["/a", "/b"]
        options = {x = [1, {y = 2.5}]}
    """
    first = accepted(text).models["s/*"]
    again = '[models."s/*"]\n' + "".join(f"{key} = {toml(value)}\n" for key, value in shown(first).items())
    assert accepted(again).models["s/*"] == first


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)
