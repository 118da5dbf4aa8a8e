from __future__ import annotations

import pathlib
import pickle
import re
from typing import Any

import pytest

import lazyd.errors
from lazyd.errors import BY_NAME, LazydError, from_varlink

INTERFACE_FILE = pathlib.Path(lazyd.errors.__file__).parent / "varlink" / "io.lazyd.varlink"

EVERY = [cls for cls in vars(lazyd.errors).values() if isinstance(cls, type) and issubclass(cls, LazydError)]

SAMPLE: dict[str, Any] = {"str": "x y", "?str": "x", "int": 3, "?int": 3, "float": 1.5}


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_error_is_one_line(cls: type[LazydError]) -> None:
    assert "\n" not in str(cls())
    assert str(cls())


@pytest.mark.parametrize("cls", BY_NAME.values(), ids=lambda cls: cls.__name__)
def test_every_received_error_survives_the_way_there_and_back(cls: type[LazydError]) -> None:
    parameters = {cls.wire_name(field): index + 1 for index, field in enumerate(cls.fields)}
    error = from_varlink(cls.varlink_name, parameters)
    assert type(error) is cls
    assert error.to_parameters() == parameters


def test_worker_died_keeps_the_exit_status_of_the_worker_apart_from_that_of_a_command() -> None:
    error = from_varlink("WorkerDied", {"model": "gemma", "exitStatus": 3, "log": "a\nlast words\n"})
    assert isinstance(error, lazyd.errors.WorkerDied)
    assert (error.status, error.exit_status) == (3, 1)
    assert "exited with status 3" in str(error)
    assert "last words" in str(error)
    assert error.to_parameters()["exitStatus"] == 3


def test_worker_died_names_the_signal() -> None:
    assert "SIGSEGV" in str(lazyd.errors.WorkerDied(model="gemma", signal=11))


def test_worker_died_names_the_fault_and_not_where_the_last_thread_was() -> None:
    log = 'busy\nFatal Python error: Segmentation fault\n\nThread 0x1:\n  File "boot.py", line 41 in <module>\n'
    error = str(lazyd.errors.WorkerDied(model="gemma", signal=11, log=log))
    assert "Fatal Python error: Segmentation fault" in error
    assert "boot.py" not in error


def test_a_refusal_that_is_not_for_want_of_bytes_names_none() -> None:
    error = lazyd.errors.NoRoom(model="gemma", device="ram", free_bytes=50 << 20, reason="a cycle of waiting")
    assert str(error) == "no room for gemma: a cycle of waiting"


def test_what_is_too_large_is_not_called_another_protocol() -> None:
    assert str(lazyd.errors.TooLarge(reason="it has 20 bytes")) == "a message is too large: it has 20 bytes"


def test_short_names_are_those_of_the_interface() -> None:
    assert type(from_varlink("Revoked", {})) is lazyd.errors.Revoked


def test_unknown_error_keeps_name_and_parameters() -> None:
    error = from_varlink("io.lazyd.NewerThanThis", {"a": 1})
    assert isinstance(error, lazyd.errors.RemoteError)
    assert (error.name, error.parameters) == ("io.lazyd.NewerThanThis", {"a": 1})


def test_parameters_that_are_unknown_null_or_missing_do_no_harm() -> None:
    error = from_varlink("io.lazyd.LoadFailed", {"model": "gemma", "retryAfterSec": None, "new": 1})
    assert isinstance(error, lazyd.errors.LoadFailed)
    assert error.retry_after_sec == 0.0


def test_a_field_that_does_not_exist_is_a_mistake_of_the_programmer() -> None:
    with pytest.raises(TypeError, match="modle"):
        lazyd.errors.Busy(modle="gemma")  # type: ignore[call-arg]


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(lazyd.errors.NoRoom(model="gemma", needed_bytes=5)))
    assert isinstance(error, lazyd.errors.NoRoom)
    assert (error.model, error.needed_bytes, error.device) == ("gemma", 5, "")


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("NoSuchMethod", 2),
        ("NoSuchDevice", 2),
        ("InvalidSpec", 2),
        ("Conflict", 2),
        ("InvalidParameter", 2),
        ("ModelNotFound", 4),
        ("Unavailable", 69),
        ("ShuttingDown", 69),
        ("NoRoom", 75),
        ("Busy", 75),
        ("PermissionDenied", 77),
        ("SocketDenied", 77),
        ("Timeout", 124),
        ("LoadFailed", 1),
        ("ConnectionLost", 1),
        ("InvalidConfig", 1),
    ],
)
def test_exit_status(name: str, status: int) -> None:
    assert getattr(lazyd.errors, name).exit_status == status


@pytest.mark.skipif(not INTERFACE_FILE.exists(), reason="the interface file is not in this checkout")
def test_classes_are_exactly_the_errors_of_the_interface() -> None:
    text = re.sub(r"#.*", "", INTERFACE_FILE.read_text())
    declared = {
        f"io.lazyd.{name}": re.findall(r"(\w+)\s*:", fields)
        for name, fields in re.findall(r"error\s+(\w+)\s*\(([^)]*)\)", text)
    }
    ours = {
        name: [cls.wire_name(field) for field in cls.fields]
        for name, cls in BY_NAME.items()
        if name.startswith("io.lazyd.")
    }
    assert ours == declared
