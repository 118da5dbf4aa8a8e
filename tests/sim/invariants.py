"""What must hold after every event: one small function each, and the sentence it comes from.

A check looks at an effect before it is carried out, or at the world after an event. It returns
what is wrong, or None. The sentences are those of docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyd.core import effects, events
from lazyd.core.effects import (
    Answer,
    Drain,
    Grant,
    KeepReservations,
    LoadObject,
    Note,
    Progress,
    Resume,
    StartWorker,
    StopWorker,
    UnloadObject,
    UnparkObject,
    Withdraw,
)

from . import (
    about_admission,
    about_guesses,
    about_leases,
    about_leaving,
    about_ledger,
    about_loads,
    about_locks,
    about_readiness,
    about_refusals,
    about_requests,
    about_reservations,
    about_warmups,
)
from .truth import Violation

if TYPE_CHECKING:
    from .world import World

Check = Callable[["World", Any], str | None]

ADMISSIONS = about_admission.ADMISSIONS
NAMES_A_WORKER = (StopWorker, LoadObject, UnloadObject, Grant, Withdraw, Drain, Resume)
ENDS = (StopWorker, UnloadObject)


@dataclass(frozen=True, slots=True)
class Invariant:
    name: str
    sentence: str
    effects: tuple[type[effects.Effect], ...] = ()
    """Kinds of effects that `check` looks at; none: it looks at the world after each event."""
    check: Check | None = None
    """None: it is checked where the truth is, in the module that raises the `Violation`."""


def _of(check: Check, sentence: str, *kinds: type[effects.Effect]) -> Invariant:
    return Invariant(check.__name__, sentence, kinds, check)


INVARIANTS: tuple[Invariant, ...] = (
    # Requests.
    _of(about_requests.answered_once, "every request is answered exactly once", Answer, Progress),
    _of(about_requests.answered_in_time, "every request is answered within its deadline"),
    _of(about_requests.degraded_is_true, "a fallback answers only for what cannot be had in time", Answer),
    _of(about_refusals.refusals_are_true, "a clear error: what, why; what can be queued is queued", Answer),
    _of(about_requests.wait_is_bounded, "every waiting request is served or refused within the stated bound"),
    _of(about_requests.ready_answers_at_once, "the hot path never queues; waiters are always woken"),
    _of(about_requests.looking_changes_nothing, "looking never loads, wakes or refreshes anything"),
    _of(about_requests.found_is_kept, "the new manager asks each worker what it holds, and carries on"),
    # Leases. The first of these also keeps the checks after it from stumbling.
    _of(about_leases.names_what_exists, "adopted or ended, never unknown", *NAMES_A_WORKER),
    _of(about_leases.granted_is_valid, "the lease exists before `ready` is visible", Grant, Answer),
    _of(about_leases.busy_is_protected, "nothing with a call in flight or a fresh lease is unloaded", *ENDS),
    _of(about_leases.lease_is_not_taken, "until its first call (5 s at most) it cannot be revoked", Withdraw),
    _of(about_leases.only_the_holder_releases, "only the uid that got a lease may release it", Answer),
    # Loads.
    _of(about_admission.admission_fits, "no admission makes booked + foreign + margin exceed the device", *ADMISSIONS),
    _of(about_admission.admission_is_seen, "an admission needs a sample begun after the last change", *ADMISSIONS),
    _of(about_admission.booked_where_it_goes, "bookings of one load over several devices are one", StartWorker),
    _of(about_leaving.worn_leaves, "a worker that has served long enough is restarted, whatever the traffic"),
    _of(about_loads.loads_wait_for_the_host, "before a host is found loads wait", StartWorker),
    _of(about_loads.one_load, "at most one load of a model version is under way", LoadObject),
    _of(about_loads.family_keeps_its_limit, "a family keeps at most max_loaded objects", LoadObject),
    _of(about_loads.failures_pause, "after a failure the next try is allowed after a growing pause", LoadObject),
    _of(about_loads.pins_leave_room, "pins and residents hold at most max_pinned of a device", LoadObject, Answer),
    _of(about_loads.loaded_is_true, "Load answers once the model is ready", Answer),
    _of(about_loads.stop_is_a_stop, "on a stop waiters are refused and nothing is loaded", LoadObject, StartWorker),
    # Warm-ups.
    _of(about_warmups.warmup_is_as_it_should, "warm-ups are as configured, or sync after loads went wrong", LoadObject),
    _of(about_warmups.warmed_up_once, "on-demand: once since the machine started, whoever manages", LoadObject),
    _of(about_warmups.warmups_end, "a warm-up that hangs has a time limit of its own"),
    _of(about_warmups.unfit_serves_nobody, "a model whose warm-up fails admits nobody any more", Grant),
    # The ledger.
    _of(about_ledger.books_balance, "every byte that is booked is held by somebody, and every file once"),
    _of(about_ledger.measured_is_booked, "what grows past its booking is booked as it is"),
    _of(about_ledger.used_is_accounted, "what is used is booked, or what strangers may use"),
    # Reservations.
    _of(about_reservations.reserved_is_held, "held by the connection; after a restart for 30 s", KeepReservations),
    _of(about_reservations.claimed_is_the_same, "the client claims it again after a restart of the manager", Answer),
    _of(about_reservations.nobody_reserves_all, "one user's reservations hold at most max_reserved", Answer),
    # Locked files.
    _of(about_locks.locked_is_booked, "what is locked is booked, once, until the host has let go of it"),
    _of(about_locks.locked_once, "a model has one lock at a time", Answer),
    _of(about_locks.locks_leave_room, "with what is pinned and resident locks hold at most max_pinned", Answer),
    # Guesses.
    _of(about_guesses.guess_is_allowed, "a guess is made only of what may be prewarmed, and is expected", Note),
    _of(about_guesses.guess_waits_for_all, "a guess is made only while nobody waits for room", Note),
    _of(about_guesses.guess_takes_what_is_over, "it takes what is free or is held by models past their time", Note),
    _of(about_guesses.guesses_are_damped, "wrong guesses hold ten minutes, and damp themselves", Note),
    _of(about_guesses.loads_have_a_cause, "what nobody waits for is a guess, and says so", LoadObject, UnparkObject),
    _of(about_guesses.wrong_guesses_end, "if nobody comes, the model leaves"),
    _of(about_guesses.only_requests_are_uses, "a guess does not count as use"),
    _of(about_readiness.expected_is_loaded, "what is due is loaded, where there is room and nobody waits"),
    _of(about_readiness.ready_gives_way, "guesses and locked files yield to the first request that needs their bytes"),
    _of(about_readiness.idle_time_is_kept, "a written idle time is kept, whatever is learned"),
    Invariant("kept_is_what_was", "habits, and what guesses have cost, outlive the manager"),
    # Leaving.
    _of(about_leaving.kept_is_not_evicted, "no pinned model is evicted; a resident stays", Drain, *ENDS),
    _of(about_leaving.quantum_is_served, "once ready, a model serves for a quantum before it may be evicted", Drain),
    _of(about_leaving.nothing_leaves_without_cause, "evicted for a request that waits, or idle for its time", Drain),
    _of(about_leaving.busy_is_not_asked_again, "no decision rests on a stale count: who is busy is believed", Drain),
    _of(about_leaving.crowded_devices_shrink, "while a device holds more than it may, idle models leave"),
    _of(about_leaving.unloaded_is_free, "bytes stay booked until they are seen to be free", Answer),
    Invariant(
        "memory_does_not_run_out", "never out of GPU memory, where no stranger and no wrong prediction is to blame"
    ),
    # Checked elsewhere: in the manager, and at the end of a schedule.
    Invariant("core_carries_on", "a step that the table does not have raises; every event is handled in the end"),
    Invariant("timers_move_on", "next_deadline says when a Tick is due; after the Tick it is later"),
    Invariant("everything_is_answered", "waiters are always woken: in peace no request stays"),
    Invariant("calls_end", "a request that would close a cycle of waiting gets NoRoom at once: calls come to an end"),
    Invariant("idle_gets_cold", "with no requests left, everything on-demand is cold after its idle time"),
    Invariant("transient_leaves", "transient: freed as soon as its last lease ends"),
    Invariant("nothing_lingers", "at rest the ledger holds what is really there, and nobody has a lease"),
    Invariant("residents_stand", "resident: loaded at start and always"),
    Invariant("stop_frees_everything", "a stop frees everything"),
)

NAMES = frozenset(invariant.name for invariant in INVARIANTS)

_by_effect: dict[type, list[tuple[str, Check]]] = {}
_after: list[tuple[str, Check]] = []


def _index() -> None:
    ordered = sorted(INVARIANTS, key=lambda invariant: invariant.check is not about_leases.names_what_exists)
    for invariant in ordered:
        if invariant.check is None:
            continue
        for kind in invariant.effects:
            _by_effect.setdefault(kind, []).append((invariant.name, invariant.check))
        if not invariant.effects:
            _after.append((invariant.name, invariant.check))


_index()


def check_effect(world: World, effect: effects.Effect) -> None:
    """Raises `Violation` if an effect should not have been decided."""
    for name, check in _by_effect.get(type(effect), ()):
        problem = check(world, effect)
        if problem is not None:
            raise Violation(name, problem)


def check_after(world: World, event: events.Event) -> None:
    """Raises `Violation` if something is wrong after an event."""
    for name, check in _after:
        problem = check(world, event)
        if problem is not None:
            raise Violation(name, problem)
