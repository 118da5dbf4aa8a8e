"""A trading system's process, which every commit starts anew: it registers, does one heartbeat, and stays.

``python -m application SIDE BEAT [MODEL]``, SIDE being ``before`` or ``lazyd``, and MODEL the language model's file, if
there is one. It says what it has reached in lines of JSON, each with its moment on the machine's monotonic clock, which
all processes share.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Protocol

from . import book

if TYPE_CHECKING:
    import lazyd


class Models(Protocol):
    """Where the heartbeat has its strategies and its language model from."""

    def signal(self, name: str) -> float: ...

    def sentiment(self) -> str: ...


class Everything:
    """As it was: whatever might be used is loaded at the start."""

    def __init__(self, sentiment: str | None) -> None:
        from . import strategies

        self.strategies = {name: strategies.load(name) for name in book.NAMES}
        if sentiment is not None:
            from llama_cpp import Llama

            self.llama = Llama(sentiment, n_ctx=book.N_CTX, verbose=False)

    def signal(self, name: str) -> float:
        return self.strategies[name].signal(book.MINUTE)

    def sentiment(self) -> str:
        answer = self.llama.create_completion(book.QUESTION, max_tokens=book.TOKENS, temperature=0.0)
        return str(answer["choices"][0]["text"])  # type: ignore[index]


class Asked:
    """With lazyd: nothing is loaded here."""

    def __init__(self, client: lazyd.Client) -> None:
        self.client = client

    def signal(self, name: str) -> float:
        return float(self.client.call(f"strategy/{name}", "signal", book.MINUTE))

    def sentiment(self) -> str:
        return str(self.client.call("sentiment", "complete", book.QUESTION, max_tokens=book.TOKENS, temperature=0.0))


def models(side: str, sentiment: str | None) -> Models:
    if side == "before":
        return Everything(sentiment)
    import lazyd
    from lazyd.client import import_all

    import_all()  # now, not in the first call
    return Asked(lazyd.connect())


def beat(source: Models, number: int, *, sentiment: bool) -> None:
    """One heartbeat: the hot strategies, a rare one, the language model. Every answer is checked."""
    for name in (*book.HOT, book.rare(number)):
        began = time.monotonic()
        found = source.signal(name)
        took = time.monotonic() - began
        say("computed", name=name, took=took, signal=found, right=book.is_right(name, found))
    if sentiment:
        began = time.monotonic()
        text = source.sentiment()
        took = time.monotonic() - began
        say("felt", took=took, text=text, right=book.ANSWER in text)
    say("beaten")


def say(what: str, **more: object) -> None:
    print(json.dumps({"what": what, "at": time.monotonic(), **more}), flush=True)


def main() -> None:
    side, number, *rest = sys.argv[1:]
    sentiment = rest[0] if rest else None
    source = models(side, sentiment)
    say("registered")
    beat(source, int(number), sentiment=sentiment is not None)
    while True:  # until the next commit
        signal.pause()


if __name__ == "__main__":
    main()
