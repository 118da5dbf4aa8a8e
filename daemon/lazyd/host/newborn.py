"""What a worker process is born into: its link to the host, its log, its cgroup.

It is made before the process, and before it is known for which model: a zygote keeps one newborn
in reserve, which waits for its first order. Then a model's worker is there in a millisecond,
while a fork takes several, and moving a process to its cgroup more than ten (the kernel waits
there until no processor can be in between).
"""

from __future__ import annotations

import os

from ..wire import packets
from .cgroups import Cgroup, Cgroups


class Newborn:
    """Descriptors and cgroup of one process. `pid` is None until it exists."""

    def __init__(self, cgroups: Cgroups | None) -> None:
        self.pid: int | None = None
        self.cgroup: Cgroup | None = cgroups.create() if cgroups is not None else None
        self.link, self._its_link = packets.pair()
        self.log, self._its_log = os.pipe()

    @property
    def fds(self) -> list[int]:
        """The process's own: its link and its log."""
        return [self._its_link.fileno(), self._its_log]

    def handed_over(self) -> None:
        """The process has its descriptors, or they are on their way."""
        self._its_link.close()
        os.close(self._its_log)

    def born(self, pid: int) -> None:
        """The process exists now."""
        self.pid = pid
        if self.cgroup is not None:
            try:
                self.cgroup.add(pid)
            except ProcessLookupError:
                pass  # it has ended already
            except OSError:
                self.cgroup.remove()
                self.cgroup = None

    def close(self) -> None:
        """It is not wanted, or has ended."""
        self.link.close()
        os.close(self.log)
        if self.cgroup is not None:
            self.cgroup.remove()
