"""Want of memory is told from everything that looks like it, for each library by its own words."""

from __future__ import annotations

import errno

import pytest

from lazyd.errors import CallFailed
from lazyd.runtimes import runtime_named

LLAMA, PYTHON = runtime_named("llama_cpp"), runtime_named("python")

SIGNS = [
    "CUDA error: out of memory",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 22 GiB",
    "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 100.00 MiB on device 0: cudaMalloc failed: out of memory",
    "cuMemCreate failed: out of memory",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 536870912",
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
    "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers",
    "llama_context: failed to allocate output buffer of size 512.00 MiB",
    "ggml_aligned_malloc: insufficient memory (attempted to allocate 2048.00 MB)",
    "ggml_malloc: failed to allocate  12.00 MB",
    "MemoryError",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array with shape (1073741824,)",
    "OSError: [Errno 12] Cannot allocate memory",
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9",
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Failed to allocate memory for requested buffer of size 9663676416",
    "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 12.00MB memory on GPU 0",
    'Traceback (most recent call last):\n  File "x.py", line 1, in f\nMemoryError\n',
]

NO_SIGNS = [
    "",
    "llama_model_load_from_file: failed to load model",
    "ValueError: Failed to load model from file: /m.gguf",
    "FileNotFoundError: [Errno 2] No such file or directory: '/m.gguf'",
    "OSError: [Errno 28] No space left on device",
    "tensor 'x' data is not within the file bounds, model is corrupted or incomplete",
    "warning: failed to mlock 98304-byte buffer (after locking 0 bytes): Cannot allocate memory",
    "Try increasing RLIMIT_MEMLOCK ('ulimit -l' as root): Cannot allocate memory",
    "ImportError: libgomp.so.1: cannot allocate memory in static TLS block",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: no kernel image is available for execution on the device",
    "CUDA driver version is insufficient for CUDA runtime version",
    "ggml_cuda_host_malloc: failed to allocate 12.00 MiB of pinned memory: out of memory",
    "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism",
    "ggml_new_object: not enough space in the context's memory pool (needed 10, available 0)",
    "init_batch: failed to find a memory slot for batch of size 512",
    "  File \"x.py\", line 3, in load\n    except MemoryError:\nKeyError: 'weights'",
    "grpc: RESOURCE_EXHAUSTED: Received message larger than max",
    "ValueError: the strategy 'out of memory' is unknown",
    "Segmentation fault",
]


@pytest.mark.parametrize("text", SIGNS)
def test_what_a_library_says_of_memory_is_recognised_in_a_log_and_in_an_error(text: str) -> None:
    log = f"loading\n{text}\nAborted\n"
    for runtime in (LLAMA, PYTHON):
        assert runtime.OUT_OF_MEMORY.search(log)
        assert runtime.out_of_memory(RuntimeError(text))


@pytest.mark.parametrize("text", NO_SIGNS)
def test_what_is_not_for_want_of_memory_is_not_taken_for_it(text: str) -> None:
    for runtime in (LLAMA, PYTHON):
        assert not runtime.OUT_OF_MEMORY.search(f"loading\n{text}\nAborted\n")
        assert not runtime.out_of_memory(RuntimeError(text))


class OutOfMemoryError(RuntimeError):
    """As torch calls it, whatever it says."""


class ArrayMemoryError(MemoryError):
    """As NumPy calls it."""


@pytest.mark.parametrize(
    "error", [MemoryError(), ArrayMemoryError("x"), OutOfMemoryError("x"), OSError(errno.ENOMEM, "x")]
)
def test_an_errors_kind_is_enough(error: Exception) -> None:
    assert PYTHON.out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/models/CUDA out of memory"),
        PermissionError(errno.EACCES, "Permission denied"),
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        OSError(errno.ENOSPC, "No space left on device"),
        KeyError("MemoryError"),
    ],
)
def test_errors_of_the_system_are_told_by_their_number(error: Exception) -> None:
    assert not PYTHON.out_of_memory(error)


def raised(outer: Exception, inner: Exception, *, hidden: bool = False) -> Exception:
    try:
        try:
            raise inner
        except Exception:
            if hidden:
                raise outer from None
            raise outer  # noqa: B904
    except Exception as error:
        return error


def test_an_error_that_was_raised_because_of_another_is_of_its_kind() -> None:
    assert PYTHON.out_of_memory(raised(ValueError("the model cannot be loaded"), MemoryError()))
    assert not PYTHON.out_of_memory(raised(ValueError("the model cannot be loaded"), KeyError("weights")))
    assert not PYTHON.out_of_memory(raised(ValueError("there is no such voice"), MemoryError(), hidden=True))


def test_another_models_want_of_memory_is_not_this_ones() -> None:
    nested = CallFailed(model="ocr", method="read", reason="CUDA out of memory", traceback="")
    assert not PYTHON.out_of_memory(nested)
    assert not PYTHON.out_of_memory(raised(RuntimeError("no text"), nested))


def test_errors_that_go_in_a_circle_are_looked_at_once() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert not PYTHON.out_of_memory(first)


def test_an_error_that_cannot_be_shown_is_none_of_memory() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise KeyError("no text")

    assert not PYTHON.out_of_memory(Odd())


def test_llama_cpp_tells_by_a_number_that_a_computation_found_no_memory() -> None:
    assert LLAMA.out_of_memory(RuntimeError("llama_decode returned -2"))
    assert not LLAMA.out_of_memory(RuntimeError("llama_decode returned 1"))  # the context is full
    assert not LLAMA.out_of_memory(RuntimeError("llama_decode returned -20"))
