"""Tables as TOML gave them -> an accepted `Config`, or every problem there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..core.spec import REGISTERED, Config, ModelSpec, PrewarmWhen, Settings, Tier
from ..runtimes.llama_cpp_locked import REMEDY as UNLOCKED
from ..runtimes.llama_cpp_locked import WHY as LOCKED
from ..runtimes.llama_cpp_locked import locks_a_mapped_file
from ..urls import is_folder, is_url
from . import aliases, keys, references, services, templates
from .compounds import GPU
from .names import split_key
from .problems import KeyPath, Report, Wrong, choose, key_text, quoted
from .sources import Sources
from .tables import BUDGET, DAEMON, FETCH, MODEL, Table, is_model

_DEFAULTS = ("idle_timeout_s", "load_timeout_s")
"""Of `[daemon]`: they are not the daemon's own but every model's."""


Find = Callable[[Config], Mapping[str, ModelSpec]]
"""What a configuration's templates find, by key."""


def check(sources: Sources, report: Report, find: Find = lambda _: {}) -> Config:
    """The configuration; worth something only if `report` has no problem after it.

    Where a file could not be read, what seems to be missing is not reported: it may stand there.
    """
    whole = not sources.problems
    top = sources.merged
    for name in top:
        if name not in keys.TABLES:
            report.wrong((name,), "unknown table or key", choose(name, keys.TABLES))
    daemon = Table(DAEMON, sources, report).read(("daemon",), _subtable(top, "daemon", report))
    budget = Table(BUDGET, sources, report).read(("budget",), _subtable(top, "budget", report))
    fetch = Table(FETCH, sources, report).read(("fetch",), _subtable(top, "fetch", report))
    defaults = {field: daemon.pop(field) for field in _DEFAULTS if field in daemon}
    if "idle_timeout_s" in defaults:
        defaults["idle_written"] = True
    devices = {name: budget.pop(name) for name in list(budget) if name == "ram" or GPU.fullmatch(name)}
    if devices:
        budget["budget"] = {**Settings().budget, **devices}
    models = {}
    tables = _subtable(top, "models", report)
    for name, table in tables.items():
        spec = _model(name, table, sources, report, defaults, whole)
        if spec is not None:
            models[name] = spec
    made_of = [spec for spec in models.values() if templates.is_layout(spec.path)]
    made_of += _discover(sources, report, defaults, whole)
    models = {key: spec for key, spec in models.items() if not templates.is_layout(spec.path)}
    settings = Settings(**daemon, **budget, **fetch)
    config = Config(settings=settings, models=models, templates=tuple(made_of), defaults=defaults)
    models |= find(config)
    known = [*tables, *models]
    others, splits = aliases.check(_subtable(top, "aliases", report), known, report, whole)
    if whole:
        references.check(models, aliases.Known(known), others, report)
        services.check(models, report)
    return msgspec.structs.replace(config, models=models, aliases=others, splits=splits)


def check_one(key: str, table: dict[str, object], config: Config) -> tuple[ModelSpec | None, Report]:
    """The spec of a model that a client describes, and what is wrong with it."""
    sources = Sources()
    sources.register({key: table})
    report = Report(sources.locate)
    return _model(key, table, sources, report, config.defaults, whole=True), report


def _subtable(top: Mapping[str, object], name: str, report: Report) -> dict[str, object]:
    table = top.get(name, {})
    if isinstance(table, dict):
        return table
    report.wrong((name,), "expected a table", f"write [{name}] on a line of its own and the keys below it")
    return {}


def _model(
    key: str, table: object, sources: Sources, report: Report, defaults: Mapping[str, Any], whole: bool
) -> ModelSpec | None:
    """The spec, or, of a model that has problems, as much of it as could be read: its paths and the models that it
    names are looked at all the same. None: there is nothing to look at."""
    path: KeyPath = ("models", key)
    name = version = ""
    try:
        name, version = split_key(key)
    except Wrong as wrong:
        for fault in wrong.faults:
            report.wrong(path, fault.what, fault.remedy)
    if not isinstance(table, dict):
        report.wrong(path, "expected a table", f"write [{key_text(path)}] and the keys below it")
        return None
    spec = _spec(path, table, sources, report, defaults, whole)
    templates.check_layout(path, spec, report, registered=key in sources.registered)
    return msgspec.structs.replace(spec, name=name, version=version) if name else None


def _discover(sources: Sources, report: Report, defaults: Mapping[str, Any], whole: bool) -> list[ModelSpec]:
    """A template for each pattern of ``[discover]``: all keys of a model, for every file that is found."""
    made_of = []
    for pattern, table in _subtable(sources.merged, "discover", report).items():
        path = ("discover", pattern)
        if templates.check_discover(path, table, report) and isinstance(table, dict):
            made_of.append(_spec(path, templates.as_model(pattern, table), sources, report, defaults, whole))
    return made_of


def _spec(
    path: KeyPath,
    table: Mapping[str, object],
    sources: Sources,
    report: Report,
    defaults: Mapping[str, Any],
    whole: bool,
) -> ModelSpec:
    """What the keys of a table say; its name comes from elsewhere."""
    fields = Table(MODEL, sources, report).read(path, _without_schedule(path, table, report))
    _check_together(path, table, report, whole)
    fields.setdefault("runtime", "")
    fields.setdefault("concurrency", keys.CALLS_AT_ONCE.get(fields["runtime"], 1))
    if "idle_timeout_s" in fields:
        fields["idle_written"] = True
    source = REGISTERED if sources.is_registered(path) else sources.locate((*path, "runtime"))[0]
    return ModelSpec(name="", source=source, **{**defaults, **fields})


def _is_family(path: KeyPath) -> bool:
    return path[0] == "models" and "*" in path[1]


def _without_schedule(path: KeyPath, table: Mapping[str, object], report: Report) -> Mapping[str, object]:
    """The table without its `prewarm`, if that is a schedule that could never be followed."""
    prewarm = table.get("prewarm")
    if not isinstance(prewarm, dict) or ("schedule" not in prewarm and prewarm.get("when") != PrewarmWhen.SCHEDULE):
        return table
    if _is_family(path):
        what = "a family has no schedule: its members are not known"
        remedy = "leave it out: when they are needed is learned"
    elif table.get("tier") == Tier.TRANSIENT:
        what = "a transient model has no schedule: it is loaded only when somebody asks for it"
        remedy = 'leave it out, or write tier = "on-demand"'
    else:
        return table
    key = "schedule" if "schedule" in prewarm else "when"
    report.wrong((*path, "prewarm", key), what, remedy)
    return {name: value for name, value in table.items() if name != "prewarm"}


def _is_url_of_a_file(value: object) -> bool:
    return isinstance(value, str) and is_url(value) and not is_folder(value)


def _check_together(path: KeyPath, table: Mapping[str, object], report: Report, whole: bool) -> None:
    """What one key demands of the others."""
    runtime = table.get("runtime")
    if runtime is None and whole and path[0] == "models" and not any(is_model(value) for value in table.values()):
        report.wrong((*path, "runtime"), "missing", f"say what loads it: {', '.join(keys.BUILT_RUNTIMES)}")
    if isinstance(runtime, str) and runtime in keys.BUILT_RUNTIMES:
        _check_runtime(path, table, runtime, report, whole)
    family = _is_family(path)
    if "max_loaded" in table and not family:
        report.wrong((*path, "max_loaded"), "only a family has it", 'leave it out, or name a family as "strategy/*"')
    if family and table.get("tier") == Tier.RESIDENT:
        report.wrong((*path, "tier"), "a family cannot be resident: its members are not known", 'write "on-demand"')
    if "sha256" in table and not _is_url_of_a_file(table.get("path")):
        report.wrong((*path, "sha256"), "only of a file that is fetched", "leave it out, or write a URL as path")
    options = table.get("options")
    if isinstance(options, dict):
        _check_options(path, options, runtime, report)


def _check_runtime(path: KeyPath, table: Mapping[str, object], runtime: str, report: Report, whole: bool) -> None:
    """What its runtime demands."""
    for name, example in keys.REQUIRED[runtime].items():
        if name not in table and whole:
            what = f"missing: runtime {quoted(runtime)} needs it"
            report.wrong((*path, name), what, f"write {name} = {example}")
    for name in table:
        key = MODEL.get(name)
        if key is not None and key.only and runtime not in key.only:
            report.wrong((*path, name), f"runtime {quoted(runtime)} has no such key", "leave it out")
    if runtime in keys.ONE_AT_A_TIME and table.get("concurrency", 1) != 1:
        report.wrong((*path, "concurrency"), f"{runtime} answers one call at a time", "leave it out")
    if _is_family(path) and runtime != "python":
        report.wrong((*path, "runtime"), "a family needs runtime python", 'write runtime = "python"')


def _check_options(path: KeyPath, options: Mapping[str, object], runtime: object, report: Report) -> None:
    """What its runtime is given."""
    if runtime == "llama_cpp" and locks_a_mapped_file(options):
        report.wrong((*path, "options", "use_mlock"), f"does not fit a mapped file: {LOCKED}", UNLOCKED)
    for name in options:
        if name in MODEL:
            report.warn(
                (*path, "options", name),
                "a key of the model, given to the runtime here",
                f"if the model's is meant, move it to [{key_text(path)}]",
            )
