"""Web servers that do not do as they say: what they send is never taken for the file that was asked for."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lazyd.fetch import patience
from lazyd.fetch.cache import Cache
from lazyd.fetch.downloads import FIRST
from lazyd.fetch.jobs import Job, Jobs, Wanted
from lazyd.urls import name_of

pytest.importorskip("aiohttp", reason="needs aiohttp")
pytest.importorskip("fsspec", reason="needs fsspec")

DATA = os.urandom(2 * FIRST + 5000)
LIMIT_S = 120


class Handler(BaseHTTPRequestHandler):
    """The first part of the path says what it does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(self)  # type: ignore[attr-defined]
        what = self.path.strip("/").split("/")[0]
        getattr(self, f"to_{what}", self.to_honest)()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass

    @property
    def range(self) -> tuple[int, int] | None:
        said = self.headers.get("Range")
        if said is None or self.command == "HEAD":
            return None
        start, _, last = said.removeprefix("bytes=").partition("-")
        return int(start), int(last) + 1

    def say(self, status: int, data: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.send_header("ETag", '"one"')
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def part(self, start: int, end: int, data: bytes = DATA) -> None:
        self.say(206, data[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(DATA)}")

    def to_honest(self) -> None:
        self.part(*self.range) if self.range else self.say(200, DATA)

    def to_shifted(self) -> None:
        """Answers each range with as many of the first bytes."""
        if self.range:
            size = self.range[1] - self.range[0]
            self.say(206, DATA[:size], Content_Range=f"bytes 0-{size - 1}/{len(DATA)}")
        else:
            self.say(200, DATA)

    def to_forgets(self) -> None:
        """Knows ranges only at the end."""
        if self.range and self.range[1] != len(DATA):
            self.say(200, DATA[: self.range[1] - self.range[0]])
        else:
            self.to_honest()

    def to_short(self) -> None:
        self.say(200, DATA[:1000], len(DATA), Connection="close")
        self.close_connection = True

    def to_short_once(self) -> None:
        gets = sum(each.command == "GET" for each in self.server.asked)  # type: ignore[attr-defined]
        self.say(200, DATA) if gets > 3 else self.to_short()

    def to_zipped(self) -> None:
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self.say(200, gzip.compress(DATA), Content_Encoding="gzip")
        else:
            self.say(200, DATA)

    def to_loop(self) -> None:
        self.say(302, Location="/loop/again?token=hunter22")

    def to_disk(self) -> None:
        self.say(302, Location="file:///etc/passwd")

    def to_denied(self) -> None:
        self.say(302, Location=self.elsewhere("/closed/a.bin?Signature=hunter22"))

    def to_broken(self) -> None:
        self.say(302, Location=self.elsewhere("/ill/a.bin?Signature=hunter22"))

    def to_moved(self) -> None:
        self.say(302, Location=self.elsewhere("/honest/a.bin?Signature=hunter22"))

    def to_closed(self) -> None:
        self.say(403)

    def to_ill(self) -> None:
        self.say(500)

    def to_endless(self) -> None:
        """Each folder has another one in it."""
        if self.path.endswith("/"):
            self.say(200, b'<a href="deeper/">deeper</a> <a href="a.bin">a.bin</a>', Content_Type="text/html")
        elif self.path.endswith("/deeper"):
            self.say(301, Location=f"{self.path}/")
        else:
            self.to_honest()

    def to_folder(self) -> None:
        if self.path.endswith("/folder/"):
            self.say(200, b'<a href="a%20b.bin">a b</a> <a href="sub/">sub</a>', Content_Type="text/html")
        elif self.path.endswith("/sub/"):
            self.say(200, b'<a href="c.bin">c</a> <a href="../">up</a>', Content_Type="text/html")
        elif self.path.endswith("/sub"):
            self.say(301, Location=f"{self.path}/")
        else:
            self.to_honest()

    def elsewhere(self, path: str) -> str:
        return f"http://localhost:{self.server.server_address[1]}{path}"


class Web:
    """A server, and a fetcher."""

    def __init__(self, root: Path) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.asked: list[Handler] = []
        self.server.asked = self.asked  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.root = root

    def fetch(self, path: str, user: str = "") -> Job:
        url = f"http://{user}127.0.0.1:{self.server.server_port}/{path}"
        job = Jobs(Cache(str(self.root / "cache"))).join(Wanted("key", url))
        assert job.done.wait(LIMIT_S)
        return job

    def here(self, path: str) -> bytes:
        return (self.root / "cache" / "models" / "key" / name_of(f"http://h/{path}")).read_bytes()


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(patience, "FIRST_PAUSE_S", 0.001)
    web = Web(tmp_path)
    yield web
    web.server.shutdown()
    web.server.server_close()


@pytest.mark.parametrize(
    "path",
    [
        "honest/a.bin",
        "shifted/a.bin",
        "short_once/a.bin",
        "zipped/a.bin",
        "moved/a.bin",
        "honest/a b ü.bin",
        "honest/a%20b.bin",
        "honest/a.bin?token=hunter22",
    ],
)
def test_what_is_kept_is_the_file(web: Web, path: str) -> None:
    assert web.fetch(path).error == ""
    assert web.here(path) == DATA


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("forgets/a.bin", "does not answer with the part of the file that it is asked for"),
        ("short/a.bin", "received 1000 of"),
        ("loop/a.bin", "from one address to the next without an end"),
        ("disk/a.bin", "sent on to what is no address of a web server"),
        ("denied/a.bin", "access is denied"),
        ("broken/a.bin", "500"),
        ("endless/", "its folders go deeper than 16"),
        ("folder/?token=hunter22", "of a folder on a web server nothing can be asked"),
    ],
)
def test_what_cannot_be_had_is_one_short_line_without_secrets(web: Web, path: str, says: str) -> None:
    error = web.fetch(path).error
    assert says in error
    assert "hunter22" not in error
    assert len(error) < 600
    assert list((web.root / "cache").glob("blobs/*")) == []


def test_a_folder_of_a_web_server_is_fetched_under_its_names(web: Web) -> None:
    assert web.fetch("folder/").error == ""
    folder = web.root / "cache" / "models" / "key"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.bin")} == {"a b.bin", "sub/c.bin"}
    assert (folder / "a b.bin").read_bytes() == DATA


def test_a_name_and_a_password_are_not_sent_on_to_another_host(web: Web) -> None:
    assert web.fetch("moved/a.bin", "ana:hunter22@").error == ""
    told = {each.path.split("/")[1]: each.headers.get("Authorization") for each in web.asked}
    assert told["moved"] is not None
    assert told["honest"] is None


@pytest.mark.parametrize("path", ["honest/a%2F..%2F..%2F..%2F..%2Fevil", "honest/..", "honest/%2e%2e", "honest/."])
def test_a_name_never_leads_out_of_its_folder(web: Web, path: str) -> None:
    before = {found for found in web.root.parent.rglob("*") if "cache" not in found.parts}
    web.fetch(path)
    assert {found for found in web.root.parent.rglob("*") if "cache" not in found.parts} == before
    names = [found.relative_to(web.root / "cache").parts for found in (web.root / "cache" / "trees").rglob("*")]
    assert {len(parts) for parts in names} == {2, 3}
