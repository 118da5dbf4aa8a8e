"""The core broken on purpose: each mutation is one plausible mistake, and the invariants that may catch it.

A mutation replaces a function of the core for a while. If no invariant notices one, the
simulation is blind there: `test_mutations.py` runs them all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from lazyd.core import (
    adoption,
    alarms,
    configuring,
    core,
    crowding,
    cycles,
    events,
    eviction,
    expecting,
    fallbacks,
    growth,
    guesses,
    leases,
    ledger,
    lives,
    locks,
    placement,
    plans,
    prewarming,
    records,
    refusals,
    reports,
    requests,
    reservations,
    room,
    rules,
    strangers,
    unloads,
    view,
    waiting,
    warmups,
    wear,
    world,
)
from lazyd.worker.records import Lease as WorkerLease

from . import broken

Patch = Callable[[contextlib.ExitStack], None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """`profile`: the kind of schedule that must notice it soonest."""

    name: str
    caught_by: tuple[str, ...]
    profile: str
    patch: Patch

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            self.patch(stack)
            yield


def put(owner: Any, name: str, value: Any) -> Patch:
    """Replaces an attribute of a module or class."""
    return lambda stack: stack.enter_context(mock.patch.object(owner, name, value))


def put_all(*patches: Patch) -> Patch:
    def patch(stack: contextlib.ExitStack) -> None:
        for each in patches:
            each(stack)

    return patch


def put_entry(table: dict[Any, Any], key: Any, value: Any) -> Patch:
    """Replaces an entry of a table."""
    return lambda stack: stack.enter_context(mock.patch.dict(table, {key: value}))


def without_rule(rule: Callable[..., None]) -> Patch:
    return put(core, "RULES", tuple(each for each in rules.RULES if each is not rule))


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a function that should have done something."""


def always(*_: Any, **__: Any) -> bool:
    return True


def never(*_: Any, **__: Any) -> bool:
    return False


EVENTS = core.EVENTS

MUTATIONS: tuple[Mutation, ...] = (
    # Admission.
    Mutation(
        "bookings are not looked at",
        ("admission_fits",),
        "calm",
        put_all(put(ledger.Ledger, "fits", lambda *_: True), put(room, "covers", lambda *_: True)),
    ),
    Mutation(
        "strangers are not looked at",
        ("admission_fits",),
        "failures",
        put(ledger.Device, "limit_bytes", broken.BUDGET_ALONE),
    ),
    Mutation("old samples will do", ("admission_is_seen",), "calm", put(ledger.Device, "is_fresh", lambda *_: True)),
    Mutation(
        "only the first device is used",
        ("booked_where_it_goes",),
        "calm",
        put(placement.Placement, "devices", property(lambda self: tuple(self.worker)[:1])),
    ),
    Mutation(
        "what is given back stays booked",
        ("books_balance",),
        "calm",
        put(ledger.Ledger, "rebook", broken.rebooked_beside),
    ),
    Mutation("growth is not booked", ("measured_is_booked",), "shortage", put(growth, "measured", nothing)),
    Mutation(
        "strangers are hoped to be few",
        ("used_is_accounted", "admission_fits"),
        "crowds",
        put(strangers, "account", broken.surely_foreign),
    ),
    Mutation("the margin is used", ("admission_fits",), "calm", put(ledger.Device, "limit_bytes", broken.NO_MARGIN)),
    Mutation(
        "bytes are free when the order to stop is given",
        ("admission_fits", "admission_is_seen"),
        "calm",
        put(lives, "stop_worker", broken.released_at_stop),
    ),
    Mutation(
        "adopted workers are not booked",
        ("found_is_kept", "admission_fits"),
        "restarts",
        put(adoption, "booked", lambda _: {}),
    ),
    Mutation(
        "adopted leases are forgotten",
        ("found_is_kept", "nothing_leaves_without_cause"),
        "restarts",
        put(adoption, "adopt_lease", nothing),
    ),
    Mutation(
        "loads do not wait for the host",
        ("loads_wait_for_the_host",),
        "restarts",
        put(core, "make_room", broken.waiting_for_no_host),
    ),
    Mutation(
        "a second load",
        ("one_load",),
        "calm",
        put(core, "RULES", tuple(broken.load_although_loading if r is rules.want else r for r in rules.RULES)),
    ),
    Mutation(
        "max_loaded is not obeyed",
        ("family_keeps_its_limit",),
        "family",
        put(configuring, "offer_places", broken.two_places_more),
    ),
    Mutation("no pause after a failure", ("failures_pause",), "failures", put(lives, "pause_s", lambda _: 0.0)),
    Mutation("max_pinned is not obeyed", ("pins_leave_room",), "residents", put(refusals, "keeps_too_much", nothing)),
    # Requests.
    Mutation("two answers", ("answered_once",), "calm", put(world.World, "answer", broken.answered_twice)),
    Mutation(
        "an answer after a cancel",
        ("answered_once", "nothing_leaves_without_cause"),
        "calm",
        put_entry(EVENTS, events.Cancel, nothing),
    ),
    Mutation("deadlines have no alarm", ("answered_in_time",), "calm", put(requests, "watch_deadline", nothing)),
    Mutation("an unload has no deadline", ("answered_in_time",), "family", put_entry(core.ALARMS, "unload", nothing)),
    Mutation("who waits is not woken", ("ready_answers_at_once",), "calm", without_rule(rules.serve)),
    Mutation("no bound on waiting", ("wait_is_bounded",), "rivals", put(room, "is_overdue", lambda *_: False)),
    Mutation(
        "time alone changes nothing",
        ("wait_is_bounded", "everything_is_answered"),
        "rivals",
        put(alarms.Alarms, "set", broken.forgets_the_room_alarm),
    ),
    Mutation(
        "a plan keeps what it freed",
        ("wait_is_bounded", "everything_is_answered"),
        "rivals",
        put(plans, "advance", broken.one_plan_is_for_ever),
    ),
    Mutation(
        "cycles of waiting are not seen",
        ("everything_is_answered", "calls_end"),
        "chains",
        put(cycles, "refuse_cycles", nothing),
    ),
    Mutation(
        "cycles of turns are not seen",
        ("calls_end", "everything_is_answered"),
        "chains",
        put(cycles, "closes_a_cycle", broken.only_memory_is_waited_for),
    ),
    Mutation(
        "every nested request is a cycle",
        ("refusals_are_true", "core_carries_on"),
        "chains",
        put_all(put(cycles, "stuck", broken.all_are_stuck), put(cycles, "can_come", lambda *_: False)),
    ),
    Mutation(
        "no room as soon as a device is full",
        ("refusals_are_true",),
        "calm",
        put(refusals, "too_big", broken.full_is_too_small),
    ),
    Mutation(
        "loaded before it is ready",
        ("loaded_is_true", "nothing_leaves_without_cause"),
        "calm",
        put(core, "RULES", tuple(broken.loaded_before_ready if r is rules.serve else r for r in rules.RULES)),
    ),
    Mutation(
        "a fallback answers for what is ready",
        ("degraded_is_true",),
        "fallbacks",
        put_all(put(fallbacks, "moment", lambda world, *_: world.now), put(core, "RULES", broken.FALLBACKS_FIRST)),
    ),
    Mutation(
        "a fallback answers at once",
        ("degraded_is_true",),
        "fallbacks",
        put(fallbacks, "moment", lambda world, *_: world.now),
    ),
    Mutation("a fallback is not marked", ("granted_is_valid",), "fallbacks", put(fallbacks, "note_degraded", nothing)),
    Mutation(
        "a request leaves one line alone",
        ("answered_once", "everything_is_answered", "core_carries_on", "ready_answers_at_once"),
        "fallbacks",
        put(waiting, "leave_line", broken.leaves_one_line),
    ),
    Mutation("looking is a use", ("looking_changes_nothing",), "calm", put(view, "models", broken.looking_refreshes)),
    # Leases.
    Mutation(
        "the answer before the grant",
        ("granted_is_valid",),
        "calm",
        put(leases, "grant", broken.grant_after_the_answer),
    ),
    Mutation(
        "a lease is not held", ("granted_is_valid",), "residents", put(leases, "grant", broken.grant_without_hold)
    ),
    Mutation(
        "a model leaves without being asked",
        ("busy_is_protected", "granted_is_valid"),
        "calm",
        put(lives, "drain", broken.leaves_without_asking),
    ),
    Mutation(
        "calls are ended without force",
        ("busy_is_protected",),
        "residents",
        put(unloads, "may_end_calls", lambda *_: True),
    ),
    Mutation("a lease ends too soon", ("lease_is_not_taken",), "calm", put(leases, "UNPRESENTED_LEASE_S", 0.002)),
    Mutation(
        "anybody may release",
        ("only_the_holder_releases",),
        "residents",
        put_entry(EVENTS, events.Release, broken.release_by_anybody),
    ),
    Mutation(
        "a worker's end is not noticed",
        ("names_what_exists", "loaded_is_true"),
        "nested",
        put_entry(EVENTS, events.WorkerExited, broken.reports_without_an_end),
    ),
    Mutation(
        "unpresented leases last for ever", ("nothing_lingers",), "residents", put_entry(core.ALARMS, "lease", nothing)
    ),
    # Memory that programs reserve, and that is foretold.
    Mutation(
        "one user may reserve all", ("nobody_reserves_all",), "reservations", put(reservations, "too_much", nothing)
    ),
    Mutation(
        "reservations do not outlive the manager for long",
        ("reserved_is_held",),
        "reservations",
        put(reservations, "UNPRESENTED_LEASE_S", 1.0),
    ),
    Mutation(
        "a claim is taken for a new wish",
        ("claimed_is_the_same",),
        "reservations",
        put_entry(EVENTS, events.Reserve, broken.claims_are_new),
    ),
    Mutation(
        "half of what a worker needed is learned",
        ("memory_does_not_run_out",),
        "honest",
        put(growth, "as_need", broken.half_is_learned),
    ),
    # Warm-ups.
    Mutation(
        "a warm-up may take any time",
        ("warmups_end",),
        "failures",
        put_entry(core.ALARMS, "warm", nothing),
    ),
    Mutation(
        "a failed warm-up is not believed",
        ("unfit_serves_nobody", "ready_answers_at_once"),
        "failures",
        put(lives, "pause", broken.unfit_goes_on),
    ),
    Mutation(
        "warm-ups never become synchronous",
        ("warmup_is_as_it_should",),
        "failures",
        put(warmups, "fell_back", lambda _: None),
    ),
    Mutation(
        "every warm-up is made again",
        ("warmed_up_once",),
        "failures",
        put(warmups, "subject", broken.never_the_same),
    ),
    Mutation(
        "the next manager knows of no warm-up",
        ("warmed_up_once",),
        "restarts",
        put_entry(EVENTS, events.Remembered, broken.remembers_no_warmups),
    ),
    # Guesses.
    Mutation(
        "what was unloaded by name is loaded for a guess",
        ("guess_is_allowed",),
        "habits",
        put(prewarming, "may_be_expected", broken.expects_what_was_unloaded),
    ),
    Mutation(
        "guesses do not wait for others", ("guess_waits_for_all",), "habits", put(prewarming, "is_room_wanted", never)
    ),
    Mutation(
        "a guess takes what is expected itself",
        ("guess_takes_what_is_over",),
        "habits",
        put(prewarming, "is_past_its_time", always),
    ),
    Mutation(
        "wrong guesses cost nothing",
        ("guesses_are_damped",),
        "habits",
        put(guesses, "affords", always),
    ),
    Mutation(
        "what wrong guesses cost is not kept",
        ("kept_is_what_was",),
        "habits",
        put(guesses, "settle", broken.settles_nothing),
    ),
    Mutation(
        "a guess is not called so",
        ("loads_have_a_cause",),
        "habits",
        put(prewarming, "begin", broken.begins_in_silence),
    ),
    Mutation(
        "a wrong guess stays",
        ("wrong_guesses_end",),
        "habits",
        put(rules, "own_time", broken.guesses_stay),
    ),
    Mutation(
        "a guess counts as use",
        ("only_requests_are_uses",),
        "habits",
        put(prewarming, "begin", broken.guess_is_a_use),
    ),
    Mutation(
        "nothing is loaded before it is asked for",
        ("expected_is_loaded",),
        "habits",
        put(prewarming, "consider", nothing),
    ),
    Mutation(
        "guesses do not leave for others",
        ("ready_gives_way",),
        "habits",
        put(eviction, "may_leave", broken.guesses_are_kept),
    ),
    Mutation(
        "a habit lengthens an idle time that was written down",
        ("idle_time_is_kept",),
        "habits",
        put(expecting, "kept_until", broken.written_or_not),
    ),
    Mutation(
        "a habit shortens an idle time that was written down",
        ("nothing_leaves_without_cause", "quantum_is_served"),
        "habits",
        put(expecting, "kept_until", broken.settled_is_enough),
    ),
    # Locked files.
    Mutation(
        "locks are not booked",
        ("locked_is_booked", "found_is_kept"),
        "locks",
        put(locks, "book", broken.books_no_files),
    ),
    Mutation(
        "locks are lost with the manager",
        ("locked_is_booked", "found_is_kept"),
        "locks",
        put(locks, "take_over", nothing),
    ),
    Mutation(
        "a model is locked twice",
        ("locked_once",),
        "locks",
        put(locks, "compare", broken.locks_beside),
    ),
    Mutation(
        "locks look at nobody else's share",
        ("locks_leave_room",),
        "locks",
        put(locks, "beyond_share", lambda *_: []),
    ),
    Mutation(
        "locks stay whoever waits",
        ("ready_gives_way", "refusals_are_true"),
        "locks",
        put(room, "locks_leave", never),
    ),
    # Leaving.
    Mutation(
        "pinned models are evicted",
        ("kept_is_not_evicted",),
        "residents",
        put_all(
            put(eviction, "may_leave", broken.evicts_what_is_kept), put(plans, "still_goes", broken.goes_although_kept)
        ),
    ),
    Mutation(
        "pinned models are idle",
        ("kept_is_not_evicted",),
        "residents",
        put_all(put(rules, "own_time", broken.idle_although_kept), without_rule(rules.let_stay)),
    ),
    Mutation("no quantum", ("quantum_is_served",), "rivals", put(eviction, "quantum_until", lambda _: 0.0)),
    Mutation(
        "idle too soon",
        ("nothing_leaves_without_cause", "quantum_is_served"),
        "calm",
        put(rules, "own_time", broken.idle_too_soon),
    ),
    Mutation(
        "who is busy is asked again at once", ("busy_is_not_asked_again",), "chains", put(reports, "ASK_AGAIN_S", 0.0)
    ),
    Mutation(
        "a crowded device stays crowded",
        ("crowded_devices_shrink",),
        "crowds",
        put(crowding, "relieve", nothing),
    ),
    Mutation(
        "strangers are believed at once",
        ("nothing_leaves_without_cause", "quantum_is_served", "refusals_are_true"),
        "crowds",
        put(strangers, "account", broken.believed_at_once),
    ),
    Mutation("idle models stay", ("idle_gets_cold", "transient_leaves"), "calm", without_rule(rules.retire_if_idle)),
    Mutation(
        "transient models wait for their idle time",
        ("transient_leaves",),
        "calm",
        put(rules, "own_time", broken.transient_like_others),
    ),
    Mutation(
        "unloaded before it is free", ("unloaded_is_free",), "family", put(unloads, "freed", broken.unloaded_too_soon)
    ),
    Mutation("what has served long enough stays", ("worn_leaves",), "lifetimes", put(wear, "why_worn", nothing)),
    Mutation("residents do not stand", ("residents_stand",), "residents", put(records.Model, "stands", False)),
    Mutation(
        "a stop loads on",
        ("stop_is_a_stop", "stop_frees_everything"),
        "everything",
        put(core, "settle", broken.loads_although_stopping),
    ),
    Mutation(
        "a stop does nothing",
        ("stop_frees_everything", "everything_is_answered", "residents_stand"),
        "everything",
        put(rules, "must_leave", nothing),
    ),
    # The machine itself.
    Mutation("alarms are never taken out", ("timers_move_on",), "calm", put(alarms.Alarms, "due", lambda *_: [])),
    Mutation(
        "a step that the table does not have", ("core_carries_on",), "calm", put(lives, "serve_on", broken.illegal_step)
    ),
    Mutation(
        "what never fits is not refused",
        ("wait_is_bounded", "everything_is_answered"),
        "calm",
        put(refusals, "too_big", nothing),
    ),
    # Mistakes that were really made, and that the simulation found.
    Mutation(
        "a model is kept on any device",
        ("pins_leave_room",),
        "residents",
        put(refusals, "keep_too_much", broken.kept_on_any_device),
    ),
    # The worker's half of the hand-shake.
    Mutation(
        "a worker revokes what is fresh or held",
        ("busy_is_protected",),
        "family",
        put(WorkerLease, "protected_until", 0.0),
    ),
)
