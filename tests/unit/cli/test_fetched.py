"""``lazyctl fetched``."""

from __future__ import annotations

import time
from typing import Any

from .conftest import Daemon, Lazyctl

MIB = 2**20


def files(url: str, **fields: Any) -> dict[str, Any]:
    now = time.time()
    return {"url": url, "bytes": 5 * MIB, "files": 1, "usedAt": now - 7200, "checkedAt": now, "models": ["m"], **fields}


def test_what_was_used_last_comes_first(daemon: Daemon, lazyctl: Lazyctl) -> None:
    listed = [files("s3://b/old", usedAt=0.0, models=[]), files("s3://b/new")]
    daemon.answer("Fetched", {"fetched": listed, "bytes": 10 * MIB, "budgetBytes": 100 * MIB})
    heading, first, second, last = lazyctl("fetched").out.splitlines()
    assert heading.split() == ["URL", "SIZE", "USED", "MODELS"]
    assert first.split() == ["s3://b/new", "5.0", "MiB", "2", "h", "ago", "m"]
    assert second.split()[0] == "s3://b/old"
    assert second.split()[-1] == "none"
    assert last == "10.0 MiB of 100 MiB that may be kept"


def test_where_nothing_was_fetched_it_says_so(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Fetched", {"fetched": [], "bytes": 0, "budgetBytes": 0})
    assert lazyctl("fetched").out == "nothing was fetched\n"


def test_what_is_removed_is_told_in_bytes(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Discard", {"freedBytes": 5 * MIB})
    assert lazyctl("fetched", "--remove", "m").out == "5.0 MiB removed\n"
    assert daemon.last("Discard") == {"model": "m"}
    daemon.answer("Discard", {"freedBytes": 0})
    assert lazyctl("--json", "fetched", "--unused").json == {"freedBytes": 0}
    assert daemon.last("Discard") == {}
