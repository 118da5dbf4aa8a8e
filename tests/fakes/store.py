"""A real S3 server (moto) on the loopback, and a proxy before it that does to connections what networks do.

with serving() as store:
    store.put("models/a.gguf", data)
    store.proxy.cut_after = 100_000        # bytes of each answer, then the connection breaks
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Iterator

SECRET = "wJalrXUtnFEMI-not-a-real-secret"
BUCKET = "models"
_CHUNK = 16 << 10


class Proxy:
    """Passes on what comes, unless it is told otherwise. What it is told holds for connections made after."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._sock = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._sock.getsockname()[1]
        self.requests: list[str] = []
        """First lines, as they came."""
        self.cut_after: int | None = None
        """Bytes of an answer, after which the connection breaks."""
        self.bytes_per_s: float | None = None
        self.answers: bytes | None = None
        """Instead of the server's."""
        self.refuses = False
        self.gate = threading.Event()
        """Large answers stop after their first bytes until it is set."""
        self.gate.set()
        self.waits = threading.Event()
        """One stands before the gate."""
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self.gate.set()
        self._sock.close()

    def count(self, method: str, path: str) -> int:
        """So many requests of this kind have come."""
        return sum(line.startswith(f"{method} ") and path in line for line in self.requests)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._sock.accept()
                if self.refuses:
                    client.close()
                    continue
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self._target)) as server:
            left = self.cut_after
            while True:
                ready, _, _ = select.select([client, server], [], [], 60)
                if not ready:
                    return
                if client in ready:
                    data = client.recv(_CHUNK)
                    if not data:
                        return
                    self._note(data)
                    if self.answers is not None:
                        client.sendall(self.answers)
                        return
                    server.sendall(data)
                    left = self.cut_after
                if server in ready:
                    data = server.recv(_CHUNK)
                    if not data:
                        return
                    if len(data) > 4096 and not self.gate.is_set():
                        self.waits.set()
                        self.gate.wait(60)
                    if self.bytes_per_s is not None:
                        time.sleep(len(data) / self.bytes_per_s)
                    if left is not None:
                        data, left = data[:left], left - len(data)
                    client.sendall(data)
                    if left is not None and left <= 0:
                        return

    def _note(self, data: bytes) -> None:
        if data.split(b" ", 1)[0] in (b"GET", b"HEAD", b"PUT", b"POST", b"DELETE"):
            self.requests.append(data.split(b"\r\n", 1)[0].decode("latin-1"))


class Store:
    """A bucket. Clients come by way of the proxy, with this environment."""

    def __init__(self, server_port: int) -> None:
        import boto3

        self.proxy = Proxy(server_port)
        self.env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.port}",
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._s3 = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{server_port}",
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        self._s3.create_bucket(Bucket=BUCKET)

    def put(self, key: str, data: bytes) -> str:
        """Its URL."""
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"


@contextlib.contextmanager
def serving() -> Iterator[Store]:
    """The server of moto in this process, as long as it is needed."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.setdefault("MOTO_S3_CUSTOM_ENDPOINTS", "")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        store = Store(port)
        yield store
        store.proxy.close()
    finally:
        server.stop()
