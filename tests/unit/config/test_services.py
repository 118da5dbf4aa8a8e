"""The keys of services: what is accepted, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lazyd.config.shown import shown
from lazyd.core.services import Busy, Deed, Http, Ready, Stop
from lazyd.core.spec import Config

Accepted = Callable[..., Config]
Lines = Callable[..., list[str]]

COMFYUI = """
[models.comfyui]
runtime = "service"
command = ["./run", "--port", "${port}"]
proxy = 8188
stop = {grace = "20s", command = ["docker", "stop", "comfyui-${port}"]}
ready = {http = "/system_stats", elsewhere = true}
busy = {http = "/queue", fields = ["queue_running", "exec.pending"]}
park = {http = {path = "/free", json = {unload_models = true}}}
"""
PLAIN = '[models.m]\nruntime = "service"\ncommand = ["m"]\n'


def test_a_service_is_read_with_all_its_tables(accepted: Accepted, tmp_path: object) -> None:
    spec = accepted(COMFYUI).models["comfyui"]
    assert spec.command == (f"{tmp_path}/run", "--port", "${port}")
    assert spec.ready == Ready(http="/system_stats", elsewhere=True)
    assert spec.busy == Busy(http="/queue", fields=("queue_running", "exec.pending"))
    assert spec.park == Deed(http=Http(path="/free", json={"unload_models": True}))
    assert spec.stop == Stop(grace_s=20.0, command=("docker", "stop", "comfyui-${port}"))
    assert spec.proxy == "127.0.0.1:8188"
    assert spec.concurrency == 64
    assert spec.stop_grace_s == 20.0


def test_what_is_shown_of_a_service_could_be_written(accepted: Accepted) -> None:
    table = shown(accepted(COMFYUI).models["comfyui"])
    assert table["park"] == {"http": {"path": "/free", "method": "POST", "json": {"unload_models": True}}}
    assert table["stop"] == {"signal": "SIGTERM", "grace": "20s", "command": ["docker", "stop", "comfyui-${port}"]}
    assert table["ready"] == {"http": "/system_stats", "elsewhere": True}
    assert "unpark" not in table


def test_another_proxy_leaves_what_is_loaded_alone(accepted: Accepted) -> None:
    one, other = (accepted(f"{PLAIN}proxy = {port}").models["m"] for port in (1000, 2000))
    assert one.identity == other.identity
    assert one.identity != accepted(PLAIN.replace('["m"]', '["m", "-v"]')).models["m"].identity


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("proxy = '0.0.0.0:80'", '"0.0.0.0" is seen by other machines'),
        ("proxy = 'example.org:80'", '"example.org" is not an address'),
        ("proxy = 0", "has no port from 1 to 65535"),
        ("proxy = true", "expected an address, not a boolean (true)"),
        ("ready = {http = 'stats'}", '"stats" is not the path of a URL'),
        ("ready = {line = '('}", '"(" is no regular expression'),
        ("ready = {http = '/', port = true}", "http and port stand together; write one of them"),
        ("ready = {port = false}", "without its port nobody reaches it"),
        ("park = {}", "missing: http"),
        ("park = {http = {}}", "missing: path"),
        ("busy = {http = '/queue'}", "missing: fields"),
        ("stop = {signal = 'KILL'}", "did you mean SIGKILL?"),
        ("env = {A = '1'}\nfactory = 'a:b'", 'runtime "service" has no such key'),
    ],
)
def test_a_key_of_a_service_that_is_wrong(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(PLAIN + text)
    assert says in line


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("[]", "no program"),
        ("['m', '${prot}']", '"${prot}" is not known; did you mean port?'),
        ("'m'", "expected a list"),
    ],
)
def test_a_command_that_is_wrong(lines: Lines, command: str, says: str) -> None:
    (line,) = lines(f"[models.m]\nruntime = 'service'\ncommand = {command}")
    assert says in line


def test_two_services_cannot_have_one_proxy(lines: Lines) -> None:
    (line,) = lines(PLAIN + "proxy = 8188\n" + PLAIN.replace("models.m", "models.n") + "proxy = 'localhost:8188'")
    assert 'models.n.proxy: "m" has the same; write another port' in line
