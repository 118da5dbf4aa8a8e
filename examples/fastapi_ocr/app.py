"""``uvicorn examples.fastapi_ocr.app:app``: the same routes, on lazyd's client for asyncio.

A request that waits for a load holds up no other: the event loop goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import lazyd

client = lazyd.AsyncClient()
ocr_model, detection_model = (client.model(name, timeout=60) for name in ("ocr", "detection"))


@asynccontextmanager
async def life(_app: FastAPI) -> AsyncIterator[None]:
    async with client:
        yield


app = FastAPI(lifespan=life)


@app.post("/ocr")
async def ocr(request: Request) -> dict[str, Any]:
    return {"lines": await ocr_model.read(await request.body())}


@app.post("/detect")
async def detect(request: Request) -> dict[str, Any]:
    return {"boxes": await detection_model.find(await request.body())}


@app.get("/health")
async def health() -> dict[str, Any]:
    loaded = {"ocr": await ocr_model.is_ready(), "detection": await detection_model.is_ready()}
    return {"status": "ready", "models": {name: "loaded" if it else "pending" for name, it in loaded.items()}}


@app.exception_handler(lazyd.LazydError)
async def cannot(_request: Request, error: Exception) -> JSONResponse:
    """The model's own refusal is about the request; all else is worth another try."""
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, lazyd.CallFailed) else 503)
