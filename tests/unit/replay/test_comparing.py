"""What is compared with what, what is known of models, and how time is divided."""

from __future__ import annotations

import msgspec
import pytest

from lazyd.core.needs import GPU, RAM, Forecast, Need
from lazyd.core.spec import GIB, Config, ModelSpec, Prewarm, PrewarmWhen
from lazyd.replay import policies
from lazyd.replay.course import MOST_STEPS, Course
from lazyd.replay.facts import UNKNOWN_BYTES, DeviceFacts, Facts, ModelFacts, Told, Use, told, under, uses
from lazyd.replay.outcome import percentile

SCHEDULED = Prewarm(when=PrewarmWhen.SCHEDULE, schedule=("0 9 * * *",))


def spec(name: str, **fields: object) -> ModelSpec:
    return msgspec.structs.replace(ModelSpec(name=name, runtime="python"), **fields)


def of(*specs: ModelSpec) -> Config:
    return Config(models={spec.key: spec for spec in specs})


def test_without_learning_schedules_and_idle_times_stay() -> None:
    today = of(spec("a", idle_timeout_s=42.0), spec("b", prewarm=SCHEDULED))
    fixed = policies.without_learning(today)
    assert fixed.models["a"].prewarm.when is PrewarmWhen.OFF
    assert fixed.models["a"].idle_timeout_s == 42.0
    assert fixed.models["b"] == today.models["b"]


def test_uses_of_unknown_models_are_counted_by_name() -> None:
    config = msgspec.structs.replace(of(spec("a"), spec("s/*"), spec("v", version="2")), aliases={"other": "a"})
    history = [Use(0, name) for name in ("a", "s/x", "other", "v", "v:2", "v:3", "old", "old")]
    assert policies.unknown(history, config) == {"v:3": 1, "old": 2}


def test_a_configuration_for_all_that_was_used() -> None:
    config = policies.of_all([Use(0, "a"), Use(1, "ocr:3"), Use(2, "a")])
    assert [(key, spec.key) for key, spec in config.models.items()] == [("a", "a"), ("ocr:3", "ocr:3")]


def test_a_member_has_its_own_times_and_its_familys_bytes() -> None:
    family = spec("s/*")
    ways = {RAM: Forecast(peak=Need(ram_bytes=5))}
    known = Facts(models={"s/*": ModelFacts(load_sec=2.0, ways=ways), "s/a": ModelFacts(load_sec=9.0)})
    assert (known.of("s/a", family).load_s, known.of("s/a", family).possible) == (9.0, ways)
    assert known.of("s/b", family).load_s == 2.0
    assert known.of("other", spec("other")) == known.otherwise


def test_a_load_that_was_never_measured_takes_as_long_as_its_bytes() -> None:
    large = ModelFacts(ways={RAM: Forecast(peak=Need(ram_bytes=10 * GIB))})
    assert 15 < large.load_s < 30
    assert ModelFacts().possible[RAM].peak.ram_bytes == UNKNOWN_BYTES


def test_other_memory_that_is_declared_is_booked() -> None:
    both = {
        RAM: Forecast(peak=Need(ram_bytes=GIB)),
        GPU: Forecast(peak=Need(ram_bytes=5, gpu_bytes=(GIB,))),
    }
    known = Facts(models={"a": ModelFacts(ways=both), "b": ModelFacts(ways=both)})
    today = of(spec("a", memory_bytes=GIB), spec("b"))
    other = under(of(spec("a", memory_bytes=GIB), spec("b", memory_bytes=3 * GIB)), known, today)
    assert other.models["a"].ways == both
    assert other.models["b"].ways[RAM].peak == Need(ram_bytes=3 * GIB)
    assert other.models["b"].ways[GPU].peak == Need(ram_bytes=5, gpu_bytes=(3 * GIB,))


def test_what_is_told_over_the_socket_is_read_as_it_was() -> None:
    known = Facts(
        devices=(DeviceFacts(name="ram", kind="host", total_bytes=GIB),),
        models={"a": ModelFacts(load_sec=1.5, warmup_sec=0.5, ways={RAM: Forecast(peak=Need(ram_bytes=7))})},
    )
    said = Told(config=of(spec("a", prewarm=SCHEDULED, device=("ram",))), facts=known, pins=("a",), kept=5)
    assert told(msgspec.json.decode(msgspec.json.encode(said))) == said
    page = [Use(1.0, "a", 0.5)]
    assert uses(msgspec.json.decode(msgspec.json.encode(page))) == page
    with pytest.raises(ValueError):
        told({"config": 3})


@pytest.mark.parametrize("span_s", [0.0, 5.0, 3600.0, 86_400.0 * 7, 86_400.0 * 365, 86_400.0 * 36500])
def test_a_course_covers_its_span_in_not_too_many_steps(span_s: float) -> None:
    start = 1_800_000_123.4
    course = Course.between(start, start + span_s)
    assert course.start <= start
    assert course.start + course.step_s * len(course.cold) >= start + span_s
    assert len(course.cold) <= MOST_STEPS + 1
    course.hold(start, start + span_s, 3.0)
    assert sum(course.held_byte_s) == pytest.approx(3.0 * span_s)
    coarse = course.in_steps(20)
    assert len(coarse.cold) <= 21
    assert sum(coarse.held_byte_s) == pytest.approx(3.0 * span_s)


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 2), (75, 3), (95, 4), (100, 4)])
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], percent) == value
