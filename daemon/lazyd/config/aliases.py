"""Aliases: other names of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .given import described
from .names import split_key
from .problems import Fault, Report, Wrong, nearest, quoted

_HINTS = 20
"""Beyond so many aliases that lead nowhere no nearest name is searched among what may be 10,000."""


def check(table: Mapping[str, object], models: Iterable[str], report: Report, whole: bool) -> dict[str, str]:
    """Alias -> the model's name at the end of its chain; `models` are all keys that are configured."""
    known = Known(models)
    targets: dict[str, str] = {}
    for alias, target in table.items():
        try:
            _check_one(alias, target, known)
        except Wrong as wrong:
            for fault in wrong.faults:
                report.wrong(("aliases", alias), fault.what, fault.remedy)
        else:
            targets[alias] = str(target)
    flat: dict[str, str] = {}
    hints = _HINTS
    for alias in targets:
        chain = _chain(alias, targets)
        end = chain[-1]
        if end in chain[:-1]:
            report.wrong(("aliases", alias), f"goes round: {' -> '.join(chain)}", "let it name a model")
        elif known.has(end) or end in table:  # an alias that is wrong itself has its own problem
            flat[alias] = end
        elif whole:
            hints -= 1
            near = nearest(end, known.callable_names() | targets.keys()) if hints >= 0 else None
            remedy = f"did you mean {near}?" if near else "name a model that is configured"
            report.wrong(("aliases", alias), f"no model {quoted(end)}", remedy)
    return flat


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


def _check_one(alias: str, target: object, known: Known) -> None:
    split_key(alias)
    if "*" in alias:
        raise Wrong(Fault("an alias is no pattern", "write it without *"))
    if known.has(alias):
        raise Wrong(Fault("a model has this name", "give the alias another one"))
    if isinstance(target, dict):
        raise Wrong(Fault("shares between models are not built yet", 'name one model, as "ocr:3"'))
    if not isinstance(target, str):
        raise Wrong(Fault(f"expected the name of a model, not {described(target)}", 'write it as "ocr:3"'))
    if "*" in target:
        raise Wrong(Fault(f"{quoted(target)} is a family", "name one of its members"))


def _chain(alias: str, targets: Mapping[str, str]) -> list[str]:
    chain = [alias]
    while chain[-1] in targets:
        chain.append(targets[chain[-1]])
        if chain[-1] in chain[:-1]:
            break
    return chain
