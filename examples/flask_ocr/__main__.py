"""``python -m examples.flask_ocr``: a Flask service before and after lazyd, and what a redeploy costs each."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from demo import screen

from ..ocr import page
from ..stage import Example, Service, check, run, timed

LINES = ("Deployed again", "and still hot")
HERE = Path(__file__).parent


def story(example: Example) -> None:
    screen.step(1, "Before: models are globals of the web service")
    before = texts_of(twice(example, "before", loaded="pending"))

    screen.step(2, "After: the globals are gone, the routes are as they were")
    old, new = (statements(HERE / f"{name}.py") for name in ("before", "after"))
    changes = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    gone, come = (sum(line[0] == sign for line in changes) for sign in "-+")
    screen.output(f"{len(old)} lines of code became {len(new)}: {gone} gone, {come} new")
    after = texts_of(twice(example, "after", loaded="loaded"))
    check(before == after == list(LINES), f"before it reads {before}, after {after}")


def twice(example: Example, module: str, loaded: str) -> Any:
    """Deploys the service and asks, both again, when its model should be `loaded`. The last answer."""
    command = ("flask", "--app", f"examples.flask_ocr.{module}", "run", "--port", "0")
    answer, health = None, {}
    for words in ("deployed", "deployed again"):
        service, started = timed(lambda: example.service(*command))
        health = service_says(service, "/health")["models"]
        answer, took = timed(lambda: service_says(service, "/ocr", page.drawn(LINES)))  # noqa: B023  run at once
        screen.output(f"{words}: up after {started}, ocr {health['ocr']}; first answer after {took}")
        service.stop()
    check(health["ocr"] == loaded, f"deployed again, the model is {health['ocr']}, not {loaded}")
    return answer


def service_says(service: Service, path: str, data: bytes | None = None) -> Any:
    with service.open(path, data) as answer:
        return json.load(answer)


def texts_of(answer: Any) -> list[str]:
    return [line["text"] for line in answer["lines"]]


def statements(file: Path) -> list[str]:
    """The lines of code of a file."""
    code = file.read_text().split('"""', 2)[2]
    return [line for line in code.splitlines() if line.strip()]


if __name__ == "__main__":
    run(HERE, "A Flask service with its model globals gone", story)
