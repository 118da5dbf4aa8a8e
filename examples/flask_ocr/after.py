"""The service with lazyd: ``flask --app examples.flask_ocr.after run``.

The routes are as they were. What was in the globals is in lazyd's configuration: it outlives
restarts of the service, is there once for all its processes, and goes when nobody uses it.
"""

from __future__ import annotations

from flask import Flask, Response, jsonify, request

import lazyd

app = Flask(__name__)
ocr_model, detection_model = (lazyd.Client().model(name, timeout=60) for name in ("ocr", "detection"))


@app.post("/ocr")
def ocr() -> Response:
    return jsonify(lines=ocr_model.read(request.get_data()))


@app.post("/detect")
def detect() -> Response:
    return jsonify(boxes=detection_model.find(request.get_data()))


@app.get("/health")
def health() -> Response:
    loaded = {"ocr": ocr_model.is_ready, "detection": detection_model.is_ready}
    return jsonify(status="ready", models={name: "loaded" if it else "pending" for name, it in loaded.items()})


@app.errorhandler(lazyd.LazydError)
def cannot(error: lazyd.LazydError) -> tuple[Response, int]:
    """The model's own refusal is about the request; all else is worth another try."""
    return jsonify(error=str(error)), 400 if isinstance(error, lazyd.CallFailed) else 503
