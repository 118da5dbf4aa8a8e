"""A process that has imported a model library, and forks workers that need not import it again.

It says ``ready`` with the fingerprint of all it imported, or ``refused`` with the reason; then it
obeys ``{"do": "fork", "worker": id}``, which comes with the worker's end of its host link and its
log. The fork is double, so that the worker becomes the host's child (the host is a subreaper).
All worker code is imported before the first fork: an upgrade on disk cannot mix versions.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from ..runtimes import runtime_named
from ..wire import packets
from . import checks, link, process
from . import main as worker

_MAX_PACKET_BYTES = 64 * 1024


def serve(fd: int, host: int, runtime_name: str, imports: Sequence[str]) -> None:
    """Imports the runtime's library and `imports`, and forks until the host closes the socket `fd`."""
    process.die_with_host(host)
    process.set_name(f"lazyd-z:{runtime_name}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=fd)
    reason = _prepare(runtime_name, imports) or checks.why_not_fork({0, 1, 2, fd})
    if reason is not None:
        _say(control, {"is": "refused", "reason": reason})
        return
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()  # keeps a collection in a child from copying the library's pages
    _say(control, {"is": "ready", "files": checks.fingerprint()})
    while True:
        data, ancillary, _, _ = control.recvmsg(_MAX_PACKET_BYTES, packets.ANCILLARY, packets.CLOSE_ON_EXEC)
        if not data:
            return
        message, fds = link.decode(data, packets.received(ancillary))
        if message.get("do") == "fork":
            _fork(control, message["worker"], host, *fds)


def _prepare(runtime_name: str, imports: Sequence[str]) -> str | None:
    """Imports what workers will need. Says why that failed, if it did."""
    try:
        for name in (*runtime_named(runtime_name).imports, *imports):
            importlib.import_module(name)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    worker.import_all()
    return None


def _fork(control: socket.socket, name: str, host: int, worker_link: int, log: int) -> None:
    told, tells = os.pipe()
    try:
        middle = os.fork()
    except OSError as error:
        _say(control, {"is": "failed", "worker": name, "reason": f"cannot fork: {error.strerror}"})
        for fd in (told, tells, worker_link, log):
            os.close(fd)
        return
    if middle == 0:
        _be_middle(control, told, tells, host, worker_link, log)
    for fd in (tells, worker_link, log):
        os.close(fd)
    with open(told) as pipe:
        pid = pipe.read()
    os.waitpid(middle, 0)
    if pid:
        _say(control, {"is": "forked", "worker": name, "pid": int(pid)})
    else:
        _say(control, {"is": "failed", "worker": name, "reason": "cannot fork: no memory or too many processes"})


def _be_middle(control: socket.socket, told: int, tells: int, host: int, worker_link: int, log: int) -> None:
    """The process between: its end makes the worker the host's child."""
    status = 1
    try:
        pid = os.fork()
        if pid == 0:
            control.close()
            os.close(told)
            os.close(tells)
            _be_worker(host, worker_link, log)
        os.write(tells, str(pid).encode())
        status = 0
    finally:
        os._exit(status)


def _be_worker(host: int, worker_link: int, log: int) -> None:
    try:
        os.setsid()
        process.replace_streams(log)
        process.reseed()
        worker.run(worker_link, host)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _say(control: socket.socket, message: dict[str, Any]) -> None:
    data, fds, ours = link.encode(message)
    socket.send_fds(control, [data], fds)
    if ours is not None:
        os.close(ours)
