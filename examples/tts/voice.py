"""The pipeline: text in, speech out, sentence by sentence.

All of it is Piper's own code; it is only given another session than onnxruntime's, one that calls
a model of lazyd. So the weights are lazyd's to load and to free.
"""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from piper import PiperConfig, PiperVoice

import lazyd

CONFIG = Path(__file__).resolve().parents[2] / "build" / "models" / "voice.onnx.json"
"""The description of the checkout's voice: its language, sounds and sample rate."""


class Session:
    """What Piper calls of an ``onnxruntime.InferenceSession``, answered by a model of lazyd."""

    def __init__(self, network: str) -> None:
        self._network = lazyd.Client().model(network)

    def run(self, _outputs: None, inputs: dict[str, Any]) -> list[Any]:
        return list(self._network.run(inputs).values())


class Voice:
    """A voice that speaks."""

    def __init__(self, piper: PiperVoice) -> None:
        self._piper = piper

    def speak(self, text: str) -> Iterator[bytes]:
        """A WAV file for each sentence, as soon as it is spoken: 16 bits, one channel."""
        for chunk in self._piper.synthesize(text):
            yield _wav(chunk.audio_int16_bytes, chunk.sample_rate)


def load(network: str = "network", config: str = str(CONFIG)) -> Voice:
    """The factory. `network` names a model of lazyd, `config` the file that describes the voice."""
    described = PiperConfig.from_dict(json.loads(Path(config).read_text()))
    return Voice(PiperVoice(session=cast("Any", Session(network)), config=described))


def _wav(samples: bytes, rate: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, rate, 0, "NONE", "not compressed"))
        out.writeframes(samples)
    return file.getvalue()
