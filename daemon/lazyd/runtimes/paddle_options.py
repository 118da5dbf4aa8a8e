"""Options of a Paddle model, checked without Paddle, and what each does to the ``Config`` of its predictor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCHES = {
    "feed_fetch_ops": False,
    "memory_optim": True,
    "ir_optim": True,
    "glog_info": False,
    "shrink_memory": False,
}
"""With what they are where nothing is said."""
KNOWN = (*SWITCHES, "gpu_memory_pool_mb", "cpu_threads", "mkldnn", "params")
GPU_MEMORY_POOL_MB = 256


@dataclass(frozen=True)
class Options:
    """As they will be given to the library."""

    feed_fetch_ops: bool
    memory_optim: bool
    """Memory of what is passed between operations is used again."""
    ir_optim: bool
    """The program is rewritten before it runs."""
    glog_info: bool
    """It tells in the log what it does."""
    shrink_memory: bool
    """After each call what it computed with is given back."""
    gpu_memory_pool_mb: int
    """What it takes of a GPU at first."""
    cpu_threads: int | None
    mkldnn: bool | None
    """oneDNN computes on processors. None: as Paddle has it."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Raises `ValueError` for an option that is not known, or whose value is of a wrong kind."""
        checked.known_options(given, KNOWN, "paddle")
        return cls(
            **{name: checked.switch(name, given.get(name, default)) for name, default in SWITCHES.items()},
            gpu_memory_pool_mb=checked.whole_number(
                "gpu_memory_pool_mb", given.get("gpu_memory_pool_mb", GPU_MEMORY_POOL_MB), 1
            ),
            cpu_threads=checked.whole_number("cpu_threads", given["cpu_threads"], 1)
            if "cpu_threads" in given
            else None,
            mkldnn=checked.switch("mkldnn", given["mkldnn"]) if "mkldnn" in given else None,
        )

    def apply(self, config: Any, on: str, *, is_json: bool) -> None:
        """To a ``paddle.inference.Config``, for a model that is placed ``on`` ``ram`` or ``gpu``. A program that is
        JSON is of the newer form (PIR), which has an executor of its own."""
        if is_json:
            config.enable_new_ir(True)
            config.enable_new_executor(True)
        if on == "gpu":
            config.enable_use_gpu(self.gpu_memory_pool_mb, 0)
        else:
            config.disable_gpu()
        config.switch_use_feed_fetch_ops(self.feed_fetch_ops)
        config.switch_ir_optim(self.ir_optim)
        if self.memory_optim:
            config.enable_memory_optim()
        if not self.glog_info:
            config.disable_glog_info()
        if self.cpu_threads is not None:
            config.set_cpu_math_library_num_threads(self.cpu_threads)
        if self.mkldnn is not None:
            (config.enable_mkldnn if self.mkldnn else config.disable_mkldnn)()
