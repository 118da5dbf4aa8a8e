"""The daemon's own log never stops the daemon."""

from __future__ import annotations

import contextlib
import logging
import os
import threading

import pytest

from lazyd.manager import output
from lazyd.manager.output import Writer


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("lazyd", logging.INFO, __file__, 1, text, None, None)


def test_lines_come_out_in_order_before_the_process_ends() -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as stream, open(reading, encoding="utf-8") as log:
        writer = Writer(stream)
        for n in range(3):
            writer.emit(record(f"line {n}"))
        writer.flush()
        assert [log.readline() for _ in range(3)] == ["line 0\n", "line 1\n", "line 2\n"]


def fill(pipe: int) -> None:
    """Writes to a pipe as much as goes into it."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(pipe, b"\n" * 4096):
            pass
    os.set_blocking(pipe, True)


def test_a_log_that_nobody_reads_stops_nobody_and_says_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_UNWRITTEN", 100)
    monkeypatch.setattr(output, "PATIENCE_S", 0.01)
    reading, writing = os.pipe()
    fill(writing)
    with open(writing, "w", encoding="utf-8") as stream, open(reading, encoding="utf-8") as log:
        writer = Writer(stream)
        emitting = threading.Thread(target=lambda: [writer.emit(record("x" * 1000)) for _ in range(500)], daemon=True)
        emitting.start()
        emitting.join(10)
        assert not emitting.is_alive()
        writer.flush()  # gives up
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(iter(log.readline, "read again\n")), daemon=True)
        reader.start()
        monkeypatch.setattr(output, "PATIENCE_S", 10)
        writer.flush()
        writer.emit(record("read again"))
        reader.join(10)
        (lost,) = (line for line in lines if line not in ("\n", "x" * 1000 + "\n"))
        assert lost.endswith(" lines of the log were lost: nobody read it\n")
        assert 0 < int(lost.split()[0]) <= 400


def test_a_stream_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = open(writing, "w", encoding="utf-8")  # noqa: SIM115  # closing it raises
    writer = Writer(stream)
    writer.emit(record("nobody hears this"))
    writer.emit(record("nor this"))
    written = threading.Event()
    writer._unwritten.put(written)
    assert written.wait(10)
    with contextlib.suppress(BrokenPipeError):
        stream.close()
