"""The kinds of trouble that a schedule can be about.

Sizes and times are small, so that devices are always short and much happens in little time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DEEPEST = 3
"""A model calls a model calls a model, and so on, so many times."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of schedule. Probabilities are per occasion; `mischief` gives weights of faults."""

    name: str
    weight: int = 1
    clients: tuple[int, int] = (4, 9)
    think_s: float = 1.2
    """Mean pause of a client between two sessions."""
    call_s: float = 2.0
    """The longest call."""
    load_s: tuple[float, float] = (0.2, 3.0)
    release_s: float = 1.5
    """The longest time from the order to end a worker until its memory is free."""
    delay_s: float = 0.004
    """The usual delay of a message."""
    slow_message: float = 0.0
    """Chance that a message takes up to a second."""
    deadline: float = 0.5
    impatient: float = 0.1
    """Chance that a client goes away while it waits."""
    abandon: float = 0.06
    """Chance that a lease is never presented."""
    hold: float = 0.0
    nested: float = 0.0
    linger: float = 0.3
    """Chance that a connection stays open, idle, for long."""
    load_fails: float = 0.0
    load_sticks: float = 0.0
    load_kills: float = 0.0
    load_crawls: float = 0.0
    warms: float = 0.0
    """Chance that a model has a warm-up."""
    warmup_fails: float = 0.0
    warmup_sticks: float = 0.0
    mischief_every_s: float = 0.0
    mischief: dict[str, float] = field(default_factory=dict)
    silent: float = 0.0
    """Chance that a worker is inside native code when a new manager comes, and says nothing for long."""
    residents: int = 0
    family: bool = False
    stops: float = 0.0
    """Chance that the schedule ends with `Stop`."""
    one_gpu: float = 0.5
    """Chance that the machine has one GPU, else it has two."""
    wrong: float = 1.0
    """Predictions are wrong by up to this factor, either way."""
    breathes: bool = False
    """Models need less or more in service than at the peak of their load."""
    leaks: float = 0.0
    """Chance that a call makes its worker grow."""
    wears: float = 0.0
    """Chance that a model's worker is restarted after so many calls."""
    divided: float = 0.0
    """Chance that a model can be divided over devices."""
    large: float = 1.0
    """Models are larger than usual by this factor."""
    files: float = 0.0
    """Chance that a model maps files."""
    parks: float = 0.0
    """Chance that a model can park."""
    falls_back: float = 0.0
    """Chance that a model has a fallback."""
    alone: float = 0.0
    """Chance that a GPU is an instance of a divided one."""
    driver_s: float = 0.2
    """How long drivers take to notice an end, mostly."""
    slow_release: float = 0.0
    sticks: float = 0.0
    """Chance that what a process held does not come back before there is peace."""
    hidden: float = 0.0
    """Chance that a process is not shown by its driver."""
    lists_ended: float = 0.0
    """Chance that a process that has gone is still shown."""
    polite: bool = False
    """Strangers take what lazyd has not booked, and slowly."""
    programs: int = 0
    """So many clients reserve memory for programs of their own."""
    programs_lie: float = 0.0
    """Chance that such a program takes more than was reserved for it."""
    expects: float = 0.0
    """Chance that a model is loaded before it is asked for."""
    callers: int = 0
    """So many come at a period. Much more time passes then."""
    fetches: float = 0.0
    """Chance that the files of a model lie elsewhere."""
    locks: float = 0.0
    """Chance that the files of a model may be locked in RAM; somebody has them locked again and again."""
    rivals: int = 0
    """If set, all models want one device, on which so many fit at once, and all are in constant use."""

    @property
    def keeps(self) -> bool:
        """Something may be kept that leaves no room for others."""
        return bool(self.residents or self.hold or "pin" in self.mischief)

    @property
    def calls_deep(self) -> int:
        """So many calls may wait for each other."""
        return DEEPEST if self.nested else 0

    @property
    def is_strict(self) -> bool:
        """Nothing in it excuses a request that waits beyond the bound."""
        waits_for_more = self.hold or self.nested or self.residents or self.slow_message or self.fetches
        return not (self.mischief or waits_for_more or self.load_fails)


LOOKING_AWAY = {"unload": 2.0, "unload_all": 0.5, "unload_idle": 1.0, "pin": 1.0, "strange_release": 1.0}
FAULTY = {"crash": 3.0, "strangers": 2.0, "measure": 1.0, **LOOKING_AWAY}
WARM_UPS = {"warms": 0.6, "warmup_fails": 0.15, "warmup_sticks": 0.05}
LOADS_GO_WRONG = {**WARM_UPS, "load_fails": 0.12, "load_sticks": 0.05, "load_kills": 0.06, "load_crawls": 0.1}

CALM = {"mischief_every_s": 0.8, "mischief": {"strangers": 3.0, "measure": 1.0}}
MEMORY = {"breathes": True, "divided": 0.4, "files": 0.3, "parks": 0.3, "alone": 0.1, "one_gpu": 0.3}

ABOUT_MODELS: tuple[Profile, ...] = (
    Profile("calm", weight=2),
    Profile(
        "rivals",
        weight=2,
        clients=(9, 14),
        think_s=0.06,
        call_s=0.6,
        load_s=(0.1, 0.5),
        release_s=0.2,
        deadline=0.2,
        impatient=0.0,
        abandon=0.0,
        linger=0.0,
        rivals=1,
    ),
    Profile(
        "chains",
        clients=(5, 9),
        think_s=0.3,
        call_s=0.5,
        load_s=(0.1, 0.5),
        release_s=0.2,
        deadline=0.2,
        impatient=0.05,
        nested=0.5,
        linger=0.0,
        rivals=2,
    ),
    Profile(
        "fallbacks",
        weight=2,
        deadline=0.6,
        nested=0.1,
        load_fails=0.1,
        load_crawls=0.1,
        falls_back=0.7,
        mischief_every_s=4.0,
        mischief={"crash": 1.0, "restart": 0.5, "unload": 1.0, "strangers": 0.5},
    ),
    Profile("residents", residents=2, hold=0.1, mischief_every_s=4.0, mischief=LOOKING_AWAY),
    Profile(
        "fetched",
        fetches=0.6,
        residents=1,
        nested=0.1,
        load_fails=0.1,
        mischief_every_s=3.0,
        mischief={"unload": 2.0, "restart": 1.0, "crash": 1.0, "configure": 1.0, "strangers": 1.0},
    ),
    Profile("family", family=True, nested=0.1, mischief_every_s=4.0, mischief=LOOKING_AWAY),
    Profile(
        "lifetimes",
        wears=0.7,
        residents=1,
        family=True,
        mischief_every_s=5.0,
        mischief={"restart": 1.0, "crash": 1.0, "unload": 1.0},
    ),
    Profile(
        "crowds",
        think_s=3.0,
        mischief_every_s=2.0,
        mischief={"strangers": 3.0, "budget": 2.0, "measure": 2.0},
    ),
    Profile("nested", nested=0.35, impatient=0.05, mischief_every_s=8.0, mischief={"crash": 1.0}),
    Profile("failures", weight=2, family=True, mischief_every_s=3.0, mischief=FAULTY, **LOADS_GO_WRONG),  # type: ignore[arg-type]
    Profile(
        "restarts",
        weight=2,
        **WARM_UPS,  # type: ignore[arg-type]
        silent=0.15,
        family=True,
        residents=1,
        nested=0.1,
        hold=0.1,
        slow_message=0.03,
        mischief_every_s=4.0,
        mischief={"restart": 3.0, "crash": 1.0, "unload": 1.0, "pin": 1.0},
    ),
    Profile(
        "hosts",
        residents=1,
        family=True,
        slow_message=0.03,
        mischief_every_s=5.0,
        mischief={"host_lost": 2.0, "restart": 1.0, "crash": 1.0},
    ),
    Profile(
        "upgrades",
        residents=1,
        family=True,
        nested=0.1,
        hold=0.1,
        slow_message=0.03,
        mischief_every_s=4.0,
        mischief={"host_upgraded": 3.0, "crash": 1.0, "pin": 1.0, "unload": 2.0},
        **LOADS_GO_WRONG,  # type: ignore[arg-type]
    ),
    Profile(
        "configurations",
        residents=1,
        family=True,
        slow_message=0.02,
        mischief_every_s=4.0,
        mischief={"configure": 3.0, "budget": 2.0, "restart": 0.5, **LOOKING_AWAY},
    ),
    Profile(
        "everything",
        weight=3,
        residents=1,
        silent=0.15,
        family=True,
        nested=0.15,
        hold=0.1,
        slow_message=0.05,
        stops=0.3,
        mischief_every_s=2.5,
        mischief={"restart": 1.5, "host_lost": 0.5, "configure": 1.0, "budget": 0.7, **FAULTY},
        **LOADS_GO_WRONG,  # type: ignore[arg-type]
    ),
)

ABOUT_MEMORY: tuple[Profile, ...] = (
    Profile("honest", weight=2, polite=True, driver_s=1.5, programs=1, large=1.3, **MEMORY, **CALM),  # type: ignore[arg-type]
    Profile("strangers", driver_s=1.5, wrong=1.1, **MEMORY, **CALM),  # type: ignore[arg-type]
    Profile(
        "releases",
        call_s=1.0,
        driver_s=1.5,
        slow_release=0.15,
        sticks=0.05,
        lists_ended=0.2,
        hidden=0.15,
        mischief_every_s=2.0,
        mischief={"crash": 2.0, "strangers": 1.0, "unload": 1.0, "measure": 1.0},
    ),
    Profile(
        "shortage",
        wrong=1.6,
        leaks=0.2,
        large=1.2,
        driver_s=0.5,
        mischief_every_s=1.5,
        mischief={"strangers": 2.0, "measure": 2.0, "pressure": 1.0},
        **MEMORY,  # type: ignore[arg-type]
    ),
    Profile(
        "divided",
        one_gpu=0.0,
        divided=0.9,
        files=0.5,
        alone=0.2,
        large=1.8,
        mischief_every_s=3.0,
        mischief={"strangers": 2.0, "crash": 1.0, "restart": 0.5, "host_lost": 0.2},
    ),
    Profile(
        "reservations",
        programs=4,
        programs_lie=0.1,
        stops=0.2,
        mischief_every_s=4.0,
        mischief={"restart": 2.0, "host_upgraded": 0.5, "strangers": 1.0, "budget": 0.5},
    ),
    Profile(
        "parking",
        parks=0.9,
        stops=0.2,
        breathes=True,
        residents=1,
        driver_s=0.5,
        mischief_every_s=4.0,
        mischief={"restart": 1.0, "host_upgraded": 1.0, "crash": 1.0, "measure": 2.0, "unload": 1.0, "pin": 0.5},
    ),
    Profile(
        "drivers",
        one_gpu=0.2,
        programs=1,
        mischief_every_s=3.0,
        mischief={"hang": 2.0, "lose": 1.0, "strangers": 1.0, "crash": 0.5},
    ),
    Profile(
        "memory",
        weight=2,
        family=True,
        residents=1,
        nested=0.1,
        silent=0.1,
        slow_message=0.02,
        wrong=1.2,
        leaks=0.03,
        driver_s=1.5,
        slow_release=0.05,
        sticks=0.02,
        hidden=0.1,
        lists_ended=0.1,
        programs=2,
        programs_lie=0.05,
        stops=0.2,
        mischief_every_s=2.0,
        mischief={"hang": 0.5, "lose": 0.5, "restart": 1.0, "host_lost": 0.3, "pressure": 0.5, "budget": 0.5, **FAULTY},
        **MEMORY,  # type: ignore[arg-type]
        **LOADS_GO_WRONG,  # type: ignore[arg-type]
    ),
)

ABOUT_READINESS: tuple[Profile, ...] = (
    Profile(
        "habits",
        weight=2,
        clients=(1, 3),
        think_s=60.0,
        call_s=1.0,
        expects=0.9,
        callers=5,
        linger=0.1,
        mischief_every_s=60.0,
        mischief={"set_clock": 1.0, "strangers": 3.0, "measure": 1.0, "unload": 0.5, "unload_idle": 0.5},
    ),
    Profile(
        "readiness",
        weight=2,
        clients=(2, 4),
        think_s=30.0,
        expects=0.7,
        callers=4,
        locks=0.5,
        files=0.5,
        parks=0.4,
        breathes=True,
        residents=1,
        family=True,
        nested=0.1,
        hold=0.05,
        falls_back=0.2,
        stops=0.1,
        programs=1,
        mischief_every_s=20.0,
        mischief={
            "set_clock": 0.7,
            "restart": 1.0,
            "host_lost": 0.2,
            "host_upgraded": 0.4,
            "configure": 0.7,
            "budget": 0.3,
            "pressure": 0.5,
            "replace_files": 0.3,
            "hang": 0.5,
            **FAULTY,
        },
        **LOADS_GO_WRONG,  # type: ignore[arg-type]
    ),
    Profile(
        "locks",
        weight=2,
        files=0.9,
        locks=0.9,
        residents=1,
        nested=0.1,
        stops=0.2,
        programs=1,
        large=1.7,
        clients=(2, 5),
        think_s=2.0,
        mischief_every_s=2.0,
        mischief={
            "replace_files": 1.0,
            "strangers": 2.0,
            "pressure": 0.7,
            "restart": 0.5,
            "host_lost": 0.3,
            "host_upgraded": 0.7,
            "configure": 0.7,
            "budget": 0.7,
            "crash": 0.5,
            "measure": 1.0,
            **LOOKING_AWAY,
        },
    ),
)

PROFILES = ABOUT_MODELS + ABOUT_MEMORY + ABOUT_READINESS
