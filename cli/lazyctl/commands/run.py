"""``lazyctl run``."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from types import TracebackType
from typing import Any, cast

import click

from lazyd.wire.values import to_json
from lazyd.wire.varlink import dumps

from ..answers import call_reply
from ..group import command, timeout_option
from ..names import MODEL
from ..session import Session
from ..terminal import is_terminal, text_only
from ..watching import LoadWatch

MAX_TOKENS = 256


@command(
    examples="""
        lazyctl run gemma "The capital of France is"
        lazyctl run gemma - --max-tokens 64 < prompt.txt
    """
)
@click.argument("model", type=MODEL)
@click.argument("prompt")
@click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(min=1),
    default=MAX_TOKENS,
    help=f"Stop after N tokens ({MAX_TOKENS}).",
)
@timeout_option("How long at most, from the queue to the last word.")
@click.pass_obj
def run(session: Session, model: str, prompt: str, max_tokens: int, timeout: float | None) -> None:
    """Generate text with MODEL from PROMPT ("-": from standard input), as it comes.

    Loads the model first if need be. Ctrl-C ends the generation too. It is the method `complete`
    of MODEL; `lazyctl call MODEL chat` is another way.
    """
    if prompt == "-":
        prompt = sys.stdin.read()
    arguments: dict[str, Any] = {"max_tokens": max_tokens}
    with session.client() as client:
        if session.json:
            answer = client.answer(model, "complete", [prompt], arguments, timeout=timeout)
            session.say_degraded(answer.degraded)
            session.print_json(call_reply(answer))
            return
        told: list[str] = []
        pieces = client.pieces(model, "complete", [prompt], arguments, timeout=timeout, on_degraded=told.append)
        # Closing it is what cancels the call: Ctrl-C must not leave that to the end of the process.
        with closing(cast("Generator[str]", pieces)), LoadWatch(session, model) as watch, _Text() as text:
            for piece in pieces:
                watch.done()
                while told:
                    session.say_degraded(told.pop())
                text.write(piece if isinstance(piece, str) else dumps(to_json(piece)).decode())


class _Text:
    """Text on standard output, as it comes, its last line ended whatever happens."""

    def __init__(self) -> None:
        self._shown = text_only if is_terminal(sys.stdout) else str
        self._last = "\n"

    def __enter__(self) -> _Text:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self._last != "\n" and kind is not KeyboardInterrupt:  # whose line click ends
            self.write("\n")

    def write(self, piece: str) -> None:
        text = self._shown(piece)
        sys.stdout.write(text)
        sys.stdout.flush()
        self._last = text[-1:] or self._last
