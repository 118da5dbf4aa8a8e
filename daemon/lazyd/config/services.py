"""The keys of services: programs with a port."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.services import Busy, Deed, Http, Ready, Stop
from ..core.spec import ModelSpec
from ..runtimes.service_words import PLACEHOLDER, WORDS
from . import kinds
from .compounds import Json, Strings
from .given import described, string
from .problems import Fault, Report, Wrong, choose, quoted
from .rows import Group, Key

ONLY = ("service",)
SIGNALS = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL")
METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE")
EXAMPLE = '["/opt/ComfyUI/venv/bin/python", "/opt/ComfyUI/main.py", "--port", "${port}"]'
PROXY = '"127.0.0.1:8188"'


@dataclass(frozen=True)
class Command:
    """A program and its arguments. A program with a slash is a path, which may be relative to the file's directory."""

    words: str = "list of strings"

    def read(self, value: object, base: str) -> tuple[str, ...]:
        given = Strings().read(value, base)
        if not given or not given[0]:
            raise Wrong(Fault("no program", f"write it as {EXAMPLE}"))
        faults = [
            Fault(f"item {n}: a NUL character", "leave it out") for n, item in enumerate(given, 1) if "\0" in item
        ]
        faults += [
            Fault(f"item {n}: {quoted(found[0])} is not known", choose(found[1], WORDS))
            for n, item in enumerate(given, 1)
            for found in PLACEHOLDER.finditer(item)
            if found[1] not in WORDS
        ]
        if faults:
            raise Wrong(*faults)
        program = os.path.normpath(os.path.join(base, os.path.expanduser(given[0]))) if "/" in given[0] else given[0]
        return program, *given[1:]

    def show(self, value: tuple[str, ...]) -> object:
        return list(value)


@dataclass(frozen=True)
class UrlPath(kinds.Plain):
    """Of a request, with its query."""

    words: str = "path of a URL"

    def read(self, value: object, _base: str) -> str:
        text = string(value, "a path in quotes", '"/system_stats"')
        if not text.startswith("/") or not text.isascii() or not text.isprintable() or " " in text:
            raise Wrong(Fault(f"{quoted(text)} is not the path of a URL", 'write it as "/system_stats"'))
        return text


@dataclass(frozen=True)
class Pattern(kinds.Plain):
    """A regular expression."""

    words: str = "regular expression"

    def read(self, value: object, _base: str) -> str:
        text = kinds.Text("a regular expression", "'listening on'").read(value, _base)
        try:
            re.compile(text)
        except re.error as error:
            raise Wrong(Fault(f"{quoted(text)} is no regular expression: {error}", "correct it")) from None
        return text


@dataclass(frozen=True)
class Address(kinds.Plain):
    """Where a proxy listens: on this machine alone. Held as ``host:port``."""

    words: str = "address:port, or a port"

    def read(self, value: object, _base: str) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            value = f"127.0.0.1:{value}"
        if not isinstance(value, str):
            raise Wrong(Fault(f"expected an address, not {described(value)}", f"write it as {PROXY}"))
        host, _, port = value.rpartition(":")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise Wrong(Fault(f"{quoted(value)} has no port from 1 to 65535", f"write it as {PROXY}"))
        host = host.strip("[]") or "127.0.0.1"
        try:
            local = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            raise Wrong(Fault(f"{quoted(host)} is not an address", f"write it as {PROXY}")) from None
        if not local:
            what = f"{quoted(host)} is seen by other machines, and everybody there could use the service"
            raise Wrong(Fault(what, f"write {PROXY}, and a web server that knows its users in front of it"))
        return f"[{host}]:{int(port)}" if ":" in host else f"{host}:{int(port)}"


def _ready(fields: dict[str, Any]) -> Ready:
    ways = [name for name in ("http", "line", "port") if name in fields]
    if len(ways) > 1:
        raise Wrong(Fault(f"{' and '.join(ways)} stand together", "write one of them", (ways[-1],)))
    if fields.get("port") is False:
        raise Wrong(Fault("without its port nobody reaches it", "write port = true, or leave it out", ("port",)))
    return Ready(**fields)


def _deed(fields: dict[str, Any]) -> Deed:
    if "http" not in fields:
        raise Wrong(Fault("missing: http", 'write it as {http = {path = "/free"}}'))
    return Deed(**fields)


def _http(fields: dict[str, Any]) -> Http:
    if "path" not in fields:
        raise Wrong(Fault("missing: path", 'write it as path = "/free"'))
    return Http(**fields)


def _busy(fields: dict[str, Any]) -> Busy:
    missing = [name for name in ("http", "fields") if not fields.get(name)]
    if missing:
        raise Wrong(Fault(f"missing: {missing[0]}", 'write it as {http = "/queue", fields = ["queue_running"]}'))
    return Busy(**fields)


HTTP = Group(
    (
        Key("path", "The path that is asked for.", UrlPath(), example='"/free"'),
        Key("method", "How.", kinds.OneOf(METHODS), default='"POST"'),
        Key("json", "The body.", Json(), example="{unload_models = true, free_memory = true}"),
    ),
    _http,
)

READY = Group(
    (
        Key("http", "A path that it answers with a status below 400.", UrlPath(), example='"/system_stats"'),
        Key("line", "Found in a line of its output.", Pattern(), example='"server started"', apart=True),
        Key("port", "Its port is open. So it is where nothing is said.", kinds.Bool(), example="true", apart=True),
        Key(
            "elsewhere",
            "Its port is opened by a process that it did not start, as docker's is. Without this, that is another "
            "program's port, and another port is tried.",
            kinds.Bool(),
            default="false",
        ),
    ),
    _ready,
)

BUSY = Group(
    (
        Key("http", "A path that it answers with an object as JSON.", UrlPath(), example='"/queue"'),
        Key(
            "fields",
            "It works as long as one of these fields is not empty, 0, false or null. A dot leads into an object.",
            Strings(),
            example='["queue_running", "queue_pending"]',
        ),
    ),
    _busy,
)

PARK = Group((Key("http", "A request that has it give back the memory of its GPU.", HTTP),), _deed)
UNPARK = Group((Key("http", "A request that has it load again.", HTTP),), _deed)

STOP = Group(
    (
        Key(
            "signal",
            "Sent to it and all that it started in its process group.",
            kinds.OneOf(SIGNALS),
            default='"SIGTERM"',
        ),
        Key("grace", "How long it may take to end; then it is killed.", kinds.Duration(), "grace_s", '"10s"'),
        Key(
            "command",
            "Run before the signal, with the same placeholders as command.",
            Command(),
            example='["docker", "stop", "comfyui-${port}"]',
        ),
    ),
    lambda fields: Stop(**fields),
)

KEYS = (
    Key(
        "command",
        "The program of a service, and its arguments. ${port}: the port that it is to open on 127.0.0.1. "
        "${device}: cuda or cpu. ${gpus}: the UUIDs of its GPUs. Required by service.",
        Command(),
        example=EXAMPLE,
        only=ONLY,
    ),
    Key(
        "directory",
        "Where the program of a service is started. Without it in /.",
        kinds.Path(),
        example='"/opt/ComfyUI"',
        only=ONLY,
    ),
    Key("ready", "How a service shows that it is ready, besides its open port.", READY, only=ONLY),
    Key(
        "busy",
        "How it is known that a service still works for a client that has gone: until it does not, it is in use.",
        BUSY,
        only=ONLY,
    ),
    Key("park", "How a service gives back the memory of its GPU and stays.", PARK, only=ONLY),
    Key("unpark", "How a parked service loads again, where it does not do so by itself.", UNPARK, only=ONLY),
    Key("stop", "How a service is ended.", STOP, only=ONLY),
    Key(
        "proxy",
        "Where ordinary HTTP clients of a service find it, loaded or not: on this machine. A request loads it.",
        Address(),
        example=PROXY,
        only=ONLY,
    ),
)


def check(models: Mapping[str, ModelSpec], report: Report) -> None:
    """What services demand of each other."""
    taken: dict[str, str] = {}
    for key, spec in models.items():
        if spec.proxy is None:
            continue
        other = taken.setdefault(spec.proxy.replace("localhost", "127.0.0.1"), key)
        if other != key:
            report.wrong(("models", key, "proxy"), f"{quoted(other)} has the same", "write another port")
