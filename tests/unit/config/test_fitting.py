"""What a configuration asks for and this machine does not have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lazyd.config.fitting import MOST, located, misfits
from lazyd.core.spec import GIB, Config

from .conftest import Write

Accepted = Callable[..., Config]

MODEL = '[models.m]\nruntime = "python"\nfactory = "m:f"\n'
TWO_GPUS = {"ram": 64 * GIB, "gpu0": 22 * GIB, "gpu1": 22 * GIB + 12345}
NO_GPU = {"ram": 64 * GIB}


def told(config: Config, devices: dict[str, int]) -> list[str]:
    return [f"{'.'.join(path)}: {what}; {remedy}" for path, what, remedy in misfits(config, devices)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[budget]\nram = "64GiB"\ngpu0 = "22GiB"\ngpu1 = "100%"\n',
        MODEL + 'device = "gpu1"',
        MODEL + 'device = ["gpu0", "ram"]',
        MODEL + 'device = "gpu"',
        MODEL + 'device = "gpu"\nmemory = "44GiB"',
        MODEL + 'memory = "100GiB"',
    ],
)
def test_what_fits_is_not_mentioned(accepted: Accepted, text: str) -> None:
    assert told(accepted(text), TWO_GPUS) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[budget]\nram = "65GiB"',
            'budget.ram: 65GiB is more than ram has, and counts as "100%"; write at most "64GiB"',
        ),
        (
            '[budget]\ngpu1 = "40GiB"',
            'budget.gpu1: 40GiB is more than gpu1 has, and counts as "100%"; write at most "22GiB"',
        ),
        (
            '[budget]\ngpu7 = "50%"',
            "budget.gpu7: there is no gpu7 here (devices: ram, gpu0, gpu1); the key has no effect",
        ),
        (
            '[budget]\ngpu_margin = "30GiB"',
            "budget.gpu_margin: 30GiB is all of a GPU, on which nothing is loaded then; write a smaller one",
        ),
        (
            MODEL + 'device = "gpu1"\nmemory = "30GiB"',
            "models.m.memory: 30GiB is more than gpu1 has, so it cannot be loaded; "
            "write less, or leave it out and it is found out",
        ),
        (
            MODEL + 'device = ["gpu0", "gpu1"]\nmemory = "80GiB"',
            "models.m.memory: 80GiB is more than gpu0 and gpu1 have together, so it cannot be loaded; "
            "write less, or leave it out and it is found out",
        ),
        (
            MODEL + 'device = "gpu2"',
            "models.m.device: there is no gpu2 here, so it cannot be loaded; "
            "name a device that is there: this machine has ram, gpu0, gpu1",
        ),
        (
            MODEL + 'device = ["gpu2", "gpu1"]',
            "models.m.device: there is no gpu2 here; name a device that is there: this machine has ram, gpu0, gpu1",
        ),
    ],
)
def test_what_does_not_fit_says_what_why_and_what_to_do(accepted: Accepted, text: str, line: str) -> None:
    assert told(accepted(text), TWO_GPUS) == [line]


def test_any_gpu_where_there_is_none(accepted: Accepted) -> None:
    assert told(accepted(MODEL + 'device = "gpu"'), NO_GPU) == [
        "models.m.device: there is no GPU here, so it cannot be loaded; "
        "name a device that is there: this machine has ram"
    ]
    assert told(accepted(MODEL + 'device = ["gpu", "ram"]'), NO_GPU) == []


def test_a_configuration_for_another_machine_is_not_told_a_thousand_times(accepted: Accepted) -> None:
    text = "".join(MODEL.replace("models.m", f"models.m{i}") + 'device = "gpu0"\n' for i in range(200))
    found = told(accepted(text), NO_GPU)
    assert len(found) == MOST + 1
    assert "150 more keys" in found[-1]


def test_it_is_told_where_it_stands(accepted: Accepted, write: Write) -> None:
    texts = '[budget]\n\ngpu7 = "50%"', MODEL + 'device = "gpu2"'
    found = located(misfits(accepted(*texts), TWO_GPUS), write(*texts))
    assert [(problem.file[-6:], problem.line, problem.key) for problem in found] == [
        ("0.toml", 3, "budget.gpu7"),
        ("1.toml", 4, "models.m.device"),
    ]


def test_it_is_told_without_a_place_where_the_files_are_gone(accepted: Accepted, write: Write) -> None:
    found = misfits(accepted(MODEL + 'device = "gpu2"'), TWO_GPUS)
    assert str(located(found, write())[0]).startswith("(no file): models.m.device: there is no gpu2 here, so it")
