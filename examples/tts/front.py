"""The HTTP front: ``python -m examples.tts.front [PORT]``. The standard library's server, and no model in it.

``POST /speak`` with text answers one WAV file that grows as sentences are spoken. ``GET /health``
says whether the voice is loaded, and loads nothing. The front stays when the voice has gone.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import sys
import wave
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import lazyd

voice = lazyd.Client().model("voice", timeout=60)
UNKNOWN = 0xFFFFFFFF
"""The size that a WAV file claims while nobody knows it."""


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, {"status": "ready", "models": {"voice": "loaded" if voice.is_ready else "pending"}})
        else:
            self.answer(404, {"error": "there are POST /speak and GET /health"})

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode(errors="replace")
        sentences = voice.stream.speak(text)
        try:
            first = next(sentences, None)  # until it is there, an error still has a status of its own
        except lazyd.LazydError as error:
            self.answer(503, {"error": str(error)})
            return
        if first is None:
            self.answer(400, {"error": "there is nothing to say in that text"})
        else:
            with contextlib.suppress(ConnectionError):  # whoever listens no more ends the call
                self.play(first, sentences)

    def play(self, first: bytes, others: Iterable[bytes]) -> None:
        """One WAV file, each sentence sent as soon as it is there."""
        self.send_response(200)
        self.send_header("Content-Type", "audio/wav")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        rate, samples = opened(first)
        self.chunk(header(rate) + samples)
        for sentence in others:
            self.chunk(opened(sentence)[1])
        self.chunk(b"")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def answer(self, status: int, said: dict[str, object]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def opened(file: bytes) -> tuple[int, bytes]:
    """The sample rate of a WAV file, and its samples."""
    with wave.open(io.BytesIO(file)) as wav:
        return wav.getframerate(), wav.readframes(wav.getnframes())


def header(rate: int) -> bytes:
    """The beginning of a WAV file of 16 bits and one channel whose end is not known yet."""
    form = (16, 1, 1, rate, 2 * rate, 2, 16)  # its own size, PCM, channels, samples and bytes a second, a frame, bits
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", UNKNOWN, b"WAVE", b"fmt ", *form, b"data", UNKNOWN)


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with ThreadingHTTPServer(("127.0.0.1", port), Front) as server:
        print(f"speaking at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
