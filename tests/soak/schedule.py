"""What a schedule is made of, drawn from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

LASTS_S = 4.0
"""How long it takes if nobody ever waits for an answer."""
LONGEST_S = 7.0
"""Nobody begins anything after this time; what was begun by then is finished."""
GPU_SIZES_MIB = (4096, 6144, 8192, 12288, 24576)
FAMILY = "family/*"
MEMBERS = ("family/a", "family/b", "family/c", "family/d")
MEMBERS_AT_ONCE = 2
SURPLUS_MIB = 8
"""What an honest author declares beyond the need."""
UNSAFE = ("low", "leaks")
"""Habits of models for which nobody can foresee that they run out of memory."""

TRAITS = {
    "strangers": 0.55,
    "hidden": 0.25,  # the driver does not show some processes
    "reservations": 0.45,
    "cancels": 0.5,
    "low": 0.4,  # models that declare too little, or nothing
    "leaks": 0.25,
    "worker killed": 0.25,
    "manager killed": 0.25,
    "host killed": 0.07,
    "driver fails": 0.15,
    "driver hangs": 0.15,
    "GPU lost": 0.08,
}
"""What a schedule is about, and how often; one in six is about none of it."""
CALM = 1 / 6


@dataclass(frozen=True)
class Model:
    """One model: its table in the configuration, and what is true of it."""

    name: str
    spec: dict[str, Any]
    options: dict[str, Any]
    need_mib: int
    """The most that it takes of a GPU. What leaks comes on top."""
    declared_mib: int | None
    leaks: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """What clients call it."""
        return MEMBERS if self.name == FAMILY else (self.name,)

    @property
    def is_honest(self) -> bool:
        """It never takes more than it declares."""
        return not self.leaks and self.declared_mib is not None and self.declared_mib >= self.need_mib

    @property
    def is_kept(self) -> bool:
        return bool(self.spec.get("pin")) or self.spec.get("tier") == "resident"


@dataclass(frozen=True)
class Doing:
    """What one of the actors does next, after a pause."""

    pause_s: float
    what: str
    words: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.what, *(f"{name}={value}" for name, value in self.words.items())])


@dataclass(frozen=True)
class Schedule:
    """All of it."""

    seed: int
    traits: frozenset[str]
    gpus_mib: tuple[int, ...]
    margin_mib: int
    ram_mib: int
    release_s: tuple[float, float]
    models: tuple[Model, ...]
    actors: dict[str, tuple[Doing, ...]]

    def model(self, name: str) -> Model:
        """The model that a name means, of a member its family."""
        return next(model for model in self.models if name == model.name or name in model.names)


def draw(seed: int) -> Schedule:
    rng = random.Random(seed)
    traits = frozenset[str]()
    if rng.random() >= CALM:
        traits = frozenset(trait for trait, chance in TRAITS.items() if rng.random() < chance)
    gpus = tuple(rng.choice(GPU_SIZES_MIB) for _ in range(rng.choice((1, 1, 2, 2, 3))))
    margin_mib = rng.choice((0, 64, 512))
    room = [size - margin_mib for size in gpus]
    models = [draw_model(rng, traits, room, number) for number in range(rng.randint(3, 7))]
    keep_one(rng, models, room)
    if rng.random() < 0.3:
        models.append(draw_family(rng, traits, room))
    names = [name for model in models for name in model.names]
    actors = {f"client {n}": tuple(draw_client(rng, traits, names, models)) for n in range(rng.randint(2, 4))}
    if "strangers" in traits:
        actors["strangers"] = tuple(draw_strangers(rng, traits, gpus))
    if "reservations" in traits:
        actors["programs"] = tuple(draw_programs(rng, gpus))
    mischief = tuple(draw_mischief(rng, traits, len(gpus)))
    if mischief:
        actors["mischief"] = mischief
    return Schedule(
        seed=seed,
        traits=traits,
        gpus_mib=gpus,
        margin_mib=margin_mib,
        ram_mib=rng.choice((1200, 2000, 4000)),
        release_s=rng.choice(((0.0, 0.0), (0.02, 0.1), (0.05, 0.3))),
        models=tuple(models),
        actors=actors,
    )


def draw_model(rng: random.Random, traits: frozenset[str], room: list[int], number: int) -> Model:
    name = f"m{number}"
    spec = draw_life(rng)
    where = rng.random()
    if where < 0.12:
        declared = rng.randint(100, 500)
        return Model(name, {**spec, "device": "ram", "memory": f"{declared}MiB"}, draw_pace(rng), 0, declared)
    gpu = rng.randrange(len(room))
    device: str | list[str] = f"gpu{gpu}" if where < 0.4 else "gpu"
    if where > 0.85:
        device = [f"gpu{gpu}", "ram"]
    options, need = draw_appetite(rng, room[gpu])
    hidden = "hidden" in traits and rng.random() < 0.3
    leaks = "leaks" in traits and not hidden and rng.random() < 0.4
    if hidden:
        options["hidden"] = True
    elif rng.random() < 0.15:
        options["in_child"] = True
    if leaks:
        options["leak_mib"] = rng.randint(1, 60)
    declared_mib = draw_declared(rng, need, honest="low" not in traits or hidden)
    if declared_mib is not None:
        spec["memory"] = f"{declared_mib}MiB"
    return Model(name, {**spec, "device": device}, options, need, declared_mib, leaks)


def draw_life(rng: random.Random) -> dict[str, Any]:
    """How long it stays."""
    return {
        "tier": "transient" if rng.random() < 0.1 else "on-demand",
        "idle_timeout": rng.choice(("300ms", "1s", "3s", "never")),
        "park_timeout": rng.choice(("0s", "500ms", "3s")),
        "max_wait": rng.choice(("100ms", "500ms", "2s")),
        "min_residency": rng.choice(("0s", "0s", "500ms")),
        "hard_limit": rng.random() < 0.2,
        "load_timeout": "20s",
    }


def draw_pace(rng: random.Random) -> dict[str, Any]:
    return {
        "load_s": round(rng.uniform(0.0, 0.4), 3),
        "steps": rng.randint(1, 5),
        "call_s": round(rng.choice((0.0, rng.uniform(0.0, 0.3))), 3),
        "error": rng.choice(("torch", "torch", "cuda", "abort")),
    }


def draw_appetite(rng: random.Random, room_mib: int) -> tuple[dict[str, Any], int]:
    """What it does on its GPU, and the most that it takes there."""
    whole = int(room_mib * rng.choice((rng.uniform(0.05, 0.3), rng.uniform(0.2, 0.6), rng.uniform(0.5, 0.99))))
    whole = min(whole, room_mib - SURPLUS_MIB)
    context = min(whole // 4, rng.randint(20, 300))
    peak = rng.choice((0, int(whole * rng.uniform(0.0, 0.3))))
    size = whole - context - peak
    options = {**draw_pace(rng), "context_mib": context, "size_mib": size, "residue_mib": rng.choice((0, 16))}
    options["load_peak_mib" if rng.random() < 0.5 else "call_peak_mib"] = peak
    return options, whole


def draw_declared(rng: random.Random, need: int, *, honest: bool) -> int | None:
    """What its author says that it needs; None: nothing."""
    if honest or rng.random() < 0.4:
        return need + SURPLUS_MIB
    return rng.choice((None, max(1, int(need * rng.uniform(0.4, 0.95)))))


def keep_one(rng: random.Random, models: list[Model], room: list[int]) -> None:
    """One small model may be pinned, or resident."""
    for number, model in enumerate(models):
        if model.is_honest and model.need_mib <= min(room) * 0.3 and rng.random() < 0.25:
            kept = {"pin": True} if rng.random() < 0.5 else {"tier": "resident"}
            models[number] = Model(
                model.name, {**model.spec, **kept}, model.options, model.need_mib, model.declared_mib
            )
            return


def draw_family(rng: random.Random, traits: frozenset[str], room: list[int]) -> Model:
    """Members of one worker, each with what it takes of its GPU."""
    gpu = rng.randrange(len(room))
    each = int(room[gpu] * rng.uniform(0.05, 0.25))
    options = {**draw_pace(rng), "size_mib": each}
    need = each * MEMBERS_AT_ONCE
    declared = draw_declared(rng, need, honest="low" not in traits)
    spec = {**draw_life(rng), "device": f"gpu{gpu}", "max_loaded": MEMBERS_AT_ONCE}
    if declared is not None:
        spec["memory"] = f"{declared}MiB"
    return Model(FAMILY, spec, options, need, declared)


def draw_client(rng: random.Random, traits: frozenset[str], names: list[str], models: list[Model]) -> list[Doing]:
    """People: mostly they call."""
    doings: list[Doing] = []
    hurry = rng.choice((0.05, 0.15, 0.4))
    while sum(doing.pause_s for doing in doings) < LASTS_S:
        name = rng.choice(names)
        timeout_s = round(rng.choice((rng.uniform(0.2, 1.5), rng.uniform(1, 6), 12.0)), 3)
        what = rng.choices(
            ("call", "tell", "load", "hold", "unload", "unload all", "warm", "pin", "look", "cancel"),
            (40, 14, 10, 8, 8, 3, 3, 2, 4, 10 if "cancels" in traits else 0),
        )[0]
        words: dict[str, Any] = {"model": name}
        if what in ("call", "tell", "load", "hold", "cancel"):
            words["timeout_s"] = timeout_s
        if what == "hold":
            words["hold_s"] = round(rng.uniform(0.05, 1.0), 3)
        elif what == "unload":
            words["force"] = rng.random() < 0.2
        elif what == "unload all":
            words = {"idle": rng.random() < 0.5, "force": rng.random() < 0.2}
        elif what == "cancel":
            words |= {"method": rng.choice(("Load", "Get", "Call")), "after_s": round(rng.uniform(0.0, 0.5), 3)}
        if what == "pin" and not next(m for m in models if name in m.names).is_honest:
            continue  # what grows is not to be kept for good
        doings.append(Doing(round(min(1.5, rng.expovariate(1 / hurry)), 3), what, words))
    return doings


def draw_strangers(rng: random.Random, traits: frozenset[str], gpus: tuple[int, ...]) -> list[Doing]:
    """Programs that come, grow and go."""
    doings = []
    for _ in range(rng.randint(1, 6)):
        gpu = rng.randrange(len(gpus))
        whole = int(gpus[gpu] * rng.uniform(0.02, 0.5))
        words = {
            "gpu": gpu,
            "mib": whole,
            "steps": rng.randint(1, 6),
            "every_s": round(rng.uniform(0.02, 0.4), 3),
            "stay_s": round(rng.uniform(0.1, 2.0), 3),
            "shown": rng.choice(("hidden", "without bytes")) if "hidden" in traits and rng.random() < 0.5 else "shown",
        }
        doings.append(Doing(round(rng.uniform(0.0, 1.2), 3), "stranger", words))
    return doings


def draw_programs(rng: random.Random, gpus: tuple[int, ...]) -> list[Doing]:
    """Programs that reserve what they are going to use; a few use more."""
    doings = []
    for _ in range(rng.randint(1, 5)):
        gpu = rng.randrange(len(gpus))
        words = {
            "gpu": gpu,
            "mib": int(gpus[gpu] * rng.uniform(0.05, 0.5)),
            "uses": round(rng.choice((rng.uniform(0.2, 1.0), rng.uniform(0.2, 1.0), 1.2)), 2),
            "steps": rng.randint(1, 4),
            "every_s": round(rng.uniform(0.02, 0.3), 3),
            "ends": rng.choice(("frees", "exits", "is killed")),
            "waits": rng.random() < 0.8,
            "timeout_s": round(rng.uniform(0.3, 6), 3),
        }
        doings.append(Doing(round(rng.uniform(0.0, 1.2), 3), "program", words))
    return doings


def draw_mischief(rng: random.Random, traits: frozenset[str], gpus: int) -> list[Doing]:
    """Accidents."""
    doings: list[tuple[str, dict[str, Any]]] = []
    for trait in sorted(traits):
        if trait == "worker killed":
            doings += [("kill worker", {"nth": rng.randrange(8)}) for _ in range(rng.randint(1, 3))]
        elif trait == "manager killed":
            words = [{"away_s": round(rng.choice((0.0, rng.uniform(0, 1.0))), 3)} for _ in range(rng.randint(1, 2))]
            doings += [("kill manager", each) for each in words]
        elif trait == "host killed":
            doings.append(("kill host", {}))
        elif trait == "driver fails":
            doings.append(("driver fails", {"gpu": rng.randrange(gpus), "for_s": round(rng.uniform(0.05, 1.2), 3)}))
        elif trait == "driver hangs":
            doings.append(("driver hangs", {"gpu": rng.randrange(gpus), "for_s": round(rng.uniform(0.05, 1.5), 3)}))
        elif trait == "GPU lost":
            doings.append(("lose GPU", {"gpu": rng.randrange(gpus), "for_s": round(rng.uniform(0.1, 1.0), 3)}))
    rng.shuffle(doings)
    return [Doing(round(rng.uniform(0.1, 1.5), 3), what, words) for what, words in doings]
