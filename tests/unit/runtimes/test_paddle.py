"""What is known of a Paddle model before anything is loaded; Paddle itself is not needed."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from lazyd.runtimes import paddle_files, paddle_head, runtime_named
from lazyd.runtimes.paddle_options import Options

from .paddle_files import model, parameters, program

RUNTIME = runtime_named("paddle")
MODELS = Path(__file__).parents[3] / "build" / "models" / "ocr-paddle"


def spec(path: Path, **more: Any) -> dict[str, Any]:
    return {"name": "net", "runtime": "paddle", "path": str(path), **more}


def test_a_program_is_described_with_its_inputs_in_the_order_of_their_columns(tmp_path: Path) -> None:
    described = RUNTIME.describe(spec(model(tmp_path / "net")))
    assert described["inputs"] == [
        {"name": "image", "dtype": "float32", "shape": [None, 3, 48, None]},
        {"name": "size", "dtype": "int64", "shape": [None, 2]},
    ]
    assert described["outputs"] == [{"name": "answer", "dtype": "float32", "shape": [None, 10]}]
    assert (described["parameters"], described["operations"]) == (1000, 1)


def test_a_program_of_paddle_3_is_described_as_well(tmp_path: Path) -> None:
    described = RUNTIME.describe(spec(model(tmp_path / "net", ending=".json")))
    assert described["inputs"] == [{"name": "x", "dtype": "float32", "shape": [None, 4]}]
    assert described["outputs"] == [{"name": "fetch_name_0", "dtype": "float32", "shape": [None, 3]}]
    assert (described["format"], described["operations"]) == ("Paddle program (JSON, version 4)", 1)


@pytest.mark.skipif(not MODELS.exists(), reason=f"{MODELS} is not there (make setup)")
@pytest.mark.parametrize(
    ("name", "shape", "numbers"),
    [
        ("det", [None, 3, None, None], 1171721),
        ("rec", [None, 3, 48, None], 2690221),
        ("cls", [None, 3, None, None], 133628),
    ],
)
def test_real_models_say_what_they_take(name: str, shape: list[int | None], numbers: int) -> None:
    described = RUNTIME.describe(spec(MODELS / name))
    assert described["inputs"] == [{"name": "x", "dtype": "float32", "shape": shape}]
    assert described["parameters"] == numbers


# Which files.


def test_a_directory_stands_for_the_program_in_it(tmp_path: Path) -> None:
    program = model(tmp_path / "net")
    assert paddle_files.find(spec(tmp_path / "net")) == (str(program), str(tmp_path / "net" / "inference.pdiparams"))
    newer = model(tmp_path / "net", ending=".json")
    assert paddle_files.find(spec(tmp_path / "net")).program == str(newer)


def test_a_directory_with_one_program_need_not_call_it_inference(tmp_path: Path) -> None:
    assert paddle_files.find(spec(model(tmp_path / "net", "ocr").parent)).program.endswith("net/ocr.pdmodel")
    model(tmp_path / "net", "other")
    with pytest.raises(ValueError, match=r"has several programs \(ocr.pdmodel, other.pdmodel\): name one as the path"):
        paddle_files.find(spec(tmp_path / "net"))


def test_files_that_are_no_programs_do_not_stand_in_the_way(tmp_path: Path) -> None:
    program = model(tmp_path / "net", "ocr")
    (tmp_path / "net" / "call.json").write_text("{}")
    (tmp_path / "net" / "other.json").write_text("{}")
    assert paddle_files.find(spec(tmp_path / "net")).program == str(program)


def test_a_directory_of_models_names_those_in_it(tmp_path: Path) -> None:
    for name in ("rec", "det"):
        model(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"has no program of Paddle: .* or .pdmodel; det, rec below it have one$"):
        paddle_files.find(spec(tmp_path))


def test_parameters_may_be_elsewhere(tmp_path: Path) -> None:
    program = model(tmp_path / "net")
    moved = (tmp_path / "net" / "inference.pdiparams").rename(tmp_path / "weights")
    with pytest.raises(ValueError, match=r"inference.pdiparams is missing.*the option params names another file"):
        RUNTIME.needs(spec(program))
    assert paddle_files.find(spec(program, options={"params": "../weights"})).parameters.endswith("net/../weights")
    assert RUNTIME.needs(spec(program, options={"params": str(moved)}))["source"] == "file size"


# Files that are none.


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("m.pdmodel", b"hello, this is a text", "is not a program of Paddle, or is truncated"),
        ("m.pdmodel", b"", "is truncated: it has no block"),
        ("m.pdmodel", program()[:60], "is truncated: a field is longer than what it is in"),
        ("m.pdmodel", b"PK\x03\x04" + bytes(100), "is not a program of Paddle"),
        ("m.pdmodel", b"{}", "is not a program of Paddle, or has another one's name"),
        ("m.pdmodel", b"\x80\x04}q\x00.", "is not a program of Paddle"),
        ("m.json", b'{"base_code": {"magic": "onnx"}}', "it does not begin as one"),
        ("m.json", b'{"base_code"', "is truncated"),
        ("m.json", b"{" + b'"a":{' * 100_000, "is truncated"),
        ("m.json", b'{"base_code": {"magic": "pir"}}', "KeyError: 'program'"),
        ("m.txt", b"hello", "its name does not end in .json or .pdmodel"),
        ("m.pdparams", b"\x80\x04}q\x00.", "its name does not end in .json or .pdmodel"),
    ],
)
def test_a_program_that_is_none_is_told_in_one_line(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    (tmp_path / "m.pdiparams").write_bytes(parameters((4,)))
    (tmp_path / name).write_bytes(data)
    for ask in (RUNTIME.needs, RUNTIME.describe):
        with pytest.raises(ValueError) as caught:
            ask(spec(tmp_path / name))
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello, this is a text and no tensor", "a tensor does not begin as one"),
        (parameters((4, 4))[:-1], "it ends in the middle of a tensor"),
        (parameters((4, 4)) + b"\0", "requires a buffer of 12 bytes"),
        (b"\x80\x04.", "requires a buffer of 12 bytes"),
    ],
)
def test_parameters_that_are_cut_short_are_told_before_a_load(tmp_path: Path, data: bytes, reason: str) -> None:
    program = model(tmp_path / "net")
    (tmp_path / "net" / "inference.pdiparams").write_bytes(data)
    with pytest.raises(ValueError, match="has no parameters of Paddle, or is truncated") as caught:
        RUNTIME.needs(spec(program))
    assert reason in str(caught.value)


def test_what_is_no_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.pdmodel")
    with pytest.raises(ValueError, match="is a pipe, not a program of Paddle"):
        RUNTIME.needs(spec(tmp_path / "m.pdmodel"))
    program = model(tmp_path / "net")
    os.mkfifo(tmp_path / "net" / "pipe")
    with pytest.raises(ValueError, match="is a pipe, not a file of parameters"):
        RUNTIME.needs(spec(program, options={"params": "pipe"}))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no program of Paddle"):
        RUNTIME.needs(spec(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError):
        RUNTIME.needs(spec(tmp_path / "none"))


@pytest.mark.parametrize("ending", [".pdmodel", ".json"])
def test_damaged_files_are_never_more_than_an_error(tmp_path: Path, ending: str) -> None:
    """Bytes that are changed by chance, and files that are cut anywhere."""
    program = model(tmp_path / "net", ending=ending)
    files = paddle_files.find(spec(program))
    whole = {path: Path(path).read_bytes() for path in files}
    chance, wrong = random.Random(3), 0
    for _ in range(120):
        path = chance.choice(files)
        damaged = bytearray(whole[path][: chance.randrange(len(whole[path]))] if chance.random() < 0.3 else whole[path])
        for _ in range(chance.randrange(1, 4)):
            if damaged:
                damaged[chance.randrange(min(len(damaged), 200))] = chance.randrange(256)
        Path(path).write_bytes(damaged)
        try:
            paddle_head.read(files)
        except ValueError:
            wrong += 1
        Path(path).write_bytes(whole[path])
    assert wrong > 15


# Options and needs.


class Config:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, *arguments))


def told(on: str = "ram", *, is_json: bool = False, **options: Any) -> list[tuple[Any, ...]]:
    config = Config()
    Options.of(options).apply(config, on, is_json=is_json)
    return config.told


def test_the_predictor_is_configured_as_services_do_it_where_nothing_is_said() -> None:
    assert told() == [
        ("disable_gpu",),
        ("switch_use_feed_fetch_ops", False),
        ("switch_ir_optim", True),
        ("enable_memory_optim",),
        ("disable_glog_info",),
    ]
    assert told("gpu")[0] == ("enable_use_gpu", 256, 0)


def test_each_option_is_told_to_the_predictor() -> None:
    options = {"feed_fetch_ops": True, "ir_optim": False, "memory_optim": False, "glog_info": True}
    assert told("gpu", **options, gpu_memory_pool_mb=64, cpu_threads=4, mkldnn=False) == [
        ("enable_use_gpu", 64, 0),
        ("switch_use_feed_fetch_ops", True),
        ("switch_ir_optim", False),
        ("set_cpu_math_library_num_threads", 4),
        ("disable_mkldnn",),
    ]
    assert ("enable_new_ir", True) in told(is_json=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ir_optin": False}, "paddle has no option 'ir_optin'; did you mean ir_optim?"),
        ({"ir_optim": 1}, "the option ir_optim is true or false, not 1"),
        ({"cpu_threads": 0}, "the option cpu_threads is a whole number, 1 or more, not 0"),
        ({"gpu_memory_pool_mb": "1"}, "the option gpu_memory_pool_mb is a whole number, 1 or more, not '1'"),
    ],
)
def test_a_wrong_option_is_told_before_anything_starts(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        RUNTIME.needs(spec(model(tmp_path / "net"), options=options))
    assert str(caught.value) == reason


@pytest.mark.parametrize(("cuda", "can"), [("'12.6'", True), ("'False'", False)])
def test_a_gpu_is_used_where_the_library_was_compiled_for_it(tmp_path: Path, cuda: str, can: bool) -> None:
    (tmp_path / "site" / "paddle" / "version").mkdir(parents=True)
    (tmp_path / "site" / "paddle" / "version" / "__init__.py").write_text(f"cuda_version     = {cuda}\n")
    there = {"python_path": [str(tmp_path / "site")], "options": {"gpu_memory_pool_mb": 1024}}
    gpu = RUNTIME.needs(spec(model(tmp_path / "net"), **there))["gpu"]
    assert (gpu is not None) is can
    if can:
        assert gpu["gpu"] == [(1024 + 512) << 20]
