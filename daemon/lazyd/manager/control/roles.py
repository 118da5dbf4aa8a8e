"""Who may do what (docs/protocol.md: "The control socket")."""

from __future__ import annotations

import enum
import grp
import os

from lazyd.varlink.peer import Peer

GROUP = "lazyd"
"""Members of this group are users."""


class Role(enum.StrEnum):
    ADMIN = "admin"
    """root and the daemon's own user: everything."""
    USER = "user"
    """All but Register, Deregister, Reload and forced unload."""
    NONE = "none"
    """Somebody who should not have been able to open the socket: nothing."""


ADMINS = frozenset({Role.ADMIN.value})
EVERYBODY = frozenset({Role.ADMIN.value, Role.USER.value})


class Roles:
    """Gives every peer its role. `group` is the id of the group of users, if there is one."""

    def __init__(self, group: int | None, own_uid: int) -> None:
        self.group = group
        self._admins = frozenset({0, own_uid})

    @classmethod
    def of_this_machine(cls) -> Roles:
        """Looks the group up now; a group that is made later counts from the next start on."""
        try:
            group: int | None = grp.getgrnam(GROUP).gr_gid
        except KeyError:
            group = None
        return cls(group, os.geteuid())

    def role_of(self, peer: Peer) -> str:
        if peer.uid in self._admins:
            return Role.ADMIN.value
        if self.group is not None and peer.in_group(self.group):
            return Role.USER.value
        return Role.NONE.value
