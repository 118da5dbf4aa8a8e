"""What clients do: calls, loads, leases, unloads, and requests that are given up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lazyd
from tests.integration.conftest import Client as RawClient

from .schedule import Doing

UNLOAD_S = 10.0

Connect = Callable[[], RawClient]
"""A connection of one's own."""


def carry_out(client: lazyd.Client, connect: Connect, doing: Doing) -> None:
    """Does it. Raises what the client does."""
    DEEDS[doing.what](client, connect, **doing.words)


def limit_s(doing: Doing) -> float | None:
    """How long it may take."""
    if doing.what in ("unload", "unload all"):
        return UNLOAD_S
    if doing.what == "hold":
        return float(doing.words["timeout_s"] + doing.words["hold_s"])
    if doing.what in ("pin", "look", "warm"):
        return 0.0
    return float(doing.words["timeout_s"])


def call(client: lazyd.Client, _: Connect, model: str, timeout_s: float) -> None:
    client.call(model, "run", timeout=timeout_s)


def tell(client: lazyd.Client, _: Connect, model: str, timeout_s: float) -> None:
    client.call(model, "tell", timeout=timeout_s)


def load(client: lazyd.Client, _: Connect, model: str, timeout_s: float) -> None:
    client.load(model, timeout=timeout_s)


def hold(client: lazyd.Client, _: Connect, model: str, timeout_s: float, hold_s: float) -> None:
    lease = client.get(model, timeout=timeout_s, hold_s=hold_s).get("lease")
    time.sleep(hold_s)
    if lease is not None:
        client.release(lease)


def unload(client: lazyd.Client, _: Connect, model: str, force: bool) -> None:
    client.unload(model, force=force, timeout=UNLOAD_S)


def unload_all(client: lazyd.Client, _: Connect, idle: bool, force: bool) -> None:
    client.unload(all=not idle, idle=idle, force=force and not idle, timeout=UNLOAD_S)


def warm(client: lazyd.Client, _: Connect, model: str) -> None:
    client.warm(model)


def pin(client: lazyd.Client, _: Connect, model: str) -> None:
    client.pin(model)
    try:
        time.sleep(0.3)
    finally:
        client.unpin(model)


def looks(client: lazyd.Client, _: Connect, model: str) -> None:
    client.describe(model)
    client.metrics()
    client.health()


def cancel(_: lazyd.Client, connect: Connect, model: str, timeout_s: float, method: str, after_s: float) -> None:
    """Asks, and goes without an answer."""
    words: dict[str, Any] = {"model": model, "timeoutSec": timeout_s}
    if method == "Call":
        words["method"] = "run"
    try:
        with connect() as line:
            line.send(method, words)
            time.sleep(after_s)
    except OSError as error:  # nobody listens just now
        raise lazyd.Unavailable(socket="", reason=str(error)) from error


DEEDS: dict[str, Callable[..., None]] = {
    "call": call,
    "tell": tell,
    "load": load,
    "hold": hold,
    "unload": unload,
    "unload all": unload_all,
    "warm": warm,
    "pin": pin,
    "look": looks,
    "cancel": cancel,
}
