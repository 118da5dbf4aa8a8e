"""``python -m lazyd.host``: from the command line to the last worker's end."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence

from .. import places
from ..worker.loop import Loop
from ..worker.process import adopt_orphans
from . import leftovers, linger, processes, upgrade
from .cgroups import Cgroups
from .door import Door
from .host import VERSION, Host
from .logs import LogFile
from .place import InUse, Place


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the host in the foreground; the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        place = Place(arguments.runtime_dir, arguments.manager_user)
        state = None if arguments.state_fd is None else upgrade.read_state(arguments.state_fd)
        if state is None:
            place.prepare()
            lock = place.lock()
            place.remove_old_sockets()
            before = place.exchange_identity(processes.identity())
            ended = leftovers.end(before) if before else 0
            listener = place.listen(places.host_socket(place.runtime_dir), socket.SOCK_SEQPACKET)
            cgroups = Cgroups.claim()
        else:
            ended = 0
            lock = state["lock"]
            listener = socket.socket(fileno=state["listener"])
            cgroups = None if state["cgroups"] is None else Cgroups.at(state["cgroups"])
    except (InUse, LookupError, OSError) as error:
        print(f"lazyd-host: {error}", file=sys.stderr)
        return 1
    adopt_orphans()
    loop = Loop()
    is_unit = linger.under_systemd()
    host = Host(
        loop,
        place,
        lock,
        Door(loop, listener, place),
        cgroups,
        arguments.manager_unit if is_unit else None,
        _notes(place, is_unit),
    )
    host.on_upgrade = upgrade.prepare(host, lock)
    if state is not None:
        upgrade.restore(host, state)
    _handle_signals(loop, host)
    host.begin()
    if ended:
        host.note(f"ended {ended} processes that an earlier host had left behind")
    host.note("upgraded" if state else f"serving at {places.host_socket(place.runtime_dir)}")
    _notify("READY=1")
    loop.run()
    _notify("STOPPING=1")
    host.door.close()
    place.leave(lock)
    if cgroups is not None:
        cgroups.leave()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lazyd-host", description="Starts, ends and measures lazyd's workers.")
    parser.add_argument("--runtime-dir", metavar="DIR", help="where sockets and logs are (default: the manager's)")
    parser.add_argument("--manager-user", metavar="USER", help="the user that the manager runs as, if it is another")
    parser.add_argument(
        "--manager-unit", metavar="UNIT", default="lazyd.service", help="the manager's unit (default: %(default)s)"
    )
    parser.add_argument(upgrade.OPTION, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"lazyd-host {VERSION}")
    return parser


def _handle_signals(loop: Loop, host: Host) -> None:
    """SIGTERM and SIGINT stop everything, SIGUSR2 executes the host anew; a terminal that goes does not matter."""
    signal.set_wakeup_fd(loop.ringer, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: loop.soon(host.terminate))
    signal.signal(signal.SIGINT, lambda *_: loop.soon(host.terminate))
    signal.signal(signal.SIGUSR2, lambda *_: loop.soon(host.upgrade))
    signal.signal(signal.SIGCHLD, lambda *_: loop.soon(host.reaper.sweep))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, upgrade.HELD_SIGNALS)


def _notes(place: Place, is_unit: bool) -> Callable[[str], None]:
    """Where the host says what it does: the journal, or its own log."""
    file = LogFile(places.host_log(place.runtime_dir), place.share)

    def note(text: str) -> None:
        if is_unit:
            print(text, file=sys.stderr, flush=True)
        else:
            file.write(f"{time.strftime('%F %T')} {text}\n".encode())

    return note


def _notify(state: str) -> None:
    if "NOTIFY_SOCKET" in os.environ:
        import sdnotify

        sdnotify.SystemdNotifier().notify(state)
