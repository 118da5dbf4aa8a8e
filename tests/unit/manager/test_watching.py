"""What comes and goes in watched directories is put in force, and nothing else is disturbed by it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lazyd.config import walking
from lazyd.config.patterns import pattern
from lazyd.manager import eyes as looking
from lazyd.manager import watching
from lazyd.manager.configuration import load_for_start
from lazyd.manager.eyes import Eyes

from .live import Live
from .waiting import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SETTLE_S", 0.01)
    monkeypatch.setattr(walking, "QUIET_S", 0.1)


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    live = Live(
        tmp_path,
        f'[discover."{tmp_path}/m/**/*.gguf"]\n'
        f'[models.v]\nruntime = "llama_cpp"\npath = "{tmp_path}/v/${{version}}/m.gguf"\n'
        '[models.written]\nruntime = "python"\nfactory = "a:b"\n',
    )
    live.watching.look()
    await until(lambda: live.watching._eyes is not None and live.watching._eyes._reading)
    yield live
    await live.background.stop()


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("weights")
    return path


def found(live: Live) -> set[str]:
    return live.models - {"written"}


async def test_a_file_that_comes_is_a_model_and_one_that_goes_is_none(live: Live, tmp_path: Path) -> None:
    file = put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    assert live.events[-1] == ("found", {"added": ("a",), "changed": (), "removed": ()})
    file.unlink()
    await until(lambda: found(live) == set())
    assert live.events[-1] == ("found", {"added": (), "changed": (), "removed": ("a",)})


async def test_directories_are_watched_as_they_come_however_deep(live: Live, tmp_path: Path) -> None:
    put(tmp_path / "m/x/y/z/a.gguf")
    await until(lambda: found(live) == {"x/y/z/a"})
    put(tmp_path / "m/x/y/b.gguf")
    await until(lambda: found(live) == {"x/y/z/a", "x/y/b"})
    os.rename(tmp_path / "m/x", tmp_path / "m/w")
    await until(lambda: found(live) == {"w/y/z/a", "w/y/b"})
    put(tmp_path / "m/w/y/z/c.gguf")
    await until(lambda: found(live) == {"w/y/z/a", "w/y/b", "w/y/z/c"})
    shutil.rmtree(tmp_path / "m")
    await until(lambda: found(live) == set())
    put(tmp_path / "m/again.gguf")
    await until(lambda: found(live) == {"again"})


async def test_versions_come_and_go(live: Live, tmp_path: Path) -> None:
    put(tmp_path / "v/1/m.gguf")
    await until(lambda: found(live) == {"v:1"})
    (tmp_path / "v/2").mkdir()
    put(tmp_path / "v/3/m.gguf")
    await until(lambda: found(live) == {"v:1", "v:3"})
    put(tmp_path / "v/2/m.gguf")
    await until(lambda: found(live) == {"v:2", "v:3"})
    shutil.rmtree(tmp_path / "v/3")
    await until(lambda: found(live) == {"v:1", "v:2"})


async def test_a_version_that_an_alias_names_stays_when_newer_ones_come(live: Live, tmp_path: Path) -> None:
    for version in ("1", "2"):
        put(tmp_path / f"v/{version}/m.gguf")
    await until(lambda: found(live) == {"v:1", "v:2"})
    live.file.write_text(live.file.read_text() + '[aliases]\nstable = "v:1"\n')
    await live.configuration.reload()
    put(tmp_path / "v/3/m.gguf")
    await until(lambda: found(live) == {"v:1", "v:2", "v:3"})
    put(tmp_path / "v/4/m.gguf")
    await until(lambda: found(live) == {"v:1", "v:3", "v:4"})


async def test_a_version_that_was_promoted_stays_when_newer_ones_come(live: Live, tmp_path: Path) -> None:
    for version in ("1", "2"):
        put(tmp_path / f"v/{version}/m.gguf")
    await until(lambda: found(live) == {"v:1", "v:2"})
    live.promoted.add("v:1")
    for version in ("3", "4"):
        put(tmp_path / f"v/{version}/m.gguf")
    await until(lambda: found(live) == {"v:1", "v:3", "v:4"})
    await live.configuration.reload()
    assert found(live) == {"v:1", "v:3", "v:4"}
    loaded = load_for_start(str(live.file), f"{live.state} of another", {"v:2"})
    assert loaded.config is not None
    assert loaded.config.models.keys() - {"written"} == {"v:2", "v:3", "v:4"}


async def test_a_file_that_is_being_copied_is_taken_when_it_is_closed(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "QUIET_S", 1000.0)
    put(tmp_path / "m/there.gguf")
    await until(lambda: live.watching._eyes is not None and str(tmp_path / "m") in live.watching._eyes._numbers)
    with (tmp_path / "m/a.gguf").open("w") as file:
        file.write("half")
        file.flush()
        put(tmp_path / "m/b.gguf")
        await until(lambda: "b" in found(live))
        assert "a" not in found(live)
    await until(lambda: "a" in found(live))
    part = put(tmp_path / "m/.c.gguf.part")
    os.rename(part, tmp_path / "m/c.gguf")
    await until(lambda: "c" in found(live))


async def test_a_model_whose_file_is_written_to_stays(live: Live, tmp_path: Path) -> None:
    file = put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    with file.open("w") as writing:
        writing.write("other weights")
        writing.flush()
        file.chmod(0o600)
        put(tmp_path / "m/b.gguf")
        await until(lambda: found(live) == {"a", "b"})
        await live.configuration.reload()
    assert all("a" in config.models for config in live.in_force)


class Overflown:
    """The kernel's word for events that it had no room for."""

    wd, mask, name = -1, looking.OVERFLOW, ""


async def test_what_the_kernel_had_no_room_to_tell_is_found_by_a_full_look(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    eyes = live.watching._eyes
    assert eyes is not None
    with monkeypatch.context() as patch:
        patch.setattr(eyes._inotify, "read", lambda **_: [Overflown()])
        put(tmp_path / "m/b.gguf")
        put(tmp_path / "m/new/c.gguf")
        await until(lambda: found(live) == {"a", "b", "new/c"})


async def test_where_not_all_can_be_watched_it_is_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("inotify_simple.INotify.add_watch", full)
    monkeypatch.setattr(watching, "BLIND_S", 0.05)
    live = Live(tmp_path, f'[discover."{tmp_path}/m/*.gguf"]\n')
    live.watching.look()
    await until(lambda: "fs.inotify.max_user_watches" in caplog.text)
    put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    assert caplog.text.count("max_user_watches") == 1
    await live.background.stop()


async def test_what_does_not_go_with_the_rest_is_refused_and_the_rest_stays(live: Live, tmp_path: Path) -> None:
    put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    live.file.write_text(live.file.read_text() + '[aliases]\nchat = "a"\n')
    await live.configuration.reload()
    (tmp_path / "m/a.gguf").unlink()
    await until(lambda: live.configuration.refused)
    assert "aliases.chat" in live.configuration.refused[0]
    assert live.configuration.warnings[0].startswith("what was found on the disk is not in force: ")
    assert found(live) == {"a"}
    assert ("configuration refused", {"reason": live.configuration.refused[0]}) in live.events
    put(tmp_path / "m/a.gguf")
    await until(lambda: not live.configuration.refused)
    put(tmp_path / "m/b.gguf")
    await until(lambda: found(live) == {"a", "b"})


async def test_a_file_that_has_the_name_of_an_alias_is_refused(live: Live, tmp_path: Path) -> None:
    live.file.write_text(live.file.read_text() + '[aliases]\nchat = "written"\n')
    await live.configuration.reload()
    put(tmp_path / "m/chat.gguf")
    await until(lambda: live.configuration.refused)
    assert "aliases.chat: a model has this name" in live.configuration.refused[0]
    assert live.models == {"written"}


async def test_an_edit_of_the_files_is_not_put_in_force_by_what_is_found(live: Live, tmp_path: Path) -> None:
    live.file.write_text("nonsense")
    put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    assert "written" in live.models
    assert live.configuration.problems == []


async def test_a_start_from_the_quick_form_knows_what_was_found_and_looks_again(live: Live, tmp_path: Path) -> None:
    put(tmp_path / "m/a.gguf")
    gone = put(tmp_path / "m/b.gguf")
    await until(lambda: found(live) == {"a", "b"})
    await live.configuration.reload()
    await live.configuration.keep()
    await live.background.stop()
    gone.unlink()
    put(tmp_path / "m/c.gguf")
    again = live.restarted(tmp_path)
    again.watching.look()
    await until(lambda: found(again) == {"a", "c"})
    await again.background.stop()


async def test_what_is_no_longer_to_be_found_is_no_longer_watched(live: Live, tmp_path: Path) -> None:
    put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    eyes = live.watching._eyes
    assert eyes is not None
    live.file.write_text("")
    await live.configuration.reload()
    await until(lambda: live.watching._eyes is None)
    assert (live.models, eyes._inotify) == (set(), None)
    live.file.write_text(f'[discover."{tmp_path}/m/*.gguf"]\n')
    await live.configuration.reload()
    await until(lambda: found(live) == {"a"})
    put(tmp_path / "m/b.gguf")
    await until(lambda: found(live) == {"a", "b"})


async def test_a_registered_model_hides_one_of_its_name_as_long_as_it_is_there(live: Live, tmp_path: Path) -> None:
    put(tmp_path / "m/a.gguf")
    await until(lambda: found(live) == {"a"})
    await live.registering.register("a", {"runtime": "python", "factory": "a:b"})
    assert live.configuration.config.models["a"].source == "registered"
    live.gone.add("a")
    await live.registering.deregister("a")
    await until(lambda: found(live) == {"a"})
    assert live.configuration.config.models["a"].path == f"{tmp_path}/m/a.gguf"


async def test_events_that_do_not_matter_wake_nobody(tmp_path: Path) -> None:
    told: list[None] = []
    eyes = Eyes(lambda: told.append(None))
    await asyncio.to_thread(eyes.open)
    put(tmp_path / "x.gguf")
    seen = walking.scan([pattern(f"{tmp_path}/*.gguf")])
    assert eyes.watch(seen.watches) is True
    assert eyes.watch(seen.watches) is False
    put(tmp_path / "log.txt")
    (tmp_path / "directory").mkdir()
    (tmp_path / "x.gguf").read_text()
    heard = put(tmp_path / "y.gguf")
    await until(lambda: str(heard) in eyes.closed())
    assert eyes.closed() == {str(heard)}
    assert 1 <= len(told) <= 3, "it has come, and was closed"
    eyes.close()


def test_nothing_is_imported_for_it_where_nothing_is_to_be_found() -> None:
    code = (
        "import sys; import lazyd.manager.parts, lazyd.manager.watching; "
        "print([name for name in sys.modules if 'inotify' in name or name.startswith('lazyd.config.walking')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
