"""``lazyctl add`` and ``lazyctl remove``."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from lazyd.errors import InvalidSpec

from ..group import command
from ..names import MODEL
from ..session import Session

Table = dict[str, Any]


@command(
    examples="""
        lazyctl add gemma --path /srv/models/gemma.gguf
        lazyctl add ocr:3 --runtime onnx --path det.onnx --set idle_timeout=5min
        lazyctl add tts --runtime python --set factory=tts:load
        lazyctl add models.toml
    """
)
@click.argument("what", metavar="NAME|FILE", type=click.Path())
@click.option("--runtime", help="What loads it; by the ending of its path, if it is not given.")
@click.option("--path", metavar="PATH", type=click.Path(), help="The model's file.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any other key, as in a file; repeat it.")
@click.option("--now", is_flag=True, help="If it is loaded and changes, load it again as soon as its calls have ended.")
@click.pass_obj
def add(
    session: Session, what: str, runtime: str | None, path: str | None, settings: tuple[str, ...], now: bool
) -> None:
    """Register a model, or those that stand in a FILE of TOML, beside what is configured.

    Needs no file in /etc and no reload, and outlives restarts; `remove` ends it.
    A model that is registered already is changed. The keys are those of a
    configuration's [models.NAME]; a path may start from here, in a FILE from its
    directory.
    """
    by_name = runtime is not None or path is not None or bool(settings)
    tables = {what: _described(runtime, path, settings)} if by_name else _in_file(what)
    registered = _register(session, tables, now=now)
    if session.json:
        session.print_json({"models": registered})


@command(
    examples="""
        lazyctl remove gemma
        lazyctl remove ocr:1 ocr:2
    """
)
@click.argument("models", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.pass_obj
def remove(session: Session, models: tuple[str, ...]) -> None:
    """Remove MODELs that were added by `add` or by a program.

    Waits until calls in flight have ended and its memory is free. What a file
    describes is removed there.
    """
    for model in models:
        session.ask("Deregister", model=model)
        if not session.json:
            session.say(f"{model} is removed")
    if session.json:
        session.print_json({"removed": list(models)})


def _register(session: Session, tables: dict[str, Table], *, now: bool) -> list[str]:
    """Registers them all, again and again as long as some are accepted: one may name another that comes later.

    Raises why the first that is left was refused.
    """
    registered: list[str] = []
    left = list(tables)
    while left:
        refused: dict[str, InvalidSpec] = {}
        for name in left:
            try:
                registered.append(
                    session.ask("Register", spec={**tables[name], "name": name}, now=now or None)["model"]
                )
            except InvalidSpec as error:
                refused[name] = error
            else:
                if not session.json:
                    session.say(f"{name} is registered")
        if len(refused) == len(left):
            raise refused[left[0]]
        left = list(refused)
    return registered


def _described(runtime: str | None, path: str | None, settings: tuple[str, ...]) -> Table:
    from lazyd.config.found import runtime_of
    from lazyd.config.whole_paths import with_whole_paths

    table: Table = {}
    if runtime is not None:
        table["runtime"] = runtime
    elif path is not None and (known := runtime_of(path)) is not None:
        table["runtime"] = known
    if path is not None:
        table["path"] = path
    for setting in settings:
        _lay_over(table, _setting(setting))
    return with_whole_paths(table, os.getcwd())


def _setting(text: str) -> Table:
    """``idle_timeout=5min``, ``options.n_ctx=4096``: a key and a value of TOML, whose quotes may be left out."""
    import tomllib

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"--set {text} is not KEY=VALUE")
    for written in (value, json.dumps(value)):
        try:
            return tomllib.loads(f"{key} = {written}")
        except tomllib.TOMLDecodeError:
            continue
    raise click.UsageError(f"--set {text}: {key} is not a key")


def _lay_over(table: Table, more: Table) -> None:
    for key, value in more.items():
        held = table.get(key)
        if isinstance(held, dict) and isinstance(value, dict):
            _lay_over(held, value)
        else:
            table[key] = value


def _in_file(path: str) -> dict[str, Table]:
    """The models of a file, by name."""
    import tomllib

    from lazyd.config.whole_paths import with_whole_paths

    try:
        with open(path, "rb") as file:
            top = tomllib.load(file)
    except OSError as error:
        hint = "" if path.endswith(".toml") else f"; to add a model called {path}, say --path or --runtime"
        raise click.UsageError(f"{path} cannot be read: {error.strerror}{hint}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not TOML: {error}") from None
    models = top.pop("models", None)
    if top or not isinstance(models, dict) or not all(isinstance(table, dict) for table in models.values()):
        others = "".join(f", not [{name}]" for name in top)
        raise click.UsageError(f"{path} should hold [models.NAME] tables{others}: only models can be registered")
    base = os.path.dirname(os.path.abspath(path))
    return {name: with_whole_paths(table, base) for name, table in models.items()}
