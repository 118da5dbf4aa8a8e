"""What each device really holds: of workers, programs and strangers, and what its driver has yet to give back."""

from __future__ import annotations

from collections.abc import Callable

HOST = "host"
CUDA = "cuda"
RAM = "ram"


class Memory:
    """One device, byte by byte. Nothing in it is booked or foreseen: it is so.

    Pages of files that workers map are not in it, as the kernel may drop them.
    """

    __slots__ = (
        "changed",
        "held",
        "is_lost",
        "kind",
        "name",
        "refused",
        "residues",
        "strangers",
        "total",
        "used",
        "version",
    )

    def __init__(self, name: str, kind: str, total: int) -> None:
        self.name = name
        self.kind = kind
        self.total = total
        self.held: dict[str, int] = {}
        """By worker or reservation, while its processes live."""
        self.residues: dict[str, int] = {}
        """Of workers and reservations whose processes have gone, and which the driver still counts."""
        self.strangers: dict[str, int] = {"hidden": 0, "listed": 0}
        """Of others: ``hidden`` ones are not shown by the driver."""
        self.refused = 0
        """What an owner wanted to hold at last, and could not."""
        self.used = 0
        self.version = 0
        """Grows with every change."""
        self.is_lost = False
        self.changed: Callable[[str], None] = lambda _: None

    @property
    def free(self) -> int:
        return self.total - self.used

    @property
    def strange(self) -> int:
        return sum(self.strangers.values())

    def by_owner(self) -> dict[str, int]:
        """What each owner has, with what has not come back yet."""
        found = dict(self.held)
        for owner, n in self.residues.items():
            found[owner] = found.get(owner, 0) + n
        return found

    def take(self, owner: str, n: int) -> bool:
        """An owner wants to hold `n` bytes from now on. False: there are not so many, and all is as before."""
        more = n - self.held.get(owner, 0)
        if more > self.free and more > 0:
            self.refused = n
            return False
        if more or owner not in self.held:
            self.held[owner] = n
            self._add(more)
        return True

    def rename(self, owner: str, name: str) -> None:
        """The same processes under another name."""
        if owner in self.held:
            self.held[name] = self.held.pop(owner)
            self._add(0)

    def drop(self, owner: str) -> None:
        """Its process is gone, and what it held is free."""
        self._add(-self.held.pop(owner, 0))

    def leave(self, owner: str) -> None:
        """Its process is gone, and the driver has not noticed yet."""
        n = self.held.pop(owner, 0)
        if n:
            self.residues[owner] = self.residues.get(owner, 0) + n
        self._add(0)

    def give_back(self, owner: str) -> None:
        """The driver has noticed."""
        self._add(-self.residues.pop(owner, 0))

    def grow_stranger(self, kind: str, n: int) -> int:
        """Others want to hold so much more, or less; returns by how much that has changed."""
        n = max(-self.strangers[kind], min(n, self.free))
        self.strangers[kind] += n
        self._add(n)
        return n

    def reset(self) -> None:
        """The device was lost: nothing is on it any more, and nobody knows it."""
        self._add(-sum(self.held.values()) - sum(self.residues.values()))
        self.held = dict.fromkeys(self.held, 0)
        self.residues.clear()

    def _add(self, n: int) -> None:
        self.used += n
        self.version += 1
        self.changed(self.name)
