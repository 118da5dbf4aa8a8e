"""Every key and every option explains itself; of a file each key is told with its value and its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazyd.config import explaining, keys
from lazyd.config.rows import Group, Key
from lazyd.runtimes import runtime_named
from tests.unit.config.conftest import Write

ROOT = Path(__file__).parents[3]
FILE = """
[daemon]
idle_timeout = "5min"
[budget]
gpu1 = "20GiB"
[models.m]
runtime = "onnx"
path = "s3://key:secret@bucket/m.onnx"
env = {TOKEN = "secret", A = "secret"}
options = {intra_op_num_threads = 2, unheard_of = [1, true, {a = "b"}]}
[models.m.warmup]
args = [{shape = [1, 3]}]
[models."s/*"]
runtime = "python"
factory = "a:b"
options = {calendar = "xnys"}
[models.web]
runtime = "service"
command = ["/bin/sh"]
park = {http = {path = "/free"}}
[aliases]
reader = "m"
"""


def within(table: tuple[Key, ...]) -> list[Key]:
    return [*table, *(row for key in table if isinstance(key.kind, Group) for row in within(key.kind.keys))]


def test_every_key_of_the_tables_is_explained() -> None:
    known = within((*keys.DAEMON, *keys.BUDGET, *keys.FETCH, *keys.MODEL))
    told = explaining.every()
    assert sorted(
        row.key for row in told if not row.table.endswith(".options") and row.table not in ("aliases", "discover")
    ) == sorted(key.name for key in known)
    assert [row for row in told if not row.meaning or not row.meaning.endswith((".", ":")) or not row.kind] == []


@pytest.mark.parametrize("runtime", keys.BUILT_RUNTIMES)
def test_every_option_of_a_runtime_is_explained(runtime: str) -> None:
    told = {row.key: row for row in explaining.every() if row.table.endswith(".options") and row.runtimes == (runtime,)}
    table = runtime_named(runtime).options()
    assert list(told) == [option.name for option in table or ()]
    assert all(row.meaning.endswith((".", ":")) and row.kind for row in told.values())
    assert (table is None) == (runtime == "python")


def test_the_options_of_llama_cpp_are_those_of_its_library() -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    import inspect

    import llama_cpp

    from lazyd.runtimes.llama_cpp_model import OURS, check
    from lazyd.runtimes.llama_cpp_table import OPTIONS

    check({option.name: None for option in OPTIONS})
    no_data = {"self", "model_path", "kwargs", "chat_handler", "draft_model", "tokenizer"}
    theirs = set(inspect.signature(llama_cpp.Llama.__init__).parameters) - no_data
    assert {option.name for option in OPTIONS} == theirs | OURS


@pytest.mark.parametrize("runtime", ["onnx", "paddle", "torchscript"])
def test_the_page_has_every_option(runtime: str) -> None:
    page = (ROOT / "docs/runtimes.md").read_text()
    section = page.split(f"\n## {runtime}\n")[1].split("\n## ")[0]
    assert [option.name for option in runtime_named(runtime).options() or () if f"`{option.name}`" not in section] == []


def explained(write: Write, *texts: str) -> dict[str, explaining.Explained]:
    return {f"{row.table}.{row.key}": row for row in explaining.of_files(write(*texts))}


def test_each_key_of_a_file_is_told_with_its_value_its_place_and_its_meaning(write: Write) -> None:
    told = explained(write, FILE)
    places = {name: (row.value, row.line) for name, row in told.items()}
    assert places == {
        "daemon.idle_timeout": ('"5min"', 3),
        "budget.gpu1": ('"20GiB"', 5),
        "models.m.runtime": ('"onnx"', 7),
        "models.m.path": ('"s3://***@bucket/m.onnx"', 8),
        "models.m.env": ('{TOKEN = "***", A = "***"}', 9),
        "models.m.options.intra_op_num_threads": ("2", 10),
        "models.m.options.unheard_of": ('[1, true, {a = "b"}]', 10),
        "models.m.warmup.args": ("[{shape = [1, 3]}]", 12),
        'models."s/*".runtime': ('"python"', 14),
        'models."s/*".factory': ('"a:b"', 15),
        'models."s/*".options.calendar': ('"xnys"', 16),
        "models.web.runtime": ('"service"', 18),
        "models.web.command": ('["/bin/sh"]', 19),
        "models.web.park.http.path": ('"/free"', 20),
        "aliases.reader": ('"m"', 22),
    }
    assert told["daemon.idle_timeout"].default == '"10min"'
    assert "one operation" in told["models.m.options.intra_op_num_threads"].meaning
    assert told['models."s/*".options.calendar'].meaning == keys.OF_THE_FACTORY
    assert [name for name, row in told.items() if "Not known" in row.meaning] == ["models.m.options.unheard_of"]


def test_of_two_files_the_value_that_counts_is_told(write: Write) -> None:
    told = explained(write, FILE, '\n\n[models.m]\nidle_timeout = "never"\n[daemon]\nidle_timeout = "1h"\n')
    ours = told["daemon.idle_timeout"], told["models.m.idle_timeout"], told["models.m.path"]
    assert [(Path(row.file or "").name, row.line) for row in ours] == [("1.toml", 6), ("1.toml", 4), ("0.toml", 8)]
    assert told["daemon.idle_timeout"].value == '"1h"'


def test_what_is_no_configuration_is_told_all_the_same(write: Write) -> None:
    told = explained(
        write, "x = 1\n[models]\nm = 2\n[models.n]\nruntime = 3\noptions = 4\nwarmup = []\n[nothing]\na = 1\n"
    )
    assert {name: row.value for name, row in told.items()} == {
        ".x": "1",
        "models.m": "2",
        "models.n.runtime": "3",
        "models.n.options": "4",
        "models.n.warmup": "[]",
        "nothing.a": "1",
    }
    assert explained(write, "not toml") == {}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("linger", ["daemon.linger"]),
        ("idle_timeout", ["daemon.idle_timeout", "models.NAME.idle_timeout"]),
        ("daemon.idle_timeout", ["daemon.idle_timeout"]),
        ("models.gemma.idle_timeout", ["models.NAME.idle_timeout"]),
        ("onnx.providers", ["models.NAME.options.providers"]),
        ("models.gemma.options.n_ctx", ["models.NAME.options.n_ctx"]),
        ("[budget]", [f"budget.{key.name}" for key in keys.BUDGET]),
        ("torchscript", [f"models.NAME.options.{name}" for name in ("dtype", "num_threads", "num_interop_threads")]),
        ("discover", ["discover.PATTERN"]),
        ("lingers", []),
    ],
)
def test_a_key_is_found_by_what_people_call_it(words: str, found: list[str]) -> None:
    assert [f"{row.table}.{row.key}" for row in explaining.named(words)] == found


def test_a_table_in_a_table_comes_with_its_own_keys() -> None:
    first, *others = [f"{row.table}.{row.key}" for row in explaining.named("warmup")]
    assert first == "models.NAME.warmup"
    assert {"models.NAME.warmup.args", "models.NAME.warmup.calls"} <= set(others)


def test_what_was_probably_meant_is_named() -> None:
    assert explaining.nearest("models.idle_timout") == "idle_timeout"
    assert explaining.nearest("xyzzy") is None
