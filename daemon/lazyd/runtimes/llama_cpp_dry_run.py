"""Goes through a load without allocating, and hears from llama.cpp how much it would have taken.

It runs in a process of its own that ends after it: llama.cpp aborts the process for what it cannot
simulate, and what it did allocate (the vocabulary, the graph) is part of the answer. No GPU is
touched: only looking at one makes a context there that nobody has booked. What layers, cache and
buffers take is the same on a GPU; what the driver adds is estimated.

Importing this imports llama-cpp-python. What is heard are the lines that it writes while it loads:

    llama_kv_cache: size =   11.25 MiB (   512 cells,  30 layers, …
    sched_reserve:        CPU compute buffer size =    16.38 MiB
    done_getting_tensors: tensor 'x' (q8_0) (and 209 others) cannot be used with preferred buffer type CPU_REPACK, …
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
from typing import TYPE_CHECKING, Any

import llama_cpp
import llama_cpp.llama_cpp as api

from . import llama_cpp_library, llama_cpp_needs, llama_cpp_params, llama_cpp_parts
from .checked import MIB
from .llama_cpp_embedder import Embedder
from .llama_cpp_model import OURS, Llama, Switch, check
from .llama_cpp_needs import Figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .llama_cpp_options import Options
    from .llama_cpp_parts import Model

_PLACING = frozenset({"n_gpu_layers", "tensor_split", "main_gpu", "split_mode"})
_NOT_SIMULATED = frozenset({"use_mmap", "use_mlock", "lora_path", "lora_base", "lora_scale"})
_CONTEXT = "constructing llama_context"
_CACHE = re.compile(r"\bsize = +([\d.]+) MiB \(")
_COMPUTE = re.compile(r"compute buffer size = +([\d.]+) MiB")
_MOVED = re.compile(r"\(and (\d+) others\) cannot be used with preferred buffer type")
_USED = re.compile(r"create_tensor: loading tensor (\S+)")
_UNUSED = re.compile(r"has unused tensor (\S+)")


class _Log:
    """All that llama.cpp says."""

    def __init__(self) -> None:
        self._text: list[bytes] = []
        self._callback = api.llama_log_callback(lambda _level, text, _: self._text.append(text))
        api.llama_log_set(self._callback, ctypes.c_void_p(0))

    @property
    def lines(self) -> list[str]:
        return b"".join(self._text).decode("utf-8", "replace").splitlines()


def run(model: Model, options: Options, spec: dict[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """What `needs` tells, found out so.

    Raises:
        ValueError: this version cannot, or an option is none of its.
        Exception: whatever a load would raise.
    """
    if not llama_cpp_params.can_simulate():
        raise ValueError(f"llama-cpp-python {llama_cpp.__version__} cannot simulate a load")
    given = spec.get("options", {})
    check(given)
    log = _Log()
    passed_on = {name: value for name, value in given.items() if name not in OURS | _PLACING | _NOT_SIMULATED}
    with llama_cpp_params.defaults(outputs=options.outputs, simulated=True):
        llama = Llama(spec["path"], verbose=False, **{**passed_on, "n_ctx": options.n_ctx, "use_mmap": False})
    if options.embedded_tokens:
        Embedder(llama, given.get("pooling_type"), Switch())
    lines = log.lines
    weights = llama_cpp_parts.weights(model, _repacked(model, lines))
    libraries = os.environ.get(llama_cpp_library.ELSEWHERE) or os.path.dirname(llama_cpp.__file__)
    on_gpu = llama_cpp_library.has_gpu_backend(libraries)
    return llama_cpp_needs.summed(weights, _figures(model, options, lines), options, files, on_gpu=on_gpu)


def _figures(model: Model, options: Options, lines: list[str]) -> Figures:
    """What is not said is as estimated."""
    estimated = llama_cpp_needs.estimated(model, options)
    contexts = _contexts(lines)
    # The embedder makes a context, and another one if the first says nothing of how it pools.
    heard = [line for context in (contexts[:1] + contexts[1:][-1:]) for line in context]
    cache = _sum(_CACHE, heard)
    total = sum(estimated.cache)
    return Figures(
        cache=estimated.cache if cache is None or not total else tuple(n * cache // total for n in estimated.cache),
        compute=_sum(_COMPUTE, heard) or estimated.compute,
        work=estimated.work,
        inputs=estimated.inputs,
        other=estimated.other,
        process=private_bytes(),
    )


def _contexts(lines: list[str]) -> list[list[str]]:
    found: list[list[str]] = []
    for line in lines:
        if _CONTEXT in line:
            found.append([])
        if found:
            found[-1].append(line)
    return found


def _sum(pattern: re.Pattern[str], lines: Iterable[str]) -> int | None:
    sizes = [float(match[1]) for line in lines if (match := pattern.search(line))]
    return int(sum(sizes) * MIB) if sizes else None


def _repacked(model: Model, lines: list[str]) -> frozenset[str]:
    """The types of weights that are copied. llama.cpp only says how many tensors are not."""
    text = "\n".join(lines)
    moved = _MOVED.search(text)
    if moved is None:
        return frozenset()
    names = {tensor.name for tensor in model.tensors}
    unused = _UNUSED.findall(text)
    used = [name for name in _USED.findall(text) if name in names and name not in unused]
    return matching(model, len(used) - int(moved[1]) - 1)


def matching(model: Model, count: int) -> frozenset[str]:
    """The types that have together `count` tensors which may be copied: those that this processor is known to
    want, if it is these; else the largest; if there are none, what is known."""
    by_kind: dict[str, list[int]] = {}
    for tensor in model.tensors:
        if llama_cpp_parts.may_be_repacked(tensor):
            by_kind.setdefault(tensor.kind, []).append(tensor.bytes)
    known = llama_cpp_library.repacked_types() & by_kind.keys()
    if sum(len(by_kind[kind]) for kind in known) == count:
        return frozenset(known)
    choices = itertools.chain.from_iterable(
        itertools.combinations(by_kind, length) for length in range(len(by_kind) + 1)
    )
    fitting = [choice for choice in choices if sum(len(by_kind[kind]) for kind in choice) == count]
    if not fitting:
        return frozenset(known)
    return frozenset(max(fitting, key=lambda choice: sum(sum(by_kind[kind]) for kind in choice)))


def private_bytes() -> int:
    """What this process alone holds: of one that was forked, not what it shares with its zygote."""
    with open("/proc/self/smaps_rollup") as file:
        sizes = (line.split() for line in file)
        return sum(int(words[1]) for words in sizes if words[0] in ("Private_Dirty:", "Swap:")) * 1024
