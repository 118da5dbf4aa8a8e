"""The runtime ``torchscript``: PyTorch models that were saved with ``torch.jit.save`` or ``torch.export.save``.

``forward(*arrays)`` and, of a TorchScript module, its other exported methods. The library is imported by `load` alone.

- `torchscript_head`, `torchscript_signature` what a file says, and what its methods take
- `torchscript_options` the options
- `torchscript_library` what the library can do here, without importing it
- `torchscript_model` a model in memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import arrays, checked, needs, out_of_memory, torchscript_head, torchscript_library
from .checked import MIB
from .torchscript_head import Head, Kind
from .torchscript_options import OPTIONS, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Progress
    from .option_tables import Option
    from .torchscript_model import TorchModel

_PROCESS_BYTES = 96 * MIB
"""A worker that was forked from one with PyTorch imported, and what the first calls need. Without cgroups it is
measured with its part of the pages that it shares with the other, which are 73 of these."""
_EXPORT_BYTES = 128 * MIB
"""What PyTorch imports to load an exported program."""
_WEIGHTS = 1.1
"""Bytes for each byte of weights, measured for 2 MB and for 192 MB: they are read once, into memory of the process.
What calls need depends on what they are given."""


class TorchScriptRuntime:
    """Loads PyTorch files."""

    name = "torchscript"
    imports: Sequence[str] = ("torch", "lazyd.runtimes.torchscript_model")
    dry_run = None
    OUT_OF_MEMORY = torchscript_library.OUT_OF_MEMORY

    def options(self) -> Sequence[Option]:
        return OPTIONS

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:  # noqa: ARG002
        # To ask CUDA whether there are GPUs would make it unfit for being forked; the driver can be asked instead.
        return {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        head = torchscript_head.read(spec.get("path"))
        described: dict[str, Any] = {
            "format": f"{head.kind.value} archive" + (f", version {head.version}" if head.version else ""),
            "producer": head.producer,
            "class": head.class_name,
            "fileBytes": head.file_bytes,
            "weightBytes": head.weight_bytes,
        }
        if head.kind is Kind.SCRIPT:
            signatures = {name: str(method) for name, method in head.methods.items() if not name.startswith("_")}
            return {**described, "methods": signatures}
        if head.inputs is not None:
            gives = "" if head.outputs is None else f" -> {arrays.signature(head.outputs)}"
            described["methods"] = {"forward": f"forward({arrays.signature(head.inputs)}){gives}"}
            described["inputs"] = arrays.described(head.inputs)
        if head.outputs is not None:
            described["outputs"] = arrays.described(head.outputs)
        return described

    def files(self, spec: dict[str, Any]) -> list[str]:
        return [*filter(None, [spec.get("path")]), *torchscript_library.itself(spec)]

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        checked.interpreter(spec)
        head, options = _read(spec)
        weights = int(_WEIGHTS * head.weight_bytes)
        own = _PROCESS_BYTES + (_EXPORT_BYTES if head.kind is Kind.EXPORTED else 0)
        # For a GPU, too, they are in RAM first, and again while the model is parked.
        ram = own + int(weights * max(1.0, options.scale))
        return needs.by_file(ram, int(weights * options.scale) if torchscript_library.may_use_gpus(spec) else None)

    def out_of_memory(self, error: BaseException) -> bool:
        return out_of_memory.is_in(error, self.OUT_OF_MEMORY)

    def version(self) -> str:
        import torch

        return str(torch.__version__)

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> TorchModel:  # noqa: ARG002
        head, options = _read(spec)
        progress("importing", None)
        from .torchscript_model import TorchModel

        on = (spec.get("placement") or {}).get("on", "ram")
        return TorchModel(head, options, on, progress)


def _read(spec: dict[str, Any]) -> tuple[Head, Options]:
    """The file as it describes itself, and the options. Raises `OSError`, `ValueError`."""
    head, options = torchscript_head.read(spec.get("path")), Options.of(spec.get("options", {}))
    if head.trusted_as is not None:
        checked.trust(spec, head.trusted_as)
    if head.kind is Kind.EXPORTED and options.dtype is not None:
        raise ValueError(f"{head.path} is an exported program: its types are fixed, so it has no option dtype")
    return head, options


RUNTIME = TorchScriptRuntime()
