"""The runtime ``paddle``: models of Paddle Inference.

One method, ``run({input: array}, outputs=None) -> {output: array}``. The library is imported by `load` alone.

- `paddle_files`, `paddle_head` which files a model has, and what they say
- `paddle_options` the options
- `paddle_library` what the library can do here, without importing it
- `paddle_model` a model in memory

It does not park: Paddle gives back the memory of a device only with the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import arrays, checked, needs, out_of_memory, paddle_files, paddle_head, paddle_library, runs
from .checked import MIB
from .paddle_options import OPTIONS, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Progress
    from .option_tables import Option
    from .paddle_model import PaddleModel

_PROCESS_BYTES = 80 * MIB
"""A worker that was forked from one with Paddle imported, and a predictor whatever its program. Without cgroups it is
measured with its part of the pages that it shares with the other, which are 63 of these."""
_FACTOR = 3
"""Bytes for each byte of program and parameters: they are read, and rewritten for the processor. PP-OCRv4's models of 2
to 11 MB hold 28 to 55 MiB when they are loaded. What calls need depends on what they are given."""


class PaddleRuntime:
    """Loads what ``paddle.jit.save`` and ``save_inference_model`` have written."""

    name = "paddle"
    imports: Sequence[str] = ("paddle.inference", "lazyd.runtimes.paddle_model")
    dry_run = None
    OUT_OF_MEMORY = paddle_library.OUT_OF_MEMORY

    def options(self) -> Sequence[Option]:
        return OPTIONS

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:  # noqa: ARG002
        # What it tells of its own steps would fill the log of a worker; warnings and errors come through.
        return {"GLOG_minloglevel": "1"}

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        files = paddle_files.find(spec)
        head = paddle_head.read(files)
        return {
            "format": head.format,
            "methods": {runs.METHOD: runs.signature(head.inputs, head.outputs)},
            "inputs": arrays.described(head.inputs),
            "outputs": arrays.described(head.outputs),
            "parameters": head.parameters,
            "operations": head.operations,
            "fileBytes": head.program_bytes + head.parameter_bytes,
            "files": list(files),
        }

    def files(self, spec: dict[str, Any]) -> list[str]:
        return [*paddle_files.find(spec), *paddle_library.itself(spec)]

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        checked.interpreter(spec)
        head, options = paddle_head.read(paddle_files.find(spec)), Options.of(spec.get("options", {}))
        own = _FACTOR * (head.program_bytes + head.parameter_bytes)
        pool = options.gpu_memory_pool_mb * MIB
        return needs.by_file(_PROCESS_BYTES + own, max(pool, own) if paddle_library.may_use_gpus(spec) else None)

    def out_of_memory(self, error: BaseException) -> bool:
        return out_of_memory.is_in(error, self.OUT_OF_MEMORY)

    def version(self) -> str:
        import paddle

        return str(paddle.__version__)

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> PaddleModel:  # noqa: ARG002
        files, options = paddle_files.find(spec), Options.of(spec.get("options", {}))
        head = paddle_head.read(files)
        progress("importing", None)
        from . import paddle_model

        on = (spec.get("placement") or {}).get("on", "ram")
        return paddle_model.load(files, head, options, on, progress)


RUNTIME = PaddleRuntime()
