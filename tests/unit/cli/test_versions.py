"""``lazyctl versions``, ``promote`` and ``rollback``."""

from __future__ import annotations

import json
from typing import Any

from lazyd import errors

from .conftest import Daemon, Lazyctl


def version(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "state": "cold", "answers": False, "shadow": False, "calls": 0, "failed": 0, **fields}


def named(*versions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    found = {"name": "ocr", "means": "ocr:4", "answers": "ocr:4", "alias": False, "promoted": False, "history": []}
    return {**found, "versions": list(versions), **fields}


def test_versions_shows_who_answers_and_what_came_of_their_calls(daemon: Daemon, lazyctl: Lazyctl) -> None:
    reader = named(
        version("ocr:3", state="ready", weight=90, answers=True, calls=120),
        version("ocr:4", state="ready", weight=10, answers=True, calls=12, failed=2),
        version("ocr:5", state="ready", shadow=True, equal=30, different=2, shadowFailed=1, skipped=4),
        name="reader",
        means="ocr:3",
        answers="ocr:3",
        alias=True,
    )
    daemon.answer("Versions", {"names": [reader]})
    lines = lazyctl("versions").out.splitlines()
    assert lines[0] == "reader means ocr:3, ocr:4 (alias, as configured)"
    assert [line.split() for line in lines[2:5]] == [
        ["ocr:3", "ready", "90", "%", "answers", "120"],
        ["ocr:4", "ready", "10", "%", "answers", "12", "2"],
        ["ocr:5", "ready", "shadow"],
    ]
    assert lines[5].strip() == "repeated calls: 30 equal, 2 different, 1 failed, 4 skipped"


def test_versions_tells_what_answers_meanwhile_why_not_the_other_and_what_was_before(
    daemon: Daemon, lazyctl: Lazyctl
) -> None:
    history = [{"model": "ocr:3", "how": "configured"}, {"model": "ocr:4", "how": "promoted", "at": 0.5}]
    failed = version("ocr:4", state="failed", weight=1, lastError="its warm-up failed")
    ocr = named(failed, version("ocr:3", answers=True), answers="ocr:3", promoted=True, since=0.5, history=history)
    daemon.answer("Versions", {"names": [ocr, named(version("ocr:4"), name="other")]})
    out = lazyctl("versions", "ocr").out
    assert daemon.last("Versions") == {"model": "ocr"}
    assert "; ocr:3 answers until ocr:4 is ready" in out.replace("\n", " ")
    assert "its warm-up failed" in out
    assert "before that: ocr:3 (configured)" in out
    assert "\n\nother means ocr:4" in out


def test_versions_says_so_where_there_is_no_choice(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Versions", {"names": []})
    assert lazyctl("versions", "gemma").out == "gemma has no versions and no other name\n"
    assert lazyctl("versions").out == "no model has versions or another name\n"


def test_promote_tells_what_answers_until_the_new_one_is_ready(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Promote", {"model": "ocr:4", "before": "ocr:3", "answers": "ocr:3"})
    result = lazyctl("promote", "ocr", "4")
    assert daemon.last("Promote") == {"model": "ocr", "version": "4"}
    assert result.out == "ocr means ocr:4, no longer ocr:3; ocr:3 answers until it is ready\n"


def test_promote_without_a_version_asks_for_what_is_configured(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Promote", {"model": "ocr:4", "before": "ocr:4", "answers": "ocr:4"})
    assert lazyctl("promote", "ocr").out == "ocr still means ocr:4\n"
    assert daemon.last("Promote") == {"model": "ocr"}


def test_rollback_tells_what_the_name_means_again(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Rollback", {"model": "ocr:3", "before": "ocr:4", "answers": "ocr:3"})
    assert lazyctl("rollback", "ocr").out == "ocr means ocr:3, no longer ocr:4\n"
    assert json.loads(lazyctl("--json", "rollback", "ocr").out)["before"] == "ocr:4"


def test_what_cannot_be_promoted_exits_like_any_unknown_model(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Promote", errors.ModelNotFound(model="ocr:9", nearest="ocr:4"))
    result = lazyctl("promote", "ocr", "9")
    assert (result.status, result.out) == (4, "")
    assert "ocr:4" in result.err
