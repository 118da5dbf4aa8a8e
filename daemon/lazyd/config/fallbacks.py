"""Whether the models that answer for others are there, and do not lead back to them."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.names import member_part, version_order
from ..core.spec import ModelSpec
from .aliases import Known
from .problems import Report, nearest, quoted


def check(models: Mapping[str, ModelSpec], known: Known, others: Mapping[str, str], report: Report) -> None:
    """Report each model whose fallback is not configured, or goes round."""
    named = {spec.key: spec.fallback.model for spec in models.values() if spec.fallback and spec.fallback.model}
    if not named:
        return
    names = _Names(models, others)
    for key, name in named.items():
        path = ("models", key, "fallback", "model")
        if "*" in name:
            report.wrong(path, f"{quoted(name)} is a family", "name one of its members")
        elif name not in others and not known.has(name):
            near = nearest(name, known.callable_names() | others.keys())
            report.wrong(
                path, f"no model {quoted(name)}", f"did you mean {near}?" if near else "name one that is there"
            )
        elif (chain := _chain(key, named, names))[-1] in chain[:-1]:
            report.wrong(
                path, f"goes round: {' -> '.join(chain)}", "let one of them answer with a value, or leave it out"
            )


def _chain(key: str, named: Mapping[str, str], names: _Names) -> list[str]:
    """From a model on to whoever answers at last, or until one comes again."""
    chain = [key]
    while (name := named.get(chain[-1])) is not None:
        meant = names.meant(name)
        if meant is None:
            break
        chain.append(meant)
        if meant in chain[:-1]:
            break
    return chain


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
