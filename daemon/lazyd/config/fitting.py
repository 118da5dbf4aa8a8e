"""What of a configuration cannot work on this machine: a GPU that is not there, a budget that is too large.

The files alone cannot tell, and nothing is refused for it: the same files may serve several machines,
and a GPU may come back. So these are warnings, said by the daemon, which knows its devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..core.spec import REGISTERED, Config, ModelSpec
from .files import Files
from .problems import KeyPath, Problem, key_text
from .quantities import show_size

RAM = "ram"
ANY_GPU = "gpu"
_NAME_ANOTHER = "name a device that is there: this machine has "
MOST = 50
"""So many are told; beyond that, how many there are."""


class Misfit(NamedTuple):
    """One key that asks for more than there is."""

    path: KeyPath
    what: str
    remedy: str


def misfits(config: Config, devices: Mapping[str, int]) -> list[Misfit]:
    """What cannot work on a machine with these devices (bytes by name)."""
    found = [*_of_budget(config, devices), *(m for spec in config.models.values() for m in _of_model(spec, devices))]
    if len(found) <= MOST:
        return found
    more = Misfit(("models",), f"{len(found) - MOST} more keys ask for what is not there", "correct those above first")
    return [*found[:MOST], more]


def _of_budget(config: Config, devices: Mapping[str, int]) -> Iterator[Misfit]:
    for name, share in config.settings.budget.items():
        if name not in devices:
            yield Misfit(
                ("budget", name), f"there is no {name} here (devices: {_there(devices)})", "the key has no effect"
            )
        elif isinstance(share, int) and share > devices[name]:
            what = f'{show_size(share)} is more than {name} has, and counts as "100%"'
            yield Misfit(("budget", name), what, f'write at most "{_rounded(devices[name])}"')
    smallest = min((total for name, total in devices.items() if name != RAM), default=None)
    margin = config.settings.gpu_margin_bytes
    if smallest is not None and margin >= smallest:
        what = f"{show_size(margin)} is all of a GPU, on which nothing is loaded then"
        yield Misfit(("budget", "gpu_margin"), what, "write a smaller one")


def _of_model(spec: ModelSpec, devices: Mapping[str, int]) -> Iterator[Misfit]:
    """A list of devices may name some that are not there, which is said too: it is loaded elsewhere, if at all."""
    path = ("models", spec.key, "device")
    for name in spec.device:
        if name == ANY_GPU and len(spec.device) == 1 and not any(map(_is_gpu, devices)):
            yield Misfit(path, "there is no GPU here, so it cannot be loaded", _NAME_ANOTHER + _there(devices))
        elif name not in (ANY_GPU, *devices):
            lost = "" if set(spec.device) & {ANY_GPU, *devices} else ", so it cannot be loaded"
            yield Misfit(path, f"there is no {name} here{lost}", _NAME_ANOTHER + _there(devices))
    usable = {name: size for name, size in devices.items() if _may_use(spec, name)}
    if usable and spec.memory_bytes is not None and spec.memory_bytes > sum(usable.values()):
        has = f"{' and '.join(usable)} have together" if len(usable) > 1 else f"{next(iter(usable))} has"
        what = f"{show_size(spec.memory_bytes)} is more than {has}, so it cannot be loaded"
        yield Misfit(("models", spec.key, "memory"), what, "write less, or leave it out and it is found out")


def _may_use(spec: ModelSpec, name: str) -> bool:
    return not spec.device or name in spec.device or (_is_gpu(name) and ANY_GPU in spec.device)


def _is_gpu(name: str) -> bool:
    return name != RAM


def _there(devices: Iterable[str]) -> str:
    return ", ".join(devices)


def _rounded(count: int) -> str:
    """A size that people would write, and that is not more."""
    return show_size(count // 2**20 * 2**20)


def located(found: Iterable[Misfit], files: Files, models: Mapping[str, ModelSpec] = {}) -> list[Problem]:
    """The same with the files and lines in which they stand now. Blocks on the disk.

    Some of the `models` stand in no file under their name: of what was found or registered the source is told.
    """
    from .sources import Sources

    sources = Sources()
    for path in files.paths:
        sources.add(path)
    problems = []
    for misfit in found:
        file, line = sources.locate(misfit.path)
        spec = models.get(misfit.path[1]) if misfit.path[0] == "models" and len(misfit.path) > 1 else None
        if spec is not None and (spec.found_by or spec.source == REGISTERED):
            file, line = spec.source, None
        key = key_text(misfit.path)
        problems.append(Problem(file=file, line=line, key=key, what=misfit.what, remedy=misfit.remedy))
    return problems
