"""Tables as TOML gave them -> an accepted `Config`, or every problem there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.spec import Config, ModelSpec, PrewarmWhen, Settings, Tier
from ..runtimes.llama_cpp_locked import REMEDY as UNLOCKED
from ..runtimes.llama_cpp_locked import WHY as LOCKED
from ..runtimes.llama_cpp_locked import locks_a_mapped_file
from . import aliases, keys, references
from .compounds import GPU
from .names import split_key
from .problems import KeyPath, Report, Wrong, choose, key_text, quoted
from .sources import Sources
from .tables import BUDGET, DAEMON, MODEL, Table, is_model

_DEFAULTS = ("idle_timeout_s", "load_timeout_s")
"""Of `[daemon]`: they are not the daemon's own but every model's."""


def check(sources: Sources, report: Report) -> Config:
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
    others = aliases.check(_subtable(top, "aliases", report), tables, report, whole)
    if whole:
        references.check(models, aliases.Known(tables), others, report)
    return Config(settings=Settings(**daemon, **budget), models=models, aliases=others)


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
    path = ("models", key)
    name = version = ""
    try:
        name, version = split_key(key)
    except Wrong as wrong:
        for fault in wrong.faults:
            report.wrong(path, fault.what, fault.remedy)
    if not isinstance(table, dict):
        report.wrong(path, "expected a table", f"write [{key_text(path)}] and the keys below it")
        return None
    fields = Table(MODEL, sources, report).read(path, _without_schedule(path, table, report))
    _check_together(path, table, report, whole)
    if not name:
        return None
    fields.setdefault("runtime", "")
    if "idle_timeout_s" in fields:
        fields["idle_written"] = True
    origin = sources.origin((*path, "runtime"))
    return ModelSpec(name=name, version=version, source=origin.path if origin else "", **{**defaults, **fields})


def _without_schedule(path: KeyPath, table: Mapping[str, object], report: Report) -> Mapping[str, object]:
    """The table without its `prewarm`, if that is a schedule that could never be followed."""
    prewarm = table.get("prewarm")
    if not isinstance(prewarm, dict) or ("schedule" not in prewarm and prewarm.get("when") != PrewarmWhen.SCHEDULE):
        return table
    if "*" in path[1]:
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


def _check_together(path: KeyPath, table: Mapping[str, object], report: Report, whole: bool) -> None:
    """What one key demands of the others."""
    runtime = table.get("runtime")
    if runtime is None and whole and not any(is_model(value) for value in table.values()):
        report.wrong((*path, "runtime"), "missing", f"say what loads it: {', '.join(keys.BUILT_RUNTIMES)}")
    if isinstance(runtime, str) and runtime in keys.BUILT_RUNTIMES:
        _check_runtime(path, table, runtime, report, whole)
    family = "*" in path[1]
    if "max_loaded" in table and not family:
        report.wrong((*path, "max_loaded"), "only a family has it", 'leave it out, or name a family as "strategy/*"')
    if family and table.get("tier") == Tier.RESIDENT:
        report.wrong((*path, "tier"), "a family cannot be resident: its members are not known", 'write "on-demand"')
    options = table.get("options")
    if isinstance(options, dict):
        _check_options(path, options, runtime, report)


def _check_runtime(path: KeyPath, table: Mapping[str, object], runtime: str, report: Report, whole: bool) -> None:
    """What its runtime demands."""
    for name in keys.REQUIRED[runtime]:
    fields.setdefault("concurrency", keys.CALLS_AT_ONCE.get(fields["runtime"], 1))
        if name not in table and whole:
            report.wrong((*path, name), f"missing: runtime {quoted(runtime)} needs it", _example(name))
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


def _example(name: str) -> str:
    return f"write {name} = {MODEL[name].example}"
