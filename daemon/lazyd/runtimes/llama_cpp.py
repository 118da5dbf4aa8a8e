"""The runtime ``llama_cpp``: GGUF models by llama-cpp-python.

Options and arguments keep that library's names. Without ``n_ctx`` the context is the model's own,
but at most 4096. The library is imported by `load` and `dry_run` alone.

- `llama_cpp_options` what the options mean for memory, and for where the model goes; `llama_cpp_locked` one
  that is refused, for who checks a configuration
- `llama_cpp_parts`, `llama_cpp_needs` what a model consists of and what that comes to
- `llama_cpp_library` what the library can do here, without importing it; `llama_cpp_dry_run` asks it
- `llama_cpp_model`, `llama_cpp_embedder`, `llama_cpp_params`, `llama_cpp_log` a model in memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import checked, gguf, llama_cpp_library, llama_cpp_needs, llama_cpp_options, llama_cpp_parts, out_of_memory
from .llama_cpp_options import Options
from .llama_cpp_parts import Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Progress
    from .llama_cpp_model import LlamaModel
    from .option_tables import Option


METHODS = {
    "complete": "complete(prompt, max_tokens=…, …) -> text; streams it piece by piece",
    "chat": "chat([{role, content}, …], …) -> an object as of OpenAI's interface; streams chunks",
    "embed": "embed(text or [text, …], normalize=…) -> a vector, or a list of them",
    "tokenize": "tokenize(text) -> numbers of tokens",
}
"""What each takes and answers, in a line for people."""


class LlamaCppRuntime:
    """Loads GGUF files."""

    name = "llama_cpp"
    imports: Sequence[str] = ("llama_cpp", "lazyd.runtimes.llama_cpp_model", "lazyd.runtimes.llama_cpp_dry_run")
    OUT_OF_MEMORY = out_of_memory.signs(r"llama_decode returned -2\b", r"llama_encode returned -2\b", r"\(code -2\)")
    """Where a computation finds no memory llama.cpp returns -2; 1 is a context that is full."""

    def options(self) -> Sequence[Option]:
        from .llama_cpp_table import OPTIONS

        return OPTIONS

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:  # noqa: ARG002
        # Where it aborts ggml would start gdb, if there is one: that takes seconds, and pages of the log.
        return {"GGML_NO_BACKTRACE": "1"}

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        path = _path(spec)
        header = gguf.read(path)
        return {
            "format": f"GGUF {header.version}",
            "methods": METHODS,
            "architecture": header.architecture,
            "name": header.metadata.get("general.name"),
            "parameters": header.parameters,
            "contextLength": header.of_architecture("context_length"),
            "fileBytes": sum(map(checked.file_size, gguf.parts(path))),
            "tensors": len(header.tensors),
            "bytesByType": header.bytes_by_type,
            "metadata": header.metadata,
        }

    def files(self, spec: dict[str, Any]) -> list[str]:
        path, options = spec.get("path"), spec.get("options", {})
        library = llama_cpp_library.directory(spec)
        return [
            *(gguf.parts(path) if path else []),
            *filter(None, [options.get("lora_path")]),
            *(llama_cpp_library.itself(library) if library else []),
        ]

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        checked.interpreter(spec)
        model, options, files = _read(spec)
        weights = llama_cpp_parts.weights(model, llama_cpp_library.repacked_types())
        figures = llama_cpp_needs.estimated(model, options)
        on_gpu = llama_cpp_library.may_use_gpus(spec)
        needs = llama_cpp_needs.summed(weights, figures, options, files, on_gpu=on_gpu)
        return {**needs, "source": "file size"}

    def dry_run(self, spec: dict[str, Any]) -> dict[str, Any]:
        from . import llama_cpp_dry_run

        model, options, files = _read(spec)
        return {**llama_cpp_dry_run.run(model, options, spec, files), "source": "dry run"}

    def out_of_memory(self, error: BaseException) -> bool:
        return out_of_memory.is_in(error, self.OUT_OF_MEMORY)

    def version(self) -> str:
        import llama_cpp

        return str(llama_cpp.__version__)

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> LlamaModel:  # noqa: ARG002
        path = _path(spec)
        options = Options.of(spec, gguf.context_length(path))
        given = llama_cpp_options.placed(spec.get("options", {}), spec.get("placement"))
        progress("importing", None)
        from .llama_cpp_model import LlamaModel

        return LlamaModel(path, {**given, "n_ctx": options.n_ctx}, options.outputs, progress)


def _path(spec: dict[str, Any]) -> str:
    path = spec.get("path")
    checked.model_file(path, "llama_cpp", "a GGUF file")
    return str(path)


def _read(spec: dict[str, Any]) -> tuple[Model, Options, list[str]]:
    """The model as its files describe it, its options, and the files that it maps. Raises `OSError`, `ValueError`."""
    files = gguf.parts(_path(spec))
    model = Model([gguf.read(file) for file in files])
    return model, Options.of(spec, model.header.of_architecture("context_length")), files


RUNTIME = LlamaCppRuntime()
