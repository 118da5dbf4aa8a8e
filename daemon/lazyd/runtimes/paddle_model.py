"""A Paddle model in memory. Importing this imports Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddle import inference, is_compiled_with_cuda

from . import arrays, out_of_memory, runs
from .paddle_library import OUT_OF_MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Cancellation, Progress
    from .arrays import Port
    from .paddle_files import Files
    from .paddle_head import Head
    from .paddle_options import Options


def load(files: Files, head: Head, options: Options, on: str, progress: Progress) -> PaddleModel:
    """Placed ``on`` ``ram`` or ``gpu``. Raises `ValueError`."""
    if on == "gpu" and not is_compiled_with_cuda():
        raise ValueError("this Paddle cannot use the GPU that the model is placed on: it was compiled without CUDA")
    progress("loading", None)
    config = inference.Config(*files)
    options.apply(config, on, is_json=files.program.endswith(".json"))
    try:
        predictor = inference.create_predictor(config)
    except Exception as error:
        if out_of_memory.is_in(error, OUT_OF_MEMORY):
            raise
        raise ValueError(
            f"Paddle: {_line(error)} (of {files.program} with {files.parameters}: is one the other's?)"
        ) from error
    progress("loaded", None)
    return PaddleModel(predictor, head.inputs, shrinks=options.shrink_memory)


class PaddleModel(runs.RunModel):
    """Fulfils `lazyd.runtimes.LoadedModel`. A predictor is for one thread; clones share its weights."""

    def __init__(self, predictor: Any, said: Sequence[Port], *, shrinks: bool) -> None:
        """`said`: what its file says of its inputs."""
        self._predictor = predictor
        self._shrinks = shrinks
        by_name = {port.name: port for port in said}
        self.inputs = [by_name.get(name) or arrays.Port(name) for name in predictor.get_input_names()]
        self._outputs = list(predictor.get_output_names())

    def for_thread(self) -> PaddleModel:
        return PaddleModel(self._predictor.clone(), self.inputs, shrinks=self._shrinks)

    def call(
        self,
        method: str,  # noqa: ARG002 - there is one
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        stream: bool,  # noqa: ARG002
        cancelled: Cancellation,  # noqa: ARG002 - nothing stops a predictor
    ) -> dict[str, Any]:
        inputs, outputs = runs.arguments(args, kwargs, self.inputs)
        wanted = runs.chosen(outputs, self._outputs)
        for name, array in arrays.fitted(inputs, self.inputs).items():
            handle = self._predictor.get_input_handle(name)
            handle.reshape(array.shape)
            handle.copy_from_cpu(array)
        try:
            self._predictor.run()
        except Exception as error:
            if out_of_memory.is_in(error, OUT_OF_MEMORY):
                raise
            raise ValueError(f"{_line(error)}; expected {arrays.signature(self.inputs)}") from error
        results = {name: self._predictor.get_output_handle(name).copy_to_cpu() for name in wanted}
        if self._shrinks:
            self._predictor.clear_intermediate_tensor()
            self._predictor.try_shrink_memory()
        return results

    def close(self) -> None:
        del self._predictor


def _line(error: BaseException) -> str:
    """What is wrong, of a text of many lines: the one that names the kind of error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return next((line for line in lines if "Error: " in line), lines[0])
