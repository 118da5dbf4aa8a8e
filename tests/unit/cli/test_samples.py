"""The replies that the other tests use are what the interface says."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from varlink import scanner

from . import samples

INTERFACE = scanner.Interface(files("lazyd.varlink").joinpath("io.lazyd.varlink").read_text())

REPLIES: dict[str, Any] = {
    "Status": samples.status(
        samples.hot(why=["it is used"]),
        samples.model(),
        devices=[
            samples.device(),
            samples.gpu(quarantined=[{"model": "tts", "pid": 4711, "bytes": 5}, {"model": "ocr", "bytes": 6}]),
            samples.gpu("gpu1", strangers=[samples.stranger(), {"pid": 5, "bytes": 6}]),
        ],
        reservations=[samples.reservation()],
        wishes=[samples.wish()],
    ),
    "Reload": {"added": [], "changed": ["gemma"], "removed": [], "warnings": ["budget.gpu7: there is no gpu7"]},
    "Health": samples.health(gemma="loaded"),
    "Describe": samples.describe(),
    "Subscribe": samples.event(),
    "History": {
        **samples.known(),
        **samples.used((1767225600.0, "gemma", 0.5)),
        "problems": ["history.db was damaged"],
    },
}


@pytest.mark.parametrize("method", REPLIES)
def test_a_sample_is_what_the_interface_says(method: str) -> None:
    check(INTERFACE.get_method(method).out_type, REPLIES[method], method)


def test_the_check_notices_what_is_missing_wrong_or_unknown() -> None:
    declared = INTERFACE.get_method("Health").out_type
    right = samples.health(gemma="loaded")
    check(declared, right, "right")
    for wrong in (
        {**right, "live": "yes"},
        {**right, "models": {"gemma": 1}},
        {**right, "more": 1},
        {"status": "ready"},
    ):
        with pytest.raises(AssertionError):
            check(declared, wrong, "wrong")


def check(declared: Any, value: Any, where: str) -> None:
    """Fails unless `value` is of the `declared` type, as the varlink package has read it."""
    if isinstance(declared, scanner._CustomType):
        check(INTERFACE.members[declared.name].type, value, where)
    elif isinstance(declared, scanner._Maybe):
        assert value is not None, where
        check(declared.element_type, value, where)
    elif isinstance(declared, scanner._Array):
        for index, item in enumerate(value):
            check(declared.element_type, item, f"{where}[{index}]")
    elif isinstance(declared, scanner._Dict):
        for key, item in value.items():
            check(declared.element_type, item, f"{where}[{key}]")
    elif isinstance(declared, scanner._Struct):
        missing = {name for name, kind in declared.fields.items() if not isinstance(kind, scanner._Maybe)} - {*value}
        assert not missing, f"{where}: {missing}"
        assert not {*value} - {*declared.fields}, where
        for name, item in value.items():
            check(declared.fields[name], item, f"{where}.{name}")
    elif not isinstance(declared, scanner._Object):  # the package keeps a plain type as an example of it
        numbers = (int, float) if type(declared) is float else type(declared)
        assert isinstance(value, numbers), where
        assert isinstance(value, bool) == isinstance(declared, bool), where
