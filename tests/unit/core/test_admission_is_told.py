"""Whoever follows the events learns what each load was booked with, and what that left."""

from __future__ import annotations

from typing import Any

from lazyd.core import effects, events
from lazyd.core.spec import GIB

from .story import Story, spec, ways


def told(story: Story, kind: str) -> dict[str, Any]:
    """The last event of this kind: its reason, and its data."""
    notes = [effect for effect in story.effects if isinstance(effect, effects.Note) and effect.kind == kind]
    return {"reason": notes[-1].reason, **notes[-1].data}


def test_a_load_tells_what_is_booked_and_what_is_left() -> None:
    story = Story(spec("a"), sizes={"a": 3}, ram_gib=10)
    story.get("a")
    assert told(story, "loading") == {
        "reason": "3.0 GiB of ram",
        "worker": story.worker("a"),
        "bytes": {"ram": 3 * GIB},
        "free_bytes": {"ram": 7 * GIB},
    }


def test_a_load_that_maps_a_file_tells_so() -> None:
    told_before = events.Predicted(model="a", ways=ways(ram_gib=3), files={"1:2": GIB})
    story = Story(spec("a"), predictions={"a": told_before}, ram_gib=10)
    story.get("a")
    loading = told(story, "loading")
    assert loading["reason"] == "3.0 GiB of ram, and a file of 1.0 GiB, shared"
    assert (loading["bytes"], loading["file_bytes"]) == ({"ram": 3 * GIB}, GIB)
    assert loading["free_bytes"] == {"ram": 6 * GIB}


def test_a_reservation_tells_what_is_left() -> None:
    story = Story(ram_gib=10)
    story.tell(events.Reserve(request=1, device="ram", bytes=4 * GIB, holder=1000))
    assert told(story, "reserved")["free_bytes"] == {"ram": 6 * GIB}
