"""``Warm(tier = "ram")``: models' files are read into the page cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from lazyd.core.answers import Timeout
from lazyd.core.spec import ModelSpec
from lazyd.errors import InvalidParameter
from lazyd.varlink.call import Call
from lazyd.varlink.parameters import Warm

from ..pages.orders import Order
from ..pages.warming import NothingToRead, Warming
from .looking import Looking
from .requests import Refused

Work = list[tuple[str, ModelSpec, Order]]


def check(looking: Looking, names: Sequence[str]) -> None:
    """One name that means none, or a family as a whole, and nothing is read.

    Raises:
        ModelNotFound, InvalidParameter
    """
    for name in names:
        key, _ = looking.find(name)
        if "*" in key:
            raise InvalidParameter(parameter=f"models ({key} is a family: name one of its members)")


async def warm(call: Call, given: Warm, looking: Looking, warming: Warming) -> None:
    """Answers when all are being read, or with `wait` are warm. The reading goes on whatever happens to the call.

    Raises:
        Refused: one of them cannot be read, there is no room for it, or time is over.
        InvalidParameter: one has no files.
    """
    work = [(key, spec, warming.begin(key, spec)) for key, spec in map(looking.find, given.models)]
    warnings: list[str] = []
    waits_for = ""

    def step() -> None:
        """A client that reads slowly gets fewer steps."""
        if call.more and call.writable and not call.ended:
            call.reply(_told(looking, work), continues=True)

    try:
        async with asyncio.timeout(given.timeout_sec):
            for _, _, order in work:
                order.on_step.add(step)
            for waits_for, spec, order in work:
                warnings += await _awaited(waits_for, spec, order, wait=bool(given.wait))
    except TimeoutError:
        raise Refused(Timeout(model=waits_for, phase="reading", timeout_sec=given.timeout_sec or 0.0)) from None
    finally:
        for _, _, order in work:
            order.on_step.discard(step)
    call.reply(_told(looking, work) | ({"warnings": warnings} if warnings else {}))


async def _awaited(key: str, spec: ModelSpec, order: Order, *, wait: bool) -> list[str]:
    """Waits for one model, to the end or to the beginning."""
    try:
        await order.begun.wait()
        if not wait and not order.over.done():
            return []
        unlocked = await asyncio.shield(order.over)
    except NothingToRead:
        reason = (
            f"{key} has no files that are known before it is loaded (runtime {spec.runtime}): warm it on its device"
        )
        raise InvalidParameter(parameter=f"models ({reason})") from None
    return [f"{key} is warm, but not locked: {unlocked}"] if unlocked else []


def _told(looking: Looking, work: Work) -> dict[str, Any]:
    return {"models": [looking.model(key) for key, _, _ in work]}
