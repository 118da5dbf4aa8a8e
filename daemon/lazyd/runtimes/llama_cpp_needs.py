"""What loading a GGUF model needs, on a GPU, in RAM, or divided layer by layer.

The weights follow from the file. What comes beside them, `Figures`, is estimated from the header
here, or told by a dry run of llama.cpp (`llama_cpp_dry_run`); `summed` is the same for both.

In RAM the weights are pages of the file, and told as such, unless ggml copies them into another
order for the processor. On a GPU everything is the process's own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .checked import MIB, file_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .gguf import Header
    from .llama_cpp_options import Options
    from .llama_cpp_parts import Model, Weights

_CELLS = 256
"""The cache is made in steps of so many cells."""
_FLOAT, _HALF = 4, 2
_CANDIDATE = 12
"""Bytes for each word of the vocabulary when the next token is chosen."""
_PROCESS_BYTES = 40 * MIB
_WORD_BYTES = 132
"""A worker with its libraries, and beside that for each word of a vocabulary: measured with models of 49,152
and of 262,144 words."""
DRIVER_BYTES = 512 * MIB
"""What CUDA and cuBLAS keep for a process on each GPU: 250 to 600 MiB are known."""
DRIVER_RAM_BYTES = 256 * MIB
"""And in RAM."""


@dataclass(frozen=True)
class Figures:
    """Bytes beside the weights."""

    cache: tuple[int, ...]
    """Of each layer."""
    compute: int
    """Buffers for what is passed between operations."""
    work: int
    """What a processor needs within them."""
    inputs: int
    """Of one batch; they are in RAM first."""
    other: int
    """Results, candidates, an adapter."""
    process: int


def estimated(model: Model, options: Options) -> Figures:
    """From the header alone. Attention is taken as llama.cpp computes it for most models: with a score for
    each pair of a token of the batch and a cell of the context."""
    cache = cache_bytes(model, options, options.n_ctx)
    compute = _compute(model.header, options, options.n_ctx, options.n_ubatch)
    if tokens := options.embedded_tokens:
        cache = [a + b for a, b in zip(cache, cache_bytes(model, options, tokens))]
        compute += _compute(model.header, options, tokens, tokens) + tokens * model.words * _FLOAT
    return Figures(
        cache=tuple(cache),
        compute=compute + options.outputs * model.words * _FLOAT,
        work=work_bytes(model.header, options),
        inputs=inputs_bytes(model.header, options),
        other=other_bytes(model, options),
        process=_PROCESS_BYTES + model.words * _WORD_BYTES,
    )


def cache_bytes(model: Model, options: Options, n_ctx: int) -> list[int]:
    """Two vectors for each cell, layer by layer."""
    header = model.header
    heads = header.of_architecture("attention.head_count", 1)
    width = header.of_architecture("embedding_length") // max(heads, 1)
    keys = header.of_architecture("attention.key_length", width) * options.key_bits
    values = header.of_architecture("attention.value_length", width) * options.value_bits
    shared_heads = header.by_layer("attention.head_count_kv", model.layers, heads)
    return [int(shared * (keys + values) * _whole(n_ctx) / 8) for shared in shared_heads[: model.layers]]


def work_bytes(header: Header, options: Options) -> int:
    """Before it multiplies, a processor brings the smaller factor into the form of the larger one: half as
    many bits for scores, a little more than a byte for a number on its way through a layer."""
    scores = _heads(header, options) * _whole(options.n_ctx) * _HALF
    wide = max(header.of_architecture("feed_forward_length"), header.of_architecture("embedding_length"))
    return options.n_ubatch * max(scores, wide * 9 // 8)


def inputs_bytes(header: Header, options: Options) -> int:
    """A vector for each token of a batch, and which cells it may look at."""
    return options.n_ubatch * (header.of_architecture("embedding_length") + _whole(options.n_ctx)) * _FLOAT


def other_bytes(model: Model, options: Options) -> int:
    """Scores for each word, also of every token that is embedded; what the next token is chosen from; an adapter.

    Raises:
        OSError: the adapter's file cannot be read.
    """
    tokens = options.outputs + options.embedded_tokens + (options.n_ctx if options.all_logits else 0)
    kept = model.words * (tokens * _FLOAT + _CANDIDATE)
    return kept + (file_size(options.lora_path) if options.lora_path else 0)


def summed(
    weights: Weights, figures: Figures, options: Options, files: Sequence[str], *, on_gpu: bool
) -> dict[str, Any]:
    """As `lazyd.runtimes.Runtime.needs` tells it, but for the source. Raises `OSError`."""
    ram = figures.process + figures.other + sum(figures.cache) + figures.compute + figures.work
    needs: dict[str, Any] = {
        "ram": {"ram": ram + (weights.repacked if options.is_mapped else weights.in_ram), "gpu": []},
        "gpu": None,
        "layers": None,
        "files": dict(map(_file, files)) if options.is_mapped else {},
    }
    if not on_gpu or options.gpu_layers == 0:
        return needs
    layers = _layers(weights, figures, options)
    on, stay = layers["gpu_layer_bytes"], layers["ram_layer_bytes"]
    if options.gpu_layers is None or options.gpu_layers >= len(on):
        whole = sum(on) + figures.compute + DRIVER_BYTES
        needs["gpu"] = {"ram": layers["ram_bytes"] - figures.compute, "gpu": [whole]}
        needs["layers"] = layers if options.may_divide else None
        return needs
    # A division that is asked for is the only one; the file's pages in it are counted as if they were the process's.
    first = len(on) - options.gpu_layers
    ram = layers["ram_bytes"] + sum(stay[:first]) + (sum(weights.layers[:first]) if options.is_mapped else 0)
    needs["gpu"] = {"ram": ram, "gpu": [layers["gpu_bytes"] + sum(on[first:])]}
    return needs


def _layers(weights: Weights, figures: Figures, options: Options) -> dict[str, Any]:
    """The fields of `lazyd.core.needs.Layers`."""
    beside = figures.cache if options.is_cached_beside_layers else (0,) * len(figures.cache)
    own = (0,) * len(weights.layers) if options.is_mapped else weights.layers
    ram = figures.process + figures.other + figures.inputs + figures.compute + DRIVER_RAM_BYTES
    ram += 0 if options.is_mapped else weights.input
    ram += 0 if options.is_cached_beside_layers else sum(figures.cache)
    return {
        "gpu_layer_bytes": [*(a + b for a, b in zip(weights.layers, beside)), weights.output],
        "ram_layer_bytes": [*(a + b for a, b in zip(own, beside)), 0 if options.is_mapped else weights.output_in_ram],
        # GPUs that work at once copy what comes in; what stays in RAM is computed on a GPU too, tensor by tensor.
        "gpu_bytes": figures.compute + 3 * figures.inputs + weights.largest + DRIVER_BYTES,
        "ram_bytes": ram,
    }


def _compute(header: Header, options: Options, n_ctx: int, tokens: int) -> int:
    through = 3 * header.of_architecture("embedding_length") + 2 * header.of_architecture("feed_forward_length")
    entering = header.of_architecture("embedding_length") + _whole(n_ctx)
    return tokens * (_whole(n_ctx) * _heads(header, options) + through + entering) * _FLOAT


def _heads(header: Header, options: Options) -> int:
    """Heads whose scores are written down."""
    return 0 if options.is_flash else header.of_architecture("attention.head_count", 1)


def _whole(cells: int) -> int:
    return -(-cells // _CELLS) * _CELLS


def _file(path: str) -> tuple[str, int]:
    found = os.stat(path)
    return f"{found.st_dev}:{found.st_ino}", found.st_size
