"""``python -m examples.fastapi_ocr``: many requests at once while the first one loads the models."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demo import screen

from ..ocr import page
from ..stage import Example, check, run, timed

LINES = ("Six at once", "and one load")
AT_ONCE = 6


HERE = Path(__file__).parent


def story(example: Example) -> None:
    service = example.service("uvicorn", "examples.fastapi_ocr.app:app", "--port", "0", "--no-access-log")

    def ask(path: str, data: bytes | None = None) -> dict[str, object]:
        with service.open(path, data) as answer:
            return dict(json.load(answer))

    screen.step(1, "The service is up; no model is loaded, and asking for health loads none")
    check(ask("/health")["models"] == {"ocr": "pending", "detection": "pending"}, "something is loaded")

    screen.step(2, f"{AT_ONCE} requests at once, while nothing is loaded; health answers meanwhile")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        began = [pool.submit(ask, "/ocr", page.drawn(LINES)) for _ in range(AT_ONCE)]
        _, looked = timed(lambda: ask("/health"))
        answers, took = timed(lambda: [one.result() for one in began])
    check(all(answer == answers[0] for answer in answers), "the answers differ")
    loads = example.model("ocr")["loads"]
    check(loads == 1, f"{loads} loads")
    screen.result(f"{AT_ONCE} answers after {took}, by one load; health after {looked}")


if __name__ == "__main__":
    run(HERE.parent / "flask_ocr", "FastAPI with the client for asyncio", story)
