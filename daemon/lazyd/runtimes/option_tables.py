"""What stands in a model's `options`: a table for each runtime, of which each row says what it takes and means.

A runtime reads its options by its table, ``lazyctl config check`` holds a file against it, and ``lazyctl config
explain`` tells what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


class Kind(NamedTuple):
    """A kind of values."""

    words: str
    """What it is, as documentation says it."""
    read: Callable[[str, Any], Any]
    """What is made of a value; the first argument is the option's name. Raises `ValueError`."""


class Option(NamedTuple):
    """One option."""

    name: str
    kind: Kind
    meaning: str
    default: str | None = None
    """As one would write it; None: as the runtime's library has it."""


def read(given: Mapping[str, Any], table: Sequence[Option], runtime: str) -> dict[str, Any]:
    """What is made of those that are given. Raises `ValueError` for the first that is not known, or wrong."""
    by_name = {option.name: option for option in table}
    made: dict[str, Any] = {}
    for name, value in given.items():
        checked.known_options([name], by_name, runtime)
        made[name] = by_name[name].kind.read(name, value)
    return made


def faults(given: Mapping[str, Any], table: Sequence[Option], runtime: str) -> Iterator[tuple[str, str]]:
    """Each option that is not known or has a wrong value, and why."""
    for name, value in given.items():
        if (reason := _fault({name: value}, table, runtime)) is not None:
            yield name, reason


def _fault(given: Mapping[str, Any], table: Sequence[Option], runtime: str) -> str | None:
    try:
        read(given, table, runtime)
    except ValueError as error:
        return str(error)
    return None


SWITCH = Kind("true or false", checked.switch)
TEXT = Kind("string", checked.text)
NUMBER = Kind("number", checked.number)


def whole_number(least: int | None = None) -> Kind:
    """`least`: None: any."""
    words = "whole number" if least is None else f"whole number, {least} or more"
    return Kind(words, lambda name, value: checked.whole_number(name, value, least))


def choice(words: Iterable[str]) -> Kind:
    """One of these."""
    known = tuple(words)
    return Kind(" | ".join(known), lambda name, value: checked.choice(name, value, known))


def list_of(item: Kind, words: str) -> Kind:
    """Each is read as `item` says."""

    def read_all(name: str, value: Any) -> list[Any]:
        return [item.read(f"{name}[{number}]", each) for number, each in enumerate(checked.a_list(name, value))]

    return Kind(words, read_all)


def table_of(item: Kind, words: str) -> Kind:
    """Names that nobody knows before; each value is read as `item` says."""

    def read_all(name: str, value: Any) -> dict[str, Any]:
        return {key: item.read(f"{name}.{key}", each) for key, each in checked.a_table(name, value).items()}

    return Kind(words, read_all)
