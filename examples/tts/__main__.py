"""``python -m examples.tts``: a text is spoken sentence by sentence; the voice leaves, its front stays."""

from __future__ import annotations

import io
import wave
from pathlib import Path

from demo import screen

from ..stage import Example, check, run, timed
from .front import opened

TEXT = "The voice is loaded when somebody speaks. It leaves when nobody does. The front stays, and the next text works."


HERE = Path(__file__).parent


def story(example: Example) -> None:
    with example.client() as client:
        voice = client.model("voice")
        screen.step(1, "Three sentences of text; the voice is not loaded")
        sentences = []
        for sentence in voice.stream.speak(TEXT):
            with wave.open(io.BytesIO(sentence)) as wav:
                length_s = wav.getnframes() / wav.getframerate()
            screen.output(f"a sentence of {length_s:.1f} s; the call is {in_words(example)}")
            sentences.append(sentence)
        check(len(sentences) == 3, f"{len(sentences)} sentences came")

        screen.step(2, "An HTTP front serves it, and stays when the voice's idle time is over")
        front = example.service("python", "-m", "examples.tts.front")
        held = sum(example.model(name)["bookedBytes"].get("ram", 0) for name in ("voice", "network"))
        example.until_state("voice", "cold")
        example.until_state("network", "cold")
        check(front.process.poll() is None, "the front has gone too")
        screen.result(f"voice and network have ended, {screen.mebibytes(held)} are free; the front has stayed")

        screen.step(3, "The next request works, and loads them again")
        spoken, took = timed(lambda: front.open("/speak", b"Here I am again.").read())
        check(opened(spoken)[1], "it says nothing")
        screen.result(f"{len(spoken)} bytes of WAV after {took}")


def in_words(example: Example) -> str:
    return "still under way" if example.model("voice")["inFlight"] else "over"


if __name__ == "__main__":
    run(HERE, "Text to speech", story)
