"""What a service says to whoever keeps it in use: where it is (docs/runtimes.md, "service")."""

from __future__ import annotations

from typing import Any

from ..errors import ProtocolError


def url_of(model: str, said: Any) -> str:
    """The URL in the first piece of a `hold`. Raises `ProtocolError` for what a fallback has answered instead."""
    url = said.get("url") if isinstance(said, dict) else None
    if not isinstance(url, str):
        raise ProtocolError(reason=f"{model} has answered with something else than where it is: is it a service?")
    return url
