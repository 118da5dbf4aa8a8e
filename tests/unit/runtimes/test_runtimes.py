"""What runtimes say before anything is loaded, and the python runtime, which needs no library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lazyd
from lazyd.runtimes import Cancellation, member_of, runtime_named

from .test_gguf import model

TINY = {
    "general.architecture": ("text", "tiny"),
    "tiny.context_length": ("n", 8192),
    "tiny.block_count": ("n", 30),
    "tiny.embedding_length": ("n", 576),
    "tiny.attention.head_count": ("n", 9),
    "tiny.attention.head_count_kv": ("n", 3),
}


def llama(path: Path | str, **options: Any) -> dict[str, Any]:
    return {"name": "m", "runtime": "llama_cpp", "path": str(path), "options": options}


def test_an_unknown_runtime_is_named() -> None:
    with pytest.raises(ValueError, match="there is no runtime 'nonsense'"):
        runtime_named("nonsense")
    with pytest.raises(ValueError, match="'gguf' is not a runtime"):
        runtime_named("gguf")


@pytest.mark.parametrize("name", ["llama_cpp", "python"])
def test_looking_at_a_model_imports_no_model_library(name: str) -> None:
    program = (
        f"import sys; from lazyd.runtimes import runtime_named as r; r({name!r}).final_env({{}}); "
        "print([m for m in ('llama_cpp', 'numpy', 'msgspec', 'asyncio') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"path": "/no/such.gguf"}, "No such file or directory: '/no/such.gguf'"),
        ({"path": "/etc"}, "/etc is a directory, not a GGUF file"),
        ({"path": "/etc/passwd"}, "/etc/passwd is not a GGUF file"),
        ({}, "needs a path"),
        ({"path": "/etc/passwd", "python": "/no/python"}, "the interpreter /no/python is missing"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_anything_starts(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises((OSError, ValueError), match=reason):
        runtime_named("llama_cpp").needs({"name": "m", "runtime": "llama_cpp", **spec})


@pytest.mark.parametrize("look", ["describe", "needs"])
def test_a_pipe_in_place_of_a_model_is_told_and_not_waited_for(look: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ValueError, match=r"pipe\.gguf is a pipe, not a GGUF file"):
        getattr(runtime_named("llama_cpp"), look)(llama(tmp_path / "pipe.gguf"))


def test_a_library_that_aborts_starts_no_debugger() -> None:
    assert runtime_named("llama_cpp").final_env({}) == {"GGML_NO_BACKTRACE": "1"}


def test_a_model_is_described_by_its_file(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", pairs=TINY)
    described = runtime_named("llama_cpp").describe(llama(path))
    assert (described["architecture"], described["parameters"], described["contextLength"]) == ("tiny", 640, 8192)


@pytest.mark.parametrize("factory", ["", "things", "things:", ":make"])
def test_a_factory_is_a_module_and_an_attribute(factory: str) -> None:
    with pytest.raises(ValueError, match="is not of the form module:attribute"):
        runtime_named("python").needs({"name": "m", "runtime": "python", "factory": factory})


@pytest.mark.parametrize(
    ("device", "ways"),
    [((), ["ram"]), (("ram",), ["ram"]), (("gpu0",), ["gpu"]), (("gpu",), ["gpu"]), (("gpu1", "ram"), ["ram", "gpu"])],
)
def test_a_factory_is_given_a_gpu_only_if_its_model_names_one(device: tuple[str, ...], ways: list[str]) -> None:
    needs = runtime_named("python").needs({"name": "m", "runtime": "python", "factory": "a:b", "device": device})
    assert [way for way in ("ram", "gpu") if needs[way]] == ways
    assert needs["source"] == "default"


@pytest.mark.parametrize(
    ("pattern", "key", "member"),
    [
        ("strategy/*", "strategy/alpha", "alpha"),
        ("*-ocr", "fast-ocr", "fast"),
        ("*", "x", "x"),
        ("plain", "plain", None),
    ],
)
def test_a_familys_member_is_what_the_star_stands_for(pattern: str, key: str, member: str | None) -> None:
    assert member_of(pattern, key) == member


class Warm:
    """Remembers what was called."""

    def __init__(self, *args: str, **options: Any) -> None:
        self.args, self.options = args, options
        self.happened: list[str] = []

    def warmup(self) -> None:
        self.happened.append("warmup")

    def close(self) -> None:
        self.happened.append("close")

    def public(self, number: int) -> int:
        return number + 1


class Silent:
    """Has nothing to offer."""


def load(factory: str, member: str | None = None, **options: Any) -> tuple[Any, list[str]]:
    phases: list[str] = []
    spec = {"name": "m", "runtime": "python", "factory": f"{__name__}:{factory}", "options": options}
    return runtime_named("python").load(spec, member, lambda phase, _: phases.append(phase)), phases


def test_an_object_with_a_warm_up_says_so_and_its_close_comes_at_the_end() -> None:
    model, phases = load("Warm")
    assert phases == ["importing", "loading"]
    assert (model.warms_itself, model.warmup_method) == (True, "warmup")
    model.close()
    assert model._instance.happened == ["close"]


def test_a_long_text_is_of_so_many_words_or_of_as_many_as_the_object_takes() -> None:
    model, _ = load("Warm")
    assert model.text_of("one two", 3) == "one two one"
    with pytest.raises(ValueError, match="max_seq_len"):
        model.text_of("word", "max_seq_len")
    model._instance.max_seq_len = 4
    assert model.text_of("word", "max_seq_len") == "word word word word"


def test_what_lazyd_calls_itself_is_not_for_clients() -> None:
    assert load("Warm")[0].methods() == ["public"]


def test_a_familys_factory_gets_the_member_and_the_options() -> None:
    model, _ = load("Warm", "alpha", calendar="xnys")
    assert (model._instance.args, model._instance.options) == (("alpha",), {"calendar": "xnys"})
    assert model.call("public", [1], {}, stream=False, cancelled=Cancellation()) == 2


decorated = lazyd.lazy("m", Warm)
decorated_family = lazyd.lazy("m/*", Warm, maxsize=1)


def test_the_loader_of_a_decorated_factory_is_called_rather_than_the_daemon_that_calls() -> None:
    assert type(load("decorated")[0]._instance) is Warm
    assert load("decorated_family", "alpha", n=1)[0]._instance.options == {"n": 1}


def test_an_object_without_methods_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="returned a Silent, which has no public methods"):
        load("Silent")


def test_a_cancellation_tells_whoever_comes_late_too() -> None:
    heard: list[str] = []
    cancellation = Cancellation()
    cancellation.then(lambda: heard.append("early"))
    cancellation.cancel()
    cancellation.then(lambda: heard.append("late"))
    assert cancellation()
    assert heard == ["early", "late"]
