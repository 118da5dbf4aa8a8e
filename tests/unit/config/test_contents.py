"""Who checks a configuration is told what would make a load fail: unknown options, files that are no models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lazyd import config
from tests.unit.config.conftest import Write

GGUF = b"GGUF\x03\0\0\0" + bytes(16)


def told(write: Write, tmp_path: Path, text: str) -> list[str]:
    """What a check says before its last line, without the directory of the test."""
    lines, _ = config.check(write(text))
    return [line.replace(f"{tmp_path}/", "") for line in lines if not line.startswith("ok: ")]


def model(runtime: str, path: str, more: str = "") -> str:
    return f'[models.m]\nruntime = "{runtime}"\npath = "{path}"\n{more}'


@pytest.mark.parametrize(
    ("runtime", "options", "line"),
    [
        (
            "onnx",
            "intra_op_threads = 2",
            "intra_op_threads: onnx has no option 'intra_op_threads'; did you mean intra_op_num_threads?",
        ),
        (
            "onnx",
            'graph_optimization_level = "max"',
            "graph_optimization_level: the option graph_optimization_level is one of disable, basic, extended, layout, "
            "all, not 'max'; as it is, no load of it succeeds",
        ),
        (
            "torchscript",
            'dtype = "float23"',
            "dtype: the option dtype is one of float16, bfloat16, float32, float64, not 'float23'; "
            "did you mean float32?",
        ),
        ("paddle", "cpu_thread = 2", "cpu_thread: paddle has no option 'cpu_thread'; did you mean cpu_threads?"),
        ("llama_cpp", "n_ctxx = 512", "n_ctxx: llama_cpp has no option 'n_ctxx'; did you mean n_ctx?"),
        (
            "llama_cpp",
            'n_ctx = "512"',
            "n_ctx: the option n_ctx is a whole number, 0 or more, not '512'; as it is, no load of it succeeds",
        ),
    ],
)
def test_options_that_a_runtime_does_not_take_are_told_by_name(
    write: Write, tmp_path: Path, runtime: str, options: str, line: str
) -> None:
    text = model(runtime, "s3://bucket/m", f"[models.m.options]\n{options}\n")
    assert told(write, tmp_path, text) == [f"warning: 0.toml:5: models.m.options.{line}"]


def test_a_service_has_no_options_and_a_factory_has_its_own(write: Write, tmp_path: Path) -> None:
    service = '[models.m]\nruntime = "service"\ncommand = ["/bin/sh"]\noptions = {port = 1}\n'
    (line,) = told(write, tmp_path, service)
    assert line.endswith("models.m.options.port: service has no option 'port'; it has none at all")
    assert told(write, tmp_path, '[models.m]\nruntime = "python"\nfactory = "a:b"\noptions = {port = 1}\n') == []


@pytest.mark.parametrize("runtime", ["onnx", "torchscript", "llama_cpp"])
@pytest.mark.parametrize("contents", [b"", b"not a model", b"PK\x03\x04" + bytes(40), GGUF])
def test_a_file_that_is_no_model_of_its_runtime_is_a_warning(
    write: Write, tmp_path: Path, runtime: str, contents: bytes
) -> None:
    (tmp_path / "file").write_bytes(contents)
    (line,) = told(write, tmp_path, model(runtime, "file"))
    if (runtime, contents) == ("onnx", GGUF):
        assert line == (
            "warning: 0.toml:3: models.m.path: file is a GGUF file, not an ONNX file; as it is, no load of it succeeds"
        )
    assert line.startswith("warning: 0.toml:3: models.m.path: file ")


def test_what_must_be_trusted_first_is_told(write: Write, tmp_path: Path) -> None:
    (tmp_path / "file.pt").write_bytes(b"\x80\x02}q\0.")
    (line,) = told(write, tmp_path, model("torchscript", "file.pt"))
    assert "say trust = true in [models.m]" in line


def test_a_wrong_option_hides_no_wrong_file(write: Write, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    lines = told(write, tmp_path, model("onnx", "file", "options = {threads = 2}\n"))
    assert [line.split(": ")[2] for line in lines] == ["models.m.path", "models.m.options.threads"]


@pytest.mark.parametrize("runtime", ["onnx", "torchscript", "llama_cpp"])
def test_a_directory_and_a_pipe_are_told_with_what_to_do(write: Write, tmp_path: Path, runtime: str) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (line,) = told(write, tmp_path, model(runtime, "directory"))
    assert line == '0.toml:3: models.m.path: "directory" is a directory; name the file in it'
    (line,) = told(write, tmp_path, model(runtime, "pipe"))
    assert line == '0.toml:3: models.m.path: "pipe" is not a file; name a file'


def test_a_start_and_a_reload_do_not_look_into_files(write: Write, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    loaded = config.load(write(model("onnx", "file", "options = {threads = 2}\n")))
    assert (loaded.problems, loaded.warnings) == ((), ())


@pytest.mark.parametrize(
    ("runtime", "example"),
    [("onnx", ".onnx"), ("torchscript", ".jit"), ("paddle", "_infer"), ("llama_cpp", ".gguf"), ("service", "${port}")],
)
def test_what_is_missing_is_shown_as_the_runtime_has_it(write: Write, runtime: str, example: str) -> None:
    (line,) = [line for line in config.check(write(f'[models.m]\nruntime = "{runtime}"\n'))[0] if "missing" in line]
    assert example in line
