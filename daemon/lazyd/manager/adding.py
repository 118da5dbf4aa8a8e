"""One model more, or one less, by a client's wish: checked as the files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazyd.config import composing, differ, reachable
from lazyd.config.checking import check_one
from lazyd.config.problems import Problem, Report, key_text
from lazyd.core.names import nearest
from lazyd.core.spec import REGISTERED, Config
from lazyd.errors import Conflict, InvalidSpec, ModelNotFound


def key_of(spec: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The key and the table of what a client sent: a table of the configuration with the model's ``name`` in it.

    Raises `InvalidSpec`.
    """
    table = dict(spec)
    name, version = table.pop("name", None), table.pop("version", None)
    if not isinstance(name, str) or not name:
        raise InvalidSpec(
            model="a model", key="name", reason='missing; write the name of the model, as "gemma" or "ocr:3"'
        )
    if version is not None and (not isinstance(version, str | int) or ":" in name or isinstance(version, bool)):
        raise InvalidSpec(model=name, key="version", reason='write it once, as "3", or in the name, as "ocr:3"')
    return name if version in (None, "") else f"{name}:{version}", table


def added(config: Config, key: str, table: Mapping[str, Any]) -> Config:
    """The configuration with this model; itself if it has just that.

    Raises:
        InvalidSpec: something is wrong with it.
        Conflict: a file describes a model of this name, or an alias has it.
    """
    held = config.models.get(key)
    if held is not None and held.source != REGISTERED and not held.found_by:
        raise Conflict(model=key, sources=[held.source, REGISTERED])
    if key in config.aliases or any(template.name == key for template in config.templates):
        place = next((t.source for t in config.templates if t.name == key), f"[aliases] {key}")
        raise Conflict(model=key, sources=[place, REGISTERED])
    spec, report = check_one(key, dict(table), config)
    wrong = list(report.problems)
    if spec is not None and not wrong:
        if held is not None and held.source == REGISTERED and not differ(held, spec):
            return config
        unreadable = Report(lambda _: (REGISTERED, None))
        reachable.check(Config(models={key: spec}), unreadable.wrong)
        after = composing.with_models(config, {key: spec})
        wrong = [*unreadable.problems, *composing.problems(after)]
        if not wrong:
            return after
    raise _invalid(key, wrong)


def removed(config: Config, key: str) -> Config:
    """The configuration without this model.

    Raises:
        ModelNotFound: there is none.
        Conflict: it is not registered, or something names it.
    """
    held = config.models.get(key)
    layout = next((template for template in config.templates if template.name == key), None)
    if layout is not None:
        raise Conflict(model=key, sources=[layout.source], reason=_elsewhere(layout.source))
    if held is None:
        raise ModelNotFound(model=key, nearest=nearest(key, config.models))
    if held.source != REGISTERED:
        where = f"{held.source}, by {held.found_by}" if held.found_by else held.source
        raise Conflict(model=key, sources=[held.source], reason=_elsewhere(where))
    after = composing.with_models(config, {key: None})
    named = composing.problems(after)
    if named:
        places = [f"{problem.key} ({problem.file})" for problem in named]
        raise Conflict(model=key, sources=places, reason=f"it is named by {', '.join(places)}; change that first")
    return after


def _elsewhere(where: str) -> str:
    return f"it stands in {where}; take it out there, and reload"


def _invalid(key: str, problems: list[Problem]) -> InvalidSpec:
    """The first problem, and the others in its reason."""
    first, *others = problems
    prefix = f"{key_text(('models', key))}."
    more = [f"{one.key.removeprefix(prefix)}: {one.what}; {one.remedy}" for one in others]
    reason = "; ".join([f"{first.what}; {first.remedy}", *more])
    below = first.key.removeprefix(prefix) if first.key.startswith(prefix) else "name"
    return InvalidSpec(model=key, key=below, reason=reason)
