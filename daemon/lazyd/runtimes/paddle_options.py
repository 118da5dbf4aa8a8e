"""Options of a Paddle model, checked without Paddle, and what each does to the ``Config`` of its predictor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import option_tables
from .option_tables import SWITCH, TEXT, Option, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU_MEMORY_POOL_MB = 256
OPTIONS = (
    Option(
        "params",
        TEXT,
        "Another file of parameters than the one beside the program; a relative path starts at the program.",
    ),
    Option(
        "gpu_memory_pool_mb",
        whole_number(1),
        "What is taken of a GPU at first, in MiB. Only where Paddle was compiled with CUDA and the model is on a GPU.",
        str(GPU_MEMORY_POOL_MB),
    ),
    Option("feed_fetch_ops", SWITCH, "switch_use_feed_fetch_ops.", "false"),
    Option("memory_optim", SWITCH, "Memory of what is passed between operations is used again.", "true"),
    Option(
        "ir_optim",
        SWITCH,
        "The program is rewritten before it runs. Without it loads are quicker and calls slower.",
        "true",
    ),
    Option("cpu_threads", whole_number(1), "Threads that compute on processors."),
    Option("mkldnn", SWITCH, "oneDNN computes on processors, or it does not. Paddle 3 has it on."),
    Option(
        "shrink_memory",
        SWITCH,
        "After each call what it computed with is given back. Costs time; for inputs that differ much in size.",
        "false",
    ),
    Option("glog_info", SWITCH, "Paddle tells in the worker's log what it does.", "false"),
)


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
        read = option_tables.read(given, OPTIONS, "paddle")
        return cls(
            feed_fetch_ops=read.get("feed_fetch_ops", False),
            memory_optim=read.get("memory_optim", True),
            ir_optim=read.get("ir_optim", True),
            glog_info=read.get("glog_info", False),
            shrink_memory=read.get("shrink_memory", False),
            gpu_memory_pool_mb=read.get("gpu_memory_pool_mb", GPU_MEMORY_POOL_MB),
            cpu_threads=read.get("cpu_threads"),
            mkldnn=read.get("mkldnn"),
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
