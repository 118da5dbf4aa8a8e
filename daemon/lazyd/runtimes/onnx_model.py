"""An ONNX model in memory. Importing this imports onnxruntime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnxruntime

from . import CallCancelled, arrays, onnx_head, onnx_options, runs
from .arrays import TEXT, Port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from . import Cancellation, Progress
    from .onnx_options import Options

if hasattr(onnxruntime, "disable_telemetry_events"):
    onnxruntime.disable_telemetry_events()

_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(string)": TEXT}
"""As the library calls them; all others are ``tensor(`` and numpy's name."""
_NO_TYPE = "O"
"""What numpy calls arrays of Python's own objects."""
_SHRINK = "memory.enable_memory_arena_shrinkage"


class OnnxModel(runs.RunModel):
    """Fulfils `lazyd.runtimes.LoadedModel`. A session answers any number of threads at once."""

    def __init__(self, path: str, options: Options, on: str, limit: int | None, progress: Progress) -> None:
        """Placed ``on`` ``ram`` or ``gpu``, and there held to `limit` bytes. Raises `ValueError`."""
        if on == "gpu" and hasattr(onnxruntime, "preload_dlls"):
            onnxruntime.preload_dlls()  # CUDA's own libraries may be installed as packages of Python
        providers = onnx_options.placed(options, on, onnxruntime.get_available_providers(), limit)
        progress("loading", None)
        try:
            self._session = onnxruntime.InferenceSession(path, _session_options(options), providers=providers)
        except Exception as error:
            raise ValueError(f"onnxruntime: {error}") from error
        self._session.disable_fallback()
        used = self._session.get_providers()
        if on == "gpu" and not set(used) & set(onnx_options.ON_GPUS):
            raise ValueError(f"{providers[0][0]} cannot be used here: the log says why")
        self.inputs = _ports(self._session.get_inputs(), path, options.dimensions)
        self._outputs = [output.name for output in self._session.get_outputs()]
        self._run_entries = dict(options.run)
        if options.shrinks:
            self._run_entries[_SHRINK] = "cpu:0;gpu:0" if on == "gpu" else "cpu:0"
        progress("loaded", None)

    def call(
        self,
        method: str,  # noqa: ARG002 - there is one
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        stream: bool,  # noqa: ARG002
        cancelled: Cancellation,
    ) -> Any:
        return self._run(cancelled, *runs.arguments(args, kwargs, self.inputs))

    def _run(self, cancelled: Cancellation, inputs: Any, outputs: Any) -> dict[str, Any]:
        """All outputs, or those that are named. Raises `ValueError` for what the model does not take or give."""
        wanted = runs.chosen(outputs, self._outputs)
        given = arrays.fitted(inputs, self.inputs)
        how = onnxruntime.RunOptions()
        for key, value in self._run_entries.items():
            how.add_run_config_entry(key, value)
        cancelled.then(lambda: setattr(how, "terminate", True))
        try:
            results = self._session.run(wanted, given, how)
        except Exception:
            if cancelled():
                raise CallCancelled from None
            raise
        finally:
            cancelled.then(None)
        return {name: _sendable(result) for name, result in zip(wanted, results)}

    def close(self) -> None:
        del self._session


def _session_options(options: Options) -> Any:
    how = onnxruntime.SessionOptions()
    for name, number in options.attributes.items():
        setattr(how, name, number)
    for name, member in options.choices.items():
        setattr(how, name, getattr(type(getattr(how, name)), member))
    for name, length in options.dimensions.items():
        how.add_free_dimension_override_by_name(name, length)
    for key, value in options.session.items():
        how.add_session_config_entry(key, value)
    return how


def _ports(inputs: Sequence[Any], path: str, dimensions: Mapping[str, int]) -> list[Port]:
    """What the session takes. Its file knows one thing better: for the library a single number and an array without a
    shape are the same."""
    said = {} if all(found.shape for found in inputs) else {port.name: port for port in onnx_head.read(path).inputs}
    return [_fixed(said.get(found.name) or _port(found), dimensions) for found in inputs]


def _port(found: Any) -> Port:
    if not found.type.startswith("tensor("):
        return Port(found.name)
    shape = tuple(n if isinstance(n, int) or (n and n != "?") else None for n in found.shape)
    return Port(found.name, _TYPES.get(found.type, found.type[len("tensor(") : -1]), shape or None)


def _fixed(port: Port, dimensions: Mapping[str, int]) -> Port:
    """With the lengths that options give to names."""
    if port.shape is None:
        return port
    return port._replace(shape=tuple(dimensions.get(n, n) if isinstance(n, str) else n for n in port.shape))


def _sendable(result: Any) -> Any:
    """Texts come as arrays of objects, and leave as arrays of text."""
    kind = getattr(getattr(result, "dtype", None), "kind", None)
    return result.astype(str) if kind == _NO_TYPE else result
