"""When a model is expected to be asked for: by its habit (`habits.py`), or by its schedule.

Both come to *spans* of time in which it is worth being hot. What is idle and was given no idle time of its own
stays as long as a span lasts, and what is cold is loaded before the next one begins (`prewarming.py`).
Looking at a habit takes longer than a call may, so it is done once an idle time, when the model has been
idle for `SETTLE_S`, and kept until the next arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

from .events import Scheduled
from .habits import Habit
from .records import Instance, Model, Span
from .spec import PrewarmWhen, Tier
from .world import World

PRICE_S = 600.0
"""A cold start is worth so many seconds of holding, where no idle time was written down: who frees what has been
idle for ten minutes, as is the default, says so much of a model that is used at random."""

ENOUGH_VISITS = 2
"""So many times between visits must be known before they are a habit, which replaces the default."""

SETTLE_S = 5.0
"""Nothing leaves sooner after its last use, whatever is expected of it."""

MARGIN = 0.25
MARGIN_S = 1.0
"""A load may take this part longer than it does as a rule, and so much more."""

SCHEDULE_GRACE_S = 60.0
"""A call that is due by the schedule may come so much later."""

CLOCKS_S = 1.0
"""So far apart two clocks may be about when a time has come."""

UNKNOWN_LOAD_S = 10.0
"""A load that was never measured is begun so long before."""


def arrived(world: World, model: Model) -> None:
    """Somebody asks for it."""
    if model.habit is None:
        model.habit = Habit()
    model.habit.arrived(world.now)
    world.remember(model)


def scheduled(world: World, event: Scheduled) -> None:
    """The shell knows clocks and time zones, and tells when a schedule is due next."""
    model = world.find(event.model)
    if model is not None:
        if model.scheduled is not None and model.scheduled <= world.now + CLOCKS_S:
            model.was_due = model.scheduled
        model.scheduled = event.at
        world.touch(model)


def spans(model: Model) -> Sequence[Span] | None:
    """Those of the time after its last arrival, in order; None: nothing is known, and the default idle time holds."""
    prewarm = model.spec.prewarm
    if prewarm.when is PrewarmWhen.SCHEDULE:
        dues = [due for due in (model.was_due, model.scheduled) if due is not None]
        return [Span(due, due + SCHEDULE_GRACE_S, due, 0.0) for due in dues] or None
    habit = habit_of(model)
    if habit is None or model.spec.tier is Tier.TRANSIENT:
        return None
    if model.spans_at != habit.last:
        model.spans, model.spans_at = learned(model, habit), habit.last
    return model.spans


def habit_of(model: Model) -> Habit | None:
    """What is known of when it is asked for, if that is enough and is to be followed."""
    habit = model.habit
    if model.spec.prewarm.when is not PrewarmWhen.LEARNED or habit is None:
        return None
    return habit if len(habit.visits) >= ENOUGH_VISITS else None


def learned(model: Model, habit: Habit) -> Sequence[Span] | None:
    """What its habit says."""
    last, windows = habit.last, habit.windows(PRICE_S, lead_s(model))
    if last is None or not windows:
        return None
    return tuple(
        Span(
            last + window.start_s,
            last + window.end_s,
            None if window.expected_s is None else last + window.expected_s,
            window.within_s,
        )
        for window in windows
    )


def lead_s(model: Model) -> float:
    """How long before it is needed a load has to begin."""
    expected_s = model.expected_load_s
    return UNKNOWN_LOAD_S if expected_s is None else (1 + MARGIN) * expected_s + MARGIN_S


def kept_until(instance: Instance, now: float) -> float | None:
    """When an idle model has had its time, so far as is known now; None: never.

    An idle time that was written down is kept. Without one a habit may lengthen the default, and shorten it if that
    is safe (`may_shorten`).
    """
    model = instance.model
    timeout_s = model.spec.idle_timeout_s
    default = None if timeout_s is None else instance.last_used + timeout_s
    if model.spec.idle_written or default is None:
        return default
    settled = instance.last_used + SETTLE_S
    if is_settling(instance, now):
        return min(settled, default)
    known = spans(model)
    if known is None:
        return default
    until = max((span.end for span in known if is_in(span, model, now)), default=settled)
    return until if until >= default or may_shorten(model) else default


def may_shorten(model: Model) -> bool:
    """Whether it may be freed before the default idle time is over: if it comes at a period, at which it is brought
    back, or was seldom back so soon.

    Any other would meet more cold starts than with the default alone, as a price per second says that it should. That
    is a surprise to somebody who has written nothing down; memory that is held for ten minutes is none.
    A schedule says when it is needed for certain, but not that nobody comes in between.
    """
    habit, timeout_s = habit_of(model), model.spec.idle_timeout_s
    return habit is not None and timeout_s is not None and habit.may_leave_within(timeout_s)


def is_settling(instance: Instance, now: float) -> bool:
    """It was used just now: its habit, if that is to be followed, is not looked at yet."""
    model = instance.model
    follows = model.habit is not None and not model.spec.idle_written
    return follows and now < instance.last_used + SETTLE_S


def is_past_its_time(instance: Instance, now: float) -> bool:
    """It is held although nobody is expected: a written idle time keeps it, or it has just not been freed yet."""
    model = instance.model
    known = spans(model)
    if model.kept or known is None or instance.last_used + SETTLE_S > now:
        return False
    if any(is_in(span, model, now) for span in known):
        return False
    until = kept_until(instance, now)
    return model.spec.idle_written or (until is not None and until <= now)


def is_in(span: Span, model: Model, now: float) -> bool:
    """It lasts, or a load for it would have to be under way."""
    return span.start - lead_s(model) <= now < span.end


def next_span(model: Model, now: float) -> Span | None:
    """The first that has not ended."""
    return next((span for span in spans(model) or () if span.end > now), None)


def expected(model: Model, now: float) -> tuple[float, float] | None:
    """When it is asked for next, give or take so many seconds, where that is known. Quick: there may be thousands."""
    found, habit = None, habit_of(model)
    if model.spec.prewarm.when is PrewarmWhen.SCHEDULE and model.scheduled is not None:
        found = model.scheduled, 0.0
    elif habit is not None:
        found = habit.expected(now)
    return found if found is not None and sum(found) > now else None
