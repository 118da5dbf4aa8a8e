"""URLs by fsspec: a web server on the loopback that knows no ranges, files of this machine, and what is missing."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lazyd.fetch.failures import Failed, Unreachable
from lazyd.fetch.jobs import Jobs, Wanted
from lazyd.fetch.remote import Remote

pytest.importorskip("aiohttp", reason="needs aiohttp")
pytest.importorskip("fsspec", reason="needs fsspec")

DATA = bytes(range(256)) * 2000


class Handler(SimpleHTTPRequestHandler):
    """Knows no ranges; ``/closed/`` wants a password."""

    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(b"ana:hunter22").decode()
        if "closed" in self.path and self.headers.get("Authorization") != wanted:
            self.send_error(401)
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        self.send_error(405) if "headless" in self.path else super().do_HEAD()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """Where it serves the folder."""
    for name in ("a.bin", "closed/a.bin", "headless/a.bin"):
        (tmp_path / "www" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "www" / name).write_bytes(DATA)
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0),
        lambda *args: Handler(*args, directory=str(tmp_path / "www")),  # type: ignore[misc]
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("url", ["http://{}/a.bin", "http://ana:hunter22@{}/closed/a.bin", "http://{}/headless/a.bin"])
def test_a_server_without_ranges_is_read_from_the_beginning(tmp_path: Path, web: str, url: str) -> None:
    remote = Remote(url.format(web))
    info = remote.info()
    assert not info.ranges
    assert b"".join(remote.stream(1000)) == DATA
    from lazyd.fetch.cache import Cache

    job = Jobs(Cache(str(tmp_path / "cache"))).join(Wanted("key", url.format(web)))
    assert job.done.wait(60)
    assert job.error == ""
    assert (tmp_path / "cache" / "models" / "key" / "a.bin").read_bytes() == DATA


@pytest.mark.parametrize(
    ("path", "says"),
    [("nowhere.bin", "there is no such file"), ("closed/a.bin?sig=deadbeef", "access is denied")],
)
def test_what_a_server_refuses_is_told_without_secrets(web: str, path: str, says: str) -> None:
    with pytest.raises(Failed, match=says) as failed:
        Remote(f"http://ana:wrong-secret@{web}/{path}").info()
    assert not isinstance(failed.value, Unreachable)
    assert "wrong-secret" not in str(failed.value)
    assert "deadbeef" not in str(failed.value)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        Remote("http://127.0.0.1:9/a").info()


def test_files_of_this_machine_have_ranges_and_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.bin").write_bytes(DATA)
    remote = Remote(f"file://{tmp_path}/deep/a.bin")
    info = remote.info()
    assert (info.bytes, info.ranges) == (len(DATA), True)
    assert remote.read(5, 20) == DATA[5:20]
    assert Remote(f"file://{tmp_path}/").below() == ["deep/a.bin"]
    with pytest.raises(Failed, match="with a / at its end"):
        Remote(f"file://{tmp_path}/deep").info()


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(Failed) as failed:
        Remote("gs://bucket/a.bin")
    assert "gcsfs is not installed" in str(failed.value)
    assert "lazyd[gcs]" in str(failed.value)
