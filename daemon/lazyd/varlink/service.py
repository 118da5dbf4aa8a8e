"""The table of methods, and what `org.varlink.service` answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from lazyd.errors import INTERFACE, SERVICE, InterfaceNotFound, LazydError, MethodNotFound, MethodNotImplemented

from .call import Call
from .parameters import InterfaceDescription, Parameters
from .peer import Peer

SERVICE_DESCRIPTION = """\
# What every varlink service answers.
interface org.varlink.service

method GetInfo() -> (vendor: string, product: string, version: string, url: string, interfaces: []string)
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)
error MethodNotFound (method: string)
error MethodNotImplemented (method: string)
error InvalidParameter (parameter: string)
error PermissionDenied ()
error ExpectedMore ()
"""

Handler = Callable[[Call, Any], None]


class Method:
    """One row of the table: how the parameters are checked, who may call, and what it does."""

    __slots__ = ("_decoder", "_parameters", "handler", "more_only", "roles")

    def __init__(
        self,
        handler: Handler,
        parameters: type[msgspec.Struct] = Parameters,
        *,
        roles: frozenset[str],
        more_only: bool = False,
    ) -> None:
        self.handler = handler
        self.roles = roles
        self.more_only = more_only
        self._parameters = parameters
        self._decoder: msgspec.json.Decoder[msgspec.Struct] | None = None

    def decode(self, parameters: msgspec.Raw) -> msgspec.Struct:
        """Checks the parameters of a call.

        Raises:
            msgspec.ValidationError: one of them is wrong.
        """
        if self._decoder is None:  # made at first use: thirty of them are a millisecond of the start
            self._decoder = msgspec.json.Decoder(self._parameters)
        return self._decoder.decode(parameters)


class Service:
    """All methods by full name, and the role of a caller.

    `role_of` says what a peer is. The roles of a method's row may call it; `org.varlink.service`
    is for everybody who could open the socket.
    """

    def __init__(self, version: str, role_of: Callable[[Peer], str], everybody: Iterable[str]) -> None:
        self._version = version
        self._descriptions = {SERVICE: SERVICE_DESCRIPTION, INTERFACE: interface_text()}
        self.role_of = role_of
        self._methods: dict[str, Method] = {}
        self.lookup = self._methods.get
        roles = frozenset(everybody)
        self.add(f"{SERVICE}.GetInfo", Method(self._get_info, roles=roles))
        self.add(f"{SERVICE}.GetInterfaceDescription", Method(self._describe, InterfaceDescription, roles=roles))

    def add(self, name: str, method: Method) -> None:
        self._methods[name] = method

    def not_there(self, name: str) -> LazydError:
        """The error for a method that is not in the table."""
        interface = name.rpartition(".")[0]
        if interface in (INTERFACE, SERVICE):
            return MethodNotFound(method=name)
        return InterfaceNotFound(interface=interface)

    def _get_info(self, call: Call, _: Parameters) -> None:
        call.reply(
            {
                "vendor": "lazyd",
                "product": "lazyd",
                "version": self._version,
                "url": "",
                "interfaces": list(self._descriptions),
            }
        )

    def _describe(self, call: Call, given: InterfaceDescription) -> None:
        if given.interface not in self._descriptions:
            raise InterfaceNotFound(interface=given.interface)
        call.reply({"description": self._descriptions[given.interface]})


def not_implemented(call: Call, _: Any) -> None:
    """Handles a method of the interface that is not built yet."""
    call.fail_with(MethodNotImplemented(method=call.method))


def interface_text() -> str:
    """The interface io.lazyd, as it is published."""
    with open(os.path.join(os.path.dirname(__file__), f"{INTERFACE}.varlink"), encoding="utf-8") as file:
        return file.read()
