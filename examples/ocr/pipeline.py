"""The pipeline: bytes of an image in, lines of text out.

A network is whatever has ``run({input: array}) -> {output: array}``: a model of lazyd, or an
onnxruntime session behind a few lines. So the same pipeline works with and without lazyd.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import lazyd

from . import detection, recognition
from .regions import Rectangle

CHECKOUT = Path(__file__).resolve().parents[2]
BATCH = 8
"""Lines that go through a network together."""


class Network(Protocol):
    def run(self, inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]: ...


class Finder:
    """Finds lines of text."""

    def __init__(self, det: Network) -> None:
        self._det = det

    def find(self, image: bytes) -> list[list[tuple[float, float]]]:
        """The corners of each line, in pixels: top left, top right, bottom right, bottom left."""
        return [_rounded(line) for line in self.lines(_opened(image))]

    def lines(self, image: Image.Image) -> list[Rectangle]:
        likelihood = _output(self._det, detection.looked_at(image))
        return detection.found(likelihood[0, 0], image.size)


class Reader(Finder):
    """Finds lines of text and reads them."""

    def __init__(self, det: Network, cls: Network, rec: Network, characters: str) -> None:
        """The networks for detection, direction and recognition; `characters` are those that the last one knows."""
        super().__init__(det)
        self._cls, self._rec = cls, rec
        self._classes = recognition.alphabet(characters)

    def read(self, image: bytes) -> list[dict[str, Any]]:
        """The lines, from the top: ``{"text", "confidence", "turned", "corners"}``.

        `turned`: it stands on its head. Raises ``PIL.UnidentifiedImageError`` if it is no image.
        """
        opened = _opened(image)
        found = self.lines(opened)
        read = [one for lines in _batches(found) for one in self._read(opened, lines)]
        return [{**one, "corners": _rounded(line)} for line, one in zip(found, read, strict=True) if one["text"]]

    def _read(self, image: Image.Image, lines: Sequence[Rectangle]) -> Iterator[dict[str, Any]]:
        cuts = [recognition.cut(image, line) for line in lines]
        width = recognition.DIRECTION_WIDTH
        turned = recognition.turned(_output(self._cls, recognition.strips(cuts, width, width)))
        upright = [cut.rotate(180) if stands else cut for cut, stands in zip(cuts, turned, strict=True)]
        likelihood = _output(self._rec, recognition.strips(upright, *recognition.READING_WIDTHS))
        texts = recognition.read(likelihood, self._classes)
        for (text, confidence), stands in zip(texts, turned, strict=True):
            yield {"text": text, "confidence": round(confidence, 3), "turned": stands}


def finder(det: str = "det") -> Finder:
    """The factory of a model that finds text. `det` names a model of lazyd, as below."""
    return Finder(lazyd.Client().model(det))


def reader(det: str = "det", cls: str = "cls", rec: str = "rec", characters: str | None = None) -> Reader:
    """The factory of a model that reads text, over three models of lazyd.

    What characters there are stands in the recognition model's file, and to ask for it loads nothing; or in the
    file `characters`, one a line. A path that is not whole starts from the checkout.
    """
    client = lazyd.Client()
    if characters is not None:
        known = (CHECKOUT / characters).read_text()
    else:
        known = client.describe(rec)["metadata"]["metadata"]["character"]
    return Reader(client.model(det), client.model(cls), client.model(rec), known)


def _opened(image: bytes) -> Image.Image:
    return Image.open(io.BytesIO(image)).convert("RGB")


def _output(network: Network, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """The only output of a network with one input, which all three call x."""
    (output,) = network.run({"x": array}).values()
    return output


def _rounded(line: Rectangle) -> list[tuple[float, float]]:
    return [(round(x, 1), round(y, 1)) for x, y in line.corners()]


def _batches(lines: Sequence[Rectangle]) -> Iterator[Sequence[Rectangle]]:
    return (lines[at : at + BATCH] for at in range(0, len(lines), BATCH))
