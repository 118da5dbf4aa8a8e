"""Two GPUs that are nothing but numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyd.devices import nvml_device
from tests.fakes.nvml import GIB, StandIn
from tests.fakes.nvml.here import used_here


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The stand-in with two GPUs of 22 and 16 GiB, as this process sees it, with ids that no process has as well."""
    monkeypatch.setattr(nvml_device, "sees_all_ids", lambda: True)
    with used_here(StandIn(tmp_path / "driver", gpus=[22 * GIB, 16 * GIB], release_s=0)) as driver:
        yield driver
