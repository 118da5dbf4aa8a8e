"""What a schedule is made of: devices, models with their real behaviour, clients' habits, faults.

A `Profile` says which kind of trouble a schedule is about; `draw` fills it in from the seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from lazyd.core.events import Memory as Remembrance
from lazyd.core.monitoring import Past
from lazyd.core.needs import Need
from lazyd.core.spec import MIB, Config, Fallback, ModelSpec, Prewarm, PrewarmWhen, Settings, Tier, Warmup, WarmupMode

from .appetite import Appetite, divisible, part
from .callers import Caller
from .expected import callers, expected, pasts, remembered
from .memory import CUDA, HOST, RAM, Memory
from .profiles import Profile

OFF = Prewarm(when=PrewarmWhen.OFF)
FAMILY = "strategy/*"
MEMBERS = tuple(f"strategy/{name}" for name in ("alpha", "beta", "gamma", "delta", "epsilon"))
GPU_MARGIN = 20 * MIB
RAM_BYTES = 1200 * MIB
DRIVER_BYTES = 4 * MIB
"""What a driver uses of each GPU itself."""
LAYERS = (4, 9)
SHARED_FILES = ("8:1:101", "8:1:102")
"""Weights that several models may map."""
WARMUP_TIMEOUT_S = 3.0
LONGEST_CRAWL_S = 12.0
FIRST_CALL_TIMEOUTS_S = (150.0, 300.0)


@dataclass(frozen=True, slots=True)
class Character:
    """How a model really behaves, whatever its spec says."""

    appetite: Appetite
    error: float
    """What is predicted, in parts of what is true."""
    load_s: tuple[float, float]
    release_s: float
    unreadable: bool = False
    remote: bool = False
    """Its prediction fails: the file is missing, say."""
    parks: bool = False


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
    callers: tuple[Caller, ...] = ()
    """Who comes at a period."""
    memories: dict[str, Remembrance] = field(default_factory=dict)
    pasts: dict[str, tuple[str, Past]] = field(default_factory=dict)
    """What an earlier day has left."""
    alone: tuple[str, ...] = ()
    """GPUs whose processes can use no other."""

    def machine(self) -> dict[str, Memory]:
        """All devices, with nothing on them but what was there before lazyd."""
        found = {}
        for name, (kind, total) in self.devices.items():
            found[name] = Memory(name, kind, total)
            found[name].grow_stranger("hidden", total // 50 if kind == HOST else DRIVER_BYTES)
        return found

    @property
    def slowness(self) -> float:
        """Where somebody comes at a period everybody else comes seldom."""
        return 15.0 if self.callers else 1.0

    @property
    def longest_load_s(self) -> float:
        return max(character.load_s[1] for character in self.characters.values())

    @property
    def longest_start_s(self) -> float:
        """Until it is ready, with its warm-up, at the slowest."""
        return max(self.longest_load_s, LONGEST_CRAWL_S * (self.profile.load_crawls > 0)) + WARMUP_TIMEOUT_S

    @property
    def quantum_s(self) -> float:
        """The longest time that a model may serve on before it is evicted for a rival."""
        return max(2 * self.longest_load_s, *(spec.min_residency_s for spec in self.config.models.values()))


def _device_choice(rng: random.Random, gpus: list[str]) -> tuple[str, ...]:
    choices: list[tuple[str, ...]] = [(), (), ("ram",), ("gpu",), tuple(gpus), *((gpu,) for gpu in gpus)]
    return rng.choice(choices)


def _spec(rng: random.Random, name: str, tier: Tier, gpus: list[str], profile: Profile) -> ModelSpec:
    return ModelSpec(
        name=name,
        version=rng.choice(("", "", "3")) if tier is Tier.ON_DEMAND else "",
        runtime="python",
        tier=tier,
        idle_timeout_s=90.0 if tier is Tier.TRANSIENT else rng.choice((1.0, 3.0, 8.0, 20.0)),
        idle_written=True,
        prewarm=OFF,
        load_timeout_s=4.0,
        device=_device_choice(rng, gpus),
        memory_bytes=rng.choice((None, int(rng.randrange(50, 260) * profile.large) * MIB)),
        min_residency_s=rng.choice((0.0, 0.0, 2.0)) if not profile.rivals else 0.0,
        max_wait_s=rng.choice((0.2, 1.0, 2.0)),
        pin=profile.residents > 0 and tier is Tier.ON_DEMAND and rng.random() < 0.1,
        hard_limit=rng.random() < 0.3,
        park_timeout_s=rng.choice((2.0, 10.0, 30.0)),
        warmup=_warmup(rng, profile),
        max_calls=_max_calls(rng, profile),
        ram_lock=profile.locks > 0 and rng.random() < profile.locks,
    )


def _warmup(rng: random.Random, profile: Profile) -> Warmup | None:
    if not profile.warms or rng.random() >= profile.warms:
        return None
    return Warmup(mode=rng.choice(list(WarmupMode)), timeout_s=WARMUP_TIMEOUT_S)


def _max_calls(rng: random.Random, profile: Profile) -> int | None:
    return rng.choice((2, 5, 20)) if profile.wears and rng.random() < profile.wears else None


def _character(rng: random.Random, spec: ModelSpec, profile: Profile) -> Character:
    low, high = profile.load_s
    quick = rng.uniform(low, (low + high) / 2)
    return Character(
        appetite=_appetite(rng, spec, profile),
        error=rng.uniform(1.0 / profile.wrong, profile.wrong),
        load_s=(quick, rng.uniform(quick, high)),
        release_s=rng.uniform(0.02, profile.release_s),
        unreadable=spec.tier is Tier.ON_DEMAND and profile.load_fails > 0 and rng.random() < 0.1,
        parks=rng.random() < profile.parks,
        remote=profile.fetches > 0 and rng.random() < profile.fetches,
    )


def _appetite(rng: random.Random, spec: ModelSpec, profile: Profile) -> Appetite:
    """It never needs more than its declared peak, unless what is declared is wrong."""
    rest, service = (rng.uniform(0.6, 1.0), rng.uniform(0.7, 1.2)) if profile.breathes else (1.0, 1.0)
    peak = int((spec.memory_bytes or int(rng.randrange(50, 260) * profile.large) * MIB) / max(1.0, service))
    can_divide = not spec.is_family and rng.random() < profile.divided
    maps = not spec.is_family and rng.random() < profile.files
    whole = {"ram": Need(ram_bytes=part(peak, 0.3) if maps else peak)}
    if not spec.is_family:
        whole["gpu"] = Need(ram_bytes=peak // 10, gpu_bytes=(peak,))
    return Appetite(
        whole=whole,
        layers=divisible(peak, rng.randint(*LAYERS), maps=maps) if can_divide else None,
        files={rng.choice((*SHARED_FILES, f"8:1:{spec.name}")): 60 * MIB} if maps else {},
        rest=min(rest, service),
        service=service,
        context=rng.uniform(0.0, 0.2),
        kept=rng.uniform(0.0, 1.0),
    )


def _family(rng: random.Random, profile: Profile) -> ModelSpec:
    tier = rng.choice((Tier.ON_DEMAND, Tier.ON_DEMAND, Tier.TRANSIENT))
    return ModelSpec(
        name=FAMILY,
        runtime="python",
        factory="strategies:load",
        tier=tier,
        idle_timeout_s=90.0 if tier is Tier.TRANSIENT else rng.choice((2.0, 8.0)),
        idle_written=True,
        prewarm=OFF,
        load_timeout_s=4.0,
        device=("ram",),
        memory_bytes=rng.randrange(80, 200) * MIB,
        max_loaded=rng.choice((1, 2, 3, None)),
        max_wait_s=rng.choice((0.2, 1.0)),
        warmup=_warmup(rng, profile),
        max_calls=_max_calls(rng, profile),
    )


def draw_specs(rng: random.Random, profile: Profile, gpus: list[str]) -> list[ModelSpec]:
    if profile.rivals:
        wants = {"device": (gpus[0],), "memory_bytes": 160 * MIB // profile.rivals}
        count = profile.rivals + rng.randrange(1, 4)
        return [replace(_spec(rng, f"rival-{i}", Tier.ON_DEMAND, gpus, profile), **wants) for i in range(count)]
    specs = [_spec(rng, f"demand-{i}", Tier.ON_DEMAND, gpus, profile) for i in range(rng.randrange(2, 5))]
    specs += [_spec(rng, f"transient-{i}", Tier.TRANSIENT, gpus, profile) for i in range(rng.randrange(0, 3))]
    for i in range(profile.residents):
        spec = _spec(rng, f"resident-{i}", Tier.RESIDENT, gpus, profile)
        specs.append(replace(spec, device=("ram",), memory_bytes=rng.randrange(40, 100) * MIB))
    if profile.family:
        specs.append(_family(rng, profile))
    if profile.falls_back:
        specs.append(ModelSpec(name="too-big", runtime="python", memory_bytes=5000 * MIB, load_timeout_s=4.0))
        return _with_fallbacks(rng, specs, profile)
    if rng.random() < 0.2:
        specs.append(ModelSpec(name="too-big", runtime="python", memory_bytes=5000 * MIB, load_timeout_s=4.0))
    return specs


def _with_fallbacks(rng: random.Random, specs: list[ModelSpec], profile: Profile) -> list[ModelSpec]:
    """Models answer for one another along the list, and chains may end with a value."""
    rng.shuffle(specs)
    found = []
    for place, spec in enumerate(specs):
        if rng.random() < profile.falls_back:
            others = [other.key for other in specs[place + 1 :] if not other.is_family]
            after_s = rng.choice((0.0, 0.1, 0.5, 2.0))
            model = rng.choice(others) if others and rng.random() < 0.7 else None
            spec = replace(spec, fallback=Fallback(model=model, value=spec.name, after_s=after_s))
        found.append(spec)
    return found


def draw_settings(rng: random.Random, devices: dict[str, tuple[str, int]]) -> Settings:
    budget: dict[str, float | int] = {"ram": rng.choice((0.6, 0.8, 700 * MIB))}
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
    devices: dict[str, tuple[str, int]] = {RAM: (HOST, RAM_BYTES)}
    gpus = ["gpu0"] if profile.rivals or rng.random() < profile.one_gpu else ["gpu0", "gpu1"]
    for gpu in gpus:
        devices[gpu] = (CUDA, (200 if profile.rivals else 300) * MIB)
    specs = draw_specs(rng, profile, gpus)
    if profile.expects:
        specs = [expected(rng, spec, profile.expects) for spec in specs]
    models = {spec.key: spec for spec in specs}
    names = [spec.key for spec in specs if not spec.is_family]
    aliases = {"reader": names[0]}
    asked = [name for name in names if models[name].tier is not Tier.RESIDENT or rng.random() < 0.5] + ["reader"]
    if not profile.rivals:
        asked += [spec.name for spec in specs if spec.version] + ["unheard-of"]
    if profile.family:
        asked += MEMBERS
    rng.shuffle(asked)
    come = callers(rng, [name for name in asked if name in models or "/" in name], profile.callers)
    return Scenario(
        profile=profile,
        devices=devices,
        config=Config(settings=draw_settings(rng, devices), models=models, aliases=aliases),
        characters={key: _character(rng, spec, profile) for key, spec in models.items()},
        names=tuple(asked),
        callers=come,
        memories=remembered(rng, come, models),
        pasts=pasts(rng, models.values()) if profile.expects else {},
        alone=tuple(gpu for gpu in gpus if rng.random() < profile.alone),
    )
