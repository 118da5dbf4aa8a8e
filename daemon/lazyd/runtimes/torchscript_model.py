"""A PyTorch model in memory. Importing this imports PyTorch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from . import arrays, out_of_memory, runs, torchscript_signature
from .torchscript_head import Kind
from .torchscript_library import OUT_OF_MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Cancellation, Progress
    from .arrays import Port
    from .torchscript_head import Head
    from .torchscript_options import Options
    from .torchscript_signature import Signature

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_METHOD = "forward"
_KIND_OF_ERROR = re.compile(r"^(builtins\.)?(\w+Error: |Exception: )?", re.ASCII)
"""TorchScript's lines begin with it. Who called is told one kind of error, and not two."""
_BFLOAT16 = "bfloat16"
"""numpy has no such type: callers send and get float32."""


class TorchModel:
    """Fulfils `lazyd.runtimes.LoadedModel`. Any number of threads may call it at once; what a module remembers from one
    call for the next, all callers share."""

    def __init__(self, head: Head, options: Options, on: str, progress: Progress) -> None:
        """Placed ``on`` ``ram`` or ``gpu``. Raises `ValueError`."""
        if options.num_threads is not None:
            torch.set_num_threads(options.num_threads)
        if options.num_interop_threads is not None:
            torch.set_num_interop_threads(options.num_interop_threads)
        self._device = _device(on)
        self._dtype = getattr(torch, options.dtype) if options.dtype else None
        self._signatures = head.methods
        self._ports = head.inputs
        self._kind = head.kind
        progress("loading", None)
        self._module: Any = self._load(head)
        self._methods = self._exported_methods()
        progress("loaded", None)

    def methods(self) -> Sequence[str]:
        return self._methods

    def call(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        stream: bool,  # noqa: ARG002
        cancelled: Cancellation,  # noqa: ARG002 - nothing stops an operation of PyTorch
    ) -> Any:
        signature = self._signatures.get(method)
        with torch.inference_mode():
            given, named = self._arguments(signature, args, kwargs)
            try:
                return self._plain(getattr(self._module, method)(*given, **named))
            except (RuntimeError, torch.jit.Error, TypeError, AssertionError) as error:
                if out_of_memory.is_in(error, OUT_OF_MEMORY):
                    raise
                raise ValueError(_last_line(error) + self._expected(signature, args, kwargs)) from error

    def close(self) -> None:
        del self._module
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    # Its warm-up.

    @property
    def warmup_method(self) -> str:
        """Called where a warm-up is configured without a method."""
        return _METHOD

    def warmup_arguments(
        self, method: str, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Zeros where nothing else is given and the file says what is taken. Raises `ValueError` if a length is not
        known."""
        if args or kwargs:
            return args, kwargs
        signature = self._signatures.get(method)
        if signature is not None and signature.needs_arguments:
            raise ValueError(f"{signature} is not called without arguments: say in warmup.args with which")
        if method != _METHOD or self._ports is None:
            return args, kwargs
        return [runs.zeros(port) for port in self._ports], kwargs

    # Parking.

    @property
    def parks(self) -> bool:
        """In RAM there would be nothing to give back. An exported program names its device in every operation."""
        return self._device.type == "cuda" and self._kind is not Kind.EXPORTED

    def park(self) -> None:
        """To RAM."""
        self._module.to("cpu")
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def unpark(self) -> None:
        self._module.to(self._device)

    # Loading.

    def _load(self, head: Head) -> Any:
        first = self._device if self._dtype is None else torch.device("cpu")  # what is converted need not all fit twice
        if head.kind is Kind.EXPORTED:
            return self._load_exported(head.path)
        if head.kind is Kind.SCRIPT:
            module = torch.jit.load(head.path, map_location=first)
        else:
            module = torch.load(head.path, map_location=first, weights_only=False)
            if not isinstance(module, torch.nn.Module):
                raise ValueError(f"{head.path} holds a {type(module).__name__}, not a module")
        return module.eval().to(device=self._device, dtype=self._dtype)

    def _load_exported(self, path: str) -> Any:
        with open(path, "rb") as file:  # it takes no path that ends in another way than .pt2
            program = torch.export.load(file)
        if self._device.type == "cuda":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, self._device)
        return program.module()

    def _exported_methods(self) -> list[str]:
        if self._kind is not Kind.SCRIPT:
            return [_METHOD]
        return sorted(name for name in self._module._c._method_names() if not name.startswith("_"))

    # Calls.

    def _arguments(
        self, signature: Signature | None, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """As the module takes them. Raises `ValueError`."""
        if self._ports is not None:
            return self._of_ports(self._ports, args, kwargs), {}
        if signature is None:
            return [self._tensors(value) for value in args], {n: self._tensors(value) for n, value in kwargs.items()}
        kinds = {each.name: torchscript_signature.without_optional(each.kind) for each in signature.parameters}
        given = signature.bound(args, kwargs)
        return [], {name: self._of_kind(kinds[name], value) for name, value in given.items()}

    def _of_ports(self, ports: Sequence[Port], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        names = [port.name for port in ports]
        if len(args) > len(names):
            raise ValueError(f"{len(args)} arrays are too many; expected {arrays.signature(ports)}")
        given = arrays.fitted(
            {**dict(zip(names, args)), **kwargs},
            [port._replace(dtype="float32") if port.dtype == _BFLOAT16 else port for port in ports],
        )
        tensors = [self._tensors(given[name]) for name in names]
        return [
            tensor.to(torch.bfloat16) if port.dtype == _BFLOAT16 else tensor for tensor, port in zip(tensors, ports)
        ]

    def _of_kind(self, kind: str, value: Any) -> Any:
        """As an argument of a method of a TorchScript module; `value` fits."""
        if kind == "Tensor" and value is not None and not hasattr(value, "dtype"):
            return self._placed(torch.as_tensor(value))  # numbers: float32 and int64, as PyTorch has it
        return float(value) if kind == "float" and value is not None else self._tensors(value)

    def _tensors(self, value: Any) -> Any:
        """The same with tensors for arrays, wherever they are in it."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._tensors, value))
        if isinstance(value, dict):
            return {key: self._tensors(item) for key, item in value.items()}
        if not hasattr(value, "dtype"):
            return value
        # A module may write to what it is given, and memory that was received may not be written to.
        return self._placed(torch.from_numpy(value if value.flags.writeable else value.copy()))

    def _placed(self, tensor: Any) -> Any:
        return tensor.to(self._device, self._dtype if tensor.dtype in _FLOATS else None)

    def _plain(self, value: Any) -> Any:
        """The same with arrays for tensors."""
        if isinstance(value, torch.Tensor):
            lowered = value.dtype is torch.bfloat16 or (value.dtype is self._dtype and self._dtype in _FLOATS)
            return (value.float() if lowered else value).detach().cpu().resolve_conj().resolve_neg().numpy()
        if isinstance(value, (list, tuple)):
            return [self._plain(item) for item in value]
        if isinstance(value, dict):
            return {key: self._plain(item) for key, item in value.items()}
        return value

    def _expected(self, signature: Signature | None, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """The end of a line about inputs that the module refuses: nobody else can say which of them is wrong."""
        if self._ports is not None:
            return f"; expected {arrays.signature(self._ports)}"
        if signature is None:
            return ""
        return f"; expected {signature}, given {signature.given(signature.bound(args, kwargs))}"


def _device(on: str) -> Any:
    """The one GPU that the worker was shown, or the processor. Raises `ValueError`."""
    if on != "gpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError(f"this PyTorch ({torch.__version__}) cannot use the GPU that the model is placed on")
    return torch.device("cuda", 0)


def _last_line(error: BaseException) -> str:
    """What is wrong: TorchScript puts it after where it was, and of an argument's type before."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    line = lines[-1] if lines[0].startswith("The following operation failed") else lines[0]
    return _KIND_OF_ERROR.sub("", line) or line
