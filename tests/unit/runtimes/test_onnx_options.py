"""Options of ONNX models are onnxruntime's, checked without it; a model goes where it is booked."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.runtimes.onnx_options import CPU, CUDA, Options, placed

TENSORRT = "TensorrtExecutionProvider"
WITH_CUDA = (TENSORRT, CUDA, CPU)
ON_ITS_GPU = {"device_id": 0, "arena_extend_strategy": "kSameAsRequested"}


def given(**options: Any) -> Options:
    return Options.of(options)


def test_options_keep_the_librarys_names_and_values() -> None:
    options = given(
        intra_op_num_threads=2,
        enable_mem_pattern=False,
        execution_mode="parallel",
        graph_optimization_level="ORT_ENABLE_BASIC",
        session_config_entries={"session.intra_op.allow_spinning": "0"},
        free_dimension_override_by_name={"N": 4},
        memory_arena_shrinkage=True,
    )
    assert options.attributes == {"intra_op_num_threads": 2, "enable_mem_pattern": False}
    assert options.choices == {"execution_mode": "ORT_PARALLEL", "graph_optimization_level": "ORT_ENABLE_BASIC"}
    assert (options.session, options.dimensions, options.shrinks) == (
        {"session.intra_op.allow_spinning": "0"},
        {"N": 4},
        True,
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"intra_op_num_thread": 1}, "onnx has no option 'intra_op_num_thread'; did you mean intra_op_num_threads?"),
        ({"intra_op_num_threads": "2"}, "the option intra_op_num_threads is a whole number, 0 or more, not '2'"),
        ({"inter_op_num_threads": True}, "is a whole number, 0 or more, not True"),
        ({"log_severity_level": -1}, "is a whole number, 0 or more, not -1"),
        ({"enable_mem_pattern": 1}, "the option enable_mem_pattern is true or false, not 1"),
        ({"execution_mode": "fast"}, "the option execution_mode is one of sequential, parallel, not 'fast'"),
        ({"execution_mode": "paralel"}, "not 'paralel'; did you mean parallel?"),
        ({"graph_optimization_level": 99}, "is one of disable, basic, extended, layout, all, not 99"),
        ({"session_config_entries": {"a": 1}}, "session_config_entries.a is a text in quotes, not 1"),
        ({"run_config_entries": []}, r"the option run_config_entries is a table, not \[\]"),
        ({"free_dimension_override_by_name": {"N": "4"}}, "free_dimension_override_by_name.N is a whole number"),
        ({"providers": CUDA}, "the option providers is a list"),
        ({"providers": [[CUDA]]}, "an entry of providers is a name, or"),
        ({"providers": [[CUDA, []]]}, "an entry of providers is a name, or"),
    ],
)
def test_an_option_that_is_wrong_is_told(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Options.of(options)


@pytest.mark.parametrize(
    ("options", "on", "providers"),
    [
        ({}, "ram", [(CPU, {})]),
        ({}, "gpu", [(CUDA, ON_ITS_GPU), (CPU, {})]),
        ({"providers": [CUDA]}, "ram", [(CPU, {})]),
        ({"providers": [CUDA, CPU]}, "gpu", [(CUDA, ON_ITS_GPU), (CPU, {})]),
        (
            {"providers": [TENSORRT, [CUDA, {"arena_extend_strategy": "kNextPowerOfTwo"}]]},
            "gpu",
            [(TENSORRT, {}), (CUDA, {"device_id": 0, "arena_extend_strategy": "kNextPowerOfTwo"}), (CPU, {})],
        ),
    ],
)
def test_a_model_goes_where_it_is_booked(options: dict[str, Any], on: str, providers: list[Any]) -> None:
    assert placed(Options.of(options), on, WITH_CUDA) == providers


def test_a_limit_is_the_arenas_unless_the_options_have_their_own() -> None:
    assert placed(given(), "gpu", WITH_CUDA, 1000)[0] == (CUDA, {**ON_ITS_GPU, "gpu_mem_limit": 1000})
    own = given(providers=[[CUDA, {"gpu_mem_limit": 7}]])
    assert placed(own, "gpu", WITH_CUDA, 1000)[0][1]["gpu_mem_limit"] == 7


@pytest.mark.parametrize(
    ("options", "on", "available", "reason"),
    [
        ({}, "gpu", (CPU,), "this onnxruntime has no CUDAExecutionProvider; onnxruntime-gpu has it; it has CPU"),
        ({"providers": ["OpenVINO"]}, "ram", (CPU,), "this onnxruntime has no OpenVINO; it has CPU"),
        ({"providers": [[CUDA, {"device_id": 1}]]}, "gpu", WITH_CUDA, 'device_id = 1 does not fit: .*device = "gpu1"'),
    ],
)
def test_a_provider_that_cannot_be_had_is_told(
    options: dict[str, Any], on: str, available: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        placed(Options.of(options), on, available)


@pytest.mark.parametrize(("providers", "may"), [([], True), ([CPU], False), ([[CUDA, {}], CPU], True)])
def test_providers_say_whether_a_gpu_may_be_used(providers: list[Any], may: bool) -> None:
    assert given(providers=providers).may_use_gpus is may
