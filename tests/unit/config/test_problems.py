"""What a wrong configuration is told: file, line, key, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lazyd import config
from lazyd.config import Files
from lazyd.config.keys import BUDGET, BUILT_RUNTIMES, DAEMON

from .conftest import Write

Lines = Callable[..., list[str]]

MODEL_M = '[models.m]\nruntime = "llama_cpp"\npath = "/m.gguf"\n'
FAMILY = '[models."s/*"]\nruntime = "python"\nfactory = "m:f"\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[dameon]\nlinger = 1", "0.toml:1: dameon: unknown table or key; did you mean daemon?"),
        ("[gemma]", "0.toml:1: gemma: unknown table or key; valid: daemon, budget, fetch, models, discover, aliases"),
        (
            MODEL_M + 'idle_timout = "5min"',
            "0.toml:4: models.m.idle_timout: unknown key; did you mean idle_timeout?",
        ),
        ("[daemon]\npin = true", "0.toml:2: daemon.pin: unknown key; it belongs to [models.NAME]"),
        (MODEL_M + 'max_hold = "1s"', "0.toml:4: models.m.max_hold: unknown key; it belongs to [budget]"),
        (
            '[models.qwen2.5]\nruntime = "llama_cpp"\npath = "/q"',
            '0.toml:1: models.qwen2.5: unknown key; a name with a dot is quoted: [models."qwen2.5"]',
        ),
    ],
)
def test_an_unknown_key_is_told_the_nearest_valid_one(lines: Lines, text: str, line: str) -> None:
    assert lines(text) == [line]


def test_an_unknown_key_that_may_be_the_runtimes_is_sent_to_options(lines: Lines) -> None:
    (line,) = lines(MODEL_M + "n_ctx = 4096")
    assert "unknown key; if it is for the runtime, put it under [models.m.options]; valid: runtime, path," in line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("daemon = 1", "daemon: expected a table; write [daemon]"),
        ("models = []", "models: expected a table"),
        ("[models]\nm = 'x'", "models.m: expected a table; write [models.m]"),
        (
            "[daemon]\nlinger = 10",
            'expected a duration in quotes with its unit, not an integer (10); write it as "10min"',
        ),
        ("[daemon]\nlinger = true", "not a boolean (true)"),
        ("[daemon]\nlinger = 2020-01-01", "not a date or time (2020-01-01)"),
        ("[daemon]\nmax_zygotes = '4'", 'expected a whole number, not a string ("4"); write one'),
        ("[daemon]\nmax_zygotes = true", "expected a whole number, not a boolean (true)"),
        ("[daemon]\nmax_zygotes = -1", "-1 is out of range; write 0 to 64"),
        (f"[daemon]\nmax_zygotes = {10**30}", "a number of more than 64 bits is out of range"),
        ("[budget]\nram = '80'", '"80" has no unit'),
        ("[budget]\nram = '0B'", "nothing at all; write a size above 0"),
        ("[budget]\ngpu0 = '0B'", "nothing at all; write a size above 0"),
        ("[budget]\ngpu0 = '120%'", '"120%" is out of range; write more than "0%" and at most "100%"'),
        ("[budget]\ngpu_margin = '5%'", '"5%" has an unknown unit "%"'),
        ("[budget]\nmax_reserved = '8GiB'", '"8GiB" is not a percentage'),
        ("[budget]\nmax_hold = 'never'", '"never" makes no sense here; write a duration'),
        (MODEL_M + "pin = 'yes'", 'expected true or false, not a string ("yes")'),
        (MODEL_M + "pin = 1", "expected true or false, not an integer (1)"),
        (MODEL_M + "idempotent = 'run'", 'expected a list, not a string ("run"); put it in brackets'),
        (MODEL_M + "idempotent = ['run', 1]", "item 2: expected a string, not an integer (1)"),
        (MODEL_M + "options = 1", "expected a table, not an integer"),
        (MODEL_M + "tier = 'hot'", '"hot" is not known; valid: resident, on-demand, transient'),
        (MODEL_M + "tier = 'residnet'", "did you mean resident?"),
        (MODEL_M + "device = []", "an empty list of devices"),
        (MODEL_M + "device = ['auto', 'ram']", '"auto" beside other devices; write it alone'),
        (MODEL_M + "device = 'rma'", 'device "rma" is not known; did you mean ram?'),
        (MODEL_M + "device = 'gpu01'", 'device "gpu01" is not known; did you mean gpu0?'),
        (MODEL_M + "device = 'cuda:0'", 'device "cuda:0" is not known; valid: auto, gpu, ram, gpu0, gpu1, ...'),
        (MODEL_M + "device = ['gpu0', 'gpu0']", 'device "gpu0" is named twice; name it once'),
        (MODEL_M + "device = ['gpu', 'gpu0']", '"gpu" means any GPU, and one is named beside it'),
        (MODEL_M + "hard_limit = '1GiB'", 'expected true or false, not a string ("1GiB")'),
        (MODEL_M + "park_timeout = 10", "expected a duration in quotes with its unit"),
        (MODEL_M + "beside = 'm'", 'expected a list, not a string ("m"); put it in brackets'),
        (MODEL_M + "beside = ['mm']", 'models.m.beside: no model "mm"; did you mean m?'),
        (MODEL_M + "uses = 'm'", 'expected a list, not a string ("m"); put it in brackets'),
        (MODEL_M + "uses = ['mm']", 'models.m.uses: no model "mm"; did you mean m?'),
        (MODEL_M + "uses = ['s/*']", 'models.m.uses: "s/*" is a family; name one of its members'),
        (MODEL_M + "uses = ['m']", "models.m.uses: goes round: m -> m; leave out the one that is not called"),
        (MODEL_M + "env = {CUDA_VISIBLE_DEVICES = '0'}", "CUDA_VISIBLE_DEVICES: lazyd sets this itself, by the"),
        (MODEL_M + "env = {CUDA_DEVICE_ORDER = 'x'}", 'say where the model may be loaded: device = "gpu0"'),
        (MODEL_M + "python = 'python3.9'", '"python3.9" is not a path; write the whole path'),
        (MODEL_M + "env_file = ''", '"" is not a path'),
        (MODEL_M + "imports = ['tensorflow', 'import os']", 'item 2: "import os" is not a module; write "package'),
        (MODEL_M + "trust = 'yes'", 'expected true or false, not a string ("yes")'),
        (MODEL_M + 'env_file = "a\\u0000b"', "is not a path"),
        (MODEL_M + "env_file = '~nobody-here/x'", "names an unknown home"),
        (FAMILY + "[models.p]\nruntime = 'python'\nfactory = 'module'", '"module" is not a factory; write "package'),
    ],
)
def test_a_wrong_type_or_value_says_what_was_expected(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(text)
    assert says in line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[models.m]\npath = '/m'",
            f"0.toml:1: models.m.runtime: missing; say what loads it: {', '.join(BUILT_RUNTIMES)}",
        ),
        ("[models.m]\nruntime = 'llama_cpp'", 'models.m.path: missing: runtime "llama_cpp" needs it; write path = "'),
        ("[models.m]\nruntime = 'python'", 'models.m.factory: missing: runtime "python" needs it; write factory ='),
        (MODEL_M + "factory = 'm:f'", 'models.m.factory: runtime "llama_cpp" has no such key; leave it out'),
        ("[models.m]\nruntime = 'lama_cpp'\npath = '/m'", '"lama_cpp" is not known; did you mean llama_cpp?'),
        (MODEL_M.replace("[models.m]", "[models.'m/*']"), "a family needs runtime python"),
        ("[models.m]\nruntime = 'python'\nfactory = 'm:f'\nmax_loaded = 1", "only a family has it"),
        (FAMILY + "tier = 'resident'", "a family cannot be resident"),
        (MODEL_M + "concurrency = 2", "llama_cpp answers one call at a time"),
        (FAMILY + "concurrency = 0", "0 is out of range; write 1 to 1000"),
        (FAMILY + "max_loaded = 0", "0 is out of range; write 1 to 100000"),
    ],
)
def test_keys_that_a_runtime_needs_or_does_not_have(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(text)
    assert says in line


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a b", "is not a name; use letters, digits"),
        ("", "is not a name"),
        ("-a", "is not a name"),
        ("/a", "is not a name"),
        ("a//b", "is not a name"),
        ("a/../b", "is not a name"),
        ("über", "is not a name"),
        ("a\\nb", "is not a name"),
        ("a:", '"" is not a version'),
        ("a:b:c", '"b:c" is not a version'),
        ("a:*", '"*" is not a version'),
        ("x" * 101, "the name is too long; use at most 100 characters"),
        ("a*b*", "has more than one *; a family has exactly one"),
        ("*", '"*" would match every name'),
        ("a/*:2", "a family has no version"),
    ],
)
def test_a_name_that_cannot_be_one(lines: Lines, name: str, says: str) -> None:
    (line,) = lines(f"[models.\"{name}\"]\nruntime = 'python'\nfactory = 'm:f'")
    assert says in line


@pytest.mark.parametrize("name", ["gemma", "qwen2.5-0.5b", "a/b/c", "_x", "7b", "ocr:3", "ocr:v1.2+cu12", "x.*"])
def test_names_that_people_use(lines: Lines, name: str) -> None:
    assert lines(f"[models.\"{name}\"]\nruntime = 'python'\nfactory = 'm:f'") == []


@pytest.mark.parametrize("key", ["gpuN", "gpu01", "gpu"])
def test_a_budget_names_a_gpu_as_it_is_called(lines: Lines, key: str) -> None:
    assert lines(f"[budget]\n{key} = '20GiB'") == [
        f"0.toml:2: budget.{key}: unknown key; GPUs are called gpu0, gpu1, …: 'lazyctl status' lists them"
    ]


def test_what_is_fetched_is_not_looked_for_on_this_machine(lines: Lines) -> None:
    assert lines(MODEL_M.replace("/m.gguf", "s3://models/m.gguf")) == []


def test_only_a_file_that_is_fetched_has_a_checksum(lines: Lines) -> None:
    checksum = f'\nsha256 = "{"ab" * 32}"'
    (line,) = (line for line in lines(MODEL_M + checksum) if "sha256" in line)
    assert "models.m.sha256: only of a file that is fetched; leave it out, or write a URL as path" in line
    assert lines(MODEL_M.replace("/m.gguf", "s3://models/m.gguf") + checksum) == []


@pytest.mark.parametrize(
    ("aliases", "says"),
    [
        ("a = 'gema'", 'aliases.a: no model "gema"; did you mean gemma?'),
        ("a = 'zzz'", 'no model "zzz"; name a model that is configured'),
        ("a = 'a'", "aliases.a: goes round: a -> a; let it name a model"),
        (
            "\n".join(f"a{n} = '{f'a{n + 1}' if n < 7 else 'ocr'}'" for n in range(8)),
            "aliases.a0: leads to its model over 7 others, of which 6 are allowed; let it name a model",
        ),
        ("gemma = 'ocr:3'", "aliases.gemma: a model has this name"),
        ("ocr = 'gemma'", "aliases.ocr: a model has this name"),
        ("'s/x' = 'gemma'", "a model has this name"),
        ("a = 's/*'", '"s/*" is a family; name one of its members'),
        ("a = 's/'", 'no model "s/"'),
        ("'a*' = 'gemma'", "an alias is no pattern"),
        ("'a b' = 'gemma'", "is not a name"),
        ("a = 3", "expected the name of a model, not an integer (3)"),
        ("a = {'ocr:3' = 0}", 'expected a weight from 1 to 1000000 or "shadow", not an integer (0)'),
        ("a = {'ocr:3' = 1.5}", 'expected a weight from 1 to 1000000 or "shadow", not a number (1.5)'),
        ("a = {'ocr:3' = 'shadow'}", "aliases.a: no model of it has a weight; write it as"),
        (
            "a = {gemma = 1, 'ocr:3' = 'shadow', ocr = 'shadow'}",
            "more than one shadow: ocr:3, ocr; leave out all but one",
        ),
        ("a = {'s/*' = 90}", '"s/*" is a family; name one of its members'),
        ("a = {gema = 90}", 'aliases.a.gema: no model "gema"; did you mean gemma?'),
        ("b = 'gemma'\na = {b = 90}", "aliases.a.b: an alias has no share of another; name a model"),
    ],
)
def test_an_alias_that_leads_nowhere(lines: Lines, aliases: str, says: str) -> None:
    gemma = MODEL_M.replace("models.m", "models.gemma")
    ocr = MODEL_M.replace("models.m", "models.'ocr:3'")
    (line,) = lines(f"{gemma}{ocr}{FAMILY}[aliases]\n{aliases}")
    assert says in line


def test_every_alias_of_a_circle_is_told(lines: Lines) -> None:
    assert lines("[aliases]\na = 'b'\nb = 'c'\nc = 'b'") == [
        "0.toml:2: aliases.a: goes round: a -> b -> c -> b; let it name a model",
        "0.toml:3: aliases.b: goes round: b -> c -> b; let it name a model",
        "0.toml:4: aliases.c: goes round: c -> b -> c; let it name a model",
    ]


def test_an_alias_of_a_model_that_is_itself_wrong_is_not_blamed(lines: Lines) -> None:
    (line,) = lines("[models.m]\nruntime = 'onx'\n[aliases]\na = 'm'")
    assert "models.m.runtime" in line


def test_all_problems_are_told_at_once_in_the_order_of_the_files(lines: Lines) -> None:
    told = lines(
        "[daemon]\nlinger = 1\nmax_zygots = 4\n" + MODEL_M + "memory = '1'\n",
        "[aliases]\na = 'n'\n[budget]\nram = '200%'\n",
    )
    assert [line.split(": ")[:2] for line in told] == [
        ["0.toml:2", "daemon.linger"],
        ["0.toml:3", "daemon.max_zygots"],
        ["0.toml:7", "models.m.memory"],
        ["1.toml:2", "aliases.a"],
        ["1.toml:4", "budget.ram"],
    ]


def test_a_problem_is_blamed_on_the_file_whose_value_counts(lines: Lines) -> None:
    assert lines(MODEL_M + "memory = '1'\n", "[models.m]\n\nmemory = '2'\n")[0].startswith("1.toml:3: models.m.memory")
    assert lines(MODEL_M + "memory = '1'\n", "[models.m]\npin = true\n")[0].startswith("0.toml:4: models.m.memory")


def test_lines_are_right_after_values_of_many_lines(lines: Lines) -> None:
    text = f'''# words
{MODEL_M}idempotent = [  # [models.n]
  "a",
  "]",
]
[models.m.options]
prompt = """
[models.m]
wrong = 1
"""
big = {10**20}
inner.deep = {{x = 1, y = nan}}
'''
    assert [line.split(": ")[:2] for line in lines(text)] == [
        ["0.toml:14", "models.m.options.big"],
        ["0.toml:15", "models.m.options.inner.deep.y"],
    ]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("2020-01-01", "models.m.options.x: a date or time cannot be passed on; write it as a string"),
        ("[1, inf]", "models.m.options.x.1: inf cannot be passed on; write a finite number"),
        ("{y = 99999999999999999999}", "models.m.options.x.y: a number of more than 64 bits cannot be passed on"),
        ("[" * 40 + "]" * 40, "models.m.options.x: nested more than 32 deep"),
    ],
)
def test_options_that_cannot_travel_to_a_worker(lines: Lines, value: str, says: str) -> None:
    (line,) = lines(f"{MODEL_M}[models.m.options]\nx = {value}")
    assert says in line


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("{A = 12345}", "models.m.env.A: expected a string, not an integer; put the value in quotes"),
        ('{"A=B" = "12345"}', 'models.m.env."A=B": not a name of a variable'),
        ('{A = "12345\\u0000"}', "models.m.env.A: the value holds a NUL character"),
        ('"12345"', "models.m.env: expected a table, not a string"),
    ],
)
def test_no_message_repeats_a_value_of_env(lines: Lines, env: str, says: str) -> None:
    (line,) = lines(f"{MODEL_M}env = {env}")
    assert says in line
    assert "12345" not in line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = = 1", "0.toml:1: not TOML: Invalid value; look near column 5"),
        ("[daemon]\nlinger = '1s'\nlinger = '2s'", "0.toml:3: not TOML: Cannot overwrite a value"),
        ("\nx = [1,\n", "0.toml:2: not TOML: Invalid value; look at the end of the file"),
        ("x = " + "9" * 5000, "cannot be used"),
        ("x = " + "[" * 5000, "nested more than 64 deep"),
        (".".join("a" * 200) + " = 1", "nested more than 64 deep"),
    ],
)
def test_what_is_not_toml(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(text)
    assert says in line


def test_what_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"# ok\n# \xff\n")
    (problem,) = config.load(Files(paths=(str(tmp_path / "x.toml"),))).problems
    assert str(problem) == f"{tmp_path}/x.toml:2: not UTF-8; save the file as UTF-8"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    missing = config.load(config.find(str(tmp_path / "none.toml")))
    assert missing.config is None
    assert [str(problem) for problem in missing.problems] == [
        f"{tmp_path}/none.toml: cannot be read: No such file or directory; name a file that lazyd's user may read"
    ]
    (directory,) = config.load(config.find(str(tmp_path))).problems
    assert "cannot be read: Is a directory" in str(directory)


def test_a_link_to_nowhere_in_the_directory_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazyd.config.files.SYSTEM_CONFIG", str(tmp_path))
    (tmp_path / "lazyd.toml").symlink_to("gone")
    (problem,) = config.load(config.find(None, environ={}, uid=0)).problems
    assert "lazyd.toml: cannot be read" in str(problem)


def test_what_may_stand_in_an_unreadable_file_is_not_called_missing(lines: Lines) -> None:
    told = lines("[models.m]\npath = '/m'\n[aliases]\na = 'n'\n[models.o]\npth = '/o'\n", "[models.m\n")
    assert [line.split(": ")[1] for line in told] == ["models.o.pth", "not TOML"]


def test_a_problem_is_one_line_whatever_the_key_holds(lines: Lines) -> None:
    (line,) = lines('"a\\nb\\u001b[31m" = 1')
    assert (
        line
        == r'0.toml:1: "a\nb\x1b[31m": unknown table or key; valid: daemon, budget, fetch, models, discover, aliases'
    )


@pytest.mark.parametrize("table", ["daemon", "budget"])
def test_every_key_of_the_daemon_refuses_a_table(lines: Lines, table: str) -> None:
    for key in {"daemon": DAEMON, "budget": BUDGET}[table]:
        if key.built:
            (line,) = lines(f"[{table}]\n{key.written} = {{}}")
            assert "expected" in line


def test_only_the_first_of_many_wrong_aliases_are_told_a_nearest_name(lines: Lines) -> None:
    told = lines(MODEL_M + "[aliases]\n" + "".join(f"alias{i} = 'mm'\n" for i in range(1000)))
    assert len(told) == 1000
    assert sum("did you mean m?" in line for line in told) == 20


@pytest.mark.parametrize("also", ["", "use_mmap = true\n"])
def test_locked_pages_of_a_mapped_file_are_refused_before_the_load_would(lines: Lines, also: str) -> None:
    assert lines(f"{MODEL_M}[models.m.options]\nuse_mlock = true\n{also}") == [
        "0.toml:5: models.m.options.use_mlock: does not fit a mapped file: the kernel counts its locked pages as used, "
        "and nobody can tell whose they are; say use_mmap = false beside it, or leave it out"
    ]


@pytest.mark.parametrize("text", ["use_mlock = false", "use_mlock = true\nuse_mmap = false"])
def test_memory_of_the_process_s_own_may_be_locked(lines: Lines, text: str) -> None:
    assert lines(f"{MODEL_M}[models.m.options]\n{text}") == []


def test_an_option_of_another_runtime_may_be_called_the_same(lines: Lines) -> None:
    assert lines(FAMILY + "options = {use_mlock = true}") == []


def test_models_that_use_each_other_by_way_of_others_go_round(lines: Lines) -> None:
    use = '[models.{}]\nruntime = "python"\nfactory = "m:f"\nuses = {}\n'
    text = use.format("a", ["b", "c"]) + use.format("b", []) + use.format("c", ["b", "d"]) + use.format("d", ["also"])
    assert not lines(text + "[aliases]\nalso = 'b'\n")
    (line,) = lines(text + "[aliases]\nalso = 'a'\n")
    assert line.startswith("0.toml:4: models.a.uses: goes round: a -> c -> d -> a; ")


def test_paths_and_models_that_are_named_are_looked_at_beside_other_problems(write: Write, tmp_path: Path) -> None:
    text = "[models.m]\nruntime = 'lama_cpp'\npath = 'm.gguf'\nbeside = ['n']\n[daemon]\nlinger = 1\n"
    told = [str(problem).removeprefix(f"{tmp_path}/") for problem in config.load(write(text)).problems]
    assert [line.split(": ")[:2] for line in told] == [
        ["0.toml:2", "models.m.runtime"],
        ["0.toml:3", "models.m.path"],
        ["0.toml:4", "models.m.beside"],
        ["0.toml:6", "daemon.linger"],
    ]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("[budget]\ngpu7 = '50%'\n", 1),
        (FAMILY + "device = 'gpu7'\n", 1),
        (FAMILY + "device = 'gpu'\n", 1),
        (FAMILY + "device = 'ram'\n", 0),
        ("[budget]\nram = '50%'\n" + FAMILY, 0),
    ],
)
def test_a_check_that_finds_nothing_wrong_says_that_it_did_not_look_for_gpus(
    write: Write, text: str, notes: int
) -> None:
    lines, status = config.check(write(text))
    assert status == 0
    assert lines[0].startswith("ok: ")
    assert [line.split(":")[0] for line in lines[1:]] == ["devices were not looked at"] * notes


def test_check_prints_a_line_each_and_exits_1(write: Write, tmp_path: Path) -> None:
    lines, status = config.check(write("[daemon]\nlinger = '1'\nx = 1\n"))
    assert (len(lines), status) == (2, 1)
    (tmp_path / "m.gguf").touch()
    lines, status = config.check(write(MODEL_M.replace("/m.gguf", "m.gguf") + "options = {pin = 1}\n"))
    assert status == 0
    assert [line.split(": ")[2] for line in lines[:-1]] == ["models.m.path", "models.m.options.pin"]
    assert lines[-1] == f"ok: 1 model ({tmp_path}/0.toml)"
