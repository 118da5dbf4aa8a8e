"""The command ``lazyd``: reads its arguments, gathers what a manager begins with, and runs it.

What blocks (files, the lock, the socket) is done here, before the loop runs.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lazyd import __version__, places

from .failures import CannotStart

if TYPE_CHECKING:  # its import brings asyncio, which has to come in without ssl
    from lazyd.devices.first_look import FirstLook
    from lazyd.devices.nvml import Nvml

    from .parts import Beginnings

DESCRIPTION = "The manager: owns the models and the memory budget of this machine, in the foreground."
MOST_DESCRIPTORS = 65536
"""One is needed for every client and every worker."""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status, unless a manager ran: that ends the process itself."""
    options = _arguments().parse_args(argv)
    if options.check:
        return _check(options.config, options.state_dir)
    try:
        return _serve(options)
    except CannotStart as error:
        for line in str(error).split("\n"):
            print(f"lazyd: {line}", file=sys.stderr)
        return error.status


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("lazyd", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="this file instead of all other configuration")
    parser.add_argument("--socket", metavar="PATH", help="the control socket")
    parser.add_argument("--state-dir", metavar="DIR", help="where pins and the last accepted configuration are kept")
    parser.add_argument("--runtime-dir", metavar="DIR", help="where sockets and logs are")
    parser.add_argument("--check", action="store_true", help="validate the configuration and exit")
    parser.add_argument("--replace", action="store_true", help="take over from a running manager, with its workers")
    parser.add_argument("--version", action="version", version=f"lazyd {__version__}")
    return parser


def _check(config: str | None, state: str | None) -> int:
    from lazyd.config import check, find

    lines, status = check(find(config), places.state_dir(state))
    print("\n".join(lines))
    return status


def _serve(options: argparse.Namespace) -> int:
    gc.disable()  # until everything is there: what lives for ever is not worth looking through
    _import_asyncio()
    gpus, first = _look_at_gpus()
    from . import configuration, lock, meanings, output, pins
    from .control import sockets
    from .control.roles import Roles
    from .parts import Beginnings

    output.set_up()
    _allow_many_connections()
    runtime = places.runtime_dir(options.runtime_dir)
    state = places.state_dir(options.state_dir)
    promotions = meanings.load(state)
    loaded = configuration.load_for_start(options.config, state, meanings.promoted(promotions))
    roles = Roles.of_this_machine()
    sockets.check_length(runtime)
    sockets.make_directory(runtime)
    lock.acquire(places.lock_file(runtime), replace=options.replace)
    listening, inherited = sockets.control_socket(options.socket, runtime, roles.group)
    from lazyd.devices.ram import Ram

    given = Beginnings(
        version=__version__,
        config_file=options.config,
        runtime=runtime,
        state=state,
        listening=listening,
        inherited=inherited,
        roles=roles,
        loaded=loaded,
        pins=pins.load(state),
        meanings=promotions,
        ram=Ram().sample(),
        gpus=gpus,
        first=first,
    )
    return _run(given)


def _look_at_gpus() -> tuple[Nvml, FirstLook]:
    """Begins to look: drivers take their time, and the rest can be got ready meanwhile."""
    from lazyd.devices.first_look import FirstLook
    from lazyd.devices.nvml import Nvml

    gpus = Nvml()
    return gpus, FirstLook(gpus)


def _run(given: Beginnings) -> int:
    import asyncio
    import logging

    from .server import Server

    async def day() -> int:
        return await Server(given).run()

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    status = loop.run_until_complete(day())
    logging.shutdown()
    os._exit(status)  # at once: a thread that waits for a dead disk must not hold the manager


def _allow_many_connections() -> None:
    """The usual soft limit of 1024 is kept for programs that use select, and this is none."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _import_asyncio() -> None:
    """Imports asyncio without ssl, a quarter of its time and of its memory.

    The manager opens no network socket. Whoever imports ssl afterwards gets it.
    """
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # how Python is told that there is no such module
    try:
        import asyncio  # noqa: F401
    finally:
        del sys.modules["ssl"]
