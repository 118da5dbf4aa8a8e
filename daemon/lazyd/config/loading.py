"""Reading a configuration: at a start, at a reload, and for ``lazyd --check``."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..core.spec import Config
from ..places import SYSTEM_CONFIG, accepted_config
from . import accepted
from .files import Files, Mark, marks_of
from .problems import Problem


class Origin(enum.Enum):
    """Where a loaded configuration comes from."""

    FILES = "files"
    UNCHANGED = "unchanged"
    """From the quick form: the files are as they were when it was written."""
    LAST_ACCEPTED = "last accepted"
    """From the quick form, because the files are wrong."""


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
    origin: Origin = Origin.FILES
    marks: tuple[Mark, ...] | None = None
    """Of the files as they were read; None where a change of theirs might go unseen."""

    @property
    def from_quick(self) -> bool:
        return self.origin is not Origin.FILES


def load(files: Files, *, paths_must_exist: bool = True) -> Loaded:
    """Read and check the files, all problems at once.

    A path that a model names and that cannot be read is a problem, or (`paths_must_exist`
    false) only stands in `unreadable`. Blocks on the disk: call it in a thread.
    """
    from . import checking, reachable  # with tomllib and re: a start from the quick form needs none of them
    from .problems import Report
    from .sources import Sources

    sources = Sources(problems=list(files.problems))
    for path in files.paths:
        sources.add(path)
    report = Report(sources.locate)
    config = checking.check(sources, report)
    paths = Report(sources.locate)
    reachable.check(config, paths.wrong)
    problems = [*sources.problems, *report.problems, *(paths.problems if paths_must_exist else ())]
    if not files.paths and not problems:
        report.warnings.append(_NO_FILES)
    marks = tuple(mark for mark in sources.marks if mark is not None)
    return Loaded(
        config=None if problems else config,
        problems=_in_order(problems, files),
        warnings=_in_order(report.warnings, files),
        unreadable=() if paths_must_exist else _in_order(paths.problems, files),
        marks=marks if len(marks) == len(files.paths) else None,
    )


def load_for_start(files: Files, state_dir: str) -> Loaded:
    """As `load`, but quick where nothing changed, and with the last accepted one where the files are wrong.

    A model's file that cannot be read is no problem here: everything else must not stay cold
    for it. Blocks on the disk.
    """
    version = _version()
    kept = accepted.read(state_dir)
    if kept is not None and not files.problems and kept.written_from(marks_of(files.paths), version):
        config = kept.config()
        if config is not None:
            return Loaded(config=config, warnings=kept.warnings, origin=Origin.UNCHANGED)
    loaded = load(files, paths_must_exist=False)
    problems = loaded.problems
    if kept is not None and kept.had_files and not files.paths:
        problems = problems or (_FILES_GONE,)
    last = kept.config() if problems and kept is not None else None
    if last is None:
        return loaded
    return Loaded(config=last, problems=problems, warnings=loaded.warnings, origin=Origin.LAST_ACCEPTED)


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


def check(files: Files) -> tuple[list[str], int]:
    """What ``lazyd --check`` prints, a line each, and its exit status: 1 if there is a problem."""
    loaded = load(files)
    lines = [str(problem) for problem in loaded.problems]
    lines += [f"warning: {warning}" for warning in loaded.warnings]
    if loaded.config is not None:
        models = len(loaded.config.models)
        read = ", ".join(files.paths) or "no configuration file found"
        lines.append(f"ok: {models} model{'' if models == 1 else 's'} ({read})")
        lines += [_NOT_LOOKED_AT] if names_gpus(loaded.config) else []
    return lines, 1 if loaded.problems else 0


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
