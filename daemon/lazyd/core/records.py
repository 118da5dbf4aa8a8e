"""The things the core remembers: models, their instances, workers, leases, and who waits.

These are plain records. What may happen to them is said by the rules beside them, one file
for each kind of rule; nothing here decides.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from .answers import Refusal
from .habits import Habit
from .heat import Heat
from .lifecycle import LOADS, State
from .monitoring import NOTHING, Past
from .needs import Forecast, Layers
from .spec import ModelSpec, Tier
from .wording import quoted

FOREVER = float("inf")

NOBODY = 0
"""The request of a wish, which is nobody's."""

FRESH_LEASE_S = 5.0
"""A lease is safe for so long before its first call (docs/architecture.md: "Leases")."""

UNPRESENTED_LEASE_S = 30.0
"""A lease that nobody presents ends after this time."""


class LeaseStage(enum.Enum):
    """How far the client has come with its lease."""

    GRANTED = "granted"
    PRESENTED = "presented"
    BUSY = "busy"
    IDLE = "idle"
    ENDING = "ending"
    """Given back while a call was in flight: it is over when that call is."""


@dataclass(slots=True, eq=False)
class Lease:
    """A client's right to use a loaded model."""

    id: str
    token: str
    instance: Instance
    holder: int
    granted: float
    hold_until: float = 0.0
    parent: str | None = None
    stage: LeaseStage = LeaseStage.GRANTED
    route: str | None = None
    """The name by which it was asked for, if that is no model's own."""
    revoked: bool = False
    """The name means another model by now: its client is told to ask anew."""
    asked: float = 0.0
    """When its use, or the next one, was asked for."""
    busy_since: float = 0.0

    @property
    def is_busy(self) -> bool:
        """A call is in flight."""
        return self.stage in (LeaseStage.BUSY, LeaseStage.ENDING)

    @property
    def protected_until(self) -> float:
        """Until when its model may not be taken away; infinity while a call is in flight."""
        if self.is_busy:
            return float("inf")
        if self.stage is LeaseStage.IDLE:
            return self.hold_until
        return max(self.hold_until, self.granted + FRESH_LEASE_S)


class Warmth(enum.StrEnum):
    """How far the warm-up of an instance has come."""

    NONE = "none"
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Reason(enum.StrEnum):
    """Why an instance leaves."""

    IDLE = "idle"
    ROOM = "room for another model"
    CROWDED = "its device holds more than it may"
    PRESSURE = "programs stall because memory is short"
    OUTGROWN = "it has outgrown what it was booked with (hard_limit)"
    WORN = "it has served long enough, and is restarted (max_calls, max_growth)"
    LOST = "its device is lost"
    UNFIT = "its warm-up failed"
    REPLACED = "another version has taken its place"
    ASKED = "unload"
    CHANGED = "configuration changed"
    REMOVED = "configuration removed"
    STOPPING = "shutting down"


@dataclass(slots=True, eq=False)
class Leaving:
    """The drain of an instance: asked by number, so that an answer that crossed a rescue is told apart."""

    number: int
    finish: bool
    """False: only if nothing is in flight. True: admit no more, and wait for the last call."""
    reason: Reason
    plan: Plan | None = None
    drained: bool = False


@dataclass(slots=True, eq=False)
class Worker:
    """A process, from the decision to start it until it is seen to be gone. It is what is booked."""

    id: str
    spec: ModelSpec
    identity: str
    started: float
    pid: int | None = None
    endpoint: str | None = None
    stopping: bool = False
    stuck: bool = False
    """Its process has been ended, and does not end."""
    hangs: bool = False
    """One of its objects does not leave: it takes no others."""
    exited: float | None = None
    """Since when its process is gone, while a driver has yet to show that its bytes are free."""
    way: str = ""
    """How it was loaded, see `needs`."""
    digest: str = ""
    """Of the files that it was loaded from, see `Predicted`."""
    gpus: tuple[str, ...] = ()
    """In the order in which its runtime sees them."""
    service: dict[str, int] | None = None
    """What it is booked with once it is ready, where that has been learned."""
    promised: dict[str, int] = field(default_factory=dict)
    """What it was booked with before anything of it was measured."""
    instances: dict[str, Instance] = field(default_factory=dict)
    """By model key; a family has many."""
    measured_bytes: dict[str, int] = field(default_factory=dict)
    """By device, at last. Of one that has exited: what the driver has not shown to be free."""
    file_bytes: int = 0
    """Its share of the pages of files that it maps, at last."""
    called: bool = False
    """A call has ended in it: the first long call may need more than the load showed."""
    load_peak: dict[str, int] = field(default_factory=dict)
    service_peak: dict[str, int] = field(default_factory=dict)
    settles: bool = False
    """It has become ready, and its RAM has not been measured since."""
    had_room: int | None = None
    """A load in it has run out of memory, and so many bytes of its GPU were there for it then."""
    outgrown: bool = False
    """It uses much more than it was booked with; said once."""
    calls: int = 0
    """That have ended in it, as far as it has said."""
    base_bytes: dict[str, int] = field(default_factory=dict)
    grown_bytes: dict[str, int] = field(default_factory=dict)
    """By device: what it has grown by since it was ready, see `wear`, and from where that is counted."""
    worn_since: float | None = None
    """Since when it has served long enough."""

    @property
    def restarts(self) -> bool:
        """It has served long enough and is on its way out: it takes no others."""
        if self.worn_since is None:
            return False
        return any(i.leaving is not None and i.leaving.reason is Reason.WORN for i in self.instances.values())

    stale: bool = False
    """What it was loaded from has changed where it was fetched from."""

    def __repr__(self) -> str:
        return f"<{self.id} {'stopping ' if self.stopping else ''}{' '.join(map(repr, self.instances.values()))}>"


@dataclass(slots=True, eq=False)
class Instance:
    """One life of a model inside a worker."""

    model: Model
    worker: Worker
    state: State
    since: float
    load_started: float
    progressed: float
    ready_since: float = 0.0
    load_s: float = 0.0
    phase: str = "starting"
    fraction: float | None = None
    last_used: float = 0.0
    leases: dict[str, Lease] = field(default_factory=dict)
    served: bool = False
    """Somebody had a lease on it: a transient model leaves when the last one ends."""
    leaving: Leaving | None = None
    parks: bool = False
    url: str | None = None
    """It can give back its device memory and stay."""
    parked_at: float | None = None
    """Since when it is parked."""
    guess: Guess | None = None
    """It was loaded because somebody was expected, who has not come yet."""
    ask_again: float = 0.0
    """Its worker has said that it is busy, and is not asked before this time whether it still is."""
    warmup: Warmth = Warmth.NONE
    loaded_s: float | None = None
    """How long the load alone took, once it is known: a warm-up comes after it."""
    problem: str = ""
    """Why its warm-up has failed."""
    replaced: bool = False
    """A name that meant it means another version by now, and nobody has asked for this one since."""
    warmed_as: str = ""
    """What it was ordered to be warmed up as, see `warmups.subject`: the configuration may have changed since."""

    @property
    def outdated(self) -> bool:
        """It was made from a spec that is no longer the model's, or from files that have changed."""
        return self.worker.identity != self.model.identity or self.worker.stale

    @property
    def holder(self) -> str:
        """Its name on the ledger, for the place it takes in a family."""
        return f"{self.worker.id}/{self.model.key}"

    @property
    def in_flight(self) -> int:
        return sum(lease.is_busy for lease in self.leases.values())

    @property
    def protected_until(self) -> float:
        """Until when no drain may begin: the longest of its leases."""
        return max((lease.protected_until for lease in self.leases.values()), default=0.0)

    def __repr__(self) -> str:
        return f"{self.model.key} {self.state} {self.in_flight}/{len(self.leases)} in flight"


@dataclass(slots=True, eq=False)
class Waiter:
    """A request that waits for a model."""

    request: int
    model: Model
    arrived: float
    deadline: float
    lease_wanted: bool
    holder: int = 0
    hold_s: float = 0.0
    parent: str | None = None
    limit: float | None = None
    """The deadline, if it is the caller's own."""
    falls_back: float | None = None
    """When it takes its model's fallback; None: nobody has thought of that yet."""
    detour: Detour | None = None
    """Once it has looked for a fallback."""
    route: str | None = None
    """The name by which it was asked for, if that is no model's own."""
    sticky: str | None = None


@dataclass(slots=True, eq=False)
class Detour:
    """A request that stands in more lines than that of the model it wants, see `fallbacks`."""

    wanted: Model
    asked: float
    standing: list[Waiter]
    """All of the request, the wanted model's first, if that was not refused."""
    tried: list[Model]
    """Models in whose lines it has stood, or that could not come."""
    refusal: Refusal | None = None
    """Of the wanted model."""
    why: str | None = None
    """What the answer says of it; None: it is not degraded."""


@dataclass(slots=True, eq=False)
class Route:
    """What a name that may mean several models means now, see `routes`."""

    name: str
    since: float
    """When it came to mean this."""
    shares: dict[str, int]
    """By key of a model: of so many parts of all requests. In the order in which they were written."""
    shadow: str | None = None
    """The model that repeats the calls of the others."""
    before: str | None = None
    """The model that answers until one of these is ready, see `swaps`."""
    stopped: str | None = None
    """The model that has left first, and comes back if this one fails."""
    failures: int = 0
    """Of the model that it is to go over to: so many have been told of."""
    turns: dict[str, int] = field(default_factory=dict)
    """Whose turn it is."""
    paused: set[str] = field(default_factory=set)
    """Those that cannot be had: it has been told of them."""


@dataclass(slots=True)
class Prediction:
    """What loading is thought to need."""

    ways: dict[str, Forecast]
    layers: Layers | None = None
    files: dict[str, int] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The prediction has been asked for."""

    number: int


@dataclass(frozen=True, slots=True)
class Absent:
    """Its files have yet to be fetched, see `fetching`."""

    number: int
    prediction: Prediction
    """By their heads, as far as these could be read."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """They are being fetched."""

    number: int
    fraction: float | None = None


@dataclass(slots=True, eq=False)
class Plan:
    """Room that is being made for one who waits: nothing leaves before all victims have drained."""

    seeker: Seeker
    booking: dict[str, int]
    short: list[str]
    """Devices of which there was not enough."""
    rank: int
    """Of the placement that it is for: what is preferred to it may still be taken, what is not may not."""
    victims: list[Instance]
    finish: bool
    """Victims may be busy and are waited for: the seeker has waited longer than its `max_wait_s`."""
    committed: bool = False


@dataclass(slots=True, eq=False)
class Reservation:
    """Memory for a program that lazyd does not run: asked for, then held as long as its connection lasts."""

    id: str
    device: str
    bytes: int
    holder: int
    """The client's uid."""
    pid: int
    command: str | None
    since: float
    request: int | None = None
    """Who waits for it; None once it is held."""
    resume: str | None = None
    """The reservation that its client held before, if the host still tells of it."""
    waits: bool = True
    deadline: float = float("inf")
    max_wait_s: float = 2.0
    nested: bool = False
    retry_at: float = 0.0

    @property
    def key(self) -> str:
        """Its name on the ledger and in the line; no model is called so."""
        return f"reservation {self.id}"

    @property
    def title(self) -> str:
        """What it is for."""
        return self.command or f"a reservation of pid {self.pid}"

    @property
    def named(self) -> str:
        """What it is for, as people are told."""
        return quoted(self.command) if self.command else self.title

    @property
    def wanted_since(self) -> float:
        return self.since


@dataclass(frozen=True, slots=True)
class Left:
    """How a life ended."""

    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Span:
    """Worth being hot from `start` to `end`, see `expecting`."""

    start: float
    end: float
    expected: float | None = None
    """The most likely moment, where there is one, give or take `within_s`."""
    within_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Guess:
    """A model is expected to be asked for, and is loaded for that."""

    expected: float
    until: float
    """If nobody has come by then, it was wrong."""
    again: bool = False
    """No guess, but loaded again after it was restarted, see `wear`: as if it had never left."""
    beside: bool = False
    """No guess, but one more worker of a model that is busy, see `replicas`."""


@dataclass(slots=True, eq=False)
class Waste:
    """What is left of a model's budget for wrong guesses as it was `at`, and how many there were."""

    left_s: float = 0.0
    at: float = 0.0
    guesses: int = 0
    wrong: int = 0


@dataclass(slots=True, eq=False)
class Model:
    """A model version as somebody asks for it. It outlives its instances."""

    key: str
    spec: ModelSpec
    identity: str
    instance: Instance | None = None
    """The newest one."""
    ended: State = State.COLD
    """How the last life ended: cold or failed."""
    waiters: list[Waiter] = field(default_factory=list)
    wish: Waiter | None = None
    """That it be loaded although nobody waits any more, see `waiting`."""
    elsewhere: dict[int, Waiter] = field(default_factory=dict)
    """By request: to whom it was refused, and who waits for a fallback."""
    prediction: Prediction | Asked | Absent | Fetching | None = None
    pinned: bool = False
    again_until: float | None = None
    """It was restarted, and would have been kept so long if nobody had come."""
    dismissed: bool = False
    """It was freed by request: until somebody asks for it a resident stays cold, and nothing is loaded by a guess."""
    cold_since: float = 0.0
    retired: bool = False
    """No longer configured; it goes when its last instance has gone."""
    failures: int = 0
    retry_at: float = 0.0
    last_error: str | None = None
    last_load_s: float | None = None
    loads_s: tuple[float, ...] = ()
    """How long its last loads took, see `cost`; the way back from being parked is none."""
    expected_load_s: float | None = None
    """The median of these."""
    unpark_s: float | None = None
    """How long the last way back from being parked took."""
    heat: Heat = field(default_factory=Heat)
    use_told: float = float("-inf")
    """When the last use began that the history has."""
    habit: Habit | None = None
    """When it has been asked for."""
    scheduled: float | None = None
    """When it will be needed next, by its schedule."""
    was_due: float | None = None
    """When it was needed last, by its schedule: it may be a little late."""
    spans: Sequence[Span] | None = None
    spans_at: float | None = None
    """What its habit says, and after which arrival that was found out; see `expecting`."""
    waste: Waste | None = None
    loads: int = 0
    evictions: int = 0
    refused: str | None = None
    """Why a resident cannot be loaded at present; said once."""
    ran_out: int = 0
    """How many loads in a row have run out of memory."""
    left: Left | None = None
    """Why its last life ended, if it has not begun another one."""
    past: Past = NOTHING
    """How its recent loads and warm-ups went."""
    unfit: bool = False
    """Its last life ended as its warm-up failed."""
    routes: dict[str, Route] = field(default_factory=dict)
    """Names that may lead to it, see `routes`."""
    awaited: float | None = None
    """Since when it is to be loaded for one of these, although nobody waits for it."""
    after: Instance | None = None
    """It is not loaded before this one has left, see `swaps`."""
    siblings: tuple[Model, ...] = field(default=(), repr=False)
    """Itself and the others, the first first, if it may have several workers; see `replicas`."""
    calls: int = 0
    calls_failed: int = 0

    @property
    def name(self) -> str:
        return self.key.partition(":")[0]

    @property
    def first(self) -> Model:
        """What people know it as: itself, unless it is a replica."""
        return self.siblings[0] if self.siblings else self

    @property
    def workers(self) -> tuple[Model, ...]:
        """Itself, and its replicas if it may have any."""
        return self.siblings or (self,)

    @property
    def lives(self) -> list[Instance]:
        """Its newest instance, and those of its replicas."""
        return [model.instance for model in self.workers if model.instance is not None]

    @property
    def kept(self) -> bool:
        """Pinned or resident: never evicted for another, never idle."""
        return self.pinned or self.spec.tier is Tier.RESIDENT

    @property
    def title(self) -> str:
        """What it is for."""
        return self.key

    @property
    def named(self) -> str:
        """How people are told of it."""
        return self.key

    @property
    def max_wait_s(self) -> float:
        return self.spec.max_wait_s

    @property
    def waiting(self) -> int:
        """How many requests wait for it."""
        return len(self.waiters) - (self.wish is not None)

    @property
    def nested(self) -> bool:
        """A call of another model waits for it."""
        return any(waiter.parent is not None for waiter in self.waiters)

    @property
    def stands(self) -> bool:
        """A resident is a standing request."""
        return self.spec.tier is Tier.RESIDENT and not self.dismissed and not self.retired

    @property
    def wanted_since(self) -> float | None:
        """Since when somebody waits for it, or it should stand; None if neither."""
        if self.stands:
            return min(self.cold_since, self.waiters[0].arrived) if self.waiters else self.cold_since
        if self.waiters:
            return self.waiters[0].arrived
        return None if self.dismissed or self.retired else self.awaited

    @property
    def state(self) -> State:
        """What a person sees: the newest instance's state."""
        return self.ended if self.instance is None else self.instance.state

    @property
    def loading(self) -> bool:
        return self.state in LOADS


Seeker = Model | Reservation
"""Who may stand in the line for room."""
