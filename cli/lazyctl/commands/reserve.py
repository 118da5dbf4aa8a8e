"""``lazyctl reserve``: a program inside a reservation."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from lazyd.errors import LazydError

from ..child import CannotRun, environment, found, run
from ..group import Bytes, command, timeout_option
from ..names import DEVICE
from ..program import complain
from ..session import Session
from ..terminal import one_line, wrapped
from ..units import size

if TYPE_CHECKING:
    from lazyd.client.reserving import Reserving

_QUIET_S = 1.0
"""Who waits longer than this is told what for."""


@command(
    examples="""
        lazyctl reserve gpu0 8GiB -- python train.py --epochs 3
        lazyctl reserve gpu1 20GB --timeout 10min -- ./render.sh
        lazyctl reserve ram 4GiB --no-wait -- make -j8 || echo "no room now"
    """
)
@click.argument("device", type=DEVICE)
@click.argument("count", metavar="BYTES", type=Bytes())
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--no-wait", is_flag=True, help="Exit with 75 if there is no room now.")
@timeout_option("How long to wait for room at most; then exit with 124.")
@click.pass_obj
def reserve(
    session: Session, device: str, count: int, words: tuple[str, ...], no_wait: bool, timeout: float | None
) -> int:
    """Run COMMAND with BYTES of DEVICE kept for it, and exit as it does.

    Waits until there is room, which lazyd makes as for its own models. COMMAND sees only this GPU
    (CUDA_VISIBLE_DEVICES), or none if DEVICE is ram. The memory is given back when it ends.

    \b
    Signals are passed on. After a restart of lazyd the reservation is claimed
    again; if that fails, one line says so and COMMAND goes on.

    \b
    Exit status: COMMAND's own, 128+N if signal N ended it, 126 or 127 if it
    cannot be started, else as always (75: no room, 124: time limit).
    """
    try:
        path = found(words[0])
        with _held(session, device, count, words, not no_wait, timeout) as holding:
            variables = environment(device, holding.rules.uuid, os.environ)
            return run(path, words, variables, holding.keep)
    except CannotRun as error:
        return complain(str(error), error.status)


class _Holding:
    """A reservation that was granted."""

    def __init__(self, rules: Reserving) -> None:
        from lazyd.client.blocking.driver import Driver

        self.rules = rules
        self.driver = Driver(rules.requests.socket)

    def keep(self) -> None:
        """Claims it again when the daemon was restarted, in a thread; says so if it is lost."""
        threading.Thread(target=self._keep, daemon=True).start()

    def _keep(self) -> None:
        self.driver.run(self.rules.keep())
        if self.rules.lost is not None:
            what = f"{size(self.rules.bytes)} of {self.rules.device} are not reserved any more"
            complain(f"{what}, the command goes on: {self.rules.lost}", 0)

    def end(self) -> None:
        self.rules.close()
        self.driver.wake()


@contextmanager
def _held(
    session: Session, device: str, count: int, words: tuple[str, ...], wait: bool, timeout: float | None
) -> Iterator[_Holding]:
    from lazyd.client.reserving import Reserving
    from lazyd.places import client_socket

    rules = Reserving(client_socket(session.socket), device, count, wait=wait, command=" ".join(words))
    holding = _Holding(rules)
    notice = threading.Timer(_QUIET_S, _say_that_it_waits, [session, device, count])
    notice.daemon = True
    try:
        if wait and session.err.height:
            notice.start()
        holding.driver.run(rules.begin(timeout))
        notice.cancel()
        yield holding
    finally:
        notice.cancel()
        holding.end()


def _say_that_it_waits(session: Session, device: str, count: int) -> None:
    first = f"waiting for {size(count)} of {one_line(device)}; Ctrl-C gives up"
    for line in (first, *_what_for(session, device, count)):
        click.echo(session.err.paint(line, "dim"), err=True, color=session.err.colour)


def _what_for(session: Session, device: str, count: int) -> list[str]:
    """What keeps it waiting, as the daemon says it."""
    own = {"device": device, "bytes": count, "pid": os.getpid()}
    with suppress(LazydError):  # the reservation itself will say what is wrong
        wishes = session.ask("Status").get("wishes") or []
        told = [why for wish in wishes if own.items() <= wish.items() for why in wish["why"]]
        return [f"  {piece}" for why in told for piece in wrapped(one_line(why), session.err.width - 2, session.err)]
    return []
