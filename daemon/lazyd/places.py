"""Where sockets, state and runtime directories are (docs/protocol.md).

Every path that two processes must agree on is made here. Nothing in this module touches the
file system but to ask whether a socket exists. Paths are plain strings: `pathlib` would cost a
command more time to import than the rest of the client. Anybody may import this.
"""

from __future__ import annotations

import os

SYSTEM_RUNTIME = "/run/lazyd"
SYSTEM_STATE = "/var/lib/lazyd"
SYSTEM_CONFIG = "/etc/lazyd"
"""Which configuration is read, `lazyd.config.files` says."""


def runtime_dir(given: str | None = None) -> str:
    """The daemon's runtime directory: `given`, else root's or the user's own."""
    if given:
        return os.path.abspath(given)
    return SYSTEM_RUNTIME if os.geteuid() == 0 else os.path.join(_user_runtime(), "lazyd")


def state_dir(given: str | None = None) -> str:
    """The daemon's state directory: `given`, else root's or the user's own."""
    if given:
        return os.path.abspath(given)
    if os.geteuid() == 0:
        return SYSTEM_STATE
    return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "lazyd")


def chosen_socket(given: str | None = None) -> str | None:
    """The control socket that the caller asked for: `given`, else ``$LAZYD_SOCKET``, else None."""
    chosen = given or os.environ.get("LAZYD_SOCKET")
    return os.path.abspath(chosen) if chosen else None


def client_socket(given: str | None = None) -> str:
    """The control socket that a client connects to.

    What was asked for, else the user's own daemon's if it is there, else the machine's. cron
    sets no ``XDG_RUNTIME_DIR``: then it is ``/run/user/UID``.
    """
    chosen = chosen_socket(given)
    if chosen:
        return chosen
    own = control_socket(os.path.join(_user_runtime(), "lazyd"))
    return own if os.path.exists(own) else control_socket(SYSTEM_RUNTIME)


def control_socket(runtime: str) -> str:
    """The control socket below the runtime directory; the daemon's default."""
    return os.path.join(runtime, "control.sock")


def lock_file(runtime: str) -> str:
    """Locked by the manager as long as it lives; holds its pid."""
    return os.path.join(runtime, "lazyd.lock")


def host_dir(runtime: str) -> str:
    """All that belongs to the host: its socket, the data sockets, the logs."""
    return os.path.join(runtime, "host")


def host_socket(runtime: str) -> str:
    """Where the manager reaches the host."""
    return os.path.join(runtime, "host", "host.sock")


def host_log(runtime: str) -> str:
    """The host's own output."""
    return os.path.join(runtime, "host", "host.log")


def host_pid_file(runtime: str) -> str:
    """Holds the host's pid."""
    return os.path.join(runtime, "host", "host.pid")


def data_socket(runtime: str, worker: str) -> str:
    """Where clients reach the worker with this id."""
    return os.path.join(runtime, "host", "w", f"{worker}.sock")


def worker_log(runtime: str, key: str) -> str:
    """The output of the workers of the model with this key; the older half ends in ``.1``."""
    from urllib.parse import quote  # only the daemon's side needs it, and clients count milliseconds

    return os.path.join(runtime, "host", "logs", f"{quote(key, safe='')}.log")


def accepted_config(state: str) -> str:
    """The last accepted configuration, in its quick form."""
    return os.path.join(state, "accepted.msgpack")


def pins_file(state: str) -> str:
    """What users have pinned."""
    return os.path.join(state, "pins.json")


def registered_file(state: str) -> str:
    """The models that clients have registered."""
    return os.path.join(state, "registered.json")


def meanings_file(state: str) -> str:
    """What people have said of names, and what these have meant."""
    return os.path.join(state, "meanings.json")


def learned_file(state: str) -> str:
    """What loads have needed."""
    return os.path.join(state, "learned.db")


def history_file(state: str) -> str:
    """Which models were used when."""
    return os.path.join(state, "history.db")


def readiness_file(state: str) -> str:
    """When models are needed, and how their loads went."""
    return os.path.join(state, "readiness.db")


def fetched_dir(state: str) -> str:
    """Where what was fetched is kept (docs/fetching.md)."""
    return os.path.join(state, "fetched")


def fetch_socket(runtime: str) -> str:
    """Where the manager reaches the fetcher."""
    return os.path.join(runtime, "fetch.sock")


def fetch_log(runtime: str) -> str:
    """The output of a fetcher that the manager has started."""
    return os.path.join(runtime, "fetch.log")


def _user_runtime() -> str:
    return os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
