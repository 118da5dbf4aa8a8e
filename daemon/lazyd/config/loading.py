"""Reading a configuration: at a start, at a reload, and for ``lazyd --check``."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ..core.spec import REGISTERED, Config, ModelSpec
from ..places import SYSTEM_CONFIG, accepted_config
from . import accepted
from .files import Files, Mark, marks_of
from .problems import KeyPath, Problem, key_text

if TYPE_CHECKING:
    from .registered import Registered
    from .sources import Sources


class Origin(enum.Enum):
    """Where a loaded configuration comes from."""

    FILES = "files"
    UNCHANGED = "unchanged"
    """From the quick form: the files are as they were when it was written."""
    LAST_ACCEPTED = "last accepted"
    """From the quick form, because the files are wrong."""
    CHANGED = "changed"
    """What was loaded, with what clients have registered or what was found since."""


@dataclass(frozen=True)
class Loaded:
    """What reading came to.

    `config` is None where the files are wrong and nothing stands in for them. Problems can
    stand beside a configuration: then it is the last accepted one.
    """

    config: Config | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    unreadable: tuple[Problem, ...] = ()
    """Paths that cannot be read, where that is no problem but the model's own."""
    found: tuple[Problem, ...] = ()
    """What is to be told of the files that templates find."""
    origin: Origin = Origin.FILES
    marks: tuple[Mark, ...] | None = None
    """Of the files as they were read, and of what is registered; None where a change of theirs might go unseen."""

    @property
    def from_quick(self) -> bool:
        return self.origin in (Origin.UNCHANGED, Origin.LAST_ACCEPTED)


def load(
    files: Files,
    registered: Registered | None = None,
    *,
    paths_must_exist: bool = True,
    before: Config | None = None,
    named: Collection[str] = (),
    contents: bool = False,
) -> Loaded:
    """Read and check the files, with what clients have registered beside them; all problems at once.

    A path that a model names and that cannot be read is a problem, or (`paths_must_exist` false, as at a start, when
    not everything may stay cold for it) only stands in `unreadable`. Then a model that is registered and wrong is left
    out, and of one that the files describe too, theirs counts: both are warnings. `before` is what was in force: what
    was found then is not looked at as closely. `named` are versions that somebody else counts on. Blocks on the disk:
    call it in a thread.
    """
    from . import checking, reachable  # with tomllib and re: a start from the quick form needs none of them
    from .problems import Report
    from .sources import Sources

    sources = Sources(problems=list(files.problems))
    for path in files.paths:
        sources.add(path)
    report = Report(sources.locate)
    tables = registered.tables if registered is not None else {}
    twice = [_twice(name, *sources.locate(("models", name))) for name in sources.register(tables)]
    of_disk: list[Problem] = []

    def find(written: Config) -> dict[str, ModelSpec]:
        models, told = _models_found(written, sources, before, named)
        of_disk.extend(told)
        return models

    config = checking.check(sources, report, find)
    wrong = report.models & sources.registered.keys()
    if wrong and registered is not None and not paths_must_exist:
        return _told(
            report.problems, load(files, _less(registered, wrong), paths_must_exist=False, before=before, named=named)
        )
    paths = Report(sources.locate)
    reachable.check(config, paths.wrong)
    if contents:
        from . import contents as of_files

        of_files.check(config.models.values(), paths.models | report.models, report.warn)
    its_own = [problem for problem in paths.problems if not paths_must_exist or problem.file == REGISTERED]
    problems = [
        *sources.problems,
        *report.problems,
        *(problem for problem in paths.problems if problem not in its_own),
        *(twice if paths_must_exist else ()),
    ]
    if not files.paths and not problems:
        report.warnings.append(_NO_FILES)
    damaged = [registered.problem] if registered is not None and registered.problem is not None else []
    marks = [mark for mark in sources.marks if mark is not None]
    are_all = len(marks) == len(files.paths)
    return Loaded(
        config=None if problems else config,
        problems=_in_order(problems, files),
        warnings=_in_order([*report.warnings, *(() if paths_must_exist else twice), *damaged], files),
        unreadable=_in_order(its_own, files),
        found=tuple(of_disk),
        marks=(*marks, *([registered.mark] if registered is not None else [])) if are_all else None,
    )


def _models_found(
    written: Config, sources: Sources, before: Config | None, named: Collection[str]
) -> tuple[dict[str, ModelSpec], Sequence[Problem]]:
    """The models that templates make of what is on the disk, and what is to be told of them."""
    if not written.templates:
        return {}, ()
    from . import composing, found

    wanted = composing.named(written) | {*named, *_texts(sources.merged.get("aliases"))}
    seen = found.look(written.templates, before)
    models, told = found.specs(written.templates, seen, written.models, wanted)
    sources.made_by.update((key, _made_by(spec)) for key, spec in models.items())
    return models, told


def load_for_start(files: Files, state_dir: str, named: Collection[str] = ()) -> Loaded:
    """As `load`, but quick where nothing changed, and with the last accepted one where the files are wrong.

    Blocks on the disk.
    """
    version = _version()
    kept = accepted.read(state_dir)
    if kept is not None and not files.problems:
        marks = _marks_now(files, state_dir)
        config = kept.config() if kept.written_from(marks, version) else None
        if config is not None:
            return Loaded(config=config, warnings=kept.warnings, origin=Origin.UNCHANGED, marks=marks)
    last = kept.config() if kept is not None else None
    from . import registered

    loaded = load(files, registered.known(state_dir, last), paths_must_exist=False, before=last, named=named)
    problems = loaded.problems
    if kept is not None and kept.had_files and not files.paths:
        problems = problems or (_FILES_GONE,)
    if not problems or last is None:
        return loaded
    return Loaded(config=last, problems=problems, warnings=loaded.warnings, origin=Origin.LAST_ACCEPTED)


def load_again(files: Files, state_dir: str, in_force: Config, named: Collection[str] = ()) -> Loaded:
    """As `load`, for a reload. Blocks on the disk."""
    from . import registered

    return load(files, registered.known(state_dir, in_force), before=in_force, named=named)


def accept(loaded: Loaded, state_dir: str) -> Problem | None:
    """Keep what was loaded from files as the last accepted; a warning where the disk refuses.

    Does nothing with what came from the quick form itself. Blocks on the disk.
    """
    if loaded.config is None or loaded.from_quick:
        return None
    try:
        accepted.write(state_dir, _version(), loaded.config, loaded.marks, loaded.warnings)
    except OSError as error:
        return Problem(
            file=accepted_config(state_dir),
            what=f"the accepted configuration could not be kept: {error.strerror}",
            remedy="make room or let lazyd's user write there; until then an older one stands in for wrong files",
        )
    return None


def check(files: Files, state_dir: str | None = None) -> tuple[list[str], int]:
    """What ``lazyd --check`` prints, a line each, and its exit status: 1 if there is a problem.

    With a `state_dir` that the caller may read, what is registered there counts as it would for the daemon.
    """
    from . import registered

    known = registered.known(state_dir, repair=False) if state_dir is not None else None
    loaded = load(files, known, contents=True)
    lines = [str(problem) for problem in loaded.problems]
    lines += [f"warning: {warning}" for warning in (*loaded.warnings, *loaded.unreadable, *loaded.found)]
    if loaded.config is not None:
        models = len(loaded.config.models)
        read = ", ".join(files.paths) or "no configuration file found"
        lines.append(f"ok: {models} model{'' if models == 1 else 's'} ({read})")
        lines += [_NOT_LOOKED_AT] if names_gpus(loaded.config) else []
    return lines, 1 if loaded.problems else 0


def _marks_now(files: Files, state_dir: str) -> tuple[Mark, ...] | None:
    from . import registered

    of_files, of_registered = marks_of(files.paths), registered.mark(state_dir)
    return None if of_files is None or of_registered is None else (*of_files, of_registered)


def _texts(aliases: object) -> Iterator[str]:
    """Every name in the table of aliases, which is checked only when it is known what there is."""
    if isinstance(aliases, str):
        yield aliases
    elif isinstance(aliases, dict):
        for name, value in aliases.items():
            yield name
            yield from _texts(value)


def _made_by(spec: ModelSpec) -> KeyPath:
    """The table by which a model was made: of a layout or of a pattern."""
    return ("models", spec.name) if spec.version else ("discover", spec.found_by)


def _less(registered: Registered, keys: Collection[str]) -> Registered:
    return msgspec.structs.replace(
        registered, tables={key: table for key, table in registered.tables.items() if key not in keys}
    )


def _told(problems: list[Problem], loaded: Loaded) -> Loaded:
    """What was loaded without what is registered and wrong: that stays registered, and is told."""
    told = tuple(problem for problem in problems if problem.file == REGISTERED)
    return dataclasses.replace(loaded, warnings=(*loaded.warnings, *told))


def _twice(name: str, file: str, line: int | None) -> Problem:
    what = "registered by a client, and described here too"
    remedy = f"leave one: take it out of the file, or 'lazyctl remove {name}'"
    return Problem(file=file, line=line, key=key_text(("models", name)), what=what, remedy=remedy)


def names_gpus(config: Config) -> bool:
    """Whether it counts on GPUs, of which only the daemon knows those that are there."""
    return any(name != "ram" for name in config.settings.budget) or any(
        name != "ram" for spec in config.models.values() for name in spec.device
    )


_NOT_LOOKED_AT = "devices were not looked at: the daemon does that, and 'lazyctl status' shows what it finds"
_NO_FILES = Problem(
    file=f"{SYSTEM_CONFIG}/lazyd.toml",
    what="no configuration file found, so there are no models",
    remedy="write one",
)
_FILES_GONE = Problem(
    file=f"{SYSTEM_CONFIG}/lazyd.toml",
    what="no configuration file found, where there was one before",
    remedy="put it back; an empty file means no models",
)


def _in_order(problems: list[Problem], files: Files) -> tuple[Problem, ...]:
    """As one reads the files: by file, then by line."""
    rank = {path: number for number, path in enumerate(files.paths)}
    return tuple(sorted(problems, key=lambda problem: (rank.get(problem.file, -1), problem.line or 0)))


def _version() -> str:
    from .. import __version__

    return __version__
