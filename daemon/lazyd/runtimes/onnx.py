"""The runtime ``onnx``: ONNX models by onnxruntime.

One method, ``run({input: array}, outputs=None) -> {output: array}``. The library is imported by `load` alone.

- `onnx_head`, `onnx_reader` what a file says, and the files beside it
- `onnx_options` the options, and what a placement makes of the providers
- `onnx_library` what the library can do here, without importing it
- `onnx_model` a model in memory

It does not park: onnxruntime gives back the memory of a device only with the session, and a new session costs what a
new worker costs, whose process is forked from one that has imported the library.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import arrays, checked, needs, onnx_head, onnx_library, out_of_memory, runs
from .checked import MIB
from .onnx_options import OPTIONS, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Progress
    from .onnx_model import OnnxModel
    from .option_tables import Option

_PROCESS_BYTES = 64 * MIB
"""A worker with onnxruntime and numpy, and what a session needs whatever its model."""
_IN_FILE, _MAPPED = 1.5, 0.5
"""Bytes for each byte of weights: in the model's file they are read, and some are copied into another order; those in
files of their own are mapped, and only the copies are the process's. What calls need depends on what they are given."""


class OnnxRuntime:
    """Loads ONNX files."""

    name = "onnx"
    imports: Sequence[str] = ("onnxruntime", "lazyd.runtimes.onnx_model")
    dry_run = None
    OUT_OF_MEMORY = out_of_memory.signs(
        r"Failed to allocate memory for requested buffer of size",
        r"CUDA failure \d+: out of memory",
    )
    """What its arenas and its kernels say."""

    def options(self) -> Sequence[Option]:
        return OPTIONS

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:  # noqa: ARG002
        # Telemetry has a thread, which does not survive being forked.
        return {"ORT_DISABLE_TELEMETRY": "1"}

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        path = str(spec.get("path") or "")
        head = onnx_head.read(path)
        return {
            "format": f"ONNX, IR version {head.ir_version}",
            "producer": head.producer,
            "name": head.graph,
            "opsets": head.opsets,
            "methods": {runs.METHOD: runs.signature(head.inputs, head.outputs)},
            "inputs": arrays.described(head.inputs),
            "outputs": arrays.described(head.outputs),
            "parameters": head.parameters,
            "nodes": head.nodes,
            "fileBytes": sum(map(checked.file_size, _files(path))),
            "bytesByType": head.bytes_by_type,
            "externalFiles": list(head.external),
            "metadata": head.metadata,
        }

    def files(self, spec: dict[str, Any]) -> list[str]:
        return [*_files(str(spec.get("path") or "")), *onnx_library.itself(spec)]

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        checked.interpreter(spec)
        path, options = str(spec.get("path") or ""), Options.of(spec.get("options", {}))
        head = onnx_head.read(path)
        beside = [os.stat(file) for file in onnx_head.external_files(path, head)]
        mapped = sum(head.external.values())
        inside = max(os.path.getsize(path), head.weight_bytes - mapped)
        own = _PROCESS_BYTES + int(_IN_FILE * inside + _MAPPED * mapped)
        may_use_gpus = options.may_use_gpus and onnx_library.may_use_gpus(spec)
        on_gpu = int(_IN_FILE * (inside + mapped)) if may_use_gpus else None
        return needs.by_file(own, on_gpu, {f"{found.st_dev}:{found.st_ino}": found.st_size for found in beside})

    def out_of_memory(self, error: BaseException) -> bool:
        return out_of_memory.is_in(error, self.OUT_OF_MEMORY)

    def version(self) -> str:
        import onnxruntime

        return str(onnxruntime.__version__)

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> OnnxModel:  # noqa: ARG002
        path, options = str(spec.get("path") or ""), Options.of(spec.get("options", {}))
        checked.model_file(path, "onnx", "an ONNX file")
        progress("importing", None)
        from .onnx_model import OnnxModel

        on = (spec.get("placement") or {}).get("on", "ram")
        limit = spec.get("memory_bytes") if spec.get("hard_limit") else None
        return OnnxModel(path, options, on, limit, progress)


def _files(path: str) -> list[str]:
    """The model's, and those of its weights. Raises `OSError`, `ValueError`."""
    return [path, *onnx_head.external_files(path, onnx_head.read(path))]


RUNTIME = OnnxRuntime()
