"""The file of what loads have needed: what is in it, and what may be wrong with it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lazyd.core.needs import Need
from lazyd.manager.prediction import peaks
from lazyd.manager.prediction.learned import Store
from lazyd.manager.prediction.lessons import DryRun, Known, Life, Peak, Subject
from lazyd.manager.state import database

GEMMA = Subject("gemma", "files", "llama_cpp")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "learned.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    store = Store(path)
    yield store
    store.close()


def life(
    ram: int, *gpu: int, service: int | None = None, subject: Subject = GEMMA, way: str = "ram", **more: Any
) -> Life:
    return Life(subject, way, Need(ram, gpu), None if service is None else Need(service), **more)


def ram(store: Store, subject: Subject = GEMMA) -> int:
    return store.known(subject).ways["ram"].peak.ram_bytes


def test_nothing_is_known_and_no_file_is_made_by_asking(store: Store, path: str) -> None:
    assert store.known(GEMMA) == Known()
    assert not os.path.exists(os.path.dirname(path))


def test_what_was_learned_outlives_the_store(store: Store, path: str) -> None:
    store.learn([life(100, service=80), life(20, 300, way="gpu"), DryRun(GEMMA, {"source": "dry run"})])
    store.close()
    known = Store(path).known(GEMMA)
    assert known.ways == {"ram": Peak(Need(100), Need(80)), "gpu": Peak(Need(20, (300,)))}
    assert known.dry_run == {"source": "dry run"}
    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("other", [Subject("gemma2", "files", "llama_cpp"), Subject("gemma", "files2", "llama_cpp")])
def test_of_another_model_or_other_files_nothing_is_known(store: Store, other: Subject) -> None:
    store.learn([life(100), DryRun(GEMMA, {})])
    assert store.known(other) == Known()


def test_a_peak_rises_at_once_and_sinks_by_a_tenth_a_life(store: Store) -> None:
    store.learn([life(1000, service=1000)])
    store.learn([life(2000, service=1500)])
    assert store.known(GEMMA).ways["ram"] == Peak(Need(2000), Need(1500))
    store.learn([life(1000, service=500)])
    assert store.known(GEMMA).ways["ram"] == Peak(Need(1900), Need(1400))
    store.learn([life(1000)])  # it never served: nothing is said of service
    assert store.known(GEMMA).ways["ram"] == Peak(Need(1810), Need(1400))


def test_each_device_moves_for_itself(store: Store) -> None:
    store.learn([life(100, 1000, 500, way="gpu 1+2")])
    store.learn([life(200, 500, 600, way="gpu 1+2")])
    assert store.known(GEMMA).ways["gpu 1+2"].peak == Need(200, (950, 600))


def test_lives_that_are_written_at_once_count_one_after_the_other(store: Store) -> None:
    store.learn([life(1000), life(0), life(0)])
    assert ram(store) == 810


def test_a_runtimes_factor_is_a_mean_in_which_the_last_lives_weigh_most(store: Store) -> None:
    other = Subject("smollm2", "files", "llama_cpp")
    store.learn([life(1, factors={"ram": 2.0})])
    assert store.known(other).factors == {"ram": 2.0}
    store.learn([life(1, factors={"ram": 1.0, "gpu": 3.0})])
    assert store.known(other).factors == {"ram": 1.5, "gpu": 3.0}
    for _ in range(100):
        store.learn([life(1, factors={"ram": 1.0})])
    store.learn([life(1, factors={"ram": 2.0})])
    assert store.known(other).factors["ram"] == pytest.approx(1 + 1 / 8, rel=0.01)
    assert store.known(Subject("voice", "files", "onnx")).factors == {}


def test_what_changed_longest_ago_is_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "MOST", 3)
    now = iter(range(1000))
    monkeypatch.setattr("time.time", lambda: float(next(now)))
    subjects = [Subject(f"m{number}", "files", "python") for number in range(5)]
    for subject in subjects[:3]:
        store.learn([life(1, subject=subject), DryRun(subject, {})])
    store.learn([life(1, subject=subjects[0])])
    for subject in subjects[3:]:
        store.learn([life(1, subject=subject), DryRun(subject, {})])
    assert [bool(store.known(subject).ways) for subject in subjects] == [True, False, False, True, True]
    assert [store.known(subject).dry_run for subject in subjects] == [None, None, {}, {}, {}]


def test_the_file_grows_no_more_once_the_oldest_are_forgotten(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peaks, "MOST", 100)
    layers = {"gpu_layer_bytes": [10**9] * 100, "ram_layer_bytes": [10**9] * 100}

    def learn(numbers: range) -> int:
        for number in numbers:
            subject = Subject(f"{number:032}", "0" * 32, "llama_cpp")
            store.learn([life(10**10, 10**10, service=10**10, subject=subject), DryRun(subject, {"layers": layers})])
        return os.path.getsize(path)

    full = learn(range(100))
    assert full < 100 * 6000  # of a hundred layers each
    assert learn(range(100, 500)) <= 1.2 * full


def test_managers_that_take_turns_know_of_each_others_lessons(store: Store, path: str) -> None:
    """An old one goes on for a moment when a new one has taken over."""
    other = Store(path)
    store.learn([life(100)])
    other.learn([life(200)])
    assert ram(store) == ram(other) == 200
    store.learn([life(300)])
    assert ram(other) == 300
    assert (store.problem, other.problem) == (None, None)
    other.close()


# What may be wrong.


def spoil(path: str, at: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"spoilt" * 700)


def test_a_damaged_file_is_set_aside_and_learning_begins_anew(store: Store, path: str) -> None:
    for number in (1, 2):
        store.learn([life(number)])
        store.close()
        spoil(path)
        assert store.known(GEMMA) == Known()
        assert os.path.exists(f"{path}.corrupt-{number}")
        assert store.problem is not None
        assert f"it is {path}.corrupt-{number} now" in store.problem
    assert len(store.messages) == 2
    store.learn([life(7)])
    store.close()
    assert ram(Store(path)) == 7


def test_only_the_last_damaged_files_are_kept(store: Store, path: str) -> None:
    folder = Path(path).parent
    for number in range(1, 13):
        store.learn([life(number)])
        store.close()
        Path(f"{path}-journal").touch()
        spoil(path)
        assert store.known(GEMMA) == Known()
        store.close()
    aside = sorted(each.name for each in folder.glob("*.corrupt-*"))
    assert aside == [f"learned.db.corrupt-{n}{end}" for n in (10, 11, 12) for end in ("", "-journal")]


def test_a_file_that_somebody_has_removed_meanwhile_is_said_and_done_without(store: Store, path: str) -> None:
    store.learn([life(100)])
    os.unlink(path)
    assert store.learn([life(200)])
    assert ram(store) == 200
    assert store.problem is None or "cannot be kept" in store.problem


def test_damage_that_is_met_later_is_set_aside_too(store: Store, path: str) -> None:
    store.learn([life(number, subject=Subject(str(number), "f", "r")) for number in range(500)])
    store.close()
    size = os.path.getsize(path)
    assert store.known(Subject("7", "f", "r")).ways  # opened, and found whole
    assert store._opened is not None
    store._opened.execute("PRAGMA shrink_memory")  # what it has read it would not read again
    for at in range(4096, size, 4096):
        spoil(path, at)
    assert store.learn([life(8)])
    assert os.path.exists(f"{path}.corrupt-1")
    assert ram(store) == 8


def test_a_file_that_lacks_its_tables_is_damaged(store: Store, path: str) -> None:
    store.learn([life(1)])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE peaks")
    assert store.known(GEMMA) == Known()
    assert os.path.exists(f"{path}.corrupt-1")


def test_a_journal_that_a_damaged_file_left_goes_with_it(path: str) -> None:
    """Else SQLite would play it into the new file."""
    os.makedirs(os.path.dirname(path))
    for name in (path, f"{path}-journal"):
        Path(name).write_text(name)
    assert database._set_aside(path) == f"{path}.corrupt-1"
    assert Path(f"{path}.corrupt-1-journal").read_text() == f"{path}-journal"
    assert sorted(os.listdir(os.path.dirname(path))) == ["learned.db.corrupt-1", "learned.db.corrupt-1-journal"]


def test_a_row_that_makes_no_sense_is_none(store: Store, path: str) -> None:
    store.learn([life(1), life(2, 3, way="gpu")])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE peaks SET peak = 'x' WHERE way = 'gpu'")
    assert store.known(GEMMA).ways == {"ram": Peak(Need(1))}
    store.learn([life(5, 6, way="gpu")])
    assert store.known(GEMMA).ways["gpu"] == Peak(Need(5, (6,)))


@pytest.mark.parametrize(
    ("way", "need"),
    [
        ("gpu", Need(5)),
        ("gpu", Need(5, (1, 2))),
        ("ram", Need(5, (1,))),
        ("ram", Need(-5)),
        ("gpu", Need(5, (-1,))),
        ("gpu 1+2", Need(5, (1,))),
        ("gpu 1/3", Need(5, (1, 2))),
        ("ram", Need(1 << 51)),
        ("gpu 1+", Need(5, (1, 2))),
        ("elsewhere", Need(5)),
        (b"gpu", Need(5, (1,))),
    ],
)
def test_a_need_that_no_load_in_its_way_can_have_is_none(store: Store, path: str, way: str | bytes, need: Need) -> None:
    """The core books what is known as it is."""
    store.learn([life(1, 1, way="gpu 1/2")])
    store.close()
    with sqlite3.connect(path) as other:
        row = (way, msgspec.json.encode(need).decode())
        other.execute("INSERT INTO peaks VALUES ('gemma', 'files', ?, ?, NULL, 0)", row)
    assert [*store.known(GEMMA).ways] == ["gpu 1/2"]


def test_of_a_row_that_makes_sense_in_part_that_part_is_known(store: Store, path: str) -> None:
    store.learn([Life(GEMMA, "gpu", Need(1, (2,)), Need(1, (1,)))])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE peaks SET service = ?", [msgspec.json.encode(Need(1, (1, 1))).decode()])
    assert store.known(GEMMA).ways == {"gpu": Peak(Need(1, (2,)))}


@pytest.mark.parametrize(
    ("way", "need"),
    [
        ("ram", Need(9)),
        ("gpu", Need(9, (8,))),
        ("gpu 5+3", Need(9, (5, 3))),
        ("gpu 5/9", Need(9, (5,))),
        ("gpu 2+3/9", Need(9, (2, 3))),
    ],
)
def test_all_ways_of_loading_are_kept(store: Store, way: str, need: Need) -> None:
    store.learn([Life(GEMMA, way, need, need)])
    assert store.known(GEMMA).ways == {way: Peak(need, need)}


def test_a_factor_that_is_no_number_is_none(store: Store, path: str) -> None:
    store.learn([life(1, factors={"ram": 2.0, "gpu": 3.0})])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE factors SET factor = 9e999 WHERE device = 'gpu'")
    assert store.known(GEMMA).factors == {"ram": 2.0}


def test_a_newer_versions_file_is_read_and_never_written(store: Store, path: str) -> None:
    store.learn([life(100)])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {peaks.SHAPE.version + 1}")
        other.execute("DROP TABLE factors")
    before = Path(path).read_bytes()
    assert ram(store) == 100
    ours = peaks.SHAPE.version
    assert store.problem == f"{path} is of version {ours + 1}, newer than {ours}: it is read, and never written"
    store.learn([life(300)])
    assert ram(store) == 300
    store.close()
    assert Path(path).read_bytes() == before
    assert len(store.messages) == 1


def test_on_a_full_disk_what_is_learned_is_known_until_the_end(store: Store, path: str) -> None:
    store.learn([life(100)])
    assert store._opened is not None
    store._opened.execute("PRAGMA max_page_count = 1")
    for number in range(300):
        assert store.learn([life(200, subject=Subject(str(number), "files", "python"))])
    assert (
        store.problem
        == f"what loads need cannot be kept in {path} (database or disk is full): it is known until lazyd ends"
    )
    assert len(store.messages) == 1
    assert ram(store) == 100
    assert ram(store, Subject("299", "files", "python")) == 200
    store.close()
    assert ram(Store(path)) == 100


@pytest.mark.parametrize("obstacle", ["a file where the directory should be", "a directory where the file should be"])
def test_what_cannot_be_opened_is_said_once_and_done_without(store: Store, path: str, obstacle: str) -> None:
    if obstacle.startswith("a file"):
        Path(path).parent.write_text("")
    else:
        os.makedirs(path)
    store.learn([life(5)])
    store.learn([life(6)])
    assert ram(store) == 6
    assert len(store.messages) == 1
    assert store.problem is not None
    assert store.problem.startswith(f"what loads need cannot be kept in {path}")


def test_while_another_process_has_the_file_nothing_is_lost(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.manager.state.database.BUSY_S", 0.01)
    store.learn([life(1)])
    store.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert store.known(GEMMA) == Known()
    assert store.learn([life(9)]) is False
    other.execute("COMMIT")
    assert store.learn([life(9)]) is True
    assert ram(store) == 9
    assert store.problem is None


WRITER = """
import sys
from lazyd.core.needs import Need
from lazyd.manager.prediction.learned import Store
from lazyd.manager.prediction.lessons import Life, Subject
store = Store(sys.argv[1])
for number in range(10**9):
    need = Need(number)
    store.learn([Life(Subject(f"m{number % 50}", f"f{each}", "python"), "ram", need, need) for each in range(20)])
    print(number, flush=True)
"""


@pytest.mark.parametrize("after", [1, 2, 5, 11, 30])
def test_a_kill_at_any_moment_leaves_a_file_that_is_whole(path: str, after: int) -> None:
    """All that was said to be kept is there, and each write is there as a whole or not at all."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    last = max(int(writer.stdout.readline()) for _ in range(after))
    writer.send_signal(signal.SIGKILL)
    last = max([last, *(int(line) for line in writer.stdout.read().split(b"\n") if line)])
    writer.wait()
    store = Store(path)
    found = {each: ram(store, Subject(f"m{last % 50}", f"f{each}", "python")) for each in range(20)}
    assert set(found.values()) == {last}
    assert store.problem is None
    store.close()


def test_the_mode_of_what_a_link_leads_to_is_left_alone(store: Store, path: str, tmp_path: Path) -> None:
    there = tmp_path / "another"
    there.touch(0o644)
    there.chmod(0o644)
    os.makedirs(os.path.dirname(path))
    os.symlink(there, path)
    store.learn([life(100)])
    assert there.stat().st_mode & 0o777 == 0o644
