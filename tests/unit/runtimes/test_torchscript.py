"""What is known of a PyTorch file before anything is loaded; PyTorch itself is not needed."""

from __future__ import annotations

import os
import random
import socket
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lazyd.runtimes import runtime_named, torchscript_head, torchscript_signature

from .torch_files import CODE, archive, exported, pickled, script

RUNTIME = runtime_named("torchscript")


def spec(path: Path, **more: Any) -> dict[str, Any]:
    return {"name": "net", "runtime": "torchscript", "path": str(path), **more}


def test_a_module_is_described_with_what_its_methods_take(tmp_path: Path) -> None:
    described = RUNTIME.describe(spec(script(tmp_path / "net.pt")))
    assert described["class"] == "things.Net"
    assert described["methods"] == {
        "forward": "forward(x: Tensor, rate: int, state: Optional[Tensor] = None, scale: float = 0.5) "
        "-> Tuple[Tensor, Tensor]",
        "reset": "reset() -> NoneType",
    }
    assert (described["format"], described["weightBytes"]) == ("TorchScript archive, version 3", 4096)


def test_an_exported_program_is_described_with_its_arrays(tmp_path: Path) -> None:
    described = RUNTIME.describe(spec(exported(tmp_path / "net.pt2")))
    assert described["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [None, 4]},
        {"name": "rate", "dtype": "int64", "shape": []},
    ]
    assert described["outputs"] == [{"name": "c", "dtype": "bfloat16", "shape": []}]
    assert described["producer"] == "2.13.0"


def test_inputs_that_are_not_plain_arrays_are_not_described(tmp_path: Path) -> None:
    assert torchscript_head.read(str(exported(tmp_path / "net.pt2", names=["both"]))).inputs is None


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (pickled, "a pickled torch.nn.modules.linear.Linear"),
        (lambda path: path.write_bytes(b"\x80\x02.") and path, "a pickle"),
        (exported, "an exported program, which is unpickled and evaluated"),
    ],
)
def test_what_runs_its_authors_code_is_refused_unless_it_is_trusted(tmp_path: Path, make: Any, what: str) -> None:
    path = make(tmp_path / "net.pt")
    with pytest.raises(ValueError) as caught:
        RUNTIME.needs(spec(path))
    assert str(caught.value) == (
        f"{path} is {what}: whoever loads it runs what its author wrote. "
        "If you trust that, say trust = true in [models.net]"
    )
    with pytest.raises(ValueError, match="say trust = true"):
        RUNTIME.load(spec(path, trust=False), None, lambda *_: None)
    assert RUNTIME.needs(spec(path, trust=True))["source"] == "file size"


def test_nothing_of_a_pickle_is_run_to_describe_it(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    evil = (
        b"\x80\x02cposix\nsystem\nX" + len(f"touch {ran}").to_bytes(4, "little") + f"touch {ran}".encode() + b"\x85R."
    )
    assert RUNTIME.describe(spec(archive(tmp_path / "evil.pt", {"data.pkl": evil})))["class"] == "posix.system"
    assert not ran.exists()


def bad_files(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    whole = script(tmp_path / "whole.pt").read_bytes()
    found = {
        "text": (b"hello\n" * 100, "is not a PyTorch model: it is no archive"),
        "empty": (b"", "is not a PyTorch model: it is no archive"),
        "half": (whole[: len(whole) // 2], "is truncated, or damaged"),
        "old": (b"\x80\x0b", "is not a PyTorch model"),
    }
    for name, (data, _) in found.items():
        (tmp_path / name).write_bytes(data)
    paths = {name: (tmp_path / name, reason) for name, (_, reason) in found.items()}
    other = archive(tmp_path / "other.zip", {"photo.jpg": b"x"}, folder="")
    before = archive(tmp_path / "before.pt2", {"serialized_exported_program.json": b"{}", "version": b"5.3"}, folder="")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.close()
    return {
        **paths,
        "other": (other, "is an archive of something else"),
        "before": (before, "was exported by a PyTorch before 2.8"),
        "pipe": (tmp_path / "pipe", "is a pipe, not a PyTorch model"),
        "directory": (tmp_path / "directory", "is a directory, not a PyTorch model"),
        "socket": (tmp_path / "s", "is a socket, not a PyTorch model"),
    }


@pytest.mark.parametrize("name", ["text", "empty", "half", "old", "other", "before", "pipe", "directory", "socket"])
def test_what_is_no_model_is_told_in_one_line_and_at_once(tmp_path: Path, name: str) -> None:
    path, reason = bad_files(tmp_path)[name]
    for ask in (RUNTIME.needs, RUNTIME.describe):
        with pytest.raises(ValueError, match=reason) as caught:
            ask(spec(path, trust=True))
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RUNTIME.needs(spec(tmp_path / "none.pt"))
    with pytest.raises(ValueError, match="needs a path"):
        RUNTIME.needs({"name": "m", "runtime": "torchscript"})


@pytest.mark.parametrize("make", [script, exported, pickled])
def test_damaged_files_are_never_more_than_an_error(tmp_path: Path, make: Any) -> None:
    """Bytes that are changed by chance, and files that are cut anywhere."""
    data = make(tmp_path / "whole").read_bytes()
    chance, path, wrong = random.Random(7), tmp_path / "damaged", 0
    for _ in range(120):
        damaged = bytearray(data[: chance.randrange(len(data))] if chance.random() < 0.3 else data)
        for _ in range(chance.randrange(1, 6)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            torchscript_head.read(str(path))
        except (ValueError, OSError):
            wrong += 1
    assert wrong > 10


def test_a_record_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("net/data.pkl", "w") as record:
            for _ in range(65):
                record.write(bytes(1 << 20))
        file.writestr("net/constants.pkl", b"")
        file.writestr("net/code/a.py", b"")
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match=r"data\.pkl has 68157440 bytes, too many to look at"):
        torchscript_head.read(str(path))


# Options and needs.


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dtyp": "float16"}, "torchscript has no option 'dtyp'; did you mean dtype?"),
        ({"dtype": "int8"}, "the option dtype is one of float16, bfloat16, float32, float64, not 'int8'"),
        ({"num_threads": 0}, "the option num_threads is a whole number, 1 or more, not 0"),
        ({"num_threads": True}, "the option num_threads is a whole number, 1 or more, not True"),
    ],
)
def test_a_wrong_option_is_told_before_anything_starts(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        RUNTIME.needs(spec(script(tmp_path / "net.pt"), options=options))
    assert str(caught.value) == reason


def test_an_exported_programs_types_are_fixed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its types are fixed, so it has no option dtype"):
        RUNTIME.needs(spec(exported(tmp_path / "net.pt2"), trust=True, options={"dtype": "float16"}))


def library(path: Path, cuda: str) -> str:
    """A PyTorch of which there is only what says how it was built."""
    (path / "torch").mkdir(parents=True)
    (path / "torch" / "version.py").write_text(
        f"from typing import Optional\ncuda: Optional[str] = {cuda}\nhip = None\n"
    )
    return str(path)


def test_half_as_large_numbers_need_half_of_a_gpu(tmp_path: Path) -> None:
    net = script(tmp_path / "net.pt", weights=64 << 20)
    there = {"python_path": [library(tmp_path / "site", "'12.6'")]}
    whole = RUNTIME.needs(spec(net, **there))
    half = RUNTIME.needs(spec(net, options={"dtype": "float16"}, **there))
    assert half["ram"] == whole["ram"], "they are read as they are"
    saved = whole["gpu"]["gpu"][0] - half["gpu"]["gpu"][0]
    assert abs(saved - 1.1 * (32 << 20)) < 4096
    assert whole["gpu"]["ram"] > whole["ram"]["ram"], "CUDA keeps memory of its own"


def test_a_library_without_cuda_uses_no_gpu(tmp_path: Path) -> None:
    net = script(tmp_path / "net.pt")
    assert RUNTIME.needs(spec(net, python_path=[library(tmp_path / "site", "None")]))["gpu"] is None


# Arguments of calls.

FORWARD = torchscript_signature.methods(CODE, "Net")["forward"]


class Array:
    dtype, shape = "float32", (1, 2)


@pytest.mark.parametrize(
    ("args", "kwargs", "wrong"),
    [
        ((Array(),), {}, "'rate' is missing"),
        ((Array(), 1.5), {}, "'rate' is a number, not a whole number"),
        ((Array(), True), {}, "'rate' is true or false, not a whole number"),
        ((Array(), Array()), {}, "'rate' is an array float32[1,2], not a whole number"),
        (("text", 1), {}, "'x' is a text, not an array"),
        ((None, 1), {}, "'x' is nothing, not an array"),
        ((Array(), 1), {"scale": "x"}, "'scale' is a text, not a number"),
        ((Array(), 1), {"rate": 1}, "'rate' is given twice"),
        ((Array(), 1), {"speed": 1}, "'speed' is no argument"),
        ((Array(), 1, None, 1.0, 2), {}, "5 arguments are too many"),
    ],
)
def test_arguments_that_do_not_fit_are_told_with_the_signature(args: Any, kwargs: Any, wrong: str) -> None:
    with pytest.raises(ValueError) as caught:
        FORWARD.bound(args, kwargs)
    assert str(caught.value) == f"{wrong}; expected {FORWARD}"


def test_what_was_given_is_shown_in_a_line() -> None:
    given = FORWARD.bound((Array(), 16000, None), {"scale": 0.5})
    assert FORWARD.given(given) == "x: float32[1,2], rate: 16000, state: None, scale: 0.5"


def test_arguments_that_fit_are_bound_by_name() -> None:
    assert FORWARD.bound(([1.0], 16000), {"scale": 1}) == {"x": [1.0], "rate": 16000, "scale": 1}
    assert FORWARD.bound((Array(), 1, None), {})["state"] is None


@pytest.mark.parametrize(
    "text",
    ["", "class Net(Module):\n  def forward(self", "class Net(Module):\n  def f(*, ] -> x:\n", "class Other(x):\n"],
)
def test_a_text_that_is_not_understood_has_no_signatures(text: str) -> None:
    assert torchscript_signature.methods(text, "Net") == {}
