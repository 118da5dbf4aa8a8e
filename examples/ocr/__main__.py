"""``python -m examples.ocr``: a page is read back as its text."""

from __future__ import annotations

from pathlib import Path

from demo import screen

from ..stage import Example, check, run, timed
from . import page

LINES = ("Models load on first use", "and leave when idle: 10 min")
ON_ITS_HEAD = "one budget for all of them"


HERE = Path(__file__).parent


def story(example: Example) -> None:
    image = page.drawn(LINES, [ON_ITS_HEAD])
    with example.client() as client:
        ocr = client.model("ocr")
        screen.step(1, "A page of three lines, the last one on its head; nothing is loaded")
        check(set(example.states().values()) == {"cold"}, f"not all is cold: {example.states()}")

        screen.step(2, "The first page loads the pipeline and the three networks that it uses")
        lines, took = timed(lambda: ocr.read(image))
        for line in lines:
            screen.output(f"{line['confidence']:.2f}  {line['text']}{'  (on its head)' if line['turned'] else ''}")
        check([line["text"] for line in lines] == [*LINES, ON_ITS_HEAD], f"it reads {lines}")
        check(
            [line["turned"] for line in lines] == [False, False, True], f"it takes the wrong ones to be turned: {lines}"
        )
        check(set(example.states().values()) == {"ready"}, f"not all is ready: {example.states()}")
        screen.result(f"read after {took}")

        screen.step(3, "The next one finds them all in memory")
        _, took = timed(lambda: ocr.read(image))
        screen.result(f"read after {took}")


if __name__ == "__main__":
    run(HERE, "Reading text through three networks", story)
