"""Options of an ONNX model: onnxruntime's own names, checked without it, and what a placement makes of the providers.

lazyd books memory before it loads, so whether a model goes on a GPU is lazyd's to say: in RAM the providers that
compute on a GPU are left out, and on a GPU there is an error if none of them can be used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import checked

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ON_GPUS = (CUDA, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")

NUMBERS = ("intra_op_num_threads", "inter_op_num_threads", "log_severity_level")
SWITCHES = ("enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "use_deterministic_compute")
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
KNOWN = (*NUMBERS, *SWITCHES, *CHOICES, SESSION, RUN, DIMENSIONS, PROVIDERS, SHRINKAGE)


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
        checked.known_options(given, KNOWN, "onnx")
        return cls(
            attributes={
                **{name: _number(name, given[name]) for name in NUMBERS if name in given},
                **{name: _switch(name, given[name]) for name in SWITCHES if name in given},
            },
            choices={name: _choice(name, given[name]) for name in CHOICES if name in given},
            session=_texts(SESSION, given.get(SESSION, {})),
            run=_texts(RUN, given.get(RUN, {})),
            dimensions={
                name: _number(f"{DIMENSIONS}.{name}", length)
                for name, length in _table(DIMENSIONS, given.get(DIMENSIONS, {})).items()
            },
            providers=[_provider(entry) for entry in _list(given.get(PROVIDERS, []))],
            shrinks=_switch(SHRINKAGE, given.get(SHRINKAGE, False)),
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


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"the option {name} is a whole number, 0 or more, not {value!r}")
    return value


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"the option {name} is true or false, not {value!r}")
    return value


def _choice(name: str, value: Any) -> str:
    choices = CHOICES[name]
    if value in choices.values():
        return str(value)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"the option {name} is {', '.join(choices)}, not {value!r}")
    return choices[value]


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"the option {name} is a table, not {value!r}")
    return value


def _texts(name: str, value: Any) -> dict[str, str]:
    for key, text in _table(name, value).items():
        if not isinstance(text, str):
            raise ValueError(f"the option {name}.{key} is a text in quotes, not {text!r}")
    return dict(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"the option {PROVIDERS} is a list, not {value!r}")
    return list(value)


def _provider(entry: Any) -> tuple[str, dict[str, Any]]:
    """A name, or a name with a table of options."""
    name, own = entry if isinstance(entry, (list, tuple)) and len(entry) == 2 else (entry, {})
    if not isinstance(name, str) or not isinstance(own, dict):
        raise ValueError(f'an entry of {PROVIDERS} is a name, or ["NAME", {{…}}], not {entry!r}')
    return name, own
