"""What a model's options say about the memory that it will take, and what a placement makes of them.

Options keep llama-cpp-python's names. lazyd books memory before it loads, so where a model goes is
lazyd's to say: an option that would load it elsewhere than it is booked is a mistake with a clear
line, not a surprise on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import gguf, llama_cpp_locked

DEFAULT_N_CTX = 4096
DEFAULT_BATCH = 512
"""Tokens computed at once, unless the options say otherwise; as llama-cpp-python has it."""
EMBEDDED_TOKENS = 2048
"""Of one text that is embedded, at most. The memory for computing grows with it."""
ALL_LAYERS = -1
_BY_LAYER = 1
"""llama.cpp's ``LLAMA_SPLIT_MODE_LAYER``: each layer whole on one GPU."""
_F16 = 1
"""ggml's number of the type that the cache has by default."""


@dataclass(frozen=True)
class Options:
    """As the library will take them."""

    n_ctx: int
    n_batch: int
    n_ubatch: int
    key_bits: float
    """Of one number in the cache."""
    value_bits: float
    is_mapped: bool
    """The weights in RAM are pages of the file."""
    is_cached_beside_layers: bool
    """The cache of a layer on a GPU lies there too (``offload_kqv``)."""
    is_flash: bool
    """Attention is computed without a matrix of all scores."""
    all_logits: bool
    embedded_tokens: int
    """Of a text that is embedded, at most; 0: embedding is not what it is loaded for."""
    gpu_layers: int | None
    """So many layers are to be on a GPU; None: as many as there is room for."""
    may_divide: bool
    """Nothing forbids a division over several GPUs, layer by layer."""
    lora_path: str | None

    @classmethod
    def of(cls, spec: dict[str, Any], own_context: int | None) -> Options:
        """Of a model made for a context of `own_context`.

        Raises:
            ValueError: a value is of a wrong kind, or an option makes memory that cannot be accounted for.
        """
        given = spec.get("options", {})
        n_ctx = context_length(own_context, spec)
        n_batch = min(n_ctx, number(given, "n_batch", DEFAULT_BATCH))
        gpu_layers = number(given, "n_gpu_layers", ALL_LAYERS)
        lora_path = given.get("lora_path")
        if llama_cpp_locked.locks_a_mapped_file(given):
            raise ValueError(f"use_mlock does not fit a mapped file: {llama_cpp_locked.WHY}; {llama_cpp_locked.REMEDY}")
        return cls(
            n_ctx=n_ctx,
            n_batch=n_batch,
            n_ubatch=min(n_batch, number(given, "n_ubatch", DEFAULT_BATCH)),
            key_bits=_bits(number(given, "type_k", _F16)),
            value_bits=_bits(number(given, "type_v", _F16)),
            is_mapped=llama_cpp_locked.is_mapped(given),
            is_cached_beside_layers=bool(given.get("offload_kqv", True)),
            is_flash=bool(given.get("flash_attn", False)),
            all_logits=bool(given.get("logits_all", False)),
            embedded_tokens=min(n_ctx, EMBEDDED_TOKENS) if given.get("embedding") else 0,
            gpu_layers=None if gpu_layers < 0 else gpu_layers,
            may_divide=not given.get("tensor_split") and number(given, "split_mode", _BY_LAYER) == _BY_LAYER,
            lora_path=lora_path,
        )

    @property
    def outputs(self) -> int:
        """Tokens of a batch whose scores are wanted: the last, or each."""
        return self.n_batch if self.all_logits else 1


def context_length(own: int | None, spec: dict[str, Any]) -> int:
    """Cells of the context: the option ``n_ctx``, where 0 means the model's `own`, or a default."""
    own = own or DEFAULT_N_CTX
    if spec.get("options", {}).get("n_ctx") is None:
        return min(own, DEFAULT_N_CTX)
    return number(spec["options"], "n_ctx", 0) or own


def number(options: dict[str, Any], name: str, default: int) -> int:
    """An option that is a whole number. Raises `ValueError` if it is none."""
    value = options.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"the option {name} is a whole number, not {value!r}")
    return value


def placed(options: dict[str, Any], placement: dict[str, Any] | None) -> dict[str, Any]:
    """The options, completed so that the model is loaded where it is booked.

    `placement` is ``{"on": "ram"}``, or ``{"on": "gpu"}`` with the number of layers for each GPU in
    ``layers`` if it is divided, which are the last ``of`` so many if the others stay in RAM.

    Raises:
        ValueError: an option contradicts it.
    """
    if placement is None:
        return options
    if placement["on"] == "ram":
        return {**options, "n_gpu_layers": 0}
    main = number(options, "main_gpu", 0)
    if main != 0:
        raise ValueError(
            f'main_gpu = {main} does not fit: a model sees only the GPU it is placed on; say device = "gpu{main}"'
        )
    layers: list[int] = placement.get("layers") or []
    asked = number(options, "n_gpu_layers", ALL_LAYERS)
    if not layers:
        return {**options, "n_gpu_layers": asked}
    of = placement.get("of", sum(layers))
    if 0 <= asked < of and asked != sum(layers):
        raise ValueError(f"n_gpu_layers = {asked} does not fit: room for {sum(layers)} of {of} layers is booked")
    if options.get("tensor_split") or number(options, "split_mode", _BY_LAYER) != _BY_LAYER:
        raise ValueError(
            "tensor_split and split_mode do not fit: the model is divided as there is room; leave them out"
        )
    divided: dict[str, Any] = {"n_gpu_layers": sum(layers) if sum(layers) < of else ALL_LAYERS}
    if len(layers) > 1:
        divided["tensor_split"] = [float(n) for n in layers]  # llama.cpp takes shares, and cuts at whole layers
    return {**options, **divided}


def _bits(kind: int) -> float:
    if kind not in gguf.TENSOR_TYPES:
        raise ValueError(f"type_k and type_v are numbers of ggml's types; {kind} is none that is known")
    _, numbers, size = gguf.TENSOR_TYPES[kind]
    return 8 * size / numbers
