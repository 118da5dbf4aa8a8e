"""Files on the disk become models: by the patterns of [discover], and as versions of a layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lazyd import config as configs
from lazyd.config import Files, Loaded, tables
from lazyd.core.spec import Config

from .conftest import Write, put

Lines = Callable[..., list[str]]
Load = Callable[..., Loaded]

pytestmark = pytest.mark.usefixtures("later")


def models(load: Load, text: str) -> dict[str, str]:
    """Key -> path."""
    loaded = load(text)
    assert [str(problem) for problem in loaded.problems] == []
    assert loaded.config is not None
    return {key: spec.path or "" for key, spec in loaded.config.models.items()}


def told(load: Load, text: str, tmp_path: Path) -> list[str]:
    return [str(problem).replace(f"{tmp_path}/", "") for problem in load(text).found]


def test_every_file_that_a_pattern_finds_is_a_model(load: Load, tmp_path: Path) -> None:
    one, two = put(tmp_path / "m/gemma.gguf"), put(tmp_path / "m/deep/er/smol.Q4_K_M.gguf")
    put(tmp_path / "m/readme.md")
    loaded = load(f'[daemon]\nidle_timeout = "7min"\n[discover."{tmp_path}/m/**/*.gguf"]\npin = true\n')
    assert loaded.config is not None
    specs = loaded.config.models
    assert {key: spec.path for key, spec in specs.items()} == {"gemma": str(one), "deep/er/smol.Q4_K_M": str(two)}
    gemma = specs["gemma"]
    assert (gemma.runtime, gemma.pin, gemma.idle_timeout_s) == ("llama_cpp", True, 420.0)
    assert gemma.source.endswith("0.toml")
    assert gemma.found_by == f"{tmp_path}/m/**/*.gguf"


def test_the_table_may_be_in_one_line_and_its_pattern_start_from_the_file(load: Load, tmp_path: Path) -> None:
    put(tmp_path / "a.gguf")
    assert models(load, '[discover]\n"*.gguf" = {}\n') == {"a": f"{tmp_path}/a.gguf"}


@pytest.mark.parametrize(
    ("file", "name", "runtime"),
    [
        ("gemma.gguf", "gemma", "llama_cpp"),
        ("llm/gemma 3 (it).Q4.gguf", "llm/gemma-3-it-.Q4", "llama_cpp"),
        ("big-00001-of-00001.gguf", "big", "llama_cpp"),
        ("det/model.onnx", "det", "onnx"),
        ("model.onnx", "model", "onnx"),
        ("vad.jit", "vad", "torchscript"),
        ("vad.pt2", "vad", "torchscript"),
        ("ocr/rec/inference.pdmodel", "ocr/rec", "paddle"),
        ("ocr/rec/inference.json", "ocr/rec", "paddle"),
        ("-odd-.gguf", "odd", "llama_cpp"),
    ],
)
def test_a_file_names_its_model_and_its_runtime(load: Load, tmp_path: Path, file: str, name: str, runtime: str) -> None:
    put(tmp_path / "m" / file)
    put((tmp_path / "m" / file).with_suffix(".pdiparams"))
    loaded = load(f'[discover."{tmp_path}/m/**/*"]\n')
    assert loaded.config is not None
    assert {key: spec.runtime for key, spec in loaded.config.models.items()} == {name: runtime}


def test_what_no_model_can_be_made_of_is_told(load: Load, tmp_path: Path) -> None:
    put(tmp_path / "m/???.gguf")
    put(tmp_path / f"m/{'x' * 101}.gguf")
    lines = told(load, f'[discover."{tmp_path}/m/*.gguf"]\n', tmp_path)
    assert [line.partition(": makes no model: ")[2].partition(";")[0] for line in lines] == [
        '"" is not a name',
        "the name is too long",
    ]


def test_two_files_of_one_name_are_both_told_and_the_first_serves(load: Load, tmp_path: Path) -> None:
    put(tmp_path / "m/a b.gguf")
    put(tmp_path / "m/a-b.gguf")
    text = f'[discover."{tmp_path}/m/*.gguf"]\n'
    assert models(load, text) == {"a-b": f"{tmp_path}/m/a b.gguf"}
    (line,) = told(load, text, tmp_path)
    assert line == (
        'm/a-b.gguf: its model would be called "a-b", as that of m/a b.gguf is; '
        "rename one, or describe it under [models]"
    )


def test_a_file_that_has_the_name_of_a_layout_is_told(load: Load, tmp_path: Path, layout: str) -> None:
    put(tmp_path / "m/ocr.gguf")
    put(tmp_path / "ocr/1/det.gguf")
    text = layout + f'[discover."{tmp_path}/m/*.gguf"]\n'
    assert models(load, text).keys() == {"ocr:1"}
    assert 'would be called "ocr", as that of ocr/${version}/det.gguf is' in told(load, text, tmp_path)[0]


def test_what_is_written_down_wins_by_its_name_or_by_its_path(load: Load, tmp_path: Path) -> None:
    put(tmp_path / "m/gemma.gguf")
    put(tmp_path / "m/smol.gguf")
    text = (
        f'[discover."{tmp_path}/m/*.gguf"]\n'
        '[models.gemma]\nruntime = "python"\nfactory = "a:b"\n'
        f'[models.mine]\nruntime = "llama_cpp"\npath = "{tmp_path}/m/smol.gguf"\n'
    )
    assert models(load, text).keys() == {"gemma", "mine"}
    assert told(load, text, tmp_path) == []


def test_a_model_that_was_found_may_be_named_by_others(load: Load, tmp_path: Path) -> None:
    put(tmp_path / "m/gemma.gguf")
    text = f'[discover."{tmp_path}/m/*.gguf"]\n[aliases]\nchat = "{{}}"\n'
    assert models(load, text.replace("{}", "gemma")).keys() == {"gemma"}
    assert [problem.what for problem in load(text.replace("{}", "gema")).problems] == ['no model "gema"']


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (
            '"/srv/m.gguf" = {}',
            'discover."/srv/m.gguf": names one file; describe it under [models], or write a pattern',
        ),
        ('"/srv/*.bin" = {}', 'discover."/srv/*.bin": what loads .bin files is not known; write runtime; known by'),
        ('"/**/*.gguf" = {}', 'discover."/**/*.gguf": would look through the whole machine; begin with a directory'),
        ('"/srv/*.gguf" = {path = "/x"}', 'discover."/srv/*.gguf".path: the files are those of the pattern; leave it'),
        ('"/srv/*.gguf" = {pim = true}', 'discover."/srv/*.gguf".pim: unknown key; did you mean pin?'),
        (
            '"/srv/*.gguf" = 3',
            'discover."/srv/*.gguf": expected a table, not an integer; write [discover."/srv/*.gguf"]',
        ),
        ('"/srv/*.gguf" = {memory = "3"}', 'discover."/srv/*.gguf".memory: "3" has no unit'),
    ],
)
def test_a_wrong_pattern_or_a_wrong_key_is_told_once(lines: Lines, table: str, line: str) -> None:
    (told,) = lines(f"[discover]\n{table}\n")
    assert told.startswith(f"0.toml:2: {line}")


@pytest.fixture
def layout(tmp_path: Path) -> str:
    return f'[models.ocr]\nruntime = "llama_cpp"\npath = "{tmp_path}/ocr/${{version}}/det.gguf"\n'


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("", ["ocr:9", "ocr:10"]),
        ('version_policy = "latest"', ["ocr:9", "ocr:10"]),
        ('version_policy = "all"', ["ocr:2", "ocr:9", "ocr:10"]),
        ('version_policy = ["2", "10", "77"]', ["ocr:2", "ocr:10"]),
    ],
)
def test_a_directory_each_is_a_version(load: Load, tmp_path: Path, layout: str, policy: str, wanted: list[str]) -> None:
    for version in ("2", "9", "10"):
        put(tmp_path / f"ocr/{version}/det.gguf")
    put(tmp_path / "ocr/.hidden/det.gguf")
    (tmp_path / "ocr/11").mkdir()  # not filled yet
    found_now = models(load, layout + policy)
    assert list(found_now) == wanted
    assert found_now["ocr:10"] == f"{tmp_path}/ocr/10/det.gguf"


def test_the_version_is_filled_in_wherever_it_stands(load: Load, tmp_path: Path) -> None:
    put(tmp_path / "s/7/code-7.py")
    put(tmp_path / "s/7/code-8.py")
    loaded = load(
        f'[models.s]\nruntime = "python"\nfactory = "a:b"\npath = "{tmp_path}/s/${{version}}/code-${{version}}.py"\n'
        f'python_path = ["{tmp_path}/s/${{version}}"]\n'
        'env = {V = "v${version}"}\noptions = {v = ["${version}"]}\n'
    )
    assert loaded.config is not None
    (spec,) = loaded.config.models.values()
    assert (spec.key, spec.path) == ("s:7", f"{tmp_path}/s/7/code-7.py")
    assert (spec.python_path, spec.env, spec.options) == ((f"{tmp_path}/s/7",), {"V": "v7"}, {"v": ["7"]})


def test_a_layout_without_a_version_yet_may_be_named(load: Load, tmp_path: Path, layout: str) -> None:
    text = layout + '[aliases]\nreader = "ocr"\n'
    assert models(load, text) == {}
    put(tmp_path / "ocr/1/det.gguf")
    assert models(load, text).keys() == {"ocr:1"}


def test_a_version_that_is_named_stays_beside_the_latest(load: Load, tmp_path: Path, layout: str) -> None:
    for version in ("1", "2", "3", "4", "5"):
        put(tmp_path / f"ocr/{version}/det.gguf")
    text = layout + '[aliases]\nstable = "ocr:1"\nreader = {"ocr:2" = 90, "ocr:5" = 10}\n'
    assert list(models(load, text)) == ["ocr:1", "ocr:2", "ocr:4", "ocr:5"]


def test_a_version_that_is_written_down_wins(load: Load, tmp_path: Path, layout: str) -> None:
    put(tmp_path / "ocr/1/det.gguf")
    text = layout + '[models."ocr:1"]\nruntime = "python"\nfactory = "a:b"\n'
    assert models(load, text) == {"ocr:1": ""}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[models."a:1"]\npath = "/x/${version}"',
            '0.toml:2: models."a:1".path: ${version} stands in it, and a version',
        ),
        ('[models."a/*"]\npath = "/x/${version}"', '0.toml:2: models."a/*".path: a family has no version'),
        ('[models.a]\nversion_policy = "all"', "0.toml:2: models.a.version_policy: its path has no versions to choose"),
        ('[models.a]\npath = "/x/${version}"\nversion_policy = "al"', '0.toml:3: models.a.version_policy: "al" is not'),
        ('[models.a]\npath = "/x/${version}"\nversion_policy = []', "0.toml:3: models.a.version_policy: an empty list"),
    ],
)
def test_a_layout_that_makes_no_sense_is_told(lines: Lines, text: str, line: str) -> None:
    told = lines(text + '\nruntime = "python"\nfactory = "a:b"\n')
    assert len(told) == 1
    assert told[0].startswith(line)


def test_the_table_of_a_pattern_is_read_once_however_many_files_there_are(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    for number in range(50):
        put(tmp_path / f"m/{number}.gguf")
    original = tables.Table.read
    monkeypatch.setattr(tables.Table, "read", lambda *given: (reads.append(given[1]), original(*given))[1])
    files: Files = write(f'[discover."{tmp_path}/m/*.gguf"]\noptions = {{n_ctx = 512}}\n')
    loaded = configs.load(files)
    assert isinstance(loaded.config, Config)
    assert len(loaded.config.models) == 50
    assert len([path for path in reads if path[0] == "discover"]) == 1
