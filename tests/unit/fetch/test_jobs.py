"""What is fetched, how often, and what is kept of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lazyd.fetch import patience, room
from lazyd.fetch.cache import Cache
from lazyd.fetch.downloads import FIRST
from lazyd.fetch.jobs import Job, Jobs, Wanted
from lazyd.urls import key_of

from .elsewhere import Elsewhere

URL = "s3://b/d/a.bin"
LIMIT_S = 60


class Desk:
    """A fetcher without its socket."""

    def __init__(self, root: Path) -> None:
        self.there = Elsewhere()
        self.cache = Cache(str(root))
        self.jobs = Jobs(self.cache, self.there.open)

    def begin(self, url: str = URL, sha256: str | None = None, disk: float = 0.9, kept: tuple[str, ...] = ()) -> Job:
        return self.jobs.join(Wanted(key_of(url, sha256), url, sha256, disk, kept, kept))

    def fetch(self, *args: object, **fields: object) -> Job:
        job = self.begin(*args, **fields)  # type: ignore[arg-type]
        assert job.done.wait(LIMIT_S)
        return job

    def here(self, url: str = URL, name: str = "a.bin", sha256: str | None = None) -> bytes:
        return (Path(self.cache.root) / "models" / key_of(url, sha256) / name).read_bytes()

    def names(self, kind: str) -> list[str]:
        folder = Path(self.cache.root) / kind
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(patience, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(room, "LEFT_FREE", 0)
    return Desk(tmp_path)


def test_after_breaks_it_goes_on_where_it_was(desk: Desk) -> None:
    data = os.urandom(4 * FIRST + 5)
    desk.there.put(URL, data)
    desk.there.breaks = [2 * FIRST, 3 * FIRST]
    job = desk.fetch()
    assert (job.error, desk.here()) == ("", data)
    assert desk.names("parts") == []


def test_what_another_fetcher_has_begun_is_taken_up(desk: Desk) -> None:
    data = os.urandom(4 * FIRST)
    desk.there.put(URL, data)
    desk.there.broken_beyond = 2 * FIRST
    assert "the connection broke" in desk.fetch().error
    begun = sum(end - start for start, end in desk.there.reads)
    desk.there.reads.clear()
    desk.there.broken_beyond = None
    desk.jobs = Jobs(desk.cache, desk.there.open)
    assert desk.fetch().error == ""
    assert desk.here() == data
    assert begun > 0
    assert min(start for start, _ in desk.there.reads) >= FIRST


def test_another_file_of_its_name_is_begun_anew(desk: Desk) -> None:
    desk.there.put(URL, b"1" * (4 * FIRST))
    desk.there.broken_beyond = 2 * FIRST
    desk.fetch()
    desk.there.broken_beyond = None
    desk.there.put(URL, b"2" * (4 * FIRST))
    assert desk.fetch().error == ""
    assert desk.here() == b"2" * (4 * FIRST)


def test_one_that_changes_all_the_time_is_given_up(desk: Desk) -> None:
    def change() -> None:
        desk.there.put(URL, os.urandom(100))

    change()
    desk.there.before_read = change
    assert "it changes again and again" in desk.fetch().error


def test_a_server_without_ranges_is_read_as_a_stream(desk: Desk) -> None:
    desk.there.put(URL, b"x" * (FIRST + 7))
    desk.there.ranges = False
    assert desk.fetch().error == ""
    assert desk.here() == b"x" * (FIRST + 7)


def test_what_has_another_checksum_is_not_kept(desk: Desk) -> None:
    desk.there.put(URL, b"x")
    right = hashlib.sha256(b"x").hexdigest()
    assert f"its SHA-256 is {right}" in desk.fetch(sha256="ab" * 32).error
    assert desk.names("blobs") == desk.names("models") == []
    assert desk.fetch(sha256=right).error == ""
    desk.there.reachable = False
    assert desk.fetch(sha256=right).error == "", "what is known by its checksum is never looked up"


def test_many_wait_for_one_download_though_they_want_it_otherwise(desk: Desk) -> None:
    desk.there.put(URL, os.urandom(FIRST))
    gate = threading.Event()
    desk.there.before_read = lambda: bool(gate.wait(LIMIT_S))
    sums = [None, hashlib.sha256(desk.there.files[URL]).hexdigest()]
    jobs = [desk.begin(sha256=sums[number % 2]) for number in range(20)]
    gate.set()
    assert all(job.done.wait(LIMIT_S) and not job.error for job in jobs)
    assert len(desk.there.reads) == 1
    assert len(desk.names("models")) == 2
    assert len(desk.names("blobs")) == 1


def test_it_ends_when_all_who_wanted_it_have_stopped_it(desk: Desk) -> None:
    desk.there.put(URL, os.urandom(64 * FIRST))
    gate, reading = threading.Event(), threading.Event()
    desk.there.before_read = lambda: (reading.set(), gate.wait(LIMIT_S))
    first, second = desk.begin(), desk.begin()
    assert reading.wait(LIMIT_S)
    desk.jobs.leave(first, stop=True)
    assert not first.stopped.is_set()
    desk.jobs.leave(second, stop=True)
    assert second.done.wait(LIMIT_S)
    gate.set()
    assert "not wanted any more" in second.error


def test_what_did_not_change_is_not_read_again_and_what_did_takes_its_place(desk: Desk) -> None:
    desk.there.put(URL, b"old")
    desk.fetch()
    reads = len(desk.there.reads)
    again = desk.fetch()
    assert (again.changed, len(desk.there.reads)) == (False, reads)
    desk.there.put(URL, b"new")
    assert desk.fetch(kept=(key_of(URL, None),)).changed
    assert desk.here() == b"new"
    assert len(desk.names("blobs")) == 2, "a model in memory may still read the old one"
    desk.fetch()
    assert len(desk.names("blobs")) == 1


def test_without_a_server_what_is_here_serves(desk: Desk) -> None:
    desk.there.put(URL, b"old")
    desk.fetch()
    desk.there.reachable = False
    job = desk.fetch()
    assert (job.error, desk.here()) == ("", b"old")
    assert "what was fetched before serves" in job.note
    assert "no route to host" in desk.fetch("s3://b/other").error


def test_a_folder_is_fetched_with_its_folders_and_only_what_changed_again(desk: Desk) -> None:
    for name in ("x.json", "deep/y.bin"):
        desk.there.put(f"s3://b/d/{name}", name.encode())
    assert desk.fetch("s3://b/d/").error == ""
    assert desk.here("s3://b/d/", "deep/y.bin") == b"deep/y.bin"
    desk.there.put("s3://b/d/x.json", b"changed")
    desk.there.reads.clear()
    assert desk.fetch("s3://b/d/").changed
    assert len(desk.there.reads) == 1
    assert "nothing is below it" in desk.fetch("s3://b/empty/").error


def test_all_parts_of_a_model_in_parts_are_fetched(desk: Desk) -> None:
    for number in (1, 2):
        desk.there.put(f"s3://b/m-{number:05d}-of-00002.gguf", b"%d" % number)
    url = "s3://b/m-00001-of-00002.gguf"
    assert desk.fetch(url).error == ""
    assert desk.here(url, "m-00002-of-00002.gguf") == b"2"


def test_room_is_made_by_what_was_used_least_recently_and_never_by_what_is_kept(desk: Desk) -> None:
    urls = [desk.there.put(f"s3://b/{number}", bytes([number]) * 1000) for number in range(4)]
    for url in urls[:3]:
        desk.fetch(url)
    keys = [key_of(url, None) for url in urls]
    desk.jobs.used({keys[0]: 3e9})
    assert desk.fetch(urls[3], disk=3000, kept=(keys[1],)).error == ""
    assert desk.names("models") == sorted([keys[0], keys[1], keys[3]])
    refused = desk.fetch("s3://b/large", disk=1500, kept=tuple(keys)).error
    assert "there is no such file" in refused
    desk.there.put("s3://b/large", b"l" * 5000)
    refused = desk.fetch("s3://b/large", disk=3500, kept=tuple(keys)).error
    assert "it needs 4.9 KiB more, and there is no room for it" in refused
    assert len(desk.names("models")) == 3


def test_a_download_that_was_given_up_makes_room_first(desk: Desk) -> None:
    desk.there.put(URL, b"x" * 1000)
    desk.fetch()
    large = desk.there.put("s3://b/large", os.urandom(4 * FIRST))
    desk.there.broken_beyond = 3 * FIRST
    desk.fetch(large)
    desk.there.broken_beyond = None
    assert len(desk.names("parts")) == 2
    other = desk.there.put("s3://b/other", b"o" * FIRST)
    assert desk.fetch(other, disk=2 * FIRST).error == ""
    assert desk.names("parts") == []
    assert len(desk.names("models")) == 2


def test_what_is_removed_gives_back_its_bytes(desk: Desk) -> None:
    desk.there.put(URL, b"x" * 1000)
    desk.fetch()
    assert desk.jobs.remove([key_of(URL, None)], ()) == 1000
    assert desk.names("blobs") == desk.names("models") == desk.names("trees") == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"f" * 65536):
            pass


def test_a_full_disk_is_said_and_what_was_there_stays(desk: Desk, small_disk: Path) -> None:
    there = desk.there
    desk = Desk(small_disk)
    desk.there, desk.jobs = there, Jobs(desk.cache, there.open)
    there.put(URL, b"x" * 100_000)
    assert desk.fetch().error == ""
    kept = (key_of(URL, None),)
    large = there.put("s3://b/large", b"l" * (2 << 20))
    assert "are free on the disk" in desk.fetch(large, kept=kept).error
    small = there.put("s3://b/small", b"s" * 500_000)
    there.before_read = lambda: fill(small_disk / "another program")
    assert "is full: No space left on device" in desk.fetch(small, kept=kept).error
    assert desk.here() == b"x" * 100_000
