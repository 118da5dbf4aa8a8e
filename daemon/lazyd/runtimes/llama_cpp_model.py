"""A GGUF model in memory, by llama-cpp-python. Importing this imports that library."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import llama_cpp
import llama_cpp.llama_cpp as api

from . import CallCancelled, LoadAborted, checked, llama_cpp_params, texts
from .llama_cpp_embedder import Embedder
from .llama_cpp_log import ErrorLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import Cancellation, Progress

_NOT_OPTIONS = frozenset(
    {"self", "model_path", "kwargs", "verbose", "chat_handler", "draft_model", "tokenizer", "embedding"}
)
"""Arguments of `llama_cpp.Llama` that are no plain data, or are decided here."""
WARMUP_TOKENS = 8
"""A warm-up makes so many, where nothing else is written down."""
WARMUP_ROOM = 16
"""Tokens of the context that a long text of a warm-up leaves."""
_FIRST: dict[str, tuple[str, Any]] = {
    "complete": ("prompt", "The"),
    "chat": ("messages", [{"role": "user", "content": "Hello"}]),
    "embed": ("input", "Hello"),
    "tokenize": ("text", "Hello"),
}
"""By method: the name of its first argument, and one to try it with."""
OURS = frozenset({"embedding", "verbose"})
"""Options that are not passed on."""


class Llama(llama_cpp.Llama):
    """Looks at each token, and between the parts of a long prompt, whether the call is still wanted."""

    wanted: Callable[[], None] = staticmethod(lambda: None)

    def generate(self, *args: Any, **kwargs: Any) -> Generator[int, Any, None]:
        for token in super().generate(*args, **kwargs):
            self.wanted()
            yield token

    def eval(self, tokens: Sequence[int]) -> None:
        for start in range(0, len(tokens), self.n_batch):
            self.wanted()
            super().eval(tokens[start : start + self.n_batch])


class Switch:
    """Stops llama.cpp within a computation, from any thread and without Python's lock.

    llama.cpp calls a C function now and then, and stops if it answers true. `strlen` is one that
    every process has: it answers 0 for an empty text, and 1 after `on` has made it one byte long.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)
        self.function = ctypes.cast(ctypes.CDLL(None).strlen, api.ggml_abort_callback)
        self.argument = ctypes.cast(self._text, ctypes.c_void_p)

    def on(self) -> None:
        self._text[0] = b"\x01"

    def off(self) -> None:
        self._text[0] = b"\x00"


def check(options: dict[str, Any]) -> None:
    """Raises `ValueError` for an option that the library does not have."""
    known = set(inspect.signature(llama_cpp.Llama.__init__).parameters) - _NOT_OPTIONS
    checked.known_options(options, known | OURS, "llama_cpp")


class LlamaModel:
    """Fulfils `lazyd.runtimes.LoadedModel`. `outputs` is as in `llama_cpp_params.defaults`."""

    def __init__(self, path: str, options: dict[str, Any], outputs: int, progress: Progress) -> None:
        check(options)
        self._progress = progress
        self._aborted = False
        self._log = ErrorLog()
        self._log.attach()
        self._switch = Switch()
        self._llama: Any = self._load(path, options, outputs)
        api.llama_set_abort_callback(self._llama.ctx, self._switch.function, self._switch.argument)
        self._pooling = options.get("pooling_type")
        self._embedder: Embedder | None = None
        if options.get("embedding"):
            self._embedder = self._new_embedder()

    def methods(self) -> Sequence[str]:
        return ("complete", "chat", "embed", "tokenize")

    def call(
        self, method: str, args: Sequence[Any], kwargs: dict[str, Any], *, stream: bool, cancelled: Cancellation
    ) -> Any:
        if "stream" in kwargs:
            raise TypeError("stream is not an argument here: ask for the call itself to be streamed")
        if stream and method == "complete":
            return self._stream(_texts(self._llama.create_completion(*args, **kwargs, stream=True)), cancelled)
        if stream and method == "chat":
            return self._stream(_chunks(self._llama.create_chat_completion(*args, **kwargs, stream=True)), cancelled)
        with self._watching(cancelled):
            return getattr(self, f"_{method}")(args, kwargs)

    # Its warm-up.

    @property
    def warmup_method(self) -> str:
        """What is called where nothing is configured."""
        return "complete" if self._embedder is None else "embed"

    def warmup_arguments(
        self, method: str, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """With a short text where none is given, and few tokens to be made."""
        name, given = _FIRST[method]
        if not args and name not in kwargs:
            args = [given]
        return args, {"max_tokens": WARMUP_TOKENS, **kwargs} if method in ("complete", "chat") else kwargs

    def text_of(self, text: str, tokens: int | str) -> str:
        """The words of a text repeated until it has so many tokens, or fills the context but for a few."""
        most = max(1, self._llama.n_ctx() - WARMUP_ROOM)
        wanted = min(tokens, most) if isinstance(tokens, int) else most
        words = len(text.split())
        each = max(1, self._count(texts.repeated(text, 2 * words)) - self._count(text)) / words
        count = max(1, int(wanted / each))
        while self._count(texts.repeated(text, count)) < wanted:
            count += 1
        while count > 1 and self._count(texts.repeated(text, count)) > most:
            count -= 1
        return texts.repeated(text, count)

    def output_of(self, method: str, result: Any) -> Any:
        """Of an answer its text."""
        return result["choices"][0]["message"]["content"] if method == "chat" else result

    def _count(self, text: str) -> int:
        return len(self._llama.tokenize(text.encode()))

    def close(self) -> None:
        if self._embedder is not None:
            self._embedder.close()
        self._llama.close()

    # The methods.

    def _complete(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return self._llama.create_completion(*args, **kwargs)["choices"][0]["text"]

    def _chat(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return self._llama.create_chat_completion(*args, **kwargs)

    def _embed(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self._embedder is None:
            self._embedder = self._new_embedder()
        return self._embedder.embed(*args, **kwargs)

    def _tokenize(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
        if args and isinstance(args[0], str):
            args = (args[0].encode(), *args[1:])
        elif isinstance(kwargs.get("text"), str):
            kwargs = {**kwargs, "text": kwargs["text"].encode()}
        return list(self._llama.tokenize(*args, **kwargs))

    # Loading.

    def _load(self, path: str, options: dict[str, Any], outputs: int) -> Llama:
        callback = api.llama_progress_callback(self._loading)
        self._callback = callback  # llama.cpp keeps its address as long as the model lives
        own = {name: value for name, value in options.items() if name not in OURS}
        self._say("loading")
        try:
            with llama_cpp_params.defaults(outputs=outputs, progress=callback):
                llama = Llama(path, verbose=False, **own)
        except Exception as error:
            if self._aborted:
                raise LoadAborted from None
            why = self._log.first()
            raise ValueError(f"llama.cpp: {why}" if why else str(error)) from error
        self._say("loaded")
        return llama

    def _loading(self, fraction: float, _: Any) -> bool:
        """Called by llama.cpp; its answer says whether to go on."""
        try:
            self._progress("loading", fraction)
        except LoadAborted:
            self._aborted = True
        return not self._aborted

    def _say(self, phase: str) -> None:
        self._progress(phase, None)

    def _new_embedder(self) -> Embedder:
        return Embedder(self._llama, self._pooling, self._switch)

    # Cancelling.

    @contextmanager
    def _watching(self, cancelled: Cancellation) -> Iterator[None]:
        """Within this, the computation stops as soon as the call is cancelled."""

        def wanted() -> None:
            if cancelled():
                raise CallCancelled

        self._switch.off()
        self._llama.wanted = wanted
        self._log.is_muted = cancelled
        cancelled.then(self._switch.on)
        try:
            yield
        except Exception:
            wanted()  # a computation that was stopped looks like one that failed
            raise
        finally:
            cancelled.then(None)
            self._switch.off()

    def _stream(self, pieces: Iterator[Any], cancelled: Cancellation) -> Generator[Any, None, Any]:
        with self._watching(cancelled):
            return (yield from pieces)


def _texts(chunks: Iterator[Any]) -> Generator[str, None, str]:
    """The text of each chunk; that of the closing ones is what it returns."""
    last = ""
    for chunk in chunks:
        choice = chunk["choices"][0]
        if choice["finish_reason"] is not None:
            last += choice["text"]
        elif choice["text"]:
            yield choice["text"]
    return last


def _chunks(chunks: Iterator[Any]) -> Generator[Any, None, Any]:
    """Each chunk; the closing one is what it returns."""
    last = None
    for chunk in chunks:
        if last is not None:
            yield last
            last = None
        if chunk["choices"][0]["finish_reason"] is not None:
            last = chunk
        else:
            yield chunk
    return last
