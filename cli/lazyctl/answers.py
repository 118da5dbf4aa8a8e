"""The answer of a model, as ``--json`` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyd.wire.values import to_json

if TYPE_CHECKING:
    from lazyd.client import Answer


def call_reply(answer: Answer) -> dict[str, Any]:
    """The answer as the method ``Call`` of the control socket would give it (io.lazyd.varlink)."""
    reply = {"result": to_json(answer.result), "coldStart": answer.cold_start, "waitedSec": answer.waited_s}
    return reply if answer.degraded is None else {**reply, "degraded": answer.degraded}
