"""The clients: they ask, wait, call, dawdle, vanish; and models that call models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import answers, events

from .clock import Future, Process, Script
from .desk import Connection
from .profiles import DEEPEST
from .truth import FRESH_S
from .worker import SimWorker

if TYPE_CHECKING:
    from .world import World

LINGER_S = 12.0
LONGEST_PAUSE_S = 3.0
"""Between two calls of a session, in the mean."""
GIVES_BACK_TOO_SOON = 0.05
"""Chance that a lease is given back while a call is still in flight under it."""
CLAIMS = 0.05
"""Chance that a client asks again for the lease that it was just given, as after a restart."""


class Clients:
    """All clients of one world. Each is a process that goes from session to session."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.profile = world.scenario.profile
        self.at_work = True
        self.sessions: dict[int, Process] = {}
        for number in range(self.rng.randint(*self.profile.clients)):
            Process(world.clock, self._client(number))

    def retire(self) -> None:
        """No new sessions; who is in one ends it."""
        self.at_work = False

    def leave(self) -> None:
        """Everybody hangs up."""
        for process in list(self.sessions.values()):
            process.kill()

    def visit(self, uid: int, model: str) -> Script:
        """Somebody asks for a model, uses it and goes."""
        yield from self._get_and_use(model, uid, None, 0)

    def _client(self, number: int) -> Script:
        uid = 1000 + number % 3
        while True:
            yield self.rng.expovariate(1.0 / self.profile.think_s) * self.world.quietness()
            if not self.at_work:
                return
            yield from self._in_a_session(number, uid)

    def _in_a_session(self, number: int, uid: int) -> Script:
        """A session is a process of its own, so that it can be killed without killing the client."""
        over = Future(self.world.clock)
        session = self.sessions[number] = Process(self.world.clock, self._session(uid), over.set)

        def hang_up() -> None:
            session.kill()
            over.set(None)

        if self.rng.random() < self.profile.impatient:
            self.world.clock.after(self.rng.uniform(0.01, 4.0), hang_up)
        yield over

    def _session(self, uid: int) -> Script:
        model = self.world.popular_model()
        if self.rng.random() < 0.12:
            yield from self.world.control.request(events.Load, model=model, deadline=self._deadline())
            return
        for _ in range(3):
            again = yield from self._get_and_use(model, uid, None, 0)
            if not again:
                return

    def _deadline(self) -> float | None:
        if self.rng.random() >= self.profile.deadline:
            return None
        return self.world.clock.now + self.rng.choice((0.05, 0.5, 2.0, 6.0, 20.0))

    def _get_and_use(self, model: str, uid: int, parent: str | None, depth: int) -> Script:
        """One lease from asking to giving back. True: it was revoked, and the client wants another."""
        hold_s = self.rng.uniform(0.5, 8.0) if depth == 0 and self.rng.random() < self.profile.hold else 0.0
        outcome = yield from self.world.control.request(
            events.Get, model=model, holder=uid, deadline=self._deadline(), hold_s=hold_s, parent=parent
        )
        if not isinstance(outcome, answers.Granted):
            return False
        if self.rng.random() < self.profile.abandon:
            return self._abandon(outcome, uid)
        if self.profile.mischief and self.rng.random() < CLAIMS:
            outcome = yield from self.world.control.request(
                events.Get, model=model, holder=uid, deadline=self._deadline(), parent=parent, lease=outcome.lease
            )
            if not isinstance(outcome, answers.Granted):
                return False
        worker = self.world.workers.get(outcome.worker)
        yield self.world.delay()
        connection = worker.desk.connect(outcome.token) if worker is not None else None
        if worker is None or connection is None:
            self._turned_away(outcome.lease)
            return True
        try:
            return (yield from self._use(worker, connection, uid, depth))
        finally:
            worker.desk.hang_up(connection)

    def _turned_away(self, lease: str) -> None:
        """A token is good at once and for a while, unless its worker has gone or is silent."""
        truth, now = self.world.leases[lease], self.world.clock.now
        worker = truth.worker
        if truth.lost or truth.given_back or not worker.runs or worker.silent_until is not None:
            return
        asked_in_time = now < truth.granted + FRESH_S and not truth.presented
        if (
            asked_in_time
            and not self.world.may_end_calls(worker, truth.model)
            and self.world.manager.told.serves(truth.model)
        ):
            self.world.fail("granted_is_valid", f"the token of {lease} is turned away by {worker}")

    def _abandon(self, granted: answers.Granted, uid: int) -> bool:
        """The lease is given back unused, or somebody else tries to, or it is just forgotten."""
        whose = self.rng.choice((uid, uid, uid + 1, None))
        if whose is not None:
            self.world.control.tell(events.Release, lease=granted.lease, holder=whose)
        return False

    def _use(self, worker: SimWorker, connection: Connection, uid: int, depth: int) -> Script:
        for _ in range(self.rng.randrange(0 if self.profile.abandon else 1, 4)):
            call = worker.desk.call(connection, self._call_body(connection, uid, depth))
            if self.profile.mischief and self.rng.random() < GIVES_BACK_TOO_SOON:
                self.world.control.tell(events.Release, lease=connection.truth.lease, holder=uid)
                connection.truth.given_back = True
            how = yield call
            if how != "done":
                return how == "revoked" and depth == 0
            if depth == 0:
                yield self.rng.expovariate(1.0 / min(self.profile.think_s, LONGEST_PAUSE_S)) / 2
        if depth == 0 and self.rng.random() < self.profile.linger:
            yield self.rng.uniform(0.0, LINGER_S)
        if self.rng.random() < 0.2:
            self.world.control.tell(events.Release, lease=connection.truth.lease, holder=uid)
            connection.truth.given_back = True
            yield 0.1
        return False

    def _call_body(self, connection: Connection, uid: int, depth: int) -> Script:
        """What a model does when it is called; a model that calls others waits for them."""
        seconds = self.rng.uniform(0.02, self.profile.call_s)
        if depth < DEEPEST and self.rng.random() < self.profile.nested:
            yield seconds / 2
            yield from self._get_and_use(self.world.popular_model(), uid + 5000, connection.truth.lease, depth + 1)
            yield seconds / 2
        else:
            yield seconds
