"""What a configuration gave where something else was expected, in words."""

from __future__ import annotations

from .problems import Fault, Wrong, quoted


def string(value: object, expected: str, example: str) -> str:
    """The value if it is a string. Raises `Wrong`, which says what was expected."""
    if isinstance(value, str):
        return value
    raise Wrong(Fault(f"expected {expected}, not {described(value)}", f"write it as {example}"))


def table(value: object, example: str) -> dict[str, object]:
    """The value if it is a table. Raises `Wrong`."""
    if isinstance(value, dict):
        return value
    raise Wrong(Fault(f"expected a table, not {kind_of(value)}", f"write it as {example}"))


def kind_of(value: object) -> str:
    """TOML's word for the type of a value."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def described(value: object) -> str:
    """The value and its type, shortened."""
    return kind_of(value) if isinstance(value, list | dict) else f"{kind_of(value)} ({short(value)})"


def short(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 2**64:
        return "a number of more than 64 bits"  # Python refuses to print very long ones
    return str(value)
