"""Whether the models that a model names are there, and do not lead back to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.names import end_of, member_part, version_order
from ..core.spec import ModelSpec
from .aliases import Known
from .problems import KeyPath, Report, nearest, quoted

_HINTS = 20
"""Beyond so many that are not there no nearest name is searched among what may be 10,000."""
_MOST_SHOWN = 10
"""Models of a circle."""


@dataclass(frozen=True)
class Reference:
    """A key by which a model names others."""

    key: KeyPath
    named: Callable[[ModelSpec], Sequence[str]]
    no_circle: str | None = None
    """They may not lead back to it: what to do if they do."""


def _fallback(spec: ModelSpec) -> Sequence[str]:
    return [spec.fallback.model] if spec.fallback and spec.fallback.model else []


REFERENCES = (
    Reference(("beside",), lambda spec: spec.beside),
    Reference(("uses",), lambda spec: spec.uses, "leave out the one that is not called"),
    Reference(("fallback", "model"), _fallback, "let one of them answer with a value, or leave it out"),
)


def check(models: Mapping[str, ModelSpec], known: Known, others: Mapping[str, str], report: Report) -> None:
    """Report each model that names one which is not configured, or one that leads back to it."""
    names = None
    for reference in REFERENCES:
        named = {spec.key: named for spec in models.values() if (named := reference.named(spec))}
        if not named:
            continue
        _check_there(reference, named, known, others, report)
        if reference.no_circle is not None:
            names = names or _Names(models, others)
            for circle in _circles(named, names):
                what = f"goes round: {' -> '.join(_shortened([*circle, circle[0]]))}"
                report.wrong(("models", circle[0], *reference.key), what, reference.no_circle)


def _check_there(
    reference: Reference,
    named: Mapping[str, Sequence[str]],
    known: Known,
    others: Mapping[str, str],
    report: Report,
) -> None:
    hints = _HINTS
    for key, names in named.items():
        path = ("models", key, *reference.key)
        for name in names:
            if "*" in name:
                report.wrong(path, f"{quoted(name)} is a family", "name one of its members")
            elif name not in others and not known.has(name):
                hints -= 1
                near = nearest(name, known.callable_names() | others.keys()) if hints >= 0 else None
                remedy = f"did you mean {near}?" if near else "name a model that is configured"
                report.wrong(path, f"no model {quoted(name)}", remedy)


def _circles(named: Mapping[str, Sequence[str]], names: _Names) -> Iterator[list[str]]:
    """Circles among models that name others, each once. Every model is looked at once, however long the chains are."""
    done: set[str] = set()
    for start in named:
        chain: dict[str, Iterator[str]] = {}
        if start not in done:
            chain[start] = names.meant_by(named[start])
        while chain:
            key, following = next(reversed(chain.items()))
            after = next(following, None)
            if after is None:
                done.add(key)
                del chain[key]
            elif after in chain:
                keys = list(chain)
                yield keys[keys.index(after) :]
            elif after not in done:
                chain[after] = names.meant_by(named.get(after, ()))


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

    def meant_by(self, names: Sequence[str]) -> Iterator[str]:
        """The keys of the models; a member is its family."""
        return filter(None, map(self._meant, names))

    def _meant(self, name: str) -> str | None:
        name = end_of(name, self._others, self._models)
        if name in self._models:
            return name
        if name in self._newest:
            return self._newest[name].key
        return next((spec.key for spec in self._families if member_part(spec.name, name)), None)
