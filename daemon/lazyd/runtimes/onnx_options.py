"""Options of an ONNX model: onnxruntime's own names, checked without it, and what a placement makes of the providers.

lazyd books memory before it loads, so whether a model goes on a GPU is lazyd's to say: in RAM the providers that
compute on a GPU are left out, and on a GPU there is an error if none of them can be used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import checked, option_tables
from .option_tables import SWITCH, TEXT, Kind, Option, whole_number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ON_GPUS = (CUDA, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")

CHOICES = {
    "execution_mode": {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"},
    "graph_optimization_level": {
        "disable": "ORT_DISABLE_ALL",
        "basic": "ORT_ENABLE_BASIC",
        "extended": "ORT_ENABLE_EXTENDED",
        "layout": "ORT_ENABLE_LAYOUT",
        "all": "ORT_ENABLE_ALL",
    },
}
"""By option: what it may be, and what that is called in the library's class of the same name."""
SESSION, RUN, DIMENSIONS = "session_config_entries", "run_config_entries", "free_dimension_override_by_name"
PROVIDERS, SHRINKAGE = "providers", "memory_arena_shrinkage"


def _choice(name: str) -> Kind:
    """By our word or by the library's."""
    choices = CHOICES[name]
    ours = option_tables.choice(choices)
    return Kind(
        ours.words,
        lambda name, value: value if value in choices.values() else choices[ours.read(name, value)],
    )


def _provider(name: str, entry: Any) -> tuple[str, dict[str, Any]]:
    """A name, or a name with a table of options."""
    provider, own = entry if isinstance(entry, (list, tuple)) and len(entry) == 2 else (entry, {})
    if not isinstance(provider, str) or not isinstance(own, dict):
        raise ValueError(f'an entry of {name.partition("[")[0]} is a name, or ["NAME", {{…}}], not {entry!r}')
    return provider, own


_ATTRIBUTES = (
    Option(
        "intra_op_num_threads",
        whole_number(0),
        "Threads that compute one operation. 0: as onnxruntime chooses.",
        "0",
    ),
    Option(
        "inter_op_num_threads",
        whole_number(0),
        "Operations that are computed at once, where execution_mode is parallel. 0: as onnxruntime chooses.",
        "0",
    ),
    Option("log_severity_level", whole_number(0), "What goes to the worker's log: 0 (all) to 4 (fatal).", "2"),
    Option("enable_cpu_mem_arena", SWITCH, "Memory of a call is kept for the next one.", "true"),
    Option("enable_mem_pattern", SWITCH, "Where inputs keep their shapes, memory is planned once.", "true"),
    Option("enable_mem_reuse", SWITCH, "Memory of what is passed between operations is used again.", "true"),
    Option("use_deterministic_compute", SWITCH, "The same inputs give the same outputs, bit by bit.", "false"),
)
OPTIONS = (
    *_ATTRIBUTES,
    Option(
        "execution_mode",
        _choice("execution_mode"),
        "Whether operations that do not need each other are computed one after the other or at once.",
        '"sequential"',
    ),
    Option(
        "graph_optimization_level",
        _choice("graph_optimization_level"),
        "How much the graph is improved before its first use: that takes most of the load of a large one.",
        '"all"',
    ),
    Option(
        PROVIDERS,
        Kind(
            'list of names, or of ["NAME", {…}]',
            lambda name, value: [_provider(name, entry) for entry in checked.a_list(name, value)],
        ),
        "What computes, in order of preference, each with its own options. Those for GPUs count where the model is "
        "placed on one.",
        "[]",
    ),
    Option(
        SHRINKAGE,
        SWITCH,
        "After each call what was needed for it alone is given back. Costs time; for inputs that differ much in size.",
        "false",
    ),
    Option(
        DIMENSIONS,
        option_tables.table_of(whole_number(0), "table of whole numbers"),
        "Lengths for names of dimensions, as {N = 1}. onnxruntime passes over names that the model does not have.",
        "{}",
    ),
    Option(
        SESSION,
        option_tables.table_of(TEXT, "table of strings"),
        "onnxruntime's own keys of a session. It passes over those that it does not know.",
        "{}",
    ),
    Option(RUN, option_tables.table_of(TEXT, "table of strings"), "onnxruntime's own keys of a call.", "{}"),
)


@dataclass(frozen=True)
class Options:
    """As they will be given to the library."""

    attributes: Mapping[str, int | bool]
    """Of ``SessionOptions``."""
    choices: Mapping[str, str]
    """Of the same: by attribute the name of an enum's member."""
    session: Mapping[str, str]
    """``add_session_config_entry``."""
    run: Mapping[str, str]
    """``RunOptions.add_run_config_entry``, at every call."""
    dimensions: Mapping[str, int]
    """``add_free_dimension_override_by_name``."""
    providers: Sequence[tuple[str, dict[str, Any]]]
    """In this order, with their options; empty: that of the device."""
    shrinks: bool
    """After each call what the arena no longer needs is given back."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Raises `ValueError` for an option that is not known, or whose value is of a wrong kind."""
        read = option_tables.read(given, OPTIONS, "onnx")
        return cls(
            attributes={option.name: read[option.name] for option in _ATTRIBUTES if option.name in read},
            choices={name: read[name] for name in CHOICES if name in read},
            session=read.get(SESSION, {}),
            run=read.get(RUN, {}),
            dimensions=read.get(DIMENSIONS, {}),
            providers=read.get(PROVIDERS, []),
            shrinks=read.get(SHRINKAGE, False),
        )

    @property
    def may_use_gpus(self) -> bool:
        """Nothing here keeps it from a GPU."""
        return not self.providers or any(name in ON_GPUS for name, _ in self.providers)


def placed(
    options: Options, on: str, available: Collection[str], limit: int | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """The providers for a model that is placed ``on`` ``ram`` or ``gpu``, in the order in which they are asked.

    `limit`: so many bytes of a GPU are the most, also for a moment.

    Raises:
        ValueError: the library has none for the device, or an option names another GPU.
    """
    if on == "gpu":
        wanted = [*options.providers] or [(CUDA, {})]
        wanted = [(name, _on_the_gpu(name, own, limit) if name in ON_GPUS else own) for name, own in wanted]
    else:
        wanted = [(name, own) for name, own in options.providers if name not in ON_GPUS]
    for name, _ in wanted:
        if name not in available:
            advice = "; onnxruntime-gpu has it" if name in ON_GPUS else ""
            raise ValueError(f"this onnxruntime has no {name}{advice}; it has {', '.join(available)}")
    return wanted if any(name == CPU for name, _ in wanted) else [*wanted, (CPU, {})]


def _on_the_gpu(name: str, own: dict[str, Any], limit: int | None) -> dict[str, Any]:
    """lazyd measures what is held, so an arena that doubles its size for a little more is in the way."""
    if int(own.get("device_id", 0)) != 0:
        device = own["device_id"]
        raise ValueError(
            f'device_id = {device} does not fit: a model sees only the GPU it is placed on; say device = "gpu{device}"'
        )
    if name != CUDA:
        return own
    limited = {} if limit is None else {"gpu_mem_limit": limit}
    return {"device_id": 0, "arena_extend_strategy": "kSameAsRequested", **limited, **own}
