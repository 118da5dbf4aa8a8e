"""Whether the models that answer for others are there, and do not lead back to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..core.names import member_part, version_order
from ..core.spec import ModelSpec
from .aliases import Known
from .problems import Report, nearest, quoted

_HINTS = 20
"""Beyond so many that are not there no nearest name is searched among what may be 10,000."""
_MOST_SHOWN = 10
"""Models of a circle."""


def check(models: Mapping[str, ModelSpec], known: Known, others: Mapping[str, str], report: Report) -> None:
    """Report each model whose fallback is not configured, or goes round."""
    named = {spec.key: spec.fallback.model for spec in models.values() if spec.fallback and spec.fallback.model}
    if not named:
        return
    hints = _HINTS
    for key, name in named.items():
        path = ("models", key, "fallback", "model")
        if "*" in name:
            report.wrong(path, f"{quoted(name)} is a family", "name one of its members")
        elif name not in others and not known.has(name):
            hints -= 1
            near = nearest(name, known.callable_names() | others.keys()) if hints >= 0 else None
            report.wrong(
                path, f"no model {quoted(name)}", f"did you mean {near}?" if near else "name one that is there"
            )
    for circle in _circles(named, _Names(models, others)):
        what = f"goes round: {' -> '.join(_shortened([*circle, circle[0]]))}"
        remedy = "let one of them answer with a value, or leave it out"
        report.wrong(("models", circle[0], "fallback", "model"), what, remedy)


def _circles(named: Mapping[str, str], names: _Names) -> Iterator[list[str]]:
    """Each circle once. Every model is looked at once, however long the chains are."""
    done: set[str] = set()
    for key in named:
        chain: dict[str, None] = {}
        at: str | None = key
        while at is not None and at not in done and at not in chain:
            chain[at] = None
            name = named.get(at)
            at = names.meant(name) if name is not None else None
        done |= chain.keys()
        if at in chain:
            keys = list(chain)
            yield keys[keys.index(at) :]


def _shortened(chain: list[str]) -> list[str]:
    return chain if len(chain) <= _MOST_SHOWN else [*chain[: _MOST_SHOWN - 2], "…", chain[-1]]


class _Names:
    """Which model a name means, found as `core.names.resolve` finds it, but quickly for many."""

    def __init__(self, models: Mapping[str, ModelSpec], others: Mapping[str, str]) -> None:
        self._models = models
        self._others = others
        self._families = [spec for spec in models.values() if spec.is_family]
        newest: dict[str, ModelSpec] = {}
        for spec in models.values():
            held = newest.get(spec.name)
            if held is None or version_order(spec.version) > version_order(held.version):
                newest[spec.name] = spec
        self._newest = newest

    def meant(self, name: str) -> str | None:
        """The model's key; a member is its family."""
        name = self._others.get(name, name)
        if name in self._models:
            return name
        if name in self._newest:
            return self._newest[name].key
        return next((spec.key for spec in self._families if member_part(spec.name, name)), None)
