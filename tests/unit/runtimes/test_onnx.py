"""ONNX models: what is told of them before they are loaded, and, where onnxruntime is there, their calls."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lazyd.runtimes import CallCancelled, Cancellation, onnx_library, packages, runtime_named

from .onnx_files import FLOAT, STRING, field, graph, identity, model, node, port, sums, weights, written

ONNX = runtime_named("onnx")
MIB = 1 << 20


def spec(path: str, **more: Any) -> dict[str, Any]:
    return {"name": "m", "runtime": "onnx", "path": path, **more}


# Before it is loaded.


def test_looking_at_a_model_imports_no_library(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", identity())
    program = (
        f"import sys; from lazyd.runtimes import runtime_named; runtime, spec = runtime_named('onnx'), {spec(path)!r};"
        "[look(spec) for look in (runtime.describe, runtime.needs, runtime.files, runtime.final_env)];"
        "print([name for name in ('onnxruntime', 'numpy', 'msgspec', 'asyncio') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"


def test_a_model_is_described_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(8))
    path = written(tmp_path / "m.onnx", sums(weights("w", (2,), location="w.data")))
    described = ONNX.describe(spec(path))
    assert described["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2]}]
    assert described["fileBytes"] == (tmp_path / "m.onnx").stat().st_size + 8
    assert described["externalFiles"] == ["w.data"]
    assert described["bytesByType"] == {"float32": 8}


def test_files_are_all_that_a_load_depends_on(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(8))
    path = written(tmp_path / "m.onnx", sums(weights("w", (2,), location="w.data")))
    assert ONNX.files(spec(path))[:2] == [path, str(tmp_path / "w.data")]


def test_needs_follow_from_the_bytes_of_the_weights_and_where_they_are(tmp_path: Path) -> None:
    whole = spec(written(tmp_path / "whole.onnx", sums(weights("w", (10 * MIB,), raw=bytes(40 * MIB)))))
    (tmp_path / "w.data").write_bytes(bytes(40 * MIB))
    beside = spec(written(tmp_path / "beside.onnx", sums(weights("w", (10 * MIB,), location="w.data"))))
    assert round(ONNX.needs(whole)["ram"]["ram"] / MIB) == 64 + 60
    assert ONNX.needs(whole)["files"] == {}
    assert round(ONNX.needs(beside)["ram"]["ram"] / MIB) == 64 + 20
    assert list(ONNX.needs(beside)["files"].values()) == [40 * MIB]
    assert ONNX.needs(beside)["source"] == "file size"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"path": ""}, "a model of onnx needs a path"),
        ({"path": "/etc/passwd"}, "/etc/passwd is not an ONNX file: it begins with"),
        ({"python": "/no/python"}, "the interpreter /no/python is missing"),
        ({"options": {"thread": 1}}, "onnx has no option 'thread'"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_anything_starts(
    tmp_path: Path, more: dict[str, Any], reason: str
) -> None:
    path = written(tmp_path / "m.onnx", identity())
    with pytest.raises(ValueError, match=reason):
        ONNX.needs({**spec(path), **more})


def test_it_may_go_on_a_gpu_if_its_library_computes_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "m.onnx", identity())
    library = tmp_path / "onnxruntime" / "capi"
    library.mkdir(parents=True)
    monkeypatch.setattr(packages, "directory", lambda *_: str(library.parent))
    assert ONNX.needs(spec(path))["gpu"] is None
    (library / "libonnxruntime_providers_cuda.so").touch()
    on_gpu = ONNX.needs(spec(path))["gpu"]
    assert 512 <= on_gpu["gpu"][0] / MIB < 513
    assert on_gpu["ram"] > ONNX.needs(spec(path))["ram"]["ram"]
    assert ONNX.needs(spec(path, options={"providers": ["CPUExecutionProvider"]}))["gpu"] is None


def test_a_library_that_is_not_found_may_be_able_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "directory", lambda *_: None)
    assert onnx_library.may_use_gpus({"python": "/opt/other/bin/python"})
    assert not onnx_library.may_use_gpus({})


def test_its_telemetry_is_off_before_the_library_is_imported() -> None:
    assert ONNX.final_env({}) == {"ORT_DISABLE_TELEMETRY": "1"}


@pytest.mark.parametrize(
    ("text", "is_of_memory"),
    [
        ("BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 4294967296", True),
        ("CUDA failure 2: out of memory ; GPU=0", True),
        ("std::bad_alloc", True),
        ("Got invalid dimensions for input: x", False),
    ],
)
def test_running_out_of_memory_is_told_from_other_failures(text: str, is_of_memory: bool) -> None:
    assert ONNX.out_of_memory(ValueError(f"onnxruntime: {text}")) is is_of_memory


# Loaded.


def load(path: str, **options: Any) -> Any:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make setup)")
    return ONNX.load(spec(path, options=options), None, lambda _phase, _fraction: None)


def call(loaded: Any, *args: Any, **kwargs: Any) -> Any:
    return loaded.call("run", args, kwargs, stream=False, cancelled=Cancellation())


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    """A model with two inputs and two outputs."""
    parts = [field(1, node("Identity", [name], [f"{name}2"])) for name in "ab"]
    parts += [field(11, port(name, FLOAT, ("N", 2))) for name in "ab"]
    parts += [field(12, port(f"{name}2", FLOAT, ("N", 2))) for name in "ab"]
    return load(written(tmp_path / "pair.onnx", model(graph(*parts))), intra_op_num_threads=1)


def test_outputs_come_by_name_all_or_those_that_are_wanted(pair: Any) -> None:
    both = {"a": [[1, 2]], "b": [[3, 4]]}
    assert {name: array.tolist() for name, array in call(pair, both).items()} == {"a2": [[1, 2]], "b2": [[3, 4]]}
    assert list(call(pair, both, outputs=["b2"])) == ["b2"]
    assert list(call(pair, inputs=both, outputs=["b2", "a2"])) == ["b2", "a2"]


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        (({"a": [[1, 2]]},), {}, r"'b' is missing; expected a: float32\[N,2\], b: float32\[N,2\]"),
        (({"a": [[1]], "b": [[1, 2]]},), {}, r"'a' is float32\[1,1\], not float32\[N,2\]"),
        (({"a": [[1, 2]], "b": [[1, 2]]}, ["c"]), {}, "'c' is no output; there are a2, b2"),
        (({"a": [[1, 2]], "b": [[1, 2]]}, "a2"), {}, "outputs is a list of names, not 'a2'; there are a2, b2"),
        (
            (),
            {"a": 1, "b": 2},
            r"""one argument, {"a": …, "b": …}, .* '\[{"a": …, "b": …}\]'\); the inputs are a: float32""",
        ),
        ((), {"c": 1}, "unexpected keyword argument 'c'; the inputs are a: float32"),
    ],
)
def test_what_does_not_fit_is_told_with_what_is_expected(
    pair: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=reason):
        call(pair, *args, **kwargs)


def test_texts_go_in_and_come_out_as_arrays_of_text(tmp_path: Path) -> None:
    loaded = load(written(tmp_path / "m.onnx", identity(STRING, ("N",))))
    answer = call(loaded, {"x": ["a", "größer"]})["y"]
    assert (answer.dtype.kind, answer.tolist()) == ("U", ["a", "größer"])


def test_weights_in_files_of_their_own_are_used(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    (tmp_path / "w.data").write_bytes(bytes(4) + numpy.array([10, 20], numpy.float32).tobytes())
    path = written(tmp_path / "m.onnx", sums(weights("w", (2,), location="w.data", offset=4, length=8)))
    assert call(load(path), {"x": [1, 2]})["y"].tolist() == [11, 22]


def test_a_dimension_may_be_fixed_by_an_option(tmp_path: Path) -> None:
    loaded = load(written(tmp_path / "m.onnx", identity()), free_dimension_override_by_name={"N": 3})
    with pytest.raises(ValueError, match=r"'x' is float32\[1\], not float32\[3\]"):
        call(loaded, {"x": [1]})


def test_a_warm_up_without_arguments_is_made_of_zeros_of_known_lengths(tmp_path: Path) -> None:
    loaded = load(written(tmp_path / "m.onnx", identity(FLOAT, ("N", 3))))
    assert not getattr(loaded, "warms_itself", False)
    (inputs,), _ = loaded.warmup_arguments(loaded.warmup_method, [], {})
    assert inputs["x"].shape == (1, 3)
    assert loaded.warmup_arguments("run", ["own"], {}) == (["own"], {})
    free = load(written(tmp_path / "free.onnx", identity(FLOAT, ("N", "length"))))
    with pytest.raises(ValueError, match=r"of x: float32\[N,length\] not all lengths are known"):
        free.warmup_arguments("run", [], {})


def test_arenas_shrink_and_settings_of_a_run_are_taken(tmp_path: Path) -> None:
    loaded = load(
        written(tmp_path / "m.onnx", identity()),
        memory_arena_shrinkage=True,
        run_config_entries={"gpu_graph_id": "-1"},
        execution_mode="sequential",
        graph_optimization_level="disable",
    )
    assert call(loaded, {"x": [1.5]})["y"].tolist() == [1.5]


def test_a_file_that_onnxruntime_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    parts = (field(1, node("NoSuchOperator", ["x"], ["y"])), field(11, port("x", FLOAT, (1,))))
    nonsense = model(graph(*parts, field(12, port("y", FLOAT, (1,)))))
    with pytest.raises(ValueError, match=r"^onnxruntime: .*NoSuchOperator"):
        load(written(tmp_path / "m.onnx", nonsense))


def test_a_model_that_is_placed_on_a_gpu_is_not_loaded_into_ram_instead(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make setup)")
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime computes on GPUs")
    placed = spec(written(tmp_path / "m.onnx", identity()), placement={"on": "gpu"})
    with pytest.raises(ValueError, match="no CUDAExecutionProvider; onnxruntime-gpu has it"):
        ONNX.load(placed, None, lambda _phase, _fraction: None)


def endless(tmp_path: Path) -> Any:
    """A model that counts to 2**62."""
    body = graph(
        field(1, node("Identity", ["on"], ["on2"])),
        field(1, node("Identity", ["v"], ["v2"])),
        field(11, port("i", 7, ())),
        field(11, port("on", 9, ())),
        field(11, port("v", FLOAT, (1,))),
        field(12, port("on2", 9, ())),
        field(12, port("v2", FLOAT, (1,))),
    )
    most = field(2, 7) + field(8, "most") + field(9, (1 << 62).to_bytes(8, "little"))
    yes = field(2, 9) + field(8, "yes") + field(9, b"\x01")
    attribute = field(1, "body") + field(6, body) + field(20, 5)
    loop = node("Loop", ["most", "yes", "x"], ["y"], attribute)
    whole = graph(
        field(1, loop),
        field(5, most),
        field(5, yes),
        field(11, port("x", FLOAT, (1,))),
        field(12, port("y", FLOAT, (1,))),
    )
    return load(written(tmp_path / "endless.onnx", model(whole)))


def test_a_call_that_is_cancelled_ends_within_the_computation(tmp_path: Path) -> None:
    loaded = endless(tmp_path)
    cancelled = Cancellation()
    timer = threading.Timer(0.2, cancelled.cancel)
    timer.start()
    with pytest.raises(CallCancelled):
        loaded.call("run", [{"x": [1.0]}], {}, stream=False, cancelled=cancelled)
    timer.join()
