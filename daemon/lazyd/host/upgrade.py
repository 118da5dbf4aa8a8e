"""The host executes itself anew: pid, children, pidfds, cgroup, sockets and workers stay.

What it knows goes into a file in memory, as JSON; descriptors stay open under their numbers. The
new version is first tried in a process of its own, as a version that cannot start would take all
workers with it. Signals wait until it is there.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..worker.link import Link
from . import helper
from .assistant import unsent
from .facts import Facts, State
from .host import Host
from .worker import Worker

OPTION = "--state-fd"
TRIAL_S = 30.0
HELD_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR2)


def prepare(host: Host, lock: int) -> Callable[[], None]:
    """What `Host.on_upgrade` is to be."""

    def tried(status: int | None, output: str) -> None:
        if status != 0:
            host.upgrade_failed(f"the new version does not start: {output.strip() or 'it took too long'}")
        else:
            _become_new(host, lock)

    def attempt() -> None:
        host.on_upgrade = lambda: None
        helper.run(host.loop, host.reaper, [*_command(), "--version"], TRIAL_S, tried_once)

    def tried_once(status: int | None, output: str) -> None:
        host.on_upgrade = attempt
        tried(status, output)

    return attempt


def _become_new(host: Host, lock: int) -> None:
    kept: list[int] = []
    state = _state(host, lock, kept)
    fd = os.memfd_create("lazyd-host")
    os.write(fd, json.dumps(state).encode())
    for each in [fd, *kept]:
        os.set_inheritable(each, True)
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD_SIGNALS)
    command = [*_command(), OPTION, str(fd)]
    try:
        os.execv(command[0], command)
    except OSError as error:
        # Sockets have been let go of: the only way on is to begin again from the state.
        host.note(f"not upgraded: {error}")
        os._exit(1)


def _command() -> list[str]:
    """How this process was started, without an earlier state."""
    command = [sys.executable, *sys.orig_argv[1:]]
    if OPTION in command:
        at = command.index(OPTION)
        del command[at : at + 2]
    return command


def _state(host: Host, lock: int, kept: list[int]) -> dict[str, Any]:
    """Everything, with each descriptor that must stay open noted in `kept`."""

    def keep(fd: int) -> int:
        kept.append(fd)
        return fd

    def link_state(link: Link | None) -> dict[str, Any] | None:
        if link is None or not link.is_open:
            return None
        fd, unsent = link.release()
        packets = [[base64.b64encode(data).decode(), [keep(each) for each in fds]] for data, fds in unsent]
        return {"fd": keep(fd), "unsent": packets}

    return {
        "started": host.started,
        "lock": keep(lock),
        "listener": keep(host.door.listener.fileno()),
        "manager": link_state(host.door.manager),
        "cgroups": str(host.cgroups.base) if host.cgroups is not None else None,
        "max_zygotes": host.zygotes.most,
        "linger_s": host.linger.linger_s,
        "quitting": host.is_quitting,
        "kept": host.kept,
        "warming": host.warming.state(keep, link_state),
        "proxying": host.proxying.state(keep, link_state),
        "deferred": [[message, [keep(fd) for fd in fds]] for message, fds in host.deferred],
        "workers": [
            {
                "facts": asdict(worker.facts),
                "link": link_state(worker.link),
                "log": keep(worker.log.fd),
                "tail": base64.b64encode(worker.log.tail).decode(),
                "pidfd": keep(host.reaper.pidfd(worker.facts.pid))
                if worker.facts.pid is not None and host.reaper.knows(worker.facts.pid)
                else None,
            }
            for worker in host.workers.values()
            if worker.log is not None
        ],
    }


def read_state(fd: int) -> dict[str, Any]:
    """What the earlier self has left; all descriptors in it close on exec again."""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        state: dict[str, Any] = json.loads(file.read())
    for each in _descriptors(state):
        os.set_inheritable(each, False)
    return state


def restore(host: Host, state: dict[str, Any]) -> None:
    """Goes on as the earlier self would have."""
    host.started = state["started"]
    host.zygotes.most = state["max_zygotes"]
    host.linger.linger_s = state["linger_s"]
    host.is_quitting = state["quitting"]
    host.kept = state.get("kept")  # a version before this one kept nothing
    if state["manager"] is not None:
        link = host.door.adopt(socket.socket(fileno=state["manager"]["fd"]))
        link.resume(unsent(state["manager"]))
    for each in state["workers"]:
        facts = Facts(**{**each["facts"], "state": State(each["facts"]["state"])})
        worker = host.workers[facts.id] = Worker(host.shop, facts, None)
        worker.adopt(_link(worker, each["link"]), each["log"], each["pidfd"], base64.b64decode(each["tail"]))
    if state.get("warming") is not None:  # a version before this one had none
        host.warming.adopt(state["warming"])
    if state.get("proxying") is not None:
        host.proxying.adopt(state["proxying"])
    if host.cgroups is not None:
        host.cgroups.keep_only({worker.facts.cgroup or "" for worker in host.workers.values()})
    for message, fds in state["deferred"]:
        host.loop.soon(functools.partial(host.order, message, fds))


def _link(worker: Worker, state: dict[str, Any] | None) -> Link | None:
    if state is None:
        return None
    link = worker.new_link(socket.socket(fileno=state["fd"]))
    link.resume(unsent(state))
    return link


def _descriptors(state: dict[str, Any]) -> list[int]:
    assistants = [each for name in ("warming", "proxying") if (each := state.get(name)) is not None]
    links = [
        state["manager"],
        *(worker["link"] for worker in state["workers"]),
        *(assistant["link"] for assistant in assistants),
    ]
    found = [state["lock"], state["listener"], *(fd for _, fds in state["deferred"] for fd in fds)]
    for worker in state["workers"]:
        found += [fd for fd in (worker["log"], worker["pidfd"]) if fd is not None]
    found += [fd for assistant in assistants for fd in (assistant["log"], assistant["pidfd"])]
    for link in links:
        if link is not None:
            found += [link["fd"], *(fd for _, fds in link["unsent"] for fd in fds)]
    return found
