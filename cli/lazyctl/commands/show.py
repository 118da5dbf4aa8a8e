"""``lazyctl show``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import click

from ..group import command
from ..models import model_lines, pair_lines
from ..names import MODEL
from ..session import Session
from ..terminal import Look, hanging, one_line
from ..units import duration, size

RAW = "metadata"
"""The file's own keys, among what is said about it."""
METHODS = "methods"
"""By name: what each takes and answers, in one line."""
PORTS = ("inputs", "outputs")
"""What these lines say of arrays, in parts, for programs."""


@command(
    examples="""
        lazyctl show gemma
        lazyctl show --all gemma
        lazyctl --json show gemma | jq .metadata
    """
)
@click.argument("model", type=MODEL)
@click.option(
    "--all", "everything", is_flag=True, help="Settings as they are by default, and every key of the file, too."
)
@click.pass_obj
def show(session: Session, model: str, everything: bool) -> None:
    """Show MODEL's methods and spec, and what its file says, without loading it.

    Long values are shortened here; --json has them whole.
    """
    reply = session.ask("Describe", model=model)
    if session.json:
        session.print_json(reply)
        return
    said = dict(reply["metadata"])
    raw, methods = said.pop(RAW, None) or {}, said.pop(METHODS, None) or {}
    if methods:
        said = {name: value for name, value in said.items() if name not in PORTS}
    needs = reply["prediction"]
    settings = flat(reply["spec"])
    chosen = settings if everything else _chosen(settings)
    sections = {
        "spec": [(name, _as_written(value)) for name, value in chosen],
        "what its file says": _facts(said),
        "what a load will need": _needs(needs) if needs != said else [],
    }
    if everything:
        sections["its keys"] = _facts(raw)
    look = session.out
    lines = model_lines([reply["model"]], look)
    for title, facts in sections.items():
        if facts:
            lines += ["", look.paint(title, "bold"), *pair_lines(facts, look, lines_each=2)]
    lines += _methods(methods, look)
    session.say(*lines, *_left_out(model, len(settings) - len(chosen), 0 if everything else len(raw), look))


def _chosen(settings: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Those that say something else than what holds for every model."""
    from lazyd.config.explaining import written
    from lazyd.config.keys import MODEL as KEYS

    usual = {key.name: key.default for key in KEYS} | {"prewarm.when": '"learned"'}
    return [(name, value) for name, value in settings if usual.get(name) != written(value)]


def _left_out(model: str, settings: int, keys: int, look: Look) -> list[str]:
    """What there is besides, and how it is shown."""
    parts = [
        *([f"{settings} default settings"] if settings else []),
        *([f"{keys} keys of its file"] if keys else []),
    ]
    return ["", look.paint(f"and {', '.join(parts)}: lazyctl show --all {model}", "dim")] if parts else []


def _methods(methods: Mapping[str, str], look: Look) -> list[str]:
    """What one looks for: nothing of it is cut off, and it stands last, where a small terminal shows it."""
    lines = [f"  {line}" for told in methods.values() for line in hanging(one_line(told), look.width - 2, look)]
    return ["", look.paint("methods", "bold"), *lines] if lines else []


def _as_written(value: Any) -> str:
    """A setting, as it stands in a file."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, in_words(name, value)) for name, value in flat(table)]


def _needs(prediction: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each way in which it can be loaded, and what it needs then."""
    return [
        (way_in_words(way), _need(told)) if isinstance(told, Mapping) else (way, str(told))
        for way, told in prediction.items()
    ]


def way_in_words(way: str) -> str:
    """What ``gpu``, ``ram``, ``gpu 20+12`` and ``gpu 20/33`` mean (docs/lazyctl.md)."""
    word, _, parts = way.partition(" ")
    if word == "ram":
        return "in RAM"
    if "+" in parts:
        return f"on {parts.count('+') + 1} GPUs, {parts} layers"
    if "/" in parts:
        return f"on a GPU, {parts.replace('/', ' of ')} layers"
    return "on a GPU"


def _need(told: Mapping[str, Any]) -> str:
    """What it needs until it is ready, who says so, and what is different from then on."""
    file = told.get("fileBytes") or 0
    peak, service = (with_file(told.get(name) or {}, file) for name in ("peakBytes", "serviceBytes"))
    later = _amounts({device: count for device, count in service.items() if count != peak.get(device)})
    says = f"{told.get('source', 'unknown')}" + (f" x {told['factor']:.2f}" if "factor" in told else "")
    mapped = f", {size(file)} of it the file, shared" if file else ""
    return f"{_amounts(peak) or 'nothing'}{mapped} ({says})" + (f", then {later}" if later else "")


def with_file(by_device: Mapping[str, int], file: int) -> dict[str, int]:
    """Bytes of devices, with those of the file that it maps, which are RAM's; RAM is the last device."""
    return {device: count + (file if device == "ram" else 0) for device, count in by_device.items()}


def _amounts(by_device: Mapping[str, int]) -> str:
    """``gpu 4.1 GiB, ram 310 MiB``."""
    return ", ".join(f"{device} {size(count)}" for device, count in by_device.items() if count)


def flat(table: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Nested tables as dotted names; empty values are left out."""
    facts: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            facts += flat(value, f"{above}{name}.")
        elif value not in (None, "", [], {}):
            facts.append((above + name, value))
    return facts


def in_words(name: str, value: Any) -> str:
    """A value with its unit, which its name tells: ``fileBytes``, ``bytes.host``, ``lastLoadSec``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if re.search(r"(\b|_)bytes|Bytes|^booked$", name):
        return size(value)
    if name.endswith(("_s", "Sec")):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else f"{value:g}"
