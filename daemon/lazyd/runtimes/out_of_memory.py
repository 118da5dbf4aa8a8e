"""Whether something failed for want of memory, told from all that merely looks like it.

The difference matters: for want of memory other models leave and the load is tried again, while
for anything else nobody leaves. The words are those of the libraries: CUDA and its libraries,
ggml and llama.cpp, PyTorch, ONNX Runtime, Paddle, NumPy, the C++ library, the kernel.
"""

from __future__ import annotations

import errno
import re

_OTHERWISE = (
    r"m_?lock",  # pages that may not be locked stay where they are
    r"static TLS block",  # of the loader, whatever the machine's memory
    r"pinned memory",  # ggml goes on with memory that is not pinned
    r"retrying",
    r"memory pool",  # a pool of ggml's own whose size was miscounted
)
"""A line with one of these is no sign: what it tells was got over, or is of another kind."""

_SIGNS = (
    r"(?:CUDA|HIP)(?: runtime)?(?: error)?:? out of memory",
    r"\bcu(?:da)?[A-Z]\w*(?: failed)?: out of memory",
    r"out of memory error on GPU",
    r"RESOURCE_?EXHAUSTED\w*: .*out of memory",
    r"cudaErrorMemoryAllocation",
    r"CUDA_ERROR_OUT_OF_MEMORY",
    r"CU[A-Z]+_STATUS_ALLOC_FAILED",
    r"unable to allocate \S+ buffer",
    r"failed to allocate (?!host )(?:[\w.]+ ){0,2}buffers?\b",
    r"failed to allocate +[\d.]+ (?:MB|MiB|bytes)\b",
    r"failed to reserve initial output buffer",
    r"insufficient memory \(attempted to allocate",
    r"(?:can't|cannot|unable to|failed to) allocate memory",
    r"not enough memory: you tried to allocate",
    r"available memory of \d+ is smaller than requested",
    r"unable to allocate [\d.]+ [KMGTPE]?i?B for an array",
    r"std::bad_alloc",
    r"\[Errno 12\]",
    r"^(?:\w+\.)*(?:_?Array|OutOf)?MemoryError(?::|$)",
)

_DEEPEST = 20
"""So many causes of an error are looked at."""


def signs(*more: str) -> re.Pattern[str]:
    """Is found in what a process has written if one of its lines tells of want of memory.

    `more` are regular expressions for what a runtime's own library says.
    """
    return re.compile(
        rf"^(?!.*(?:{'|'.join(_OTHERWISE)})).*?(?:{'|'.join((*_SIGNS, *more))})", re.IGNORECASE | re.MULTILINE
    )


def is_in(error: BaseException, pattern: re.Pattern[str]) -> bool:
    """Whether an error, or one that it was raised from, is for want of memory."""
    looked_at: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in looked_at and len(looked_at) < _DEEPEST:
        if hasattr(type(cause), "varlink_name"):
            return False  # another model has failed, whose own worker tells why
        if _is_sign(cause, pattern):
            return True
        looked_at.add(id(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def _is_sign(error: BaseException, pattern: re.Pattern[str]) -> bool:
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    try:
        text = str(error)
    except Exception:  # it is the user's code
        return False
    return pattern.search(text) is not None
