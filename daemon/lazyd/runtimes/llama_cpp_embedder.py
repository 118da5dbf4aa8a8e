"""Embeddings from a model that is loaded for text: a second, small context over the same weights."""

from __future__ import annotations

import math
from typing import Any

import llama_cpp.llama_cpp as api

from .llama_cpp_options import EMBEDDED_TOKENS


class Embedder:
    """Made when it is first needed: only then does it cost memory."""

    def __init__(self, llama: Any, pooling: int | None, switch: Any) -> None:
        self._llama = llama
        self._tokens = min(llama.n_ctx(), EMBEDDED_TOKENS)
        self._context = self._new_context(api.LLAMA_POOLING_TYPE_UNSPECIFIED if pooling is None else pooling)
        if pooling is None and api.llama_pooling_type(self._context) == api.LLAMA_POOLING_TYPE_NONE:
            # A model made for text says nothing of pooling; one vector for a text is what is asked for.
            api.llama_free(self._context)
            self._context = self._new_context(api.LLAMA_POOLING_TYPE_MEAN)
        api.llama_set_abort_callback(self._context, switch.function, switch.argument)

    def embed(self, input: str | list[str], normalize: bool = False, truncate: bool = True) -> Any:  # noqa: A002
        """A vector for a text, or one for each text of a list. The arguments are `llama_cpp.Llama.embed`'s."""
        if isinstance(input, str):
            return self._embed_one(input, normalize, truncate)
        return [self._embed_one(text, normalize, truncate) for text in input]

    def close(self) -> None:
        api.llama_free(self._context)

    def _embed_one(self, text: str, normalize: bool, truncate: bool) -> list[Any]:
        tokens = self._llama.tokenize(text.encode())
        if len(tokens) > self._tokens:
            if not truncate:
                raise ValueError(f"the text has {len(tokens)} tokens; {self._tokens} can be embedded at once")
            tokens = tokens[: self._tokens]
        if not tokens:
            raise ValueError("an empty text has no embedding")
        self._llama.wanted()
        api.llama_memory_clear(api.llama_get_memory(self._context), True)
        memory = (api.llama_token * len(tokens))(*tokens)  # the batch only points there
        code = api.llama_decode(self._context, api.llama_batch_get_one(memory, len(tokens)))
        if code != 0:
            raise RuntimeError(f"llama.cpp could not compute an embedding (code {code})")
        size = api.llama_model_n_embd(self._llama.model)
        if api.llama_pooling_type(self._context) == api.LLAMA_POOLING_TYPE_NONE:
            flat = api.llama_get_embeddings(self._context)
            return [_vector(flat, size * i, size, normalize) for i in range(len(tokens))]
        return _vector(api.llama_get_embeddings_seq(self._context, 0), 0, size, normalize)

    def _new_context(self, pooling: int) -> Any:
        params = api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = self._tokens
        params.n_threads = self._llama.n_threads
        params.n_threads_batch = self._llama.n_threads_batch
        params.embeddings = True
        params.pooling_type = pooling
        context = api.llama_init_from_model(self._llama.model, params)
        if not context:
            raise MemoryError("llama.cpp could not make a context for embeddings")
        return context


def _vector(numbers: Any, start: int, size: int, normalize: bool) -> list[float]:
    if not numbers:
        raise RuntimeError("this model has no embeddings")
    vector = [float(number) for number in numbers[start : start + size]]
    length = math.sqrt(sum(number * number for number in vector)) if normalize else 1.0
    return [number / length for number in vector] if length else vector
