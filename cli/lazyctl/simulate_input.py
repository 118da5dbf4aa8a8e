"""What ``lazyctl simulate`` plays: uses, the configurations to compare, and what is known of the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from lazyd.core.spec import Config
from lazyd.errors import LazydError
from lazyd.replay import histories, policies
from lazyd.replay.facts import DeviceFacts, Facts, ModelFacts, Told, Use, told, under, uses

from .session import Session
from .units import duration

if TYPE_CHECKING:
    from lazyd.config import Loaded

TODAYS = "today's"
FIXED = "fixed times"
"""Today's without what is learned."""
UNREACHABLE = 69
LEAST_NAMED = 3
"""So many models that a configuration does not have are named."""


class CannotSimulate(Exception):
    """A line for each thing that is wrong."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = lines


@dataclass
class Side:
    """One configuration, and what loads take under it."""

    name: str
    config: Config
    facts: Facts


@dataclass
class Played:
    """`sides`: today's and the other one."""

    uses: list[Use]
    sides: tuple[Side, Side]
    pins: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    """What one has to know about the result, a line each."""
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By side: how many uses of which models it does not have."""


def gather(session: Session, csv: str | None, other: str | None, since: float | None, otherwise: ModelFacts) -> Played:
    """Everything. Blocks, and asks the daemon.

    Raises:
        CannotSimulate: there is nothing to play, or it is wrong.
        LazydError: the daemon cannot be asked, and is needed.
    """
    notes: list[str] = []
    if csv is None:
        known, found = _recorded(session, since, notes)
    else:
        found = _from_file(csv, since, notes)
        known = _known_of_file(session, found, notes)
    facts = msgspec.structs.replace(known.facts, otherwise=otherwise)
    second = (FIXED, policies.without_learning(known.config)) if other is None else _other(other)
    sides = (
        Side(TODAYS, known.config, facts),
        Side(second[0], second[1], under(second[1], facts, known.config)),
    )
    played = Played(found, sides, known.pins, notes)
    _leave_out(played)
    return played


def _recorded(session: Session, since: float | None, notes: list[str]) -> tuple[Told, list[Use]]:
    replies = session.follow("History", sinceSec=since)
    known = _told(next(replies))
    found: list[Use] = []
    problems: list[str] = []
    for reply in replies:
        try:
            found += uses(reply.get("uses") or [])
        except ValueError as error:
            raise CannotSimulate(f"what the daemon tells of the history is not understood: {error}") from None
        problems += reply.get("problems") or []
    if not found:
        raise CannotSimulate(_why_none(known, since, problems))
    notes += problems
    if not known.kept:
        notes.append("uses are not recorded any more (history = 0): these are older ones")
    return known, found


def _why_none(known: Told, since: float | None, problems: Sequence[str]) -> str:
    if problems:
        return f"no uses can be read: {'; '.join(problems)}"
    if not known.kept:
        return "no uses are recorded: history = 0 in [daemon] switches that off; or give a history with --csv"
    if since is not None:
        return f"no uses are recorded in the last {duration(since)}: leave out --since, or give a history with --csv"
    return "no uses are recorded yet: use a model, or give a history with --csv"


def _told(reply: dict[str, object]) -> Told:
    try:
        return told(reply)
    except ValueError as error:
        raise CannotSimulate(
            f"what the daemon tells is not understood, it may be of another version than lazyctl: {error}"
        ) from None


def _from_file(path: str, since: float | None, notes: list[str]) -> list[Use]:
    try:
        found, dropped = histories.read(path)
    except OSError as error:
        raise CannotSimulate(f"{path} cannot be read: {error.strerror or error}") from None
    except histories.WrongHistory as error:
        raise CannotSimulate(str(error)) from None
    if not found:
        raise CannotSimulate(f"{path} has no uses: write a line for each, as 2026-12-02T14:30:00Z,gemma,0.5")
    if dropped:
        notes.append(f"only the last {len(found):,} uses of {path} are replayed, {dropped:,} before them are not")
    if since is not None:
        last = max(use.began for use in found)
        found = [use for use in found if use.began >= last - since]
    return found


def _known_of_file(session: Session, found: list[Use], notes: list[str]) -> Told:
    """What the daemon knows; without one, the configuration that it would read, and this machine's RAM."""
    try:
        with closing(session.follow("History")) as replies:
            known = _told(next(replies))
    except LazydError as error:
        if error.exit_status != UNREACHABLE:
            raise
        notes.append("the daemon does not answer: the configuration is that on disk, what loads take is supposed")
        known = Told(config=_on_disk(), facts=Facts(devices=(_ram(),)))
    if sum(policies.unknown(found, known.config).values()) < len(found):
        return known
    notes.append("no model of the file is configured: all are taken as models are by default")
    config = msgspec.structs.replace(policies.of_all(found), settings=known.config.settings)
    return msgspec.structs.replace(known, config=config)


def _ram() -> DeviceFacts:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return DeviceFacts(name="ram", kind="host", total_bytes=total)


def _on_disk() -> Config:
    from lazyd import config as configuration

    return _accepted(configuration.load(configuration.find(), paths_must_exist=False))


def _other(path: str) -> tuple[str, Config]:
    from lazyd import config as configuration

    loaded = configuration.load(configuration.find(path), paths_must_exist=False)
    return os.path.basename(path), _accepted(loaded)


def _accepted(loaded: Loaded) -> Config:
    """Files of models need not be there: nothing is loaded from them.

    Raises:
        CannotSimulate: with all problems, as ``config check`` tells them.
    """
    if loaded.config is None:
        raise CannotSimulate(*(str(problem) for problem in loaded.problems))
    return loaded.config


def _leave_out(played: Played) -> None:
    """Uses of models that a side does not have are played under neither, so that both play the same."""
    played.left_out = {side.name: policies.unknown(played.uses, side.config) for side in played.sides}
    missing: set[str] = set()
    for name, counts in played.left_out.items():
        if counts and not counts.keys() <= missing:
            played.notes.append(_left_out_line(name, counts))
        missing |= counts.keys()
    total = len(played.uses)
    played.uses = [use for use in played.uses if use.model not in missing]
    if not played.uses:
        raise CannotSimulate(f"none of the {total:,} uses is of a model that both configurations have", *played.notes)


def _left_out_line(name: str, counts: Mapping[str, int]) -> str:
    total, models = sum(counts.values()), sorted(counts, key=lambda model: -counts[model])
    named = ", ".join(models[:LEAST_NAMED]) + (", …" if len(models) > LEAST_NAMED else "")
    plural = "" if len(models) == 1 else "s"
    return f"left out: {total:,} use{'' if total == 1 else 's'} of {len(models)} model{plural} not in {name} ({named})"
