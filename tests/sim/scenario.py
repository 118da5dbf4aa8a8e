"""What a schedule is made of: devices, models with their real behaviour, clients' habits, faults.

A `Profile` says which kind of trouble a schedule is about; `draw` fills it in from the seed.
Sizes and times are small, so that devices are always short and much happens in little time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from lazyd.core.spec import MIB, Config, ModelSpec, Settings, Tier

FAMILY = "strategy/*"
MEMBERS = tuple(f"strategy/{name}" for name in ("alpha", "beta", "gamma", "delta", "epsilon"))
GPU_MARGIN = 20 * MIB
FIRST_CALL_TIMEOUTS_S = (150.0, 300.0)
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
    mischief_every_s: float = 0.0
    mischief: dict[str, float] = field(default_factory=dict)
    silent: float = 0.0
    """Chance that a worker is inside native code when a new manager comes, and says nothing for long."""
    residents: int = 0
    family: bool = False
    stops: float = 0.0
    """Chance that the schedule ends with `Stop`."""
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
        return not (self.mischief or self.hold or self.nested or self.residents or self.slow_message or self.load_fails)


LOOKING_AWAY = {"unload": 2.0, "unload_all": 0.5, "unload_idle": 1.0, "pin": 1.0, "strange_release": 1.0}
FAULTY = {"crash": 3.0, "strangers": 2.0, "measure": 1.0, **LOOKING_AWAY}
LOADS_GO_WRONG = {"load_fails": 0.12, "load_sticks": 0.05, "load_kills": 0.06, "load_crawls": 0.1}

PROFILES: tuple[Profile, ...] = (
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
    Profile("residents", residents=2, hold=0.1, mischief_every_s=4.0, mischief=LOOKING_AWAY),
    Profile("family", family=True, nested=0.1, mischief_every_s=4.0, mischief=LOOKING_AWAY),
    Profile("nested", nested=0.35, impatient=0.05, mischief_every_s=8.0, mischief={"crash": 1.0}),
    Profile("failures", weight=2, family=True, mischief_every_s=3.0, mischief=FAULTY, **LOADS_GO_WRONG),  # type: ignore[arg-type]
    Profile(
        "restarts",
        weight=2,
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


@dataclass(frozen=True, slots=True)
class Character:
    """How a model really behaves, whatever its spec says."""

    need: dict[str, int]
    """Bytes by kind of device, which is also what its prediction says."""
    load_s: tuple[float, float]
    release_s: float
    unreadable: bool = False
    """Its prediction fails: the file is missing, say."""


@dataclass(slots=True)
class Scenario:
    profile: Profile
    devices: dict[str, tuple[str, int]]
    """Kind and size by name."""
    config: Config
    characters: dict[str, Character]
    """By key of the spec."""
    names: tuple[str, ...]
    """What clients ask for, in order of popularity."""

    @property
    def longest_load_s(self) -> float:
        return max(character.load_s[1] for character in self.characters.values())

    @property
    def quantum_s(self) -> float:
        """The longest time that a model may serve on before it is evicted for a rival."""
        return max(2 * self.longest_load_s, *(spec.min_residency_s for spec in self.config.models.values()))


def _device_choice(rng: random.Random, gpus: list[str]) -> tuple[str, ...]:
    choices: list[tuple[str, ...]] = [(), (), ("ram",), tuple(gpus), *((gpu,) for gpu in gpus)]
    return rng.choice(choices)


def _spec(rng: random.Random, name: str, tier: Tier, gpus: list[str], profile: Profile) -> ModelSpec:
    return ModelSpec(
        name=name,
        version=rng.choice(("", "", "3")) if tier is Tier.ON_DEMAND else "",
        runtime="python",
        tier=tier,
        idle_timeout_s=90.0 if tier is Tier.TRANSIENT else rng.choice((1.0, 3.0, 8.0, 20.0)),
        load_timeout_s=4.0,
        device=_device_choice(rng, gpus),
        memory_bytes=rng.choice((None, rng.randrange(50, 260) * MIB)),
        min_residency_s=rng.choice((0.0, 0.0, 2.0)) if not profile.rivals else 0.0,
        max_wait_s=rng.choice((0.2, 1.0, 2.0)),
        pin=profile.residents > 0 and tier is Tier.ON_DEMAND and rng.random() < 0.1,
    )


def _character(rng: random.Random, spec: ModelSpec, profile: Profile) -> Character:
    need = spec.memory_bytes or rng.randrange(50, 260) * MIB
    low, high = profile.load_s
    quick = rng.uniform(low, (low + high) / 2)
    return Character(
        need={"host": need, "cuda": need},
        load_s=(quick, rng.uniform(quick, high)),
        release_s=rng.uniform(0.02, profile.release_s),
        unreadable=spec.tier is Tier.ON_DEMAND and profile.load_fails > 0 and rng.random() < 0.1,
    )


def _family(rng: random.Random) -> ModelSpec:
    tier = rng.choice((Tier.ON_DEMAND, Tier.ON_DEMAND, Tier.TRANSIENT))
    return ModelSpec(
        name=FAMILY,
        runtime="python",
        factory="strategies:load",
        tier=tier,
        idle_timeout_s=90.0 if tier is Tier.TRANSIENT else rng.choice((2.0, 8.0)),
        load_timeout_s=4.0,
        device=("ram",),
        memory_bytes=rng.randrange(80, 200) * MIB,
        max_loaded=rng.choice((1, 2, 3, None)),
        max_wait_s=rng.choice((0.2, 1.0)),
    )


def draw_specs(rng: random.Random, profile: Profile, gpus: list[str]) -> list[ModelSpec]:
    if profile.rivals:
        wants = {"device": (gpus[0],), "memory_bytes": 170 * MIB // profile.rivals}
        count = profile.rivals + rng.randrange(1, 4)
        return [replace(_spec(rng, f"rival-{i}", Tier.ON_DEMAND, gpus, profile), **wants) for i in range(count)]
    specs = [_spec(rng, f"demand-{i}", Tier.ON_DEMAND, gpus, profile) for i in range(rng.randrange(2, 5))]
    specs += [_spec(rng, f"transient-{i}", Tier.TRANSIENT, gpus, profile) for i in range(rng.randrange(0, 3))]
    for i in range(profile.residents):
        spec = _spec(rng, f"resident-{i}", Tier.RESIDENT, gpus, profile)
        specs.append(replace(spec, device=("ram",), memory_bytes=rng.randrange(40, 100) * MIB))
    if profile.family:
        specs.append(_family(rng))
    if rng.random() < 0.2:
        specs.append(ModelSpec(name="too-big", runtime="python", memory_bytes=5000 * MIB, load_timeout_s=4.0))
    return specs


def draw_settings(rng: random.Random, devices: dict[str, tuple[str, int]]) -> Settings:
    budget: dict[str, float | int] = {"ram": rng.choice((0.6, 0.8, 500 * MIB))}
    if "gpu0" in devices and rng.random() < 0.3:
        budget["gpu0"] = rng.choice((0.9, 280 * MIB))
    return Settings(
        first_call_timeout_s=rng.choice(FIRST_CALL_TIMEOUTS_S),
        budget=budget,
        gpu_margin_bytes=GPU_MARGIN,
        max_pinned=rng.choice((0.5, 0.75)),
        max_hold_s=12.0,
    )


def draw(rng: random.Random, profile: Profile) -> Scenario:
    """A schedule's world, from its seed."""
    devices: dict[str, tuple[str, int]] = {"ram": ("host", 800 * MIB)}
    gpus = ["gpu0"] if profile.rivals or rng.random() < 0.5 else ["gpu0", "gpu1"]
    for gpu in gpus:
        devices[gpu] = ("cuda", (200 if profile.rivals else 300) * MIB)
    specs = draw_specs(rng, profile, gpus)
    models = {spec.key: spec for spec in specs}
    names = [spec.key for spec in specs if not spec.is_family]
    aliases = {"reader": names[0]}
    asked = [name for name in names if models[name].tier is not Tier.RESIDENT or rng.random() < 0.5] + ["reader"]
    if not profile.rivals:
        asked += [spec.name for spec in specs if spec.version] + ["unheard-of"]
    if profile.family:
        asked += MEMBERS
    rng.shuffle(asked)
    return Scenario(
        profile=profile,
        devices=devices,
        config=Config(settings=draw_settings(rng, devices), models=models, aliases=aliases),
        characters={key: _character(rng, spec, profile) for key, spec in models.items()},
        names=tuple(asked),
    )
