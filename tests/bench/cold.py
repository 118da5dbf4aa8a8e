"""From asking for a model that is cold to the first piece of its answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import lazyd
from demo import baseline
from demo.stage import Stage
from lazyd.client import Client

from .figure import Figure, Goal, pairs
from .models import GEMMA, GEMMA_TABLE, N_CTX, PROMPT

ROUNDS = 7


def first_token(client: Client) -> float:
    """Seconds from the call to the first piece; the model is freed again before this returns."""
    gemma = client.model("gemma")
    began = time.perf_counter()
    pieces = iter(gemma.stream.complete(PROMPT, max_tokens=1))
    next(pieces)
    took = time.perf_counter() - began
    for _ in pieces:
        pass
    client.unload("gemma")
    return took


def figures() -> Iterator[Figure]:
    with Stage(GEMMA_TABLE) as stage:
        stage.start()
        with lazyd.connect(str(stage.socket)) as client:
            ours, floor = pairs(
                ROUNDS,
                lambda: first_token(client),
                lambda: baseline.measure(GEMMA, N_CTX, PROMPT, 1).first_token_s,
            )
    yield Figure(
        "cold gemma-270m to first token",
        "s",
        Goal(times=0.8),
        ours,
        floor,
        "a script that does it all",
    )
