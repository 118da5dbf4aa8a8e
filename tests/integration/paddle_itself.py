"""Paddle by itself, as a service uses it: images in, answers out; and a model of Paddle 3's own form.

``paddle_itself.py MODELS WORK NAME…`` reads ``WORK/NAME.npy`` and writes ``WORK/NAME.answer.npy``.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy
import paddle
from paddle import inference


class Net(paddle.nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = paddle.nn.Linear(4, 3)

    def forward(self, x: Any, y: Any) -> Any:
        return self.layer(x) + y.astype("float32"), x.sum()


def answer(program: str, parameters: str, inputs: dict[str, Any]) -> Any:
    """The first output, on one thread."""
    config = inference.Config(program, parameters)
    config.disable_gpu()
    config.disable_glog_info()
    config.switch_use_feed_fetch_ops(False)
    config.enable_memory_optim()
    config.switch_ir_optim(True)
    config.set_cpu_math_library_num_threads(1)
    if program.endswith(".json"):
        config.enable_new_ir(True)
        config.enable_new_executor(True)
    predictor = inference.create_predictor(config)
    for name, array in inputs.items():
        handle = predictor.get_input_handle(name)
        handle.reshape(array.shape)
        handle.copy_from_cpu(array)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def main(models: str, work: str, *names: str) -> None:
    for name in names:
        stem = f"{models}/{name}/inference"
        found = answer(f"{stem}.pdmodel", f"{stem}.pdiparams", {"x": numpy.load(f"{work}/{name}.npy")})
        numpy.save(f"{work}/{name}.answer.npy", found)
    spec = paddle.static.InputSpec
    taken = [spec([None, 4], "float32", "x"), spec([None, 3], "int64", "y")]
    paddle.jit.save(Net(), f"{work}/net/inference", input_spec=taken)
    inputs = {"x": numpy.ones((2, 4), "float32"), "y": numpy.ones((2, 3), "int64")}
    found = answer(f"{work}/net/inference.json", f"{work}/net/inference.pdiparams", inputs)
    numpy.save(f"{work}/net.answer.npy", found)


if __name__ == "__main__":
    main(*sys.argv[1:])
