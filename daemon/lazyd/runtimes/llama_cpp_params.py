"""What llama.cpp can be told and llama-cpp-python has no argument for. Importing this imports that library."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as api

if TYPE_CHECKING:
    from collections.abc import Iterator


def can_simulate() -> bool:
    """Whether this version can go through a load without allocating."""
    return _has(api.llama_model_params, "no_alloc")


@contextmanager
def defaults(*, outputs: int | None = None, progress: Any = None, simulated: bool = False) -> Iterator[None]:
    """Within this the library's own defaults say so much more.

    `outputs`: of how many tokens of a batch the scores may be asked. A buffer is made for so many times
    the vocabulary, which for a large one is more than the weights; without it, for the whole batch.
    `progress`: a ``llama_progress_callback``. `simulated`: nothing is allocated, see `can_simulate`.
    """
    of_model, of_context = api.llama_model_default_params, api.llama_context_default_params

    def model_params() -> Any:
        params = of_model()
        if progress is not None:
            params.progress_callback = progress
        if simulated:
            params.no_alloc = True
        return params

    def context_params() -> Any:
        params = of_context()
        if outputs is not None and _has(type(params), "n_outputs_max"):
            params.n_outputs_max = outputs
        return params

    api.llama_model_default_params, api.llama_context_default_params = model_params, context_params
    try:
        yield
    finally:
        api.llama_model_default_params, api.llama_context_default_params = of_model, of_context


def _has(structure: Any, name: str) -> bool:
    """An older version's structure lacks it, and would take an attribute of that name without effect."""
    return name in dict(structure._fields_)
