"""The rules of a worker: who may call, when a model counts as idle, and how it is taken away.

This module does no I/O and reads no clock. It is told what happened and at what time, and returns
what is to be done: `Tell` the manager, `Revoke` or `Drop` a connection, say that an object is
`Emptied`. Times are seconds of the monotonic clock.

**Leases.** The manager grants a lease with a token. One connection may present the token; from
then on that connection is the lease, and its end is the lease's end. A lease is protected while
a call is in flight under it, until its first call (`FRESH_S` at most), and until the time that
it is held for (see `records`). An open but idle connection protects nothing.

**Draining** is the first half of the hand-shake that frees a model, and is decided in one step.
A drain that is not to wait finds the model unprotected, and then nothing is admitted any more and
all its leases are revoked; or it changes nothing and answers ``still_busy``. A drain that waits
admits calls only under leases that may not be revoked yet (fresh, or held for a time), and nested
ones: those under a lease that has a parent and was granted after the drain. It ends, and revokes,
when no lease is protected any more. ``resume`` undoes either.

**Parking** takes an object that was drained: it stays, without the memory of its device, and
admits nothing until it is ready again. Only what is ready has leases.

**Bursts.** The manager is told when a lease is in use and when it is idle. Where calls follow each other so quickly
that this would take longer than they do, it takes the lease for used between them, and is told that it
is idle `QUICK_S` after the last, or before anything else that it is told of the lease.

A drain is a plan of one manager. When that manager is lost its drains are undone, and leases that
nobody presented last `ORPHANED_S` more: the next manager finds models that serve.
"""

from __future__ import annotations

from typing import Any

from .records import QUICK_S, Action, Drain, Drop, Emptied, Lease, Object, Revoke, Tell, Warmth

ORPHANED_S = 30.0
"""Leases that nobody presented outlive their manager by so much."""


class Admission:
    """All leases and objects of one worker."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.leases: dict[str, Lease] = {}
        self.calls = 0
        """That have ended."""
        self.max_calls: int | None = None
        """The manager is told at so many calls, and at each multiple."""
        self._untold: set[Lease] = set()
        """Leases of which the manager is about to be told that they are idle."""
        self._orphaned_since: float | None = None

    # What the manager orders.

    def grant(self, lease: Lease) -> None:
        """A lease exists; its token may be presented. Unknown models have no leases."""
        known = self.objects.get(lease.model)
        if known is not None and known.state == "ready":
            self.leases[lease.id] = lease
            known.leases[lease.id] = lease

    def withdraw(self, lease_id: str) -> list[Action]:
        """The manager has ended a lease."""
        lease = self.leases.get(lease_id)
        if lease is None:
            return []
        if lease.in_flight:
            lease.token = ""
            return [Drop(lease.connection)]
        told = self._told(lease)
        self._forget(lease)
        return [*told, Drop(lease.connection)] if lease.connection is not None else told

    def revoke(self, lease_id: str) -> list[Action]:
        """Its client is to ask anew, when no call is in flight; nothing more is admitted under it."""
        lease = self.leases.get(lease_id)
        if lease is None:
            return []
        lease.revoked = True
        return self._perhaps_revoked(lease)

    def drain(self, model: str, number: int, *, finish: bool, now: float) -> list[Action]:
        """The hand-shake's first half. A repeated drain is answered by the newest number."""
        known = self.objects.get(model)
        if known is None or known.state != "ready":
            return []  # a drain that crossed the end of the model
        if known.drain is not None and known.drain.done:
            known.drain.number = number
            return [Tell({"is": "drained", "model": model, "drain": number})]
        if finish:
            if known.drain is None:
                known.drain = Drain(number, now)
            known.drain.number = number
            return self._perhaps_drained(known, now)
        if any(lease.is_protected(now) for lease in known.leases.values()):
            known.drain = None
            return [Tell({"is": "still_busy", "model": model, "drain": number})]
        known.drain = Drain(number, now)
        return self._drained(known)

    def resume(self, model: str) -> None:
        """Undoes a drain: calls are admitted again."""
        known = self.objects.get(model)
        if known is not None:
            known.drain = None

    # What becomes of objects.

    def loading(self, model: str, now: float) -> None:
        """A load begins, or the way back from being parked."""
        known = self.objects.setdefault(model, Object(model, "loading", now))
        known.state, known.since, known.warmth = "loading", now, Warmth()

    def warming(self, model: str, now: float) -> None:
        """The load is done, and a warm-up has begun that comes before the first call of others."""
        known = self.objects[model]
        known.state, known.load_s, known.since = "warming", now - known.since, now

    def loaded(
        self, model: str, now: float, *, parks: bool = False, url: str | None = None, warmth: Warmth | None = None
    ) -> None:
        known = self.objects[model]
        before_s = (known.load_s or 0.0) if known.state == "warming" else 0.0
        known.state, known.load_s, known.since, known.parks = "ready", before_s + now - known.since, now, parks
        known.url, known.warmth = url, warmth or Warmth()

    def parking(self, model: str, now: float) -> list[Action]:
        """Nothing is admitted any more. `Emptied` follows when no call is in flight, at once if it was drained."""
        known = self.objects[model]
        known.state, known.since, known.drain = "parking", now, None
        return self._perhaps_emptied(known)

    def parked(self, model: str, now: float) -> None:
        known = self.objects[model]
        known.state, known.since = "parked", now

    def unloading(self, model: str, now: float) -> list[Action]:
        """Nothing is admitted any more. `Emptied` follows when no call is in flight."""
        known = self.objects[model]
        known.state, known.since, known.drain = "unloading", now, None
        return self._perhaps_emptied(known)

    def gone(self, model: str) -> None:
        """The object is closed, or its load has failed."""
        known = self.objects.pop(model, None)
        for lease in list(known.leases.values()) if known else []:
            self._forget(lease)

    # What clients do.

    def present(self, token: str, connection: Any) -> tuple[Lease | None, list[Action]]:
        """A connection shows a token: its lease, or None if nobody may use the token (any more)."""
        for lease in self.leases.values():
            if token and lease.token == token and lease.connection is None:
                lease.connection = connection
                return lease, [Tell({"is": "presented", "lease": lease.id})]
        return None, []

    def begin(self, lease: Lease, now: float) -> tuple[bool, list[Action]]:
        """A call comes in under a lease: whether it is admitted. If not, it was never started."""
        known = self.objects.get(lease.model)
        if known is None or known.state != "ready" or lease.id not in self.leases or lease.closing or lease.revoked:
            return False, []
        if known.drain is not None and not self._may_enter(lease, known.drain, now):
            return False, []
        lease.called = True
        lease.in_flight += 1
        known.last_used = now
        return True, self._busy(lease, now) if lease.in_flight == 1 else []

    def end(self, lease: Lease, now: float, *, ok: bool) -> list[Action]:
        """A call has really ended. `ok`: with a result."""
        lease.in_flight -= 1
        lease.ended += 1
        lease.failed += not ok
        actions = self._count_call()
        known = self.objects.get(lease.model)
        if known is None or lease.id not in self.leases:
            return actions
        known.last_used = now
        if lease.in_flight == 0:
            actions += self._idle(lease, now)
            actions += self._closed(lease) if lease.closing else self._perhaps_revoked(lease)
        return actions + self._perhaps_drained(known, now) + self._perhaps_emptied(known)

    def closed(self, lease: Lease, now: float) -> list[Action]:
        """The lease's connection has ended. While calls are in flight the lease stays."""
        lease.closing = True
        known = self.objects.get(lease.model)
        if lease.id not in self.leases or lease.in_flight:
            return []
        return self._closed(lease) + (self._perhaps_drained(known, now) if known else [])

    # What time and the loss of the manager do.

    def manager_lost(self, now: float) -> None:
        """The manager's plans go with it; its leases stay."""
        self._orphaned_since = now
        for known in self.objects.values():
            known.drain = None

    def manager_found(self) -> None:
        self._orphaned_since = None

    def next_deadline(self) -> float | None:
        """When `tick` is to be called, if nothing else happens."""
        times = [
            max((lease.protected_until for lease in known.leases.values()), default=0.0)  # 0: at once, all have gone
            for known in self.objects.values()
            if known.drain is not None and not known.drain.done and not known.in_flight
        ]
        times += [lease.idle_since + QUICK_S for lease in self._untold]
        if self._orphaned_since is not None:
            times += [self._last_of(lease) for lease in self.leases.values() if lease.connection is None]
        return min(times, default=None)

    def tick(self, now: float) -> list[Action]:
        """Time has passed: leases are not fresh any more, or outlived their manager too long."""
        if self._orphaned_since is not None:
            for lease in list(self.leases.values()):
                if lease.connection is None and now >= self._last_of(lease):
                    self._forget(lease)
        due = [lease for lease in self._untold if now >= lease.idle_since + QUICK_S]
        actions: list[Action] = [tell for lease in due for tell in self._told(lease)]
        for known in self.objects.values():
            actions += self._perhaps_drained(known, now)
        return actions

    def report(self) -> dict[str, Any]:
        """Objects and leases, as `lazyd.core.events.WorkerReport` spells them."""
        return {
            "calls": self.calls,
            "objects": [known.report() for known in self.objects.values() if known.state != "unloading"],
            "leases": [lease.report() for lease in self.leases.values()],
        }

    # How it decides.

    def _count_call(self) -> list[Action]:
        """One has ended."""
        self.calls += 1
        is_told = self.max_calls is not None and self.calls % self.max_calls == 0
        return [Tell({"is": "used", "calls": self.calls})] if is_told else []

    def _may_enter(self, lease: Lease, drain: Drain, now: float) -> bool:
        """Whether a call is admitted although the model drains."""
        nested = lease.parent is not None and lease.granted >= drain.began
        return nested or now < lease.protected_until

    def _perhaps_drained(self, known: Object, now: float) -> list[Action]:
        if known.drain is None or known.drain.done:
            return []
        if any(lease.is_protected(now) for lease in known.leases.values()):
            return []
        return self._drained(known)

    def _drained(self, known: Object) -> list[Action]:
        assert known.drain is not None
        known.drain.done = True
        told = Tell({"is": "drained", "model": known.model, "drain": known.drain.number})
        return [*self._revoke_all(known), told]

    def _perhaps_emptied(self, known: Object) -> list[Action]:
        if known.state not in ("unloading", "parking") or known.in_flight:
            return []
        return [*self._revoke_all(known), Emptied(known.model)]

    def _revoke_all(self, known: Object) -> list[Action]:
        leases = list(known.leases.values())
        told = [tell for lease in leases for tell in self._told(lease)]
        for lease in leases:
            self._forget(lease)
        return [*told, *(Revoke(lease.connection) for lease in leases if lease.connection is not None)]

    def _perhaps_revoked(self, lease: Lease) -> list[Action]:
        """A client that has not come yet is told at its first call."""
        if not lease.revoked or lease.in_flight or lease.connection is None:
            return []
        return [Revoke(lease.connection), *self._closed(lease)]

    def _busy(self, lease: Lease, now: float) -> list[Action]:
        """A call has begun, the only one."""
        lease.quick = lease.quick + 1 if now < lease.idle_since + QUICK_S else 0
        if lease not in self._untold:
            return [Tell({"is": "busy", "lease": lease.id})]
        self._untold.remove(lease)
        return []

    def _idle(self, lease: Lease, now: float) -> list[Action]:
        """Its last call has ended."""
        lease.idle_since = now
        self._untold.add(lease)
        return [] if lease.in_burst else self._told(lease)

    def _told(self, lease: Lease) -> list[Action]:
        """Tells, unless it has been told, that it is idle; where several calls have ended since, how many."""
        if lease not in self._untold:
            return []
        self._untold.remove(lease)
        counts = {"calls": lease.ended, "failed": lease.failed} if lease.ended > 1 else {}
        told = Tell({"is": "idle", "lease": lease.id, "ok": not lease.failed, **counts})
        lease.ended = lease.failed = 0
        return [told]

    def _closed(self, lease: Lease) -> list[Action]:
        told = self._told(lease)
        self._forget(lease)
        return [*told, Tell({"is": "closed", "lease": lease.id})]

    def _forget(self, lease: Lease) -> None:
        self.leases.pop(lease.id, None)
        self._untold.discard(lease)
        known = self.objects.get(lease.model)
        if known is not None:
            known.leases.pop(lease.id, None)

    def _last_of(self, lease: Lease) -> float:
        assert self._orphaned_since is not None
        return max(self._orphaned_since + ORPHANED_S, lease.hold_until)
