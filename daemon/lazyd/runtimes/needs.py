"""What loading a model needs, in the form that all runtimes tell it in (see `lazyd.runtimes`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .checked import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN_BYTES = 256 * MIB
"""What a model without a file is booked with until it has been measured."""
_DRIVER_BYTES, _DRIVER_RAM_BYTES = 512 * MIB, 256 * MIB
"""What CUDA, cuBLAS and cuDNN keep for a process on its GPU (a context alone: 426 MiB are known), and in RAM."""


def by_file(ram_bytes: int, gpu_bytes: int | None, mapped: Mapping[str, int] | None = None) -> dict[str, Any]:
    """What a model needs whose file's size says it: in RAM, or whole on a GPU, and then in RAM beside.

    On a GPU the driver comes on top. None for `gpu_bytes`: it cannot be loaded there. `mapped`: bytes of the files that
    it maps, by ``device:inode``.
    """
    gpu = None
    if gpu_bytes is not None:
        gpu = {"ram": ram_bytes + _DRIVER_RAM_BYTES, "gpu": [gpu_bytes + _DRIVER_BYTES]}
    return {
        "ram": {"ram": ram_bytes, "gpu": []},
        "gpu": gpu,
        "layers": None,
        "files": dict(mapped or {}),
        "source": "file size",
    }


def unknown(spec: dict[str, Any]) -> dict[str, Any]:
    """Of what has no file to be judged by. Only its author knows whether it uses a GPU: it is given one if ``device``
    names one."""
    wanted = spec.get("device", ())
    named = [device for device in wanted if device.startswith("gpu")]
    return {
        "ram": {"ram": UNKNOWN_BYTES, "gpu": []} if not named or len(named) < len(wanted) else None,
        "gpu": {"ram": UNKNOWN_BYTES, "gpu": [UNKNOWN_BYTES]} if named else None,
        "layers": None,
        "files": {},
        "source": "default",
    }
