"""The names of models and devices as arguments' types: completed from what the daemon knows at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LIMIT_S = 0.5
"""A shell waits for this; without an answer by then nothing is completed."""


class ModelName(click.ParamType[str]):
    """A model's name; what it means is the daemon's to say."""

    name = "model"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        given = ctx.params.get(param.name or "")
        already = given if isinstance(given, tuple) else ()
        return [
            CompletionItem(name, help=state)
            for name, state in _known(ctx)
            if name.startswith(incomplete) and name not in already
        ]


class DeviceName(click.ParamType[str]):
    """A device's name."""

    name = "device"

    def shell_complete(self, ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        from .units import size

        return [
            CompletionItem(device["name"], help=f"{size(device['freeBytes'])} free")
            for device in _status(ctx).get("devices", ())
            if device["name"].startswith(incomplete)
        ]


MODEL = ModelName()
DEVICE = DeviceName()


def _known(ctx: click.Context) -> list[tuple[str, str]]:
    """Every name that the daemon accepts, and the state of what it names."""
    from .models import full_name

    models = _status(ctx).get("models", ())
    names = [(full_name(model), model["state"]) for model in models]
    aliases = [(alias, f"alias of {full_name(model)}") for model in models for alias in model["aliases"]]
    return sorted({**dict(aliases), **dict(names)}.items())


def _status(ctx: click.Context) -> dict[str, Any]:
    """What the daemon says; nothing if it does not answer."""
    from .session import Session

    session = ctx.find_object(Session) or Session()
    try:
        return session.ask("Status", timeout_s=LIMIT_S)
    except Exception:  # completion must never write over what the user types
        return {}
