"""What is here already: what broke off goes on, what was cut short is completed, and nobody takes it away meanwhile."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from pathlib import Path

import pytest

from lazyd.fetch import downloads, room
from lazyd.fetch.downloads import FIRST
from lazyd.fetch.jobs import Jobs
from lazyd.urls import key_of

from .test_jobs import LIMIT_S, URL, Desk
from .test_jobs import desk as desk

FOLDER = "s3://b/d/"


def put_folder(desk: Desk, *names: str) -> dict[str, bytes]:
    contents = {name: os.urandom(2 * FIRST) for name in names}
    for name, data in contents.items():
        desk.there.put(FOLDER + name, data)
    return contents


def test_a_file_of_a_folder_that_is_not_whole_yet_is_nobodys_to_remove(desk: Desk) -> None:
    contents = put_folder(desk, "a.bin", "b.bin")
    other = desk.there.put("s3://b/other", b"other")
    at_second, gate = threading.Event(), threading.Event()

    def before_read() -> None:
        if len(list((Path(desk.cache.root) / "blobs").glob("*"))) == 1 and not at_second.is_set():
            at_second.set()
            gate.wait(LIMIT_S)

    desk.there.before_read = before_read
    job = desk.begin(FOLDER)
    assert at_second.wait(LIMIT_S)
    assert desk.fetch(other).error == ""  # and what is nobody's is removed
    gate.set()
    assert job.done.wait(LIMIT_S)
    assert job.error == ""
    assert {name: desk.here(FOLDER, name) for name in contents} == contents
    assert desk.names("parts") == []


def test_a_folder_goes_on_with_the_file_at_which_it_broke(desk: Desk) -> None:
    contents = put_folder(desk, "a.bin", "b.bin")
    desk.there.files.pop(FOLDER + "b.bin")
    desk.there.put(FOLDER + "b.bin", contents["b.bin"])
    reads = 0

    def before_read() -> None:
        nonlocal reads
        reads += 1
        if reads > 2:  # the first file is two chunks
            raise RuntimeError("the process is killed")

    desk.there.before_read = before_read
    assert "RuntimeError" in desk.fetch(FOLDER).error
    desk.jobs = Jobs(desk.cache, desk.there.open)
    desk.there.before_read = lambda: None
    desk.there.reads.clear()
    assert desk.fetch(FOLDER).error == ""
    assert sum(end - start for start, end in desk.there.reads) == 2 * FIRST, "the first file was here"
    assert {name: desk.here(FOLDER, name) for name in contents} == contents
    assert room.used_bytes(desk.cache) == 4 * FIRST


@pytest.mark.parametrize("with_sum", [False, True])
def test_a_content_that_was_cut_short_on_the_disk_is_fetched_again(desk: Desk, with_sum: bool) -> None:
    data = os.urandom(3000)
    sha256 = hashlib.sha256(data).hexdigest() if with_sum else None
    desk.there.put(URL, data)
    assert desk.fetch(sha256=sha256).error == ""
    os.truncate(desk.cache.blob(hashlib.sha256(data).hexdigest()), 1000)
    assert desk.cache.entry(key_of(URL, sha256)) is None
    job = desk.fetch(sha256=sha256)
    assert (job.error, job.changed) == ("", True)
    assert desk.here(sha256=sha256) == data
    assert len(desk.names("blobs")) == len(desk.names("trees")) == 1


def test_of_a_folder_only_the_file_that_was_cut_short_is_fetched_again(desk: Desk) -> None:
    contents = put_folder(desk, "a.bin", "b.bin")
    desk.fetch(FOLDER)
    os.truncate(desk.cache.blob(hashlib.sha256(contents["b.bin"]).hexdigest()), 5)
    desk.there.reads.clear()
    assert desk.fetch(FOLDER).error == ""
    assert sum(end - start for start, end in desk.there.reads) == 2 * FIRST
    assert {name: desk.here(FOLDER, name) for name in contents} == contents


def test_a_content_of_which_nothing_is_noted_is_read_before_it_is_believed(desk: Desk) -> None:
    data = os.urandom(3000)
    desk.there.put(URL, data)
    sha256 = hashlib.sha256(data).hexdigest()
    desk.fetch(sha256=sha256)
    shutil.rmtree(Path(desk.cache.root) / "entries")
    desk.there.reads.clear()
    assert desk.fetch(sha256=sha256).error == ""
    assert desk.there.reads == [], "it is here"
    shutil.rmtree(Path(desk.cache.root) / "entries")
    Path(desk.cache.blob(sha256)).write_bytes(b"x" * 3000)
    assert desk.fetch(sha256=sha256).error == ""
    assert desk.here(sha256=sha256) == data


def test_what_is_here_under_another_name_is_kept_once_and_not_taken_away_meanwhile(desk: Desk) -> None:
    data = os.urandom(3000)
    desk.there.put(URL, data)
    desk.fetch()
    other = desk.there.put("s3://b/other", data)
    kept = desk.cache.keep_blob

    def keep(part: str, sha256: str) -> None:
        kept(part, sha256)
        desk.cache.remove(key_of(URL, None))  # the other one leaves in this moment
        desk.cache.sweep(())

    desk.cache.keep_blob = keep  # type: ignore[method-assign]
    assert desk.fetch(other).error == ""
    assert desk.here(other, "other") == data
    assert room.used_bytes(desk.cache) == 3000


def test_a_read_that_never_comes_back_does_not_hold_up_the_next_try(desk: Desk) -> None:
    data = os.urandom(4 * FIRST)
    desk.there.put(URL, data)
    stuck, gate = threading.Event(), threading.Event()

    def hang() -> None:
        stuck.set()
        gate.wait(LIMIT_S)

    desk.there.before_read = hang
    job = desk.begin()
    assert stuck.wait(LIMIT_S)
    desk.jobs.leave(job, stop=True)
    assert job.done.wait(LIMIT_S)
    desk.there.before_read = lambda: None
    assert desk.fetch().error == ""
    gate.set()  # what comes now is for nobody
    assert desk.here() == data


def test_what_is_slow_is_asked_for_in_smaller_parts_and_one_at_first(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(4 * FIRST)
    desk.there.put(URL, data)
    monkeypatch.setattr(downloads, "QUICK_S", 0.0)
    monkeypatch.setattr(downloads, "SLOW_S", 0.0)
    assert desk.fetch().error == ""
    assert desk.here() == data
    sizes = [end - start for start, end in sorted(desk.there.reads)]
    assert sizes[0] == FIRST
    assert sizes[1:5] == [FIRST // 2] * 4
    assert min(sizes[:-4]) >= downloads.SMALLEST


def test_two_at_once_do_not_both_get_the_same_room(desk: Desk) -> None:
    urls = [desk.there.put(f"s3://b/{number}", os.urandom(4 * FIRST)) for number in range(2)]
    stuck, gate = threading.Event(), threading.Event()

    def hang() -> None:
        stuck.set()
        gate.wait(LIMIT_S)

    desk.there.before_read = hang
    first = desk.begin(urls[0], disk=6 * FIRST)
    assert stuck.wait(LIMIT_S)
    assert "there is no room for it" in desk.fetch(urls[1], disk=6 * FIRST).error
    gate.set()
    assert first.done.wait(LIMIT_S)
    assert first.error == ""


def test_a_file_of_unknown_size_ends_where_the_budget_does(desk: Desk) -> None:
    desk.there.put(URL, os.urandom(8 * FIRST))
    desk.there.says_sizes = False
    assert "there is no room for it" in desk.fetch(disk=3 * FIRST).error
    assert room.used_bytes(desk.cache) <= 3 * FIRST
    assert desk.fetch(disk=9 * FIRST).error == ""


def test_a_hundred_leave_in_one_look(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        desk.fetch(desk.there.put(f"s3://b/{number}", b"%d" % number))
    looks, entries = [], desk.cache.entries
    monkeypatch.setattr(desk.cache, "entries", lambda: looks.append(1) or entries())
    assert room.make(desk.cache, 10, 20, kept=())
    assert len(looks) == 1
    assert len(desk.names("models")) == len(desk.names("trees")) == len(desk.names("blobs")) < 10


def test_heads_go_when_the_whole_is_here_those_too_that_were_not_finished(desk: Desk) -> None:
    desk.there.put(URL, b"x")
    head = Path(desk.cache.head(key_of(URL, None)))
    for folder in (head, head.with_name(f"{head.name}.abc123"), head.with_name("another")):
        folder.mkdir(parents=True)
    assert desk.fetch().error == ""
    assert desk.names("heads") == ["another"]


def test_heads_are_counted_and_leave(desk: Desk) -> None:
    head = Path(desk.cache.head("some")) / "a.gguf"
    head.parent.mkdir(parents=True)
    head.write_bytes(b"h" * 8192)
    assert room.used_bytes(desk.cache) == 8192
    assert room.make(desk.cache, 1000, 2000, kept=())
    assert not head.exists()


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["n" * 300], "a name is longer than 255 bytes"),
        (["a", "a/b"], "'a' is a file and a folder"),
        (["a//b"], "'a//b' is no name for a file"),
        (["x/../../b"], "is no name for a file"),
    ],
)
def test_names_that_no_disk_can_keep_are_told_before_anything_is_fetched(
    desk: Desk, names: list[str], says: str
) -> None:
    for name in names:
        desk.there.put(FOLDER + name, b"x")
    assert says in desk.fetch(FOLDER).error
    assert desk.there.reads == []


def test_a_folder_that_cannot_be_written_to_is_one_line(desk: Desk) -> None:
    desk.there.put(URL, b"x")
    (Path(desk.cache.root) / "parts").write_text("no folder")
    error = desk.fetch().error
    assert error.startswith(f"{URL}: it cannot be kept in {desk.cache.root}: ")


def test_unfinished_downloads_are_given_back_with_what_is_unused(desk: Desk) -> None:
    desk.there.put(URL, os.urandom(4 * FIRST))
    desk.there.broken_beyond = 2 * FIRST
    assert desk.fetch().error
    left = room.used_bytes(desk.cache)
    assert left > 0
    assert desk.jobs.remove([], ()) == 0
    assert desk.jobs.remove([], (), unfinished=True) == left
    assert desk.names("parts") == []
