"""PyTorch's archives made by hand, without PyTorch."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

CODE = """class Net(Module):
  __parameters__ = ["weight", ]
  weight : Tensor
  training : bool
  def forward(self: __torch__.things.Net,
    x: Tensor,
    rate: int,
    state: Optional[Tensor]=None,
    scale: float=0.5) -> Tuple[Tensor, Tensor]:
    _0 = torch.add(x, state)
    return (_0, _0)
  def reset(self: __torch__.things.Net) -> NoneType:
    return None
  def _inner(self: __torch__.things.Net,
    x: Tensor) -> Tensor:
    return x
class Other(Module):
  def forward(self: __torch__.things.Other,
    y: Tensor) -> Tensor:
    return y
"""
MODULE = b"\x80\x02c__torch__.things\nNet\nq\x00)\x81}q\x01b."
LINEAR = b"\x80\x02ctorch.nn.modules.linear\nLinear\nq\x00)\x81}q\x01b."
"""Pickles of an object of a class, of which nothing is set."""


def archive(path: Path, records: dict[str, bytes], folder: str = "net/") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in records.items():
            file.writestr(folder + name, data)
    return path


def script(path: Path, code: str = CODE, weights: int = 4096) -> Path:
    """A TorchScript module with so many bytes of weights."""
    return archive(
        path,
        {
            "data/0": bytes(weights),
            "data.pkl": MODULE,
            "code/__torch__/things.py": code.encode(),
            "constants.pkl": b"\x80\x02).",
            "version": b"3\n",
        },
    )


def pickled(path: Path) -> Path:
    """A module as ``torch.save`` writes it."""
    return archive(path, {"data.pkl": LINEAR, "version": b"3\n", "data/0": bytes(64)})


def exported(path: Path, names: list[str] | None = None) -> Path:
    """An exported program with a weight and two inputs, of which the first may be of any length."""
    any_length = {"as_expr": {"expr_str": "Symbol('s0')", "hint": {"as_int": 2}}}

    def tensor(dtype: int, *sizes: Any) -> dict[str, Any]:
        return {"dtype": dtype, "sizes": [size if isinstance(size, dict) else {"as_int": size} for size in sizes]}

    def given(name: str) -> dict[str, Any]:
        return {"arg": {"as_tensor": {"name": name}}}

    program = {
        "torch_version": "2.13.0",
        "graph_module": {
            "graph": {
                "tensor_values": {"w": tensor(7, 3), "a": tensor(7, any_length, 4), "b": tensor(5), "c": tensor(13)}
            },
            "signature": {
                "input_specs": [
                    {"parameter": {"arg": {"name": "w"}}},
                    {"user_input": given("a")},
                    {"user_input": given("b")},
                ],
                "output_specs": [{"user_output": given("c")}],
            },
            "module_call_graph": [{"fqn": "", "signature": {"forward_arg_names": names or ["x", "rate"]}}],
        },
    }
    return archive(
        path,
        {
            "data/weights/weight_0": bytes(12),
            "models/model.json": json.dumps(program).encode(),
            "archive_format": b"pt2",
            "archive_version": b"0",
        },
    )
