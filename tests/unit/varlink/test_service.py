"""The table of methods and what the stock varlink client makes of it."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec
import pytest
import varlink

from lazyd.varlink import parameters
from lazyd.varlink.service import SERVICE_DESCRIPTION, interface_text

from .conftest import Server

STRUCTS = {
    "Status": parameters.Status,
    "Describe": parameters.OfModel,
    "Logs": parameters.Logs,
    "History": parameters.History,
    "Load": parameters.Load,
    "Get": parameters.Get,
    "Release": parameters.Release,
    "Call": parameters.CallMethod,
    "Unload": parameters.Unload,
    "Warm": parameters.Warm,
    "Pin": parameters.OfModel,
    "Reserve": parameters.Reserve,
}


@pytest.mark.parametrize("method", sorted(STRUCTS))
def test_parameters_are_those_of_the_interface(method: str) -> None:
    interface = varlink.Interface(interface_text())
    declared = interface.get_method(method).in_type.fields
    ours = {field.encode_name: field.required for field in msgspec.structs.fields(STRUCTS[method])}
    assert set(ours) == set(declared)
    for name, required in ours.items():
        assert required == (not isinstance(declared[name], varlink.scanner._Maybe)), name


def test_the_service_description_is_a_varlink_interface() -> None:
    assert varlink.Interface(SERVICE_DESCRIPTION).name == "org.varlink.service"


async def test_the_stock_client_reads_the_interface_from_the_service_and_calls_it(
    server: Server, directory: str
) -> None:
    def ask() -> tuple[Any, Any]:
        with varlink.Client(f"unix:{os.path.join(directory, 'control.sock')}") as client:
            names = list(client.get_interfaces())
            with client.open("io.lazyd") as lazyd:
                return names, lazyd.Get("ocr", 2.5)

    async with asyncio.timeout(10):
        names, reply = await asyncio.to_thread(ask)
    assert names == ["org.varlink.service", "io.lazyd"]
    assert reply["model"] == "ocr"
    assert server.service.lookup("io.lazyd.Get") is not None


async def test_the_stock_client_sees_our_errors(server: Server, directory: str) -> None:
    server.role = "user"

    def ask() -> None:
        with varlink.Client(f"unix:{os.path.join(directory, 'control.sock')}").open("io.lazyd") as lazyd:
            lazyd.Reload()

    with pytest.raises(varlink.VarlinkError, match="PermissionDenied"):
        await asyncio.to_thread(ask)
