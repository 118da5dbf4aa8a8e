"""The service as it was: ``flask --app examples.flask_ocr.before run``.

Models are globals, made under a lock when they are first used, and kept until the process ends.
Each process of the service has its own, and each restart loads them again.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import onnxruntime
from flask import Flask, Response, jsonify, request

from ..ocr.pipeline import Finder, Reader

MODELS = Path(__file__).resolve().parents[2] / "build" / "models" / "ocr"

app = Flask(__name__)
_lock = threading.Lock()
_ocr: Reader | None = None
_detection: Finder | None = None


class Session:
    def __init__(self, name: str) -> None:
        self.session = onnxruntime.InferenceSession(str(MODELS / f"{name}.onnx"))

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, inputs), strict=True))


def get_ocr() -> Reader:
    global _ocr
    with _lock:
        if _ocr is None:
            rec = Session("rec")
            characters = rec.session.get_modelmeta().custom_metadata_map["character"]
            _ocr = Reader(Session("det"), Session("cls"), rec, characters)
    return _ocr


def get_detection() -> Finder:
    global _detection
    with _lock:
        if _detection is None:
            _detection = Finder(Session("det"))
    return _detection


@app.post("/ocr")
def ocr() -> Response:
    return jsonify(lines=get_ocr().read(request.get_data()))


@app.post("/detect")
def detect() -> Response:
    return jsonify(boxes=get_detection().find(request.get_data()))


@app.get("/health")
def health() -> Response:
    loaded = {"ocr": _ocr is not None, "detection": _detection is not None}
    return jsonify(status="ready", models={name: "loaded" if it else "pending" for name, it in loaded.items()})
