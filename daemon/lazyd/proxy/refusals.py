"""What an HTTP client is told when a service cannot be had: a status, when to try again, and one line."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..errors import LazydError, LoadFailed, ModelNotFound, PermissionDenied, Timeout

RETRY_S = 5
"""When to try again, where nobody knows better."""


class Refusal(NamedTuple):
    status: int
    line: str
    retry_after_s: int | None = None
    closes: bool = False
    """Nothing that comes after the request is believed."""


_STATUSES: dict[type[LazydError], int] = {ModelNotFound: 404, PermissionDenied: 403, Timeout: 504}
"""All others are 503: the service cannot be had now."""


def of(error: LazydError) -> Refusal:
    """For what the daemon or the worker has answered."""
    status = next((number for kind, number in _STATUSES.items() if isinstance(error, kind)), 503)
    if status in (403, 404):
        return Refusal(status, str(error))
    after_s = error.retry_after_sec if isinstance(error, LoadFailed) else RETRY_S
    return Refusal(status, str(error), max(1, math.ceil(after_s)))


def broken(model: str, error: BaseException) -> Refusal:
    """The service has not answered as HTTP wants it."""
    return Refusal(502, f"{model} broke the connection: {error}; see 'lazyctl logs {model}'", RETRY_S)
