"""The table of io.lazyd: every method, what it takes, who may call it, and who answers it."""

from __future__ import annotations

from lazyd.errors import INTERFACE
from lazyd.varlink import parameters as given_for
from lazyd.varlink.service import Method, Service

from .cached import Cached
from .calling import Caller
from .looking import Looking
from .methods import Methods
from .naming import Naming
from .recorded import Recorded
from .reservations import Reservations
from .roles import ADMINS, EVERYBODY, Roles


def service(
    version: str,
    roles: Roles,
    looking: Looking,
    recorded: Recorded,
    methods: Methods,
    naming: Naming,
    cached: Cached,
    reservations: Reservations,
    caller: Caller,
) -> Service:
    """All that the control socket answers."""
    table = {
        "Status": Method(looking.status, given_for.Status, roles=EVERYBODY),
        "Health": Method(looking.health, roles=EVERYBODY),
        "Describe": Method(looking.describe, given_for.OfModel, roles=EVERYBODY),
        "Metrics": Method(looking.metrics, roles=EVERYBODY),
        "Logs": Method(looking.logs, given_for.Logs, roles=EVERYBODY, more_only=True),
        "Subscribe": Method(looking.subscribe, roles=EVERYBODY, more_only=True),
        "History": Method(recorded.history, given_for.History, roles=EVERYBODY, more_only=True),
        "Load": Method(methods.load, given_for.Load, roles=EVERYBODY),
        "Get": Method(methods.get, given_for.Get, roles=EVERYBODY),
        "Release": Method(methods.release, given_for.Release, roles=EVERYBODY),
        "Call": Method(caller.call, given_for.CallMethod, roles=EVERYBODY),
        "Unload": Method(methods.unload, given_for.Unload, roles=EVERYBODY),
        "Warm": Method(methods.warm, given_for.Warm, roles=EVERYBODY),
        "Pin": Method(methods.pin, given_for.OfModel, roles=EVERYBODY),
        "Unpin": Method(methods.unpin, given_for.OfModel, roles=EVERYBODY),
        "Versions": Method(naming.versions, given_for.Versions, roles=EVERYBODY),
        "Promote": Method(naming.promote, given_for.Promote, roles=ADMINS),
        "Rollback": Method(naming.rollback, given_for.OfModel, roles=ADMINS),
        "Reload": Method(methods.reload, given_for.Reload, roles=ADMINS),
        "Register": Method(methods.register, given_for.Register, roles=ADMINS),
        "Deregister": Method(methods.deregister, given_for.OfModel, roles=ADMINS),
        "Fetched": Method(cached.fetched, roles=EVERYBODY),
        "Discard": Method(cached.discard, given_for.Discard, roles=ADMINS),
        "Reserve": Method(reservations.reserve, given_for.Reserve, roles=EVERYBODY),
    }
    found = Service(version, roles.role_of, EVERYBODY)
    for name, method in table.items():
        found.add(f"{INTERFACE}.{name}", method)
    return found
