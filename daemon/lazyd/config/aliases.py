"""Aliases: other names of models.

One may name another, and mean what that means, promotions included; or several models, each with a weight, and one
that repeats the calls of the others:
``reader = {"ocr:3" = 90, "ocr:4" = 10, "ocr:5" = "shadow"}`` (docs/versions.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..core.names import MAX_ALIASES
from ..core.spec import Split
from .given import described
from .names import split_key
from .problems import Fault, KeyPath, Report, Wrong, nearest, quoted

SHADOW = "shadow"
MOST_WEIGHT = 1_000_000
_EXAMPLE = 'write it as {"ocr:3" = 90, "ocr:4" = 10}'
_HINTS = 20
"""Beyond so many aliases that lead nowhere no nearest name is searched among what may be 10,000."""


def check(
    table: Mapping[str, object], models: Iterable[str], report: Report, whole: bool
) -> tuple[dict[str, str], dict[str, Split]]:
    """What each alias names, a model or another alias, of one that means several the one with the largest weight; and
    those that do. `models` are all keys that are configured."""
    known = Known(models)
    targets: dict[str, str] = {}
    written: dict[str, Split] = {}
    for alias, target in table.items():
        try:
            _check_name(alias, known)
            if isinstance(target, dict):
                written[alias] = _split(target)
            else:
                targets[alias] = _target(target)
        except Wrong as wrong:
            for fault in wrong.faults:
                report.wrong(("aliases", alias), fault.what, fault.remedy)
    named: dict[str, str] = {}
    unknown = _Unknown(known, {*targets, *written}, report)
    for alias in targets:
        chain = _chain(alias, targets)
        end = chain[-1]
        if end in chain[:-1]:
            report.wrong(("aliases", alias), f"goes round: {' -> '.join(chain)}", "let it name a model")
        elif len(chain) > MAX_ALIASES:
            what = f"leads to its model over {len(chain) - 2} others, of which {MAX_ALIASES - 2} are allowed"
            report.wrong(("aliases", alias), what, "let it name a model")
        elif known.has(end) or end in table:  # an alias that is wrong itself has its own problem
            named[alias] = targets[alias]
        elif whole:
            unknown.tell(("aliases", alias), end)
    for alias, split in written.items():
        named[alias] = _main(split)
        for name in filter(None, (*split.weights, split.shadow)):
            if name in table:
                report.wrong(("aliases", alias, name), "an alias has no share of another", "name a model")
            elif whole and not known.has(name):
                unknown.tell(("aliases", alias, name), name)
    return named, written


class _Unknown:
    """Names that mean no model: what was perhaps meant is searched for the first of them."""

    def __init__(self, known: Known, others: set[str], report: Report) -> None:
        self._known = known
        self._others = others
        self._report = report
        self._hints = _HINTS

    def tell(self, path: KeyPath, name: str) -> None:
        self._hints -= 1
        near = nearest(name, self._known.callable_names() | self._others) if self._hints >= 0 else None
        remedy = f"did you mean {near}?" if near else "name a model that is configured"
        self._report.wrong(path, f"no model {quoted(name)}", remedy)


class Known:
    """The models that an alias may name."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = set(keys)
        self.names = {key.partition(":")[0] for key in self.keys}
        self.families = [key.split("*") for key in self.keys if key.count("*") == 1]

    def has(self, name: str) -> bool:
        return "*" not in name and (name in self.keys or name in self.names or self.in_family(name))

    def in_family(self, name: str) -> bool:
        return any(
            name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
            for before, after in self.families
        )

    def callable_names(self) -> set[str]:
        return {name for name in self.keys | self.names if "*" not in name}


def _check_name(alias: str, known: Known) -> None:
    split_key(alias)
    if "*" in alias:
        raise Wrong(Fault("an alias is no pattern", "write it without *"))
    if known.has(alias):
        raise Wrong(Fault("a model has this name", "give the alias another one"))


def _target(target: object) -> str:
    """The one name that an alias means."""
    if not isinstance(target, str):
        raise Wrong(Fault(f"expected the name of a model, not {described(target)}", 'write it as "ocr:3"'))
    _check_no_family(target)
    return target


def _split(table: Mapping[str, object]) -> Split:
    """The models that an alias means, with their weights, and its shadow."""
    weights: dict[str, int] = {}
    shadows = []
    for name, share in table.items():
        _check_no_family(name)
        if share == SHADOW:
            shadows.append(name)
        elif type(share) is int and 1 <= share <= MOST_WEIGHT:
            weights[name] = share
        else:
            what = f"expected a weight from 1 to {MOST_WEIGHT} or {quoted(SHADOW)}, not {described(share)}"
            raise Wrong(Fault(f"{name}: {what}", _EXAMPLE))
    if not weights:
        raise Wrong(Fault("no model of it has a weight", _EXAMPLE))
    if len(shadows) > 1:
        raise Wrong(Fault(f"more than one shadow: {', '.join(shadows)}", "leave out all but one"))
    return Split(weights=weights, shadow=shadows[0] if shadows else None)


def _main(split: Split) -> str:
    """The model with the largest weight, the first of several: for whoever needs just one."""
    return max(split.weights, key=lambda name: split.weights[name])


def _check_no_family(name: str) -> None:
    if "*" in name:
        raise Wrong(Fault(f"{quoted(name)} is a family", "name one of its members"))


def _chain(alias: str, targets: Mapping[str, str]) -> list[str]:
    chain = [alias]
    while chain[-1] in targets:
        chain.append(targets[chain[-1]])
        if chain[-1] in chain[:-1]:
            break
    return chain
