"""The runtime ``llama_cpp``: GGUF models by llama-cpp-python.

Options and arguments keep that library's names. Without ``n_ctx`` the context is the model's own,
but at most `DEFAULT_N_CTX`. The library is imported by `load` alone, in `llama_cpp_model`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import checked, gguf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Progress
    from .llama_cpp_model import LlamaModel

DEFAULT_N_CTX = 4096
_PROCESS_BYTES = 128 * checked.MIB
"""Interpreter, libraries and what llama.cpp computes in, as measured for short prompts."""
_KV_BYTES = 2
"""Of one number in the key-value cache: 16-bit floats."""


class LlamaCppRuntime:
    """Loads GGUF files."""

    name = "llama_cpp"
    imports: Sequence[str] = ("llama_cpp", "lazyd.runtimes.llama_cpp_model")

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:  # noqa: ARG002
        return {}

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        header = _header(spec)
        return {
            "format": f"GGUF {header.version}",
            "architecture": header.architecture,
            "name": header.metadata.get("general.name"),
            "parameters": header.parameters,
            "contextLength": header.of_architecture("context_length"),
            "fileBytes": sum(map(checked.file_size, gguf.parts(spec["path"]))),
            "tensors": header.tensors,
            "bytesByType": header.bytes_by_type,
            "metadata": header.metadata,
        }

    def estimate(self, spec: dict[str, Any]) -> int:
        checked.interpreter(spec)
        header = _header(spec)
        weights = sum(map(checked.file_size, gguf.parts(spec["path"])))
        return (
            weights
            + _cache_bytes(header, context_length(header.of_architecture("context_length"), spec))
            + _PROCESS_BYTES
        )

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> LlamaModel:  # noqa: ARG002
        if not spec.get("path"):
            raise ValueError("a llama_cpp model needs a path")
        progress("importing", None)
        from .llama_cpp_model import LlamaModel

        n_ctx = context_length(gguf.context_length(spec["path"]), spec)
        return LlamaModel(spec["path"], {**spec.get("options", {}), "n_ctx": n_ctx}, progress)


def context_length(own: int | None, spec: dict[str, Any]) -> int:
    """Cells of the context: the option ``n_ctx``, where 0 means the model's `own`, or a default."""
    own = own or DEFAULT_N_CTX
    asked = spec.get("options", {}).get("n_ctx")
    if asked is None:
        return min(own, DEFAULT_N_CTX)
    return int(asked) or own


def _header(spec: dict[str, Any]) -> gguf.Header:
    path = spec.get("path")
    if not path:
        raise ValueError("a llama_cpp model needs a path")
    if os.path.isdir(path):
        raise ValueError(f"{path} is a directory, not a GGUF file")
    return gguf.read(path)


def _cache_bytes(header: gguf.Header, n_ctx: int) -> int:
    """The key-value cache: two vectors for each layer and cell."""
    heads = header.of_architecture("attention.head_count", 1)
    width = header.of_architecture("embedding_length") // max(heads, 1)
    keys = header.of_architecture("attention.key_length", width)
    values = header.of_architecture("attention.value_length", width)
    shared_heads = header.of_architecture("attention.head_count_kv", heads)
    return header.of_architecture("block_count") * shared_heads * (keys + values) * n_ctx * _KV_BYTES


RUNTIME = LlamaCppRuntime()
