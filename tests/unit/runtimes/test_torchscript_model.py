"""Where a PyTorch model is put, told to a PyTorch of which there is only as much as is asked here."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lazyd.runtimes import runtime_named

from .torch_files import script

TORCHSCRIPT = "lazyd.runtimes.torchscript_model"


class Device:
    def __init__(self, kind: str, index: int | None = None) -> None:
        self.type, self.index = kind, index

    def __repr__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Torch:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.has_gpu = True

    def tell(self, name: str) -> Any:
        def told(*args: Any, **kwargs: Any) -> Any:
            words = [*map(str, args), *(f"{key}={value}" for key, value in kwargs.items() if value is not None)]
            self.told.append(f"{name}({', '.join(words)})")

        return told

    def module(self) -> Any:
        net = SimpleNamespace(_c=SimpleNamespace(_method_names=lambda: ["forward", "_inner", "reset"]))

        def to(*args: Any, **kwargs: Any) -> Any:
            self.tell("to")(*args, **kwargs)
            return net

        net.to, net.eval = to, lambda: net
        return net

    def library(self) -> ModuleType:
        def load(path: str, **kwargs: Any) -> Any:
            self.tell("load")(Path(path).name, **kwargs)
            return self.module()

        torch: Any = ModuleType("torch")
        for name in ("float16", "bfloat16", "float32", "float64"):
            setattr(torch, name, name)
        torch.__version__ = "2.0"
        torch.device = Device
        torch.jit = SimpleNamespace(load=load, Error=RuntimeError)
        torch.cuda = SimpleNamespace(
            is_available=lambda: self.has_gpu,
            synchronize=self.tell("synchronize"),
            empty_cache=self.tell("empty_cache"),
        )
        torch.set_num_threads, torch.set_num_interop_threads = self.tell("threads"), self.tell("interop")
        library: ModuleType = torch
        return library


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch.library())
    monkeypatch.delitem(sys.modules, TORCHSCRIPT, raising=False)
    monkeypatch.setitem(sys.modules, TORCHSCRIPT, importlib.import_module(TORCHSCRIPT))
    return torch


def load(tmp_path: Path, on: str, **options: Any) -> Any:
    spec = {"name": "net", "path": str(script(tmp_path / "net.pt")), "options": options, "placement": {"on": on}}
    return runtime_named("torchscript").load(spec, None, lambda *_: None)


def test_a_model_on_a_gpu_is_read_onto_it_and_parks_in_ram(torch: Torch, tmp_path: Path) -> None:
    model = load(tmp_path, "gpu")
    assert torch.told == ["load(net.pt, map_location=cuda:0)", "to(device=cuda:0)"]
    assert model.parks
    torch.told.clear()
    model.park()
    assert torch.told == ["to(cpu)", "synchronize()", "empty_cache()"]
    torch.told.clear()
    model.unpark()
    assert torch.told == ["to(cuda:0)"]


def test_a_model_in_ram_has_nothing_to_give_back(torch: Torch, tmp_path: Path) -> None:
    model = load(tmp_path, "ram")
    assert torch.told == ["load(net.pt, map_location=cpu)", "to(device=cpu)"]
    assert not model.parks
    model.close()
    assert "empty_cache()" not in torch.told


def test_what_is_converted_is_made_smaller_before_it_is_on_the_gpu(torch: Torch, tmp_path: Path) -> None:
    load(tmp_path, "gpu", dtype="float16")
    assert torch.told == ["load(net.pt, map_location=cpu)", "to(device=cuda:0, dtype=float16)"]


def test_threads_are_as_many_as_is_said(torch: Torch, tmp_path: Path) -> None:
    load(tmp_path, "ram", num_threads=3, num_interop_threads=2)
    assert torch.told[:2] == ["threads(3)", "interop(2)"]


def test_clients_may_call_what_a_module_has_exported(torch: Torch, tmp_path: Path) -> None:
    assert load(tmp_path, "ram").methods() == ["forward", "reset"]
    assert torch.told


def test_a_warm_up_calls_forward_with_what_is_configured(torch: Torch, tmp_path: Path) -> None:
    model = load(tmp_path, "ram")
    assert model.warmup_method == "forward"
    assert model.warmup_arguments("forward", [1, 2], {}) == ([1, 2], {})
    assert model.warmup_arguments("reset", [], {}) == ([], {})
    assert torch.told


def test_a_warm_up_that_lacks_its_arguments_says_where_they_are_written(torch: Torch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^forward\(x: .*\) -> .* is not called without arguments: .* warmup.args"):
        load(tmp_path, "ram").warmup_arguments("forward", [], {})
    assert torch.told


def test_what_a_module_says_of_its_own_is_told_with_what_it_was_given(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tmp_path, "ram")

    def refuse(**_: Any) -> None:
        raise RuntimeError("The following operation failed in the TorchScript interpreter.\n\nValueError: too short")

    monkeypatch.setattr(sys.modules["torch"], "inference_mode", contextlib.nullcontext, raising=False)
    model._module.forward, model._arguments = refuse, lambda *_: ([], {})
    with pytest.raises(ValueError, match=r"^too short; expected forward\(x: .*, given x: a list, rate: 16000$"):
        model.call("forward", [[1.0], 16000], {}, stream=False, cancelled=lambda: False)
    assert torch.told


def test_a_library_that_cannot_use_the_gpu_says_so_and_nothing_is_loaded_elsewhere(
    torch: Torch, tmp_path: Path
) -> None:
    torch.has_gpu = False
    with pytest.raises(ValueError, match=r"this PyTorch \(2.0\) cannot use the GPU that the model is placed on"):
        load(tmp_path, "gpu")
    assert torch.told == []
