"""One booted system for all tests here, with lazyd installed in it as `make install` does."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .machine import CHECKOUT, LONGEST_S, Machine, Refused, booted

USER = "lazyd-user"
"""A member of the group lazyd."""
STRANGER = "nobody"
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """A booted systemd with lazyd installed and not started."""
    try:
        with booted() as system:
            system.run("make", "-C", str(CHECKOUT), "install")
            system.run("useradd", "--create-home", "--groups", "lazyd", USER)
            yield system
    except Refused as refused:
        pytest.skip(str(refused))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for the boot and an installation, some for an installation of their own."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.timeout(3 * LONGEST_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what the units wrote to the report of a test that failed."""
    report = yield
    system = getattr(item, "funcargs", {}).get("machine")
    if report.failed and isinstance(system, Machine):
        since = f"@{call.start:.6f}"
        journal = system.answer("journalctl", "--no-pager", "--output=short-precise", "--since", since)
        report.sections.append(("journal of the booted system", journal))
    return report
