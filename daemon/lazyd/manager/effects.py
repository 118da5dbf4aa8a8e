"""How each thing that the core wants done is done: the table that the driver works from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lazyd.core import effects

from .control.requests import Requests
from .fetching.fetching import Fetches
from .journal import Journal
from .meanings import MeaningsKeeper
from .memory.measuring import Measuring
from .pages.known import Known
from .pages.warming import Warming
from .pins import PinKeeper
from .prediction.predictor import Predictor
from .processes.channel import Channel
from .processes.keeping import Keeping
from .processes.workers import Workers
from .readiness.history import History
from .readiness.remembering import Remembering


def table(
    requests: Requests,
    workers: Workers,
    predictor: Predictor,
    fetches: Fetches,
    pins: PinKeeper,
    meanings: MeaningsKeeper,
    keeping: Keeping,
    measuring: Measuring,
    history: History,
    remembering: Remembering,
    warming: Warming,
    known: Known,
    journal: Journal,
) -> Mapping[type[effects.Effect], Callable[[Any], None]]:
    """One row an effect."""

    def over_channel(deed: Callable[[Channel, Any], None]) -> Callable[[Any], None]:
        """What is said to a worker; to one that has just gone, nothing."""
        channels = workers.channels

        def carry_out(effect: Any) -> None:
            channel = channels.get(effect.worker)
            if channel is not None:
                deed(channel, effect)

        return carry_out

    def keep(effect: effects.KeepReservations) -> None:
        """What is reserved has changed: how soon devices are to be sampled depends on it."""
        keeping.keep(effect)
        measuring.stir()

    def note(effect: effects.Note) -> None:
        journal.note(effect)
        known.noted(effect)

    return {
        effects.Answer: requests.answer,
        effects.Progress: requests.progress,
        effects.Predict: predictor.predict,
        effects.Learn: predictor.learn,
        effects.Fetch: fetches.fetch,
        effects.StopFetching: fetches.stop,
        effects.Sample: measuring.sample,
        effects.StartWorker: workers.start,
        effects.StopWorker: workers.stop,
        effects.LoadObject: over_channel(Channel.load),
        effects.UnloadObject: over_channel(Channel.unload),
        effects.ParkObject: over_channel(Channel.park),
        effects.UnparkObject: over_channel(Channel.unpark),
        effects.Grant: over_channel(Channel.grant),
        effects.Revoke: over_channel(Channel.revoke),
        effects.Withdraw: over_channel(Channel.withdraw),
        effects.Drain: over_channel(Channel.drain),
        effects.Resume: over_channel(Channel.resume),
        effects.Used: history.used,
        effects.Memorable: remembering.gather,
        effects.KeepPast: remembering.keep_past,
        effects.WarmedUp: remembering.warmed_up,
        effects.SavePins: lambda effect: pins.keep(effect.pins),
        effects.KeepMeanings: lambda effect: meanings.keep(effect.kept),
        effects.KeepReservations: keep,
        effects.UnlockFiles: warming.unlock,
        effects.Note: note,
    }
