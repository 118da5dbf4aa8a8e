"""The example of a SavedModel, where there is TensorFlow; and its ground: a zygote that imports what a model names."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy
import pytest

import lazyd
from lazyd.errors import CallFailed, LoadFailed

from .conftest import Daemon

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tensorflow"
PYTHON = os.environ.get("TENSORFLOW_PYTHON") or (importlib.util.find_spec("tensorflow") and sys.executable)
PATIENCE_S = 110.0
SAVE = """
import sys, tensorflow
class Net(tensorflow.Module):
    def __init__(self):
        super().__init__()
        self.weights = tensorflow.Variable([[1.0, 2.0], [3.0, 4.0]])
    @tensorflow.function(input_signature=[tensorflow.TensorSpec([None, 2], tensorflow.float32, name="x")])
    def predict(self, x):
        return {"y": x @ self.weights}
net = Net()
tensorflow.saved_model.save(net, sys.argv[1], signatures={"serving_default": net.predict})
"""
SLOW = '''
"""A library that takes long to import; it tells who imported it."""
import os
importer = os.getpid()
'''
USER = """
import os
class Object:
    def pids(self):
        import slow
        return [os.getpid(), slow.importer]
def load(**options): return Object()
"""


def test_a_models_own_imports_are_done_by_its_zygote(daemon: Daemon) -> None:
    """A model without them has another zygote, and pays for the import itself."""
    (daemon.root / "slow.py").write_text(SLOW)
    (daemon.root / "user.py").write_text(USER)
    common = f'runtime = "python"\nfactory = "user:load"\npython_path = ["{daemon.root}"]'
    daemon.configure(f'[models.named]\n{common}\nimports = ["slow"]\n[models.unnamed]\n{common}')
    daemon.start().close()
    with lazyd.connect(daemon.socket) as client:
        own, importer = client.model("named").pids()
        assert own != importer
        assert os.path.exists(f"/proc/{importer}"), "its zygote lives on"
        own, importer = client.model("unnamed").pids()
        assert own == importer


def test_a_module_that_cannot_be_imported_costs_the_zygote_and_not_the_model(daemon: Daemon) -> None:
    (daemon.root / "slow.py").write_text(SLOW)
    (daemon.root / "user.py").write_text(USER)
    common = f'runtime = "python"\nfactory = "user:load"\npython_path = ["{daemon.root}"]'
    daemon.configure(f'[models.m]\n{common}\nimports = ["no_such_module"]')
    daemon.start().close()
    with lazyd.connect(daemon.socket) as client:
        own, importer = client.model("m").pids()
    assert own == importer


@pytest.mark.skipif(PYTHON is None, reason="TensorFlow is not installed, and TENSORFLOW_PYTHON names no interpreter")
def test_a_saved_model_answers_from_a_process_that_did_not_import_tensorflow(daemon: Daemon) -> None:
    saved = Path(tempfile.mkdtemp(dir=daemon.root)) / "saved"
    subprocess.run([str(PYTHON), "-c", SAVE, str(saved)], check=True, capture_output=True, timeout=PATIENCE_S)
    daemon.configure(example(saved))
    daemon.start().close()
    with lazyd.connect(daemon.socket) as client:
        model = client.model("saved")
        assert model.inputs() == {"x": {"dtype": "float32", "shape": [None, 2]}}
        answer = model.predict(x=numpy.array([[1.0, 1.0], [0.0, 2.0]], numpy.float32))
        assert numpy.array_equal(answer["y"], [[4.0, 6.0], [6.0, 8.0]])
        with pytest.raises(CallFailed, match=r"given image; expected x: float32\(None, 2\)"):
            model.predict(image=1.0)
        with pytest.raises(CallFailed, match=r"expected x: float32\(None, 2\)"):
            model.predict(x=numpy.zeros((1, 3), numpy.float32))
        with pytest.raises(LoadFailed, match="has no signature other; it has serving_default"):
            client.model("other").predict(x=1.0)
        pid = daemon.model("saved")["workers"][0]["pid"]
        assert b'"role": "zygote"' in Path(f"/proc/{pid}/cmdline").read_bytes(), "it was forked from one"


def example(saved: Path) -> str:
    """The example's configuration with a model that is there, and the same with a signature that it lacks."""
    table = tomllib.loads((EXAMPLE / "lazyd.toml").read_text())["models"]["saved"]
    lines = []
    for name, signature in (("saved", "serving_default"), ("other", "other")):
        options = {"path": str(saved), "signature": signature}
        words = {**table, "python": str(PYTHON), "python_path": [str(ROOT)], "options": options}
        lines += [f"[models.{name}]", *(f"{key} = {toml(value)}" for key, value in words.items())]
    return "\n".join(lines)


def toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"'
