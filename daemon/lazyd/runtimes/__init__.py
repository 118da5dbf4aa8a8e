"""How one kind of model is loaded and called: one file per runtime, and the protocol they fulfil.

A runtime is a module here with a `RUNTIME` that fulfils `Runtime`; its name is the module's.
All of a whole runtime that serves text files:

    class Text:
        def methods(self): return ["line"]
        def call(self, method, args, kwargs, *, stream, cancelled): return self.lines[args[0]]
        def close(self): pass

    class Runtime:
        name, imports = "text", ()
        def options(self): return ()
        def final_env(self, spec): return {}
        OUT_OF_MEMORY, dry_run = out_of_memory.signs(), None
        def out_of_memory(self, error): return out_of_memory.is_in(error, self.OUT_OF_MEMORY)
        def version(self): return "1"
        def describe(self, spec): return {"bytes": os.path.getsize(spec["path"])}
        def files(self, spec): return [spec["path"]]
        def needs(self, spec):
            ram = {"ram": 2 * os.path.getsize(spec["path"]), "gpu": []}
            return {"ram": ram, "gpu": None, "layers": None, "files": {}, "source": "file size"}
        def load(self, spec, member, progress): text = Text(); text.lines = open(spec["path"]).readlines(); return text

A `spec` is a model's description as plain data: what `ModelSpec` holds, defaults left out. The
manager calls `describe`, `files` and `needs`, the host `final_env`; neither may import a model library,
so a module here imports the standard library alone, and its own library in `load` and `dry_run`. Worker,
host and manager import this. Python 3.9 and later.

What a model needs is told as a dict, since it crosses processes:

    {"ram": {"ram": bytes, "gpu": []},            in RAM; None: it cannot be loaded so
     "gpu": {"ram": bytes, "gpu": [bytes]},       whole on one GPU, and in RAM beside; or None
     "layers": {…},                               the fields of `lazyd.core.needs.Layers`; None: it cannot be divided
     "files": {"device:inode": bytes},            files that it maps while any of it is in RAM
     "source": "file size"}                       or "default", where nothing is known, or "dry run"

Bytes in RAM are anonymous and shared memory; pages of mapped files are told apart, as `files`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from .option_tables import Option

    Progress = Callable[[str, "float | None"], None]
    """Told a phase and the fraction done, where it is known. Raises `LoadAborted`."""

MARKER = "LAZYD_WORKER"
"""The environment variable that every program which a worker starts inherits, wherever that goes: whose it is."""


class LoadedModel(Protocol):
    """One model in memory. All its methods are called by one thread, the one in which it was loaded; with
    ``concurrency = n`` in its spec, `call` is also called by up to n - 1 others, at any moment in which the first is in
    `call` or waits. None is in `call` while it is parked, comes back or is closed."""

    def methods(self) -> Sequence[str]:
        """What clients may call."""

    def call(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        stream: bool,
        cancelled: Cancellation,
    ) -> Any:
        """The result, or an iterator of pieces, which is a stream's if `stream` is wanted.

        What such an iterator returns (``StopIteration.value``) is the stream's last piece,
        unless it is None. A method that takes long looks at `cancelled` and raises
        `CallCancelled`; any other exception fails the call and leaves the model loaded.
        """

    def close(self) -> None:
        """Frees what the end of the process would not."""


class Shared(LoadedModel, Protocol):
    """One of which each further thread calls something of its own, as ``predictor.clone()``. A model without
    `for_thread` is itself called by all threads."""

    def for_thread(self) -> LoadedModel:
        """What the calling thread calls from now on. Asked in this thread, before its first call.

        It is closed in that thread before the model itself is parked or closed, and asked for again after. If it
        raises, the call has failed, and the next one asks again.
        """


class Parkable(LoadedModel, Protocol):
    """One that may be able to give back the memory of its device and stay."""

    @property
    def parks(self) -> bool:
        """Whether it can; asked when it has been loaded."""

    def park(self) -> None:
        """Frees the device's memory, before it returns. No call comes until `unpark` has returned.

        If it raises, the model is closed, as nobody knows what it holds.
        """

    def unpark(self) -> None:
        """Loads it again. If it raises, that is a failed load; `LoadAborted` may be raised in it, as in a load."""


class Warmable(LoadedModel, Protocol):
    """One that knows how it is warmed up. A runtime may leave out any of these."""

    @property
    def warms_itself(self) -> bool:
        """Whether it is warmed up where nothing is configured."""

    @property
    def warmup_method(self) -> str | None:
        """What is called where no method is configured; it need not be one of `methods`. None: nothing."""

    def warmup_arguments(
        self, method: str, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The configured arguments, with what a call needs besides."""

    def text_of(self, text: str, tokens: int | str) -> str:
        """The words of a text repeated until it has so many tokens; ``max_seq_len``: as many as it takes.

        Raises `ValueError` if that is not known.
        """

    def output_of(self, method: str, result: Any) -> Any:
        """The part of a result that a warm-up looks at."""


class Runtime(Protocol):
    """Loads one kind of model."""

    name: str
    imports: Sequence[str]
    """The modules that cost the time: a zygote imports them once for all workers."""

    def options(self) -> Sequence[Option] | None:
        """What may stand in a model's `options`; None: its model knows."""

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:
        """Variables that must be set before the interpreter starts; the spec's own win."""

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        """What the model's files say of themselves. Raises `OSError`, `ValueError` with a clear line."""

    def files(self, spec: dict[str, Any]) -> list[str]:
        """Paths of all that its needs depend on. What was learned of it holds until one of them changes."""

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        """What it will need by its files alone, quickly and without its library; see above.

        Raises `OSError` or `ValueError`, with a clear line, if it cannot be loaded at all:
        a file is missing, truncated, or may not be read.
        """

    dry_run: Callable[[dict[str, Any]], dict[str, Any]] | None
    """The same, by its library, in a process of its own that ends after it; a runtime may have none.

    It raises whatever a load would.
    """

    OUT_OF_MEMORY: re.Pattern[str]
    """Found in the last lines of a worker's log if it ended for want of memory; see `out_of_memory.signs`."""

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether a load or a call failed for want of memory, of any device."""

    def version(self) -> str:
        """Of what runs it, asked in the worker; what was warmed up by another one counts as cold."""

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> LoadedModel:
        """Loads it. `member` is the part of a family's member's name that ``*`` stands for."""


class Cancellation:
    """Whether a call is still wanted: call it to look, or be told by `then`.

    Native code cannot look at Python's state without Python's lock, so a runtime may have a
    callback, which runs in the thread that cancels.
    """

    def __init__(self) -> None:
        self._cancelled = False
        self._callback: Callable[[], None] | None = None

    def __call__(self) -> bool:
        return self._cancelled

    def then(self, callback: Callable[[], None] | None) -> None:
        """Calls `callback` when the call is cancelled, or now if it is already."""
        self._callback = callback
        if self._cancelled and callback is not None:
            callback()

    def cancel(self) -> None:
        self._cancelled = True
        callback = self._callback
        if callback is not None:
            callback()


class LoadAborted(BaseException):
    """The load is not wanted any more. Not an `Exception`, so that model code does not swallow it."""


class CallCancelled(BaseException):
    """The caller has gone, or does not want the result any more."""


def runtime_named(name: str) -> Runtime:
    """The runtime of this name. Raises `ValueError` if there is none."""
    full_name = f"{__name__}.{name}"
    try:
        module = importlib.import_module(full_name)
        runtime: Runtime = module.RUNTIME
    except ModuleNotFoundError as error:
        if error.name != full_name:
            raise
        raise ValueError(f"there is no runtime {name!r}") from None
    except AttributeError:
        raise ValueError(f"{name!r} is not a runtime") from None
    return runtime


def member_of(pattern: str, key: str) -> str | None:
    """The part of `key` that ``*`` stands for in a family's pattern; None if it is not a family.

    ``strategy/alpha`` is ``alpha`` in ``strategy/*``.
    """
    before, star, after = pattern.partition("*")
    return key[len(before) : len(key) - len(after)] if star else None
