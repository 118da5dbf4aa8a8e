"""Each example's story is true, and what it shows holds when one looks closer."""

from __future__ import annotations

import array
import importlib.util
import io
import json
import math
import subprocess
import sys
import urllib.error
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyd
from demo.stage import MODELS, Stage
from examples.fastapi_ocr import __main__ as fastapi_ocr
from examples.flask_ocr import __main__ as flask_ocr
from examples.ocr import __main__ as ocr
from examples.ocr import chains, page
from examples.stage import Example, Service
from examples.tts import __main__ as tts
from examples.tts.front import opened

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.skipif(
    not all((MODELS / name).exists() for name in ("ocr/det.onnx", "ocr/cls.onnx", "ocr/rec.onnx", "voice.onnx")),
    reason="needs the models that `make setup` fetches",
)


def running(folder: str, config: str = "lazyd.toml") -> Iterator[Example]:
    """A lazyd with an example's configuration."""
    with Example(EXAMPLES / folder, config) as example:
        example.start()
        example.wait_until_running()
        yield example


@pytest.mark.parametrize("name", ["tts", "ocr", "flask_ocr", "fastapi_ocr"])
def test_make_runs_an_example_by_its_name_and_each_has_a_readme(name: str) -> None:
    shown = subprocess.run(["make", "-n", f"example-{name}"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"-m examples.{name}" in shown.stdout
    assert f"make example-{name}" in (EXAMPLES / name / "README.md").read_text()
    assert f"({name}/README.md)" in (EXAMPLES / "README.md").read_text()


def test_an_example_runs_by_one_command_and_leaves_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.ocr"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ocr.ON_ITS_HEAD in done.stdout
    place = done.stdout.splitlines()[0].rpartition(" ")[2]
    assert place.startswith("/tmp/")
    assert not Path(place).exists()


# Text to speech.


@pytest.fixture(scope="module")
def speaking() -> Iterator[Example]:
    yield from running("tts")


def heard(file: bytes) -> tuple[float, float]:
    """How long a WAV file is in seconds, and how loud on average, from 0 to 1."""
    rate, data = opened(file)
    samples = array.array("h", data)
    return len(samples) / rate, math.sqrt(sum(one * one for one in samples) / len(samples)) / 32768


def test_the_story_of_the_voice_is_true(speaking: Example) -> None:
    tts.story(speaking)


def test_a_sentence_is_spoken_at_the_pace_and_loudness_of_speech(speaking: Example) -> None:
    text = "The quick brown fox jumps over the lazy dog, and the dog does not mind."
    expected_rate = json.loads((MODELS / "voice.onnx.json").read_text())["audio"]["sample_rate"]
    with speaking.client() as client:
        (sentence,) = client.model("voice").speak(text)
    with wave.open(io.BytesIO(sentence)) as wav:
        assert wav.getframerate() == expected_rate == 22050
        assert (wav.getnchannels(), wav.getsampwidth()) == (1, 2)
    seconds, loudness = heard(sentence)
    assert 0.03 < seconds / len(text) < 0.12, "people say 10 to 25 characters a second"
    assert 0.02 < loudness < 0.5


def test_no_part_of_a_sentence_is_silent_for_long(speaking: Example) -> None:
    with speaking.client() as client:
        (sentence,) = client.model("voice").speak("Seven voices never weary of their evening rehearsals.")
    rate, data = opened(sentence)
    samples = array.array("h", data)
    tenths = [samples[at : at + rate // 10] for at in range(0, len(samples), rate // 10)]
    loud = [max(map(abs, tenth)) > 1000 for tenth in tenths]
    assert sum(loud) > 0.7 * len(loud)


def test_sentences_come_one_by_one_while_the_call_goes_on(speaking: Example) -> None:
    text = " ".join(["Whoever listens need not wait for the last one."] * 8)
    with speaking.client() as client:
        for _ in range(3):  # one look may come too late where the machine is busy with others
            sentences = client.model("voice").stream.speak(text)
            spoken = [next(sentences)]
            goes_on = speaking.model("voice")["inFlight"] == 1
            spoken += sentences
            assert len(spoken) == 8
            assert all(heard(one)[0] > 1 for one in spoken)
            if goes_on:
                break
    assert goes_on, "it is over before the first sentence has been heard"


def test_the_front_answers_one_wav_of_all_sentences_and_its_health_loads_nothing(speaking: Example) -> None:
    front = speaking.service("python", "-m", "examples.tts.front")
    speaking.until_state("voice", "cold")
    assert says(front, "/health") == {"status": "ready", "models": {"voice": "pending"}}
    assert speaking.model("voice")["state"] == "cold"
    with front.open("/speak", b"One sentence. And another one.") as answer:
        assert answer.headers["Content-Type"] == "audio/wav"
        spoken = answer.read()
    assert heard(spoken)[0] > 1.5
    with pytest.raises(urllib.error.HTTPError, match="400"):
        front.open("/speak", b"")


# Reading text.


@pytest.fixture(scope="module")
def reading() -> Iterator[Example]:
    """The models of both web services; the one named ocr is that of the example of this name."""
    yield from running("flask_ocr")


def says(service: Service, path: str, data: bytes | None = None) -> Any:
    with service.open(path, data) as answer:
        return json.load(answer)


def test_the_stories_of_the_web_services_are_true(reading: Example) -> None:
    fastapi_ocr.story(reading)
    flask_ocr.story(reading)


def test_a_page_is_read_back_as_its_text_whichever_way_its_lines_stand(reading: Example) -> None:
    upright, turned = ["Invoice 2026-12-02", "Total: 1,234.56 EUR"], ["Please pay within 30 days", "Thank you"]
    with reading.client() as client:
        lines = client.model("ocr").read(page.drawn(upright, turned))
    assert [line["text"] for line in lines] == upright + turned
    assert [line["turned"] for line in lines] == [False, False, True, True]
    assert all(line["confidence"] > 0.8 for line in lines)


def test_a_page_of_many_lines_is_read_in_batches_and_an_empty_one_has_none(reading: Example) -> None:
    many = [f"this is line {number}" for number in range(11, 28)]
    with reading.client() as client:
        ocr = client.model("ocr")
        assert [line["text"] for line in ocr.read(page.drawn(many))] == many
        assert ocr.read(page.drawn([" "])) == []


def test_what_is_no_image_fails_with_the_reason(reading: Example) -> None:
    with reading.client() as client, pytest.raises(lazyd.CallFailed, match="cannot identify image"):
        client.model("ocr").read(b"this is text")


def test_a_web_service_that_is_deployed_anew_finds_its_models_hot(reading: Example) -> None:
    reading.ask("Unload", all=True)
    drawn = page.drawn(["served by two frameworks"])
    flask = reading.service("flask", "--app", "examples.flask_ocr.after", "run", "--port", "0")
    assert says(flask, "/health")["models"] == {"ocr": "pending", "detection": "pending"}
    assert set(reading.states().values()) == {"cold"}, "asking for health has loaded something"
    (line,) = says(flask, "/ocr", drawn)["lines"]
    assert line["text"] == "served by two frameworks"
    assert says(flask, "/health") == {"status": "ready", "models": {"ocr": "loaded", "detection": "pending"}}
    worker, loads = reading.model("ocr")["workers"][0]["pid"], reading.model("ocr")["loads"]
    flask.stop()

    fastapi = reading.service("uvicorn", "examples.fastapi_ocr.app:app", "--port", "0")
    assert says(fastapi, "/health")["models"]["ocr"] == "loaded"
    assert says(fastapi, "/ocr", drawn)["lines"] == [line]
    assert says(fastapi, "/detect", drawn)["boxes"] == [line["corners"]]
    assert (reading.model("ocr")["workers"][0]["pid"], reading.model("ocr")["loads"]) == (worker, loads)


@pytest.fixture
def reading_by_paddle() -> Iterator[Example]:
    if importlib.util.find_spec("paddle") is None:
        pytest.skip("needs paddlepaddle, which `make heavy` installs")
    yield from running("flask_ocr", "paddle.toml")


def test_the_service_runs_on_paddle_without_a_changed_line(reading_by_paddle: Example) -> None:
    flask = reading_by_paddle.service("flask", "--app", "examples.flask_ocr.after", "run", "--port", "0")
    lines = says(flask, "/ocr", page.drawn(["the same page"], ["on another framework"]))["lines"]
    assert [line["text"] for line in lines] == ["the same page", "on another framework"]


@pytest.mark.parametrize(
    "command",
    [
        ("flask", "--app", "examples.flask_ocr.after", "run", "--port", "0"),
        ("uvicorn", "examples.fastapi_ocr.app:app", "--port", "0"),
    ],
)
def test_a_web_service_says_what_is_wrong_with_a_request(reading: Example, command: tuple[str, ...]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        reading.service(*command).open("/ocr", b"this is text")
    assert "cannot identify image" in json.load(refused.value)["error"]


def test_three_chains_with_room_for_two_are_never_stuck() -> None:
    """`python -m examples.ocr.chains` does it 300 times."""
    with Stage(chains.configuration(chains.AMPLE)) as stage:
        stage.start()
        stage.wait_until_running()
        assert chains.runs(stage, 1) > 0, "there was room for all"
