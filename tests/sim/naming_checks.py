"""What docs/versions.md promises of names, checked after every event of a day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events, versions
from lazyd.core.lifecycle import State
from lazyd.core.names import model_key, version_order
from lazyd.core.spec import Swap

from .truth import Violation

if TYPE_CHECKING:
    from .naming import Day
    from .naming_machine import Process

SENTENCES = {
    "means_what_was_said": "a name means what was promoted, else its alias, else the highest version",
    "answers_what_it_means": "requests by a name go to what it means, as soon as that is ready",
    "name_keeps_answering": "a swap never leaves a name without the version that serves",
    "old_version_stays": "what answers meanwhile does not leave for the one that takes its place",
    "ready_one_answers": "nobody waits for one version while another share of the name is ready",
    "clients_move": "clients of a version whose name has gone over are told to ask anew",
    "cold_one_takes_nothing": "a version takes no traffic before its warm-up has ended well, while another can be had",
    "others_take_the_share": "a request by a name fails only if all that it means have failed",
    "least_busy_answers": "of several workers of a model the least busy one answers",
    "never_too_many": "a model has no more workers than its replicas",
    "all_are_answered": "in peace every request is answered, swaps are over, and nothing lingers",
}
ROOM_FOR = "room for "
FRESH_S = 5.0
"""So long a lease may be safe before its first call."""
CHANGES = (events.Configure, events.Promote, events.Rollback)


@dataclass(slots=True)
class Told:
    """A lease, as the manager was told of it."""

    worker: str
    granted: float
    in_flight: bool = False
    called: bool = False


class Crowds:
    """How many calls each worker has, by what the manager was told: those in flight, and those that are about to
    begin as their leases are new."""

    def __init__(self) -> None:
        self._leases: dict[str, Told] = {}

    def of(self, worker: str, now: float) -> int:
        mine = [lease for lease in self._leases.values() if lease.worker == worker]
        return sum(lease.in_flight or (not lease.called and now < lease.granted + FRESH_S) for lease in mine)

    def ordered(self, effect: effects.Effect, now: float) -> None:
        if isinstance(effect, effects.Grant):
            self._leases[effect.lease] = Told(effect.worker, now)
        elif isinstance(effect, effects.Withdraw) and not self._leases[effect.lease].in_flight:
            del self._leases[effect.lease]

    def hear(self, event: events.Event) -> None:
        match event:
            case events.LeaseBusy() if event.lease in self._leases:
                lease = self._leases[event.lease]
                lease.in_flight = lease.called = True
            case events.LeaseIdle() if event.lease in self._leases:
                self._leases[event.lease].in_flight = False
            case events.LeaseClosed():
                self._leases.pop(event.lease, None)
            case events.HostFound():
                for report in event.workers:
                    for told in report.leases:
                        busy = told.in_flight > 0
                        self._leases[told.lease] = Told(report.worker, told.granted, busy, told.called)
            case _:
                pass


class Checks:
    """Looks at the core from outside, and at the truth of the workers."""

    def __init__(self, day: Day) -> None:
        self._day = day
        self._said: dict[str, str] = {}
        """By name: what was promoted."""
        self._holder: dict[str, str] = {}
        """By name: the version that answers until another is ready."""
        self._known: set[str] = set()
        """Names that the present manager was asked for."""
        self._was: dict[str, dict[str, int]] = {}
        self._now: dict[str, dict[str, int]] = {}
        self._serving: set[str] = set()
        self._fit: set[str] = set()
        """Models that were ready, and those of them that were warmed up, before the event at hand."""
        self._event: events.Event = events.Tick()
        self._crowds = Crowds()

    def forget(self) -> None:
        """Another manager begins."""
        self._holder.clear()
        self._known.clear()
        self._crowds = Crowds()

    # What must be meant.

    def targets(self, name: str) -> dict[str, int]:
        """The models that a name must mean, with their weights."""
        config = self._day.config
        if name in config.models:
            return {name: 1}
        if self._said.get(name) in config.models:
            return {self._said[name]: 1}
        if name in config.splits:
            return config.splits[name].weights
        if name in config.aliases:
            return {config.aliases[name]: 1}
        keys = [spec.key for spec in config.models.values() if spec.name == name]
        return {max(keys, key=lambda key: version_order(key.partition(":")[2])): 1} if keys else {}

    def state(self, key: str) -> State | None:
        record = self._day.core.world.models.get(key)
        return record.state if record is not None else None

    def is_fit(self, key: str) -> bool:
        """Ready and warmed up, in truth and as the core has it."""
        return any(process.is_fit for process in self.ready(key))

    def serves(self, key: str) -> bool:
        return bool(self.ready(key))

    def ready(self, key: str) -> list[Process]:
        """The workers of a model that are ready, in truth and as the core has it."""
        processes = [process for process in self._day.processes.values() if process.model == key and process.is_ready]
        return [process for process in processes if self.state(process.key) is State.READY]

    # Around each event.

    def before(self, event: events.Event) -> None:
        self._event = event
        self._crowds.hear(event)
        names = ("v", "alias", "shared")
        if isinstance(event, CHANGES):
            self._was = {name: dict(self._now.get(name, {})) for name in names} if self._now else {}
            self._serving = {key for key in self._day.core.world.models if self.serves(key)}
            self._fit = {key for key in self._serving if self.is_fit(key)}
        if isinstance(event, events.Get) and event.model in names:
            self._known.add(event.model)

    def effect(self, effect: effects.Effect) -> None:
        if isinstance(effect, effects.Grant):
            self._granted(effect)
        self._crowds.ordered(effect, self._day.now)
        match effect:
            case effects.Answer(outcome=answers.Promoted() as outcome):
                self._promoted(outcome)
            case effects.Answer(request=number, outcome=outcome) if number in self._day.asked:
                self._answered(self._day.asked[number].name, self._day.asked[number].sticky, outcome)
            case effects.Note(kind="swap failed", model=str(failed), data={"name": str(name), "back": str(old)}):
                self._goes_back(name, failed, old)
            case effects.Note(kind="swapped", data={"name": str(name)}) if any(map(self.is_fit, self.targets(name))):
                self._holder.pop(name, None)
            case effects.Note(kind="draining", model=str(model), reason=str(reason)) if reason.startswith(ROOM_FOR):
                self._makes_room(model, reason.removeprefix(ROOM_FOR))
            case _:
                pass

    def _granted(self, effect: effects.Grant) -> None:
        crowd, now = self._crowds.of, self._day.now
        others = self.ready(self._day.processes[effect.worker].model)
        better = [p for p in others if crowd(p.id, now) < crowd(effect.worker, now)]
        if better:
            self._fail("least_busy_answers", f"{effect} is for {crowd(effect.worker, now)} calls, {better} have fewer")

    def _makes_room(self, old: str, new: str) -> None:
        """A model leaves for another. If it answers until that is ready, somebody must wait for that itself."""
        old, new = model_key(old), model_key(new)
        if self.serves(old):
            return  # it has other workers
        if any(new in self.targets(asked.name) for asked in self._day.asked.values()):
            return
        for name in self._known:
            was = self._was.get(name, {}) if isinstance(self._event, CHANGES) else {}
            answers = old == self._holder.get(name) or (old in was and old in self._serving)
            overlaps = new in self._day.config.models and self._day.config.models[new].swap is Swap.OVERLAP
            if answers and overlaps and new in self.targets(name) and old not in self.targets(name):
                self._fail("old_version_stays", f"{old} answers for {name}, and makes room for {new}")

    def _goes_back(self, name: str, failed: str, old: str) -> None:
        """What has left for another one answers again, as that has failed."""
        if self._day.config.models[failed].swap is not Swap.STOP_FIRST or failed not in self.targets(name):
            self._fail("means_what_was_said", f"{name} goes back to {old} from {failed}")
        self._said[name] = old

    def _promoted(self, outcome: answers.Promoted) -> None:
        event = self._event
        if isinstance(event, events.Promote) and event.model is None:
            self._said.pop(event.name, None)
        elif isinstance(event, events.Promote):
            self._said[event.name] = str(event.model)
        else:
            self._said.pop(outcome.name, None)
            if outcome.model not in self.targets(outcome.name) or len(self.targets(outcome.name)) > 1:
                kept = self._day.core.world.kept_meanings[outcome.name]
                if kept.promoted is not None:
                    self._said[outcome.name] = outcome.model
            elif self._day.core.world.kept_meanings[outcome.name].promoted is not None:
                self._said[outcome.name] = outcome.model

    def _answered(self, name: str, sticky: str | None, outcome: answers.Outcome) -> None:
        targets = self.targets(name)
        fit = [key for key in targets if self.is_fit(key)]
        if isinstance(outcome, answers.Granted):
            key = f"{outcome.model}:{outcome.version}" if outcome.version else outcome.model
            if key not in targets and (fit or name not in self._known):
                self._fail(
                    "answers_what_it_means", f"{name} is answered by {key}, and means {targets}; {fit} are ready"
                )
            if key in targets and fit and key not in fit and sticky is None:
                self._fail(
                    "cold_one_takes_nothing", f"{name} is answered by {key}, which is not warmed up, as {fit} are"
                )
        elif isinstance(outcome, answers.LoadFailed):
            able = [key for key in targets if (m := self._day.core.world.models.get(key)) is None or not m.failures]
            if able:
                self._fail("others_take_the_share", f"{name} has failed ({outcome}), and {able} have not")
        elif isinstance(outcome, answers.ModelNotFound) and targets:
            self._fail("others_take_the_share", f"{name} means {targets}, and is not found")

    def after(self) -> None:
        self._follow()
        for asked in self._day.asked.values():
            holder = self._holder.get(asked.name)
            if holder is not None and self.serves(holder):
                self._fail("name_keeps_answering", f"{asked} waits, and {holder} serves until another is ready")
            ready = [key for key in self.targets(asked.name) if self.is_fit(key)]
            if ready and asked.sticky is None and holder is None:
                self._fail("ready_one_answers", f"{asked} waits, and {ready} are ready")
        for process in self._day.processes.values():
            for lease in process.rules.leases.values():
                self._moves(lease.route, process.model, lease.revoked)
        for key, spec in self._day.config.models.items():
            found = [process for process in self._day.processes.values() if process.model == key and process.counts]
            if len(found) > spec.replicas:
                self._fail("never_too_many", f"{key} has {found}, and may have {spec.replicas}")

    def _moves(self, name: str | None, key: str, revoked: bool) -> None:
        if name is None or revoked or not self._day.core.world.host_found:
            return
        targets = self.targets(name)
        if targets and key not in targets and any(map(self.is_fit, targets)):
            self._fail("clients_move", f"a client that asked for {name} stays with {key}; it means {targets}")

    def _follow(self) -> None:
        """What each name means now, and what holds for it."""
        self._now = {name: self.targets(name) for name in ("v", "alias", "shared")}
        if isinstance(self._event, CHANGES):
            self._begin()
        for name, holder in list(self._holder.items()):
            if not self.serves(holder) or any(map(self.is_fit, self._now[name])):
                del self._holder[name]

    def _begin(self) -> None:
        for name, targets in self._now.items():
            was = self._was.get(name, {})
            found = view_of(self._day, name)
            if targets and found is not None and found.means not in targets:
                self._fail("means_what_was_said", f"{name} means {found.means}, and should mean {targets}")
            if was == targets or not targets or name not in self._known:
                continue
            held = self._holder.pop(name, None)
            old = [key for key in ([held] if held is not None else was) if key in self._serving and key not in targets]
            main = max(targets, key=targets.__getitem__)
            overlaps = self._day.config.models[main].swap is Swap.OVERLAP
            if len(old) == 1 and overlaps and self._fit.isdisjoint(targets):
                self._holder[name] = old[0]

    def in_peace(self) -> None:
        if self._day.asked:
            self._fail("all_are_answered", f"{list(self._day.asked.values())} wait for ever")
        left = [p.key for p in self._day.processes.values()]
        swaps = [route for route in self._day.core.world.routes.values() if route.before is not None]
        if left or swaps:
            self._fail("all_are_answered", f"{left} stay in memory, {swaps} go on")

    def _fail(self, name: str, detail: str) -> None:
        raise Violation(name, f"{detail} (at {self._day.now:.3f}, {type(self._event).__name__})")


def view_of(day: Day, name: str) -> versions.Named | None:
    found = versions.named(day.core, name, 0.0)
    return found[0] if found else None
