"""``lazyctl call``."""

from __future__ import annotations

import sys
from typing import Any

import click

from lazyd.errors import LazydError
from lazyd.wire.values import from_json, to_json

from ..answers import call_reply, for_people
from ..group import command, timeout_option
from ..names import MODEL
from ..session import Session
from ..watching import LoadWatch


@command(
    examples="""
        lazyctl call gemma complete '{"prompt": "Hello", "max_tokens": 8}'
        lazyctl call gemma embed '["a sentence"]' | jq length
        lazyctl call detector run @input.json --timeout 30s
        echo '["one", "two"]' | lazyctl call gemma tokenize -
    """
)
@click.argument("model", type=MODEL)
@click.argument("method")
@click.argument("arguments", metavar="[JSON|@FILE|-]", required=False)
@timeout_option("How long at most, from the queue to the answer.")
@click.option(
    "--sticky", metavar="KEY", help="Where MODEL means several, the same one answers all calls with this key."
)
@click.pass_obj
def call(
    session: Session, model: str, method: str, arguments: str | None, timeout: float | None, sticky: str | None
) -> None:
    """Call METHOD of MODEL, which is loaded first if need be.

    The arguments are JSON, in place, in a FILE or on standard input (-): an object is keyword
    arguments, an array positional ones. A result that is text is printed as it is, anything else
    as JSON, on a terminal with arrays as lists of numbers; --json prints how the answer came about too.
    """
    args, kwargs = _arguments(arguments)
    with session.client() as client, LoadWatch(session, model) as watch:
        answer = client.answer(model, method, args, kwargs, timeout=timeout, sticky=sticky)
        watch.done()
    session.say_degraded(answer.degraded)
    if session.json:
        session.print_json(call_reply(answer))
    elif isinstance(answer.result, str):
        session.say(answer.result)
    elif session.out.height is not None:
        session.print_json(for_people(answer.result))
    else:
        session.print_json(to_json(answer.result))


def _arguments(given: str | None) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments. Raises `click.BadParameter`."""
    if given is None:
        return [], {}
    import json

    where = "the arguments"
    try:
        if given == "-":
            where, given = "standard input", sys.stdin.read()
        elif given.startswith("@"):
            where = given[1:]
            with open(where, encoding="utf-8") as file:
                given = file.read()
        value = from_json(json.loads(given))
    except OSError as error:
        raise click.BadParameter(f"{where} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise click.BadParameter(f"{where}: nested too deeply to be read") from None
    except (ValueError, LazydError) as error:
        raise click.BadParameter(f"{where}: not JSON ({error})") from None
    if isinstance(value, dict):
        return [], value
    if isinstance(value, list):
        return value, {}
    raise click.BadParameter(
        f"{where}: neither an object (keyword arguments) nor an array (positional ones); put a single value in [ ]"
    )
