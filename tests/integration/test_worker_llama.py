"""Real language models in real workers: loading, aborting, answering, stopping, failing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .host_driver import MODELS, CallError, Client, Manager, llama_spec, readable, running_host

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (make setup)")
if not (MODELS / "smollm2.gguf").exists() or not (MODELS / "gemma.gguf").exists():
    pytest.skip(f"{MODELS} has no models (make setup)", allow_module_level=True)

PARIS = "The capital of France is"
STORY = "Once upon a time"
SOON_S = 5.0
"""What is cancelled here would take longer than that on any machine."""


@pytest.fixture(scope="module")
def manager() -> Iterator[Manager]:
    with running_host() as host:
        yield host.manager()


@pytest.fixture(scope="module")
def worker(manager: Manager) -> str:
    manager.load("smol", llama_spec(n_ctx=1024))
    return "smol"


@pytest.fixture
def client(manager: Manager, worker: str, request: pytest.FixtureRequest) -> Iterator[Client]:
    client = manager.connect(worker, "smollm2", request.node.name)
    yield client
    client.close()


def test_a_real_model_completes(client: Client) -> None:
    text = client.call("complete", PARIS, max_tokens=8, temperature=0)
    assert "Paris" in text


def test_completions_stream(client: Client) -> None:
    pieces = list(client.stream("complete", PARIS, max_tokens=8, temperature=0))
    assert len(pieces) > 4
    assert "".join(pieces) == client.call("complete", PARIS, max_tokens=8, temperature=0)


def test_chats_answer_and_stream_as_the_library_does(client: Client) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    answer = client.call("chat", messages, max_tokens=16, temperature=0)
    text = answer["choices"][0]["message"]["content"]
    chunks = list(client.stream("chat", messages, max_tokens=16, temperature=0))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text
    assert chunks[-1]["choices"][0]["finish_reason"] is not None


def test_texts_are_embedded_by_a_model_that_was_loaded_for_text(client: Client) -> None:
    near, far = client.call("embed", ["The cat sat on the mat.", "Stocks fell sharply."], normalize=True)
    mat = client.call("embed", "A cat sits on a mat.", normalize=True)
    assert len(mat) == 576
    assert sum(a * b for a, b in zip(mat, near, strict=True)) > sum(a * b for a, b in zip(mat, far, strict=True))


def test_texts_are_tokenized(client: Client) -> None:
    assert client.call("tokenize", "hello world") == client.call("tokenize", text="hello world")
    assert len(client.call("tokenize", "hello world")) == 2


def test_an_unknown_argument_is_the_reason(client: Client) -> None:
    with pytest.raises(CallError) as caught:
        client.call("complete", PARIS, max_token=8)
    assert "max_token" in caught.value.parameters["reason"]
    client.send({"id": 99, "method": "complete", "args": [PARIS], "kwargs": {"stream": True}})
    with pytest.raises(CallError) as caught:
        client.answer()
    assert "stream is not an argument" in caught.value.parameters["reason"]


@pytest.mark.parametrize("stream", [True, False])
def test_cancelling_stops_within_a_token(client: Client, stream: bool) -> None:
    """Also where nothing is streamed: the model is free again at once, not after 900 tokens."""
    client.call("complete", STORY, max_tokens=1)
    number = client.ask("complete", STORY, max_tokens=900, temperature=0, stream=stream)
    assert readable(client.socket, time.monotonic() + 0.3) is stream
    began = time.monotonic()
    client.send({"cancel": number})
    header = client.next().header
    while "error" not in header:
        header = client.next().header
    assert header["error"] == "Cancelled"
    assert time.monotonic() - began < SOON_S
    assert "Paris" in client.call("complete", PARIS, max_tokens=8, temperature=0)


def test_a_client_that_leaves_stops_its_generation(manager: Manager, worker: str, client: Client) -> None:
    gone = manager.connect(worker, "smollm2", "gone")
    gone.ask("complete", STORY, max_tokens=900)
    channel = manager.workers[worker]
    channel.expect("busy", lease="gone")
    gone.close()
    began = time.monotonic()
    channel.expect("closed", lease="gone")
    assert time.monotonic() - began < SOON_S
    assert "Paris" in client.call("complete", PARIS, max_tokens=8, temperature=0)


def test_a_long_prompt_can_be_cancelled_while_it_is_read(manager: Manager) -> None:
    manager.load("gemma", llama_spec("gemma", n_ctx=4096))
    client = manager.connect("gemma", "gemma", "long")
    number = client.ask("complete", "word " * 3500, max_tokens=4)
    manager.workers["gemma"].expect("busy")
    assert not readable(client.socket, time.monotonic() + 0.5)
    began = time.monotonic()
    client.send({"cancel": number})
    assert client.next().header["error"] == "Cancelled"
    assert time.monotonic() - began < SOON_S
    assert client.call("complete", PARIS, max_tokens=4)
    manager.stop("gemma", grace_s=20)


def test_the_load_tells_its_progress(manager: Manager) -> None:
    channel = manager.load("told", llama_spec("gemma"))
    fractions = [m["fraction"] for m in channel.seen if m["is"] == "progress" and m["fraction"] is not None]
    assert fractions == sorted(fractions)
    manager.stop("told", grace_s=0)


def test_unloading_during_the_load_aborts_it(manager: Manager) -> None:
    """The worker obeys while it loads, and can load again."""
    channel = manager.start("early", llama_spec("gemma"))
    channel.send({"do": "load", "model": "gemma"})
    channel.expect("progress", phase="loading")
    channel.send({"do": "unload", "model": "gemma"})
    channel.expect(lambda m: m["is"] in ("unloaded", "ready", "failed"))
    assert not [m for m in channel.seen if m["is"] in ("ready", "failed")]
    channel.send({"do": "load", "model": "gemma"})
    channel.expect("ready")
    manager.stop("early", grace_s=0)


def test_a_truncated_model_fails_with_a_clear_reason(manager: Manager, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes((MODELS / "smollm2.gguf").read_bytes()[:50_000_000])
    channel = manager.start("short", {"name": "short", "runtime": "llama_cpp", "path": str(short)})
    channel.send({"do": "load", "model": "short"})
    reason = channel.expect("failed")["reason"]
    assert "corrupted or incomplete" in reason
    assert "\n" not in reason
    exited = manager.stop("short", grace_s=20)
    assert "corrupted or incomplete" in exited["log"]


def test_an_unknown_option_is_the_reason(manager: Manager) -> None:
    channel = manager.start("odd", llama_spec(n_ctxx=5))
    channel.send({"do": "load", "model": "smollm2"})
    assert channel.expect("failed")["reason"] == "ValueError: llama_cpp has no option 'n_ctxx'; did you mean n_ctx?"
    manager.stop("odd", grace_s=0)


def test_a_missing_model_is_the_reason(manager: Manager) -> None:
    channel = manager.start("none", {"name": "none", "runtime": "llama_cpp", "path": "/no/such.gguf"})
    channel.send({"do": "load", "model": "none"})
    assert channel.expect("failed")["reason"] == (
        "FileNotFoundError: [Errno 2] No such file or directory: '/no/such.gguf'"
    )
    manager.stop("none", grace_s=0)


def test_a_worker_that_is_killed_during_a_call_is_reported(manager: Manager) -> None:
    manager.load("victim", llama_spec())
    pid = manager.host.expect("started", worker="victim")["pid"]
    client = manager.connect("victim", "smollm2", "v")
    client.ask("complete", STORY, max_tokens=900, stream=True)
    client.next()
    os.kill(pid, signal.SIGKILL)
    client.expect_end()
    assert manager.host.expect("exited", worker="victim")["signal"] == signal.SIGKILL


def test_what_a_model_holds_is_measured(manager: Manager, worker: str) -> None:
    measured = manager.measure(worker)  # other processes may share the pages of its file
    assert 20_000_000 < measured < 500_000_000
