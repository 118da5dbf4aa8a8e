"""What a GGUF model needs, as its header tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lazyd.runtimes import gguf, llama_cpp_library, llama_cpp_parts, runtime_named
from lazyd.runtimes.llama_cpp_needs import DRIVER_BYTES
from lazyd.runtimes.llama_cpp_parts import Model

from .test_gguf import model

MIB = 1024 * 1024
F32, F16, Q8_0, Q4_K = 0, 1, 8, 12

SHAPE: dict[str, tuple[str, Any]] = {
    "general.architecture": ("text", "tiny"),
    "tiny.context_length": ("n", 8192),
    "tiny.block_count": ("n", 2),
    "tiny.embedding_length": ("n", 256),
    "tiny.feed_forward_length": ("n", 512),
    "tiny.attention.head_count": ("n", 4),
    "tiny.attention.head_count_kv": ("n", 2),
}
EMBEDDING = {"token_embd.weight": (Q8_0, (256, 1024))}
LAYERS = {
    f"blk.{layer}.{name}.weight": kind
    for layer in (0, 1)
    for name, kind in {"attn_norm": (F32, (256,)), "ffn_up": (Q4_K, (256, 512))}.items()
}
OUTPUT = {"output_norm.weight": (F32, (256,)), "output.weight": (Q8_0, (256, 1024))}
EMBEDDING_BYTES = 256 * 1024 // 32 * 34
LAYER_BYTES = 256 * 4 + 512 * 144
CACHE_BYTES = 2 * (64 + 64) * 4096 * 2
"""Of one layer: 2 shared heads, a key and a value of 64 numbers each, 4,096 cells, 16 bits."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return model(tmp_path / "m.gguf", pairs=SHAPE, tensors={**EMBEDDING, **LAYERS, **OUTPUT})


@pytest.fixture
def tied(tmp_path: Path) -> Path:
    """Its embedding is its output layer too."""
    return model(tmp_path / "tied.gguf", pairs=SHAPE, tensors={**EMBEDDING, **LAYERS})


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """llama.cpp built for GPUs."""
    folder = tmp_path / "llama_cpp" / "lib"
    folder.mkdir(parents=True)
    (folder / "libggml-cuda.so").touch()
    (folder / "libllama.so").touch()
    monkeypatch.setattr(llama_cpp_library, "repacked_types", lambda: frozenset({"Q4_K"}))
    return tmp_path


def spec(path: Path, libraries: Path | None = None, **options: Any) -> dict[str, Any]:
    found = {} if libraries is None else {"python_path": (str(libraries),)}
    return {"name": "m", "runtime": "llama_cpp", "path": str(path), "options": options, **found}


def needs(path: Path, libraries: Path | None = None, **options: Any) -> dict[str, Any]:
    return runtime_named("llama_cpp").needs(spec(path, libraries, **options))


def in_ram(path: Path, **options: Any) -> int:
    return int(needs(path, **options)["ram"]["ram"])


def test_the_file_is_told_apart_from_what_the_process_needs(path: Path) -> None:
    found = path.stat()
    told = needs(path)
    assert told["files"] == {f"{found.st_dev}:{found.st_ino}": found.st_size}
    assert told["source"] == "file size"


def test_without_mapping_the_weights_are_the_processs_own(path: Path, libraries: Path) -> None:
    mapped, own = needs(path, libraries), needs(path, libraries, use_mmap=False)
    assert own["files"] == {}
    weights = 2 * EMBEDDING_BYTES + 256 * 4 + 2 * LAYER_BYTES
    assert own["ram"]["ram"] - mapped["ram"]["ram"] == weights - 2 * 512 * 144  # which were copied all the same


def test_an_adapter_is_counted_and_forbids_mapping(path: Path, tmp_path: Path) -> None:
    (tmp_path / "lora").write_bytes(bytes(MIB))
    told = needs(path, lora_path=str(tmp_path / "lora"))
    assert told["files"] == {}
    assert told["ram"]["ram"] - in_ram(path, use_mmap=False) == MIB


def test_the_cache_grows_with_the_context(tmp_path: Path) -> None:
    """11.25 MiB at 512 cells and 90 at 4096, as llama.cpp reports for a model of this shape."""
    shape = {
        **SHAPE,
        "tiny.block_count": ("n", 30),
        "tiny.embedding_length": ("n", 576),
        "tiny.attention.head_count": ("n", 9),
        "tiny.attention.head_count_kv": ("n", 3),
    }
    path = model(tmp_path / "smol.gguf", pairs=shape, tensors=EMBEDDING)
    options = {"n_batch": 1, "flash_attn": True}  # little is computed at once
    grown = in_ram(path, n_ctx=4096, **options) - in_ram(path, n_ctx=512, **options)
    assert grown == pytest.approx((90 - 11.25) * MIB, rel=0.001)


def test_a_cache_of_smaller_numbers_is_smaller(path: Path) -> None:
    assert in_ram(path, type_k=Q8_0) - in_ram(path) == -2 * CACHE_BYTES // 2 * (1 - 34 / 64)


def test_without_n_ctx_the_context_is_the_models_own_up_to_a_limit(path: Path) -> None:
    assert in_ram(path) == in_ram(path, n_ctx=4096)
    assert in_ram(path, n_ctx=0) == in_ram(path, n_ctx=8192)


def test_every_part_of_a_split_model_counts(tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    model(parts[0], pairs=SHAPE, tensors={**EMBEDDING, "blk.0.ffn_up.weight": (F16, (256, 512))})
    with pytest.raises(FileNotFoundError, match="00002-of-00002"):
        needs(parts[0])
    model(parts[1], pairs=SHAPE, tensors={"blk.1.ffn_up.weight": (F16, (256, 512))})
    assert len(needs(parts[0])["files"]) == 2
    whole = needs(parts[0], use_mmap=False)["ram"]["ram"]
    alone = needs(model(tmp_path / "m.gguf", pairs=SHAPE, tensors=EMBEDDING), use_mmap=False)["ram"]["ram"]
    assert whole - alone == 2 * 256 * 512 * 2


def test_scores_of_all_tokens_are_kept_only_if_they_are_asked_for(path: Path) -> None:
    everything = 1024 * 4 * (2 * (512 - 1) + 4096)
    assert in_ram(path, logits_all=True) - in_ram(path) == everything


def test_embedding_takes_a_second_context(path: Path) -> None:
    assert in_ram(path, embedding=True) - in_ram(path) > 2 * CACHE_BYTES // 2 + 2 * 2048 * 1024 * 4


# On GPUs.


def test_a_library_without_gpu_support_loads_in_ram_alone(path: Path, libraries: Path) -> None:
    (libraries / "llama_cpp" / "lib" / "libggml-cuda.so").unlink()
    told = needs(path, libraries)
    assert (told["gpu"], told["layers"]) == (None, None)


@pytest.fixture
def interpreter(tmp_path: Path, libraries: Path) -> Path:
    """Of a virtual environment with llama.cpp built for GPUs."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    packages = tmp_path / "venv" / "lib" / "python3.13" / "site-packages"
    packages.mkdir(parents=True)
    (libraries / "llama_cpp").rename(packages / "llama_cpp")
    return python


def of_interpreter(path: Path, python: Path) -> dict[str, Any]:
    return runtime_named("llama_cpp").needs({**spec(path), "python": str(python)})


def test_another_interpreters_library_is_found_beside_it(path: Path, interpreter: Path) -> None:
    assert of_interpreter(path, interpreter)["gpu"] is not None
    (cuda,) = interpreter.parents[1].rglob("libggml-cuda.so")
    files = runtime_named("llama_cpp").files({**spec(path), "python": str(interpreter)})
    assert files == [str(path), str(cuda.with_name("libllama.so"))]
    cuda.unlink()
    assert of_interpreter(path, interpreter)["gpu"] is None


def test_a_virtual_environment_may_have_the_library_from_where_it_was_made(
    path: Path, interpreter: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "bin" / "python"
    other.parent.mkdir(parents=True)
    interpreter.unlink()
    interpreter.write_text("#!/bin/sh\n")
    interpreter.chmod(0o755)
    other.symlink_to(interpreter)
    assert of_interpreter(path, other)["gpu"] is not None
    (cuda,) = interpreter.parents[1].rglob("libggml-cuda.so")
    cuda.unlink()
    assert of_interpreter(path, other)["gpu"] is None


def test_another_interpreter_whose_library_is_not_found_may_use_gpus(path: Path, interpreter: Path) -> None:
    (library,) = interpreter.parents[1].rglob("llama_cpp")
    library.rename(library.with_name("elsewhere"))
    assert of_interpreter(path, interpreter)["gpu"] is not None


def test_what_is_put_before_an_interpreters_own_packages_goes_first(
    path: Path, interpreter: Path, tmp_path: Path
) -> None:
    (tmp_path / "first" / "llama_cpp").mkdir(parents=True)
    told = {**spec(path, tmp_path / "first"), "python": str(interpreter)}
    assert runtime_named("llama_cpp").needs(told)["gpu"] is None


def test_the_library_may_be_elsewhere(path: Path, libraries: Path) -> None:
    told = spec(path)
    told["env"] = {"LLAMA_CPP_LIB_PATH": str(libraries / "llama_cpp" / "lib")}
    assert runtime_named("llama_cpp").needs(told)["gpu"] is not None


def test_on_a_gpu_are_the_layers_their_cache_and_the_output(path: Path, libraries: Path) -> None:
    layers = needs(path, libraries)["layers"]
    assert layers["gpu_layer_bytes"] == [LAYER_BYTES + CACHE_BYTES] * 2 + [EMBEDDING_BYTES + 256 * 4]
    assert layers["ram_layer_bytes"] == [CACHE_BYTES, CACHE_BYTES, 0]


def test_an_embedding_that_is_the_output_too_is_copied_to_the_gpu(tied: Path, libraries: Path) -> None:
    assert needs(tied, libraries)["layers"]["gpu_layer_bytes"][-1] == EMBEDDING_BYTES


def test_whole_on_a_gpu_nothing_is_computed_in_ram(path: Path, libraries: Path) -> None:
    told = needs(path, libraries)
    (whole,) = told["gpu"]["gpu"]
    assert whole - sum(told["layers"]["gpu_layer_bytes"]) > DRIVER_BYTES
    assert told["gpu"]["ram"] < told["layers"]["ram_bytes"]


def test_a_cache_that_is_kept_in_ram_is_counted_there(path: Path, libraries: Path) -> None:
    beside, apart = needs(path, libraries), needs(path, libraries, offload_kqv=False)
    assert beside["gpu"]["gpu"][0] - apart["gpu"]["gpu"][0] == 2 * CACHE_BYTES
    assert apart["gpu"]["ram"] - beside["gpu"]["ram"] == 2 * CACHE_BYTES
    assert apart["layers"]["ram_layer_bytes"] == [0, 0, 0]


def test_layers_in_ram_hold_their_weights_if_these_are_not_mapped(path: Path, libraries: Path) -> None:
    told = needs(path, libraries, use_mmap=False)
    assert told["layers"]["ram_layer_bytes"] == [LAYER_BYTES + CACHE_BYTES] * 2 + [EMBEDDING_BYTES + 256 * 4]
    assert told["gpu"]["ram"] - needs(path, libraries)["gpu"]["ram"] == EMBEDDING_BYTES


def test_no_layers_on_a_gpu_is_in_ram(path: Path, libraries: Path) -> None:
    told = needs(path, libraries, n_gpu_layers=0)
    assert (told["gpu"], told["layers"]) == (None, None)


@pytest.mark.parametrize("all_of_them", [-1, 3, 99])
def test_all_layers_on_a_gpu_is_what_is_done_if_there_is_room(path: Path, libraries: Path, all_of_them: int) -> None:
    assert needs(path, libraries, n_gpu_layers=all_of_them) == needs(path, libraries)


def test_a_number_of_layers_is_the_only_division(path: Path, libraries: Path) -> None:
    told, free = needs(path, libraries, n_gpu_layers=2), needs(path, libraries)
    assert told["layers"] is None
    assert told["gpu"]["gpu"] == [free["layers"]["gpu_bytes"] + sum(free["layers"]["gpu_layer_bytes"][1:])]
    assert told["gpu"]["ram"] == free["layers"]["ram_bytes"] + CACHE_BYTES + LAYER_BYTES
    assert told["ram"] == free["ram"]


@pytest.mark.parametrize("options", [{"tensor_split": [1.0, 2.0]}, {"split_mode": 2}])
def test_a_model_with_its_own_idea_of_a_division_is_not_divided(
    path: Path, libraries: Path, options: dict[str, Any]
) -> None:
    told = needs(path, libraries, **options)
    assert told["layers"] is None
    assert told["gpu"] is not None


# What is copied for the processor.


def test_what_the_processor_wants_in_another_order_is_no_page_of_the_file(path: Path, libraries: Path) -> None:
    with_copies = in_ram(path)
    assert with_copies - needs(path, libraries, use_mmap=False)["ram"]["ram"] < 0
    read = Model([gguf.read(str(path))])
    assert llama_cpp_parts.weights(read, {"Q4_K"}).repacked == 2 * 512 * 144
    assert llama_cpp_parts.weights(read, {"Q8_0"}).repacked == EMBEDDING_BYTES  # the output; an embedding is looked up


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"n_ctx": "4k"}, "the option n_ctx is a whole number, not '4k'"),
        ({"n_gpu_layers": True}, "the option n_gpu_layers is a whole number, not True"),
        ({"type_k": 77}, "77 is none that is known"),
        ({"use_mlock": True}, "use_mlock does not fit a mapped file: .* say use_mmap = false beside it"),
    ],
)
def test_an_option_of_the_wrong_kind_is_said_before_anything_starts(
    path: Path, option: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        needs(path, **option)


@pytest.mark.parametrize("options", [{"use_mmap": False}, {"lora_path": "/proc/self/exe"}])
def test_memory_that_is_the_processs_own_may_be_locked(path: Path, options: dict[str, Any]) -> None:
    assert in_ram(path, **options, use_mlock=True) == in_ram(path, **options)
    assert in_ram(path, use_mlock=False) == in_ram(path)


def test_needs_depend_on_the_models_files_and_on_the_library(path: Path, libraries: Path) -> None:
    files = runtime_named("llama_cpp").files(spec(path, libraries, lora_path="/l"))
    assert files == [str(path), "/l", str(libraries / "llama_cpp" / "lib" / "libllama.so")]
