"""What NVML tells of a GPU agrees with what programs do there."""

from __future__ import annotations

import pytest

from tests.fakes.nvml import GIB

from .conftest import CONTEXT, NOISE, Gpu


def test_a_gpu_is_seen_with_its_size_and_name(gpu: Gpu) -> None:
    sample = gpu.sample()
    assert sample["kind"] == "cuda"
    assert GIB < sample["total_bytes"] < 1024 * GIB
    assert 0 <= sample["used_bytes"] <= sample["total_bytes"]
    assert sample["uuid"].startswith(("GPU-", "MIG-"))
    assert sample["label"]
    assert sample["alone"] == sample["uuid"].startswith("MIG-")
    assert 0 < sample["temperature_c"] < 150
    assert sample["alone"] or 0 < sample["power_w"] < 5000


def test_free_is_what_cuda_calls_free(gpu: Gpu) -> None:
    free, total = map(int, gpu.program().ask("info").split())
    sample = gpu.sample()
    assert sample["total_bytes"] == pytest.approx(total, rel=0.03)
    assert sample["total_bytes"] - sample["used_bytes"] == pytest.approx(free, abs=0.03 * total)


def test_what_a_process_allocates_is_used_and_shown_as_its_own(gpu: Gpu) -> None:
    program = gpu.program()
    before, own_before = gpu.used(), gpu.of_process(program.pid)
    assert program.ask(f"allocate {GIB}") == "ok"
    assert gpu.used() - before == pytest.approx(GIB, abs=NOISE)
    own = gpu.of_process(program.pid)
    if own is None or own_before is None:
        pytest.skip("used agrees; the driver shows no processes here, which a container may be the reason for")
    assert own - own_before == pytest.approx(GIB, abs=NOISE)
    assert own <= gpu.used()


def test_freed_memory_is_back_at_once_but_a_context_stays(gpu: Gpu) -> None:
    before = gpu.used()
    program = gpu.program()
    with_context = gpu.used()
    assert before < with_context < before + CONTEXT
    assert program.ask(f"allocate {GIB}") == "ok"
    assert program.ask("free") == "ok"
    gpu.until(lambda: gpu.used() <= with_context + NOISE)
    assert gpu.used() > before


def test_after_the_exit_of_a_process_all_of_it_is_seen_to_be_free(
    gpu: Gpu, record_property: pytest.RecordProperty
) -> None:
    before = gpu.used()
    program = gpu.program()
    assert program.ask(f"allocate {GIB}") == "ok"
    assert gpu.used() >= before + GIB
    program.kill()
    took_s = gpu.until(lambda: gpu.used() <= before + NOISE)
    record_property("release_s", round(took_s, 3))
    gpu.until(lambda: gpu.of_process(program.pid) is None)


def test_memory_runs_out_when_what_is_free_is_asked_for_and_a_little_more(gpu: Gpu) -> None:
    program = gpu.program()
    free, _ = map(int, program.ask("info").split())
    sample = gpu.sample()
    seen = sample["total_bytes"] - sample["used_bytes"]
    assert program.ask(f"allocate {max(free, seen) + NOISE}") == "error 2"
    assert program.ask(f"allocate {GIB}") == "ok"


def test_who_only_looks_has_no_context(gpu: Gpu) -> None:
    program = gpu.program()
    if gpu.of_process(program.pid) is None:
        pytest.skip("the driver shows no processes here, which a container may be the reason for")
    assert gpu.of_process(gpu.onlooker) is None
