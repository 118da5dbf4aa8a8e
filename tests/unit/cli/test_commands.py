"""What each command asks of the daemon, prints and exits with."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyctl.commands.show import way_in_words
from lazyd import errors

from .conftest import Daemon, Lazyctl
from .samples import describe, device, event, health, hot, model, reservation, status


def test_status_shows_the_daemon_devices_models_and_reservations(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Status", status(hot(), model("ocr"), reservations=[reservation()]))
    result = lazyctl("status")
    assert result.status == 0
    assert result.err == ""
    blocks = result.out.split("\n\n")
    assert blocks[0] == "lazyd 0.1.0, running for 3 h 12 min, pid 4711"
    assert blocks[1].splitlines()[1].split()[0] == "ram"
    assert [line.split()[0] for line in blocks[2].splitlines()] == ["MODEL", "gemma", "ocr"]
    assert [line.split() for line in blocks[3].splitlines()] == [
        ["RESERVED", "ON", "PID", "FOR"],
        ["8.0", "GiB", "gpu0", "99", "train.py"],
    ]


def test_status_is_plain_and_narrow_without_a_terminal(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Status", status(hot("m" * 300), devices=[device(), device("gpu0")]))
    lines = lazyctl("status").out.splitlines()
    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_status_without_a_terminal_lists_every_model(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Status", status(*(model(f"m{number}") for number in range(300))))
    assert "m299" in lazyctl("status").out


def test_status_of_a_model_shows_all_that_is_known_about_it(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Status", status(hot(aliases=["reader"])))
    result = lazyctl("status", "reader")
    assert daemon.last("Status") == {"model": "reader"}
    assert "pid 4712" in result.out
    assert "BOOKED" not in result.out


def test_status_says_so_if_no_model_is_configured(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Status", status())
    assert "no models are configured" in lazyctl("status").out


@pytest.mark.parametrize(
    "line",
    [
        ["--json", "status", "gemma"],
        ["status", "--json", "gemma"],
        ["status", "gemma", "--json"],
    ],
)
def test_json_may_stand_anywhere_and_is_the_reply_itself(daemon: Daemon, lazyctl: Lazyctl, line: list[str]) -> None:
    reply = status(hot("语音"), schema=1)
    daemon.answer("Status", reply)
    result = lazyctl(*line)
    assert result.json == reply
    assert result.out.count("\n") == 1


def test_socket_may_stand_anywhere(daemon: Daemon, lazyctl: Lazyctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYD_SOCKET", "/nonexistent")
    daemon.answer("Status", status(hot()))
    assert lazyctl("status", "--socket", str(daemon.path)).status == 0
    assert lazyctl("--socket", str(daemon.path), "status").status == 0


@pytest.mark.parametrize(
    ("line", "method", "parameters"),
    [
        (["load", "gemma"], "Load", {"model": "gemma"}),
        (["load", "gemma", "--timeout", "2min"], "Load", {"model": "gemma", "timeoutSec": pytest.approx(120, abs=2)}),
        (["unload", "gemma", "ocr:3"], "Unload", {"models": ["gemma", "ocr:3"]}),
        (["unload", "--all", "--force"], "Unload", {"all": True, "force": True}),
        (["unload", "--idle", "--timeout", "5"], "Unload", {"idle": True, "timeoutSec": pytest.approx(5, abs=2)}),
        (["warm", "gemma", "ocr"], "Warm", {"models": ["gemma", "ocr"]}),
        (
            ["warm", "gemma", "--tier", "ram", "--wait", "--timeout", "1h"],
            "Warm",
            {"models": ["gemma"], "tier": "ram", "wait": True, "timeoutSec": pytest.approx(3600, abs=2)},
        ),
        (["show", "gemma"], "Describe", {"model": "gemma"}),
        (["pin", "gemma"], "Pin", {"model": "gemma"}),
        (["unpin", "gemma"], "Unpin", {"model": "gemma"}),
        (["health"], "Health", {}),
        (["logs", "gemma"], "Logs", {"model": "gemma"}),
        (["logs", "-f", "gemma"], "Logs", {"model": "gemma", "follow": True}),
        (["events"], "Subscribe", {}),
        (["reload"], "Reload", {}),
        (["reload", "--now"], "Reload", {"now": True}),
        (
            ["add", "gemma:2", "--path", "/m/gemma.gguf", "--set", "options.n_ctx=512", "--set", "idle_timeout=5min"],
            "Register",
            {
                "spec": {
                    "name": "gemma:2",
                    "runtime": "llama_cpp",
                    "path": "/m/gemma.gguf",
                    "options": {"n_ctx": 512},
                    "idle_timeout": "5min",
                }
            },
        ),
        (
            ["add", "tts", "--runtime", "python", "--set", "pin=true", "--now"],
            "Register",
            {"spec": {"name": "tts", "runtime": "python", "pin": True}, "now": True},
        ),
        (["remove", "gemma"], "Deregister", {"model": "gemma"}),
    ],
)
def test_a_command_asks_exactly_what_was_typed(
    daemon: Daemon, lazyctl: Lazyctl, line: list[str], method: str, parameters: dict[str, Any]
) -> None:
    answer_all(daemon)
    assert lazyctl(*line).status == 0
    assert daemon.last(method) == parameters


def answer_all(daemon: Daemon) -> None:
    for method, replies in REPLIES.items():
        daemon.answer(method, *(replies if isinstance(replies, list) else [replies]))


REPLIES: dict[str, Any] = {
    "Status": status(hot()),
    "Load": {"state": "ready", "phase": "ready", "loadSec": 0.61},
    "Unload": {"unloaded": ["gemma"]},
    "Warm": {"models": [hot()]},
    "Describe": describe(),
    "Pin": {},
    "Unpin": {},
    "Register": {"model": "gemma"},
    "Deregister": {},
    "Health": health(gemma="loaded", ocr="pending"),
    "Logs": [{"line": "first"}, {"line": "second"}, {}],
    "Subscribe": [event(reason="asked for"), event("evicted", dropped=3)],
    "Reload": {"added": ["a"], "changed": [], "removed": ["b", "c"]},
}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["load", "gemma"], "gemma is ready, loaded in 0.61 s\n"),
        (["unload", "gemma"], "unloaded gemma\n"),
        (["pin", "gemma"], "gemma is pinned: it is neither evicted nor unloaded for idleness\n"),
        (["unpin", "gemma"], "gemma is no longer pinned\n"),
        (["add", "gemma", "--runtime", "python"], "gemma is registered\n"),
        (["remove", "gemma", "ocr"], "gemma is removed\nocr is removed\n"),
        (["health"], "ready: 1 loaded, 1 pending\n"),
        (["health", "gemma"], "gemma: loaded\n"),
        (["logs", "gemma"], "first\nsecond\n"),
        (["reload"], "configuration re-read: added a; removed b, c\n"),
    ],
)
def test_a_command_says_what_it_did(daemon: Daemon, lazyctl: Lazyctl, line: list[str], said: str) -> None:
    answer_all(daemon)
    assert lazyctl(*line) == (0, said, "")


@pytest.mark.parametrize(
    ("line", "method"),
    [
        (["load", "gemma"], "Load"),
        (["unload", "gemma"], "Unload"),
        (["warm", "gemma"], "Warm"),
        (["show", "gemma"], "Describe"),
        (["pin", "gemma"], "Pin"),
        (["health"], "Health"),
        (["health", "gemma"], "Health"),
        (["reload"], "Reload"),
    ],
)
def test_every_reply_can_be_had_as_json(daemon: Daemon, lazyctl: Lazyctl, line: list[str], method: str) -> None:
    answer_all(daemon)
    assert lazyctl("--json", *line).json == REPLIES[method]


def test_a_stream_as_json_is_one_object_a_line(daemon: Daemon, lazyctl: Lazyctl) -> None:
    answer_all(daemon)
    assert lazyctl("--json", "logs", "gemma").out == '{"line":"first"}\n{"line":"second"}\n'
    assert lazyctl("--json", "events").out.count("\n") == 2


def test_a_log_that_is_empty_says_so_beside_it(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Logs", {})
    status, out, error = lazyctl("logs", "gemma")
    assert (status, out) == (0, "")
    assert error.startswith("gemma has written nothing, or was never started; 'lazyctl status --why gemma'")


def test_unload_of_what_is_cold_is_fine(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Unload", {"unloaded": []})
    assert lazyctl("unload", "--all") == (0, "nothing to unload\n", "")


@pytest.mark.parametrize("line", [["unload"], ["unload", "gemma", "--all"], ["unload", "--all", "--idle"]])
def test_unload_wants_names_or_one_of_all_and_idle(daemon: Daemon, lazyctl: Lazyctl, line: list[str]) -> None:
    result = lazyctl(*line)
    assert result.status == 2
    assert "either names of models, or --all, or --idle" in result.error
    assert daemon.asked == []


def test_show_tells_what_the_file_says_on_few_lines(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Describe", describe())
    lines = lazyctl("show", "gemma").out.splitlines()
    facts = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in lines if line.startswith("  "))
    assert facts == {
        "runtime": "llama_cpp",
        "path": "/models/gemma.gguf",
        "idle_timeout": "5min",
        "options.n_ctx": "4096",
        "architecture": "gemma3",
        "parameters": "268,098,176",
        "fileBytes": "253 MiB",
        "bytesByType.Q8_0": "30.0 MiB",
        "on a GPU": "gpu 700 MiB, ram 310 MiB (learned), then gpu 640 MiB",
        "in RAM": "ram 703 MiB, 253 MiB of it the file, shared (file size x 1.25)",
    }
    assert lines[-1] == "and 2 keys of its file: lazyctl show --all gemma"


def test_show_ends_with_what_can_be_called_whole(daemon: Daemon, lazyctl: Lazyctl) -> None:
    taken = ", ".join(f"input_{n}: float32[N,3,H,W]" for n in range(9))
    methods = {"run": f"run({{{taken}}}) -> {{y: float32[N]}}", "other": "other() -> Tensor"}
    metadata = {"methods": methods, "inputs": [{"name": "input_0"}], "producer": "a tool"}
    daemon.answer("Describe", {**describe(), "metadata": metadata})
    out = lazyctl("show", "gemma").out
    told = out.split("\nmethods\n")[1].split("\n\n")[0]
    assert " ".join(told.split()) == f"{methods['run']} {methods['other']}"
    assert max(map(len, out.splitlines())) <= 80
    assert "inputs" not in out


def test_show_leaves_out_what_is_so_by_default(daemon: Daemon, lazyctl: Lazyctl) -> None:
    spec = {"runtime": "onnx", "tier": "on-demand", "pin": False, "swap": "stop-first", "max_wait": "2s"}
    daemon.answer("Describe", {**describe(), "spec": spec, "metadata": {}})
    out = lazyctl("show", "gemma").out
    assert [name in out for name in ("onnx", "stop-first", "on-demand", "max_wait", "pin")] == [True, True] + [
        False
    ] * 3
    assert "and 3 default settings: lazyctl show --all gemma" in out
    assert "max_wait" in lazyctl("show", "--all", "gemma").out


def test_show_all_shortens_long_values(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Describe", describe())
    out = lazyctl("show", "--all", "gemma").out
    assert "general.architecture" in out
    assert 0 < out.count("bos_token") < 10
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("ram", "in RAM"),
        ("gpu", "on a GPU"),
        ("gpu 20+12", "on 2 GPUs, 20+12 layers"),
        ("gpu 20/33", "on a GPU, 20 of 33 layers"),
    ],
)
def test_a_way_of_loading_is_told_in_words(way: str, words: str) -> None:
    assert way_in_words(way) == words


def test_what_a_load_needs_later_is_told_with_the_mapped_file_too(daemon: Daemon, lazyctl: Lazyctl) -> None:
    need = {"source": "learned", "peakBytes": {"ram": 8}, "serviceBytes": {"ram": 6}, "fileBytes": 4}
    daemon.answer("Describe", {**describe(), "prediction": {"ram": need}})
    told = " ".join(lazyctl("show", "gemma").out.split())
    assert "in RAM ram 12 B, 4 B of it the file, shared (learned), then ram 10 B" in told


def test_a_model_whose_needs_cannot_be_foretold_says_why(daemon: Daemon, lazyctl: Lazyctl) -> None:
    why = {"error": "/models/gemma.gguf: No such file"}
    daemon.answer("Describe", {**describe(), "prediction": why})
    assert "error  /models/gemma.gguf: No such file" in lazyctl("show", "gemma").out
    daemon.answer("Describe", {**describe(), "metadata": why, "prediction": why})
    assert lazyctl("show", "gemma").out.count("No such file") == 1


def test_status_says_why_a_model_is_where_it_is(daemon: Daemon, lazyctl: Lazyctl) -> None:
    why = ["it was used 2 min ago and stays for 8 min more", "x " * 100]
    daemon.answer("Status", status(hot(why=why)))
    lines = lazyctl("status", "--why", "gemma").out.splitlines()
    assert daemon.last("Status") == {"model": "gemma", "why": True}
    at = lines.index("why gemma is ready")
    assert lines[at + 1] == f"  • {why[0]}"
    assert lines[at + 2].startswith("  • x x")
    assert lines[at + 3].startswith("    x x")
    assert max(map(len, lines)) <= 80


def test_status_tells_how_to_learn_what_a_request_waits_for(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Status", status(hot("llava"), model("ocr", version="3", waiting=2)))
    assert lazyctl("status").out.splitlines()[-1] == "what ocr:3 waits for: lazyctl status --why ocr:3"
    daemon.answer("Status", status(hot("llava", waiting=1), model("ocr", state="loading", waiting=2)))
    assert "waits for" not in lazyctl("status").out


def test_why_is_about_one_model(daemon: Daemon, lazyctl: Lazyctl) -> None:
    result = lazyctl("status", "--why")
    assert (result.status, daemon.asked) == (2, [])
    assert "--why is about one model: name it" in result.error


def test_what_a_reload_accepts_although_it_will_not_work_here_is_a_warning(daemon: Daemon, lazyctl: Lazyctl) -> None:
    warning = "/etc/lazyd/lazyd.toml:3: budget.gpu7: there is no gpu7 here; it has gpu0"
    daemon.answer("Reload", {"added": [], "changed": [], "removed": [], "warnings": [warning]})
    result = lazyctl("reload")
    assert (result.status, result.out) == (0, "configuration re-read: no model changed\n")
    assert result.err == f"lazyctl: warning: {warning}\n"


def test_an_event_does_not_say_the_same_twice(daemon: Daemon, lazyctl: Lazyctl) -> None:
    reservation = "reservation " + "3f" * 16
    daemon.answer(
        "Subscribe",
        event("evicted", reason="room for ocr:3", data={"room_for": "ocr:3"}),
        event("evicted", reason=f"room for {reservation}", data={"room_for": reservation}),
        event("grew", reason="it uses more", data={"bytes": 2**30, "booked": 2**29}),
    )
    first, second, third = (line[8:].split(maxsplit=2)[2] for line in lazyctl("events").out.splitlines())
    assert first == "room for ocr:3"
    assert second == "room for reservation 3f3f3f3f"
    assert third == "it uses more; bytes 1.0 GiB, booked 512 MiB"


def test_a_load_tells_what_it_left_of_its_devices(daemon: Daemon, lazyctl: Lazyctl) -> None:
    booked, free = {"gpu0": 7 * 2**30, "ram": 2**28}, {"gpu0": 29 * 2**29, "ram": 2**34}
    data = {"worker": "w7", "bytes": booked, "free_bytes": free}
    daemon.answer("Subscribe", event("loading", reason="7.0 GiB of gpu0 and 256 MiB of ram", data=data))
    (line,) = lazyctl("events").out.splitlines()
    assert line[8:].split(maxsplit=2)[2] == "7.0 GiB of gpu0 and 256 MiB of ram; 14.5 GiB of gpu0, 16.0 GiB of ram left"


def test_events_tell_when_what_and_why(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Subscribe", event("evicted", device="ram", reason="for ocr", data={"freedBytes": 2**30}, dropped=3))
    first, second = lazyctl("events").out.splitlines()
    assert first.split()[1:] == ["evicted", "gemma", "on", "ram", "for", "ocr;", "freedBytes", "1.0", "GiB"]
    assert second == "3 events were missed: this reader is too slow"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["health", "--live"], 0),
        (["health", "--ready"], 1),
        (["health"], 1),
        (["health", "gemma"], 0),
        (["health", "ocr"], 3),
        (["health", "ocr", "--live"], 0),
        (["health", "llava", "--live"], 1),
        (["health", "llava", "--ready"], 3),
    ],
)
def test_health_answers_with_its_exit_status(daemon: Daemon, lazyctl: Lazyctl, line: list[str], expected: int) -> None:
    models = {"gemma": "loaded", "ocr": "pending", "llava": "failed"}
    daemon.answer("Health", {"status": "starting", "live": True, "ready": False, "models": models})
    result = lazyctl(*line)
    assert result.status == expected
    assert result.err == ""


def test_health_knows_a_model_by_its_alias(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Health", health(**{"ocr:3": "loaded"}))
    daemon.answer("Status", status(hot("ocr", version="3", aliases=["reader"])))
    assert lazyctl("health", "reader") == (0, "reader: loaded\n", "")


def test_health_of_an_unknown_model_is_not_found(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("Health", health())
    daemon.answer("Status", errors.ModelNotFound(model="gema", nearest="gemma"))
    result = lazyctl("health", "gema")
    assert result.status == 4
    assert "gemma" in result.error


def test_version_tells_both_versions(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("org.varlink.service.GetInfo", {"version": "9.9"})
    assert lazyctl("version").out.splitlines()[-1] == "lazyd   9.9"
    assert lazyctl("--json", "version").json["daemon"] == "9.9"


def test_version_tells_the_clients_even_without_a_daemon(lazyctl: Lazyctl) -> None:
    result = lazyctl("version")
    assert result.status == 69
    assert re.fullmatch(r"lazyctl \d+\.\d+\.\d+\n", result.out)


def test_a_configuration_on_disk_that_is_wrong_is_told(daemon: Daemon, lazyctl: Lazyctl) -> None:
    reply = status(hot())
    reply["daemon"]["problems"] = [
        "/etc/lazyd/lazyd.toml:3: models.gemma.teir: unknown key; did you mean tier?",
        "b",
        "c",
    ]
    daemon.answer("Status", reply)
    out = lazyctl("status").out
    assert "did you mean tier? (and 2 more: lazyctl config check)" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_what_is_configured_and_not_there_is_told(daemon: Daemon, lazyctl: Lazyctl) -> None:
    reply = status(hot())
    reply["daemon"]["warnings"] = [
        f"/etc/lazyd/lazyd.toml:{n}: budget.gpu{n}: there is no gpu{n} here" for n in range(5)
    ]
    daemon.answer("Status", reply)
    out = lazyctl("status").out
    assert "warning: /etc/lazyd/lazyd.toml:2: budget.gpu2: there is no gpu2 here" in out
    assert "gpu3" not in out
    assert "and 2 more warnings: lazyctl --json status" in out
    assert max(map(len, out.splitlines())) <= 80


def test_config_check_needs_no_daemon(lazyctl: Lazyctl, tmp_path: Path) -> None:
    file = tmp_path / "lazyd.toml"
    file.write_text('[models.gemma]\nruntime = "python"\nfactory = "a:b"\nteir = "resident"\n')
    result = lazyctl("config", "check", str(file))
    assert (result.status, result.err) == (1, "")
    assert "models.gemma.teir: unknown key; did you mean tier?" in result.out
    reply = lazyctl("config", "check", str(file), "--json").json
    assert reply["files"] == [str(file)]
    assert len(reply["problems"]) == 1
    file.write_text("")
    assert lazyctl("config", "check", str(file)).status == 0


def test_load_without_a_terminal_draws_nothing(daemon: Daemon, lazyctl: Lazyctl) -> None:
    def load(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"state": "loading", "phase": "reading", "fraction": 0.5}
        yield {"state": "ready", "phase": "ready", "loadSec": 2.0}

    daemon.on["Load"] = load
    assert lazyctl("load", "gemma") == (0, "gemma is ready, loaded in 2.0 s\n", "")


def test_a_probe_of_a_daemon_that_hangs_fails_in_time(
    lazyctl: Lazyctl, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()

    def hang(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        let_go.wait(30)
        yield {}

    daemon.on["Health"] = hang
    monkeypatch.setattr("lazyctl.commands.health.PROBE_S", 0.1)
    assert lazyctl("health", "--live").status == 124
    let_go.set()


def test_status_of_a_daemon_that_has_stopped_gives_up(
    daemon: Daemon, lazyctl: Lazyctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()

    def hang(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        let_go.wait(30)
        yield {}

    daemon.on["Status"] = hang
    monkeypatch.setattr("lazyctl.session.LOOK_S", 0.1)
    result = lazyctl("status")
    let_go.set()
    assert result.status == 69
    assert f"cannot be reached at {daemon.path}: no answer within" in result.error


def test_a_file_is_registered_whole_and_its_paths_start_from_it(
    daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path
) -> None:
    known: set[str] = set()

    def register(asked: dict[str, Any]) -> dict[str, Any]:
        spec = asked["spec"]
        if not set(spec.get("uses", ())) <= known:
            raise errors.InvalidSpec(model=spec["name"], key="uses", reason="no model")
        known.add(spec["name"])
        return {"model": spec["name"]}

    daemon.on["Register"] = register
    file = tmp_path / "models.toml"
    table = '[models.{}]\nruntime = "llama_cpp"\npath = "m.gguf"\n'
    file.write_text(table.format("a") + 'uses = ["b"]\n' + table.format("b") + table.format('"c:1"'))
    assert lazyctl("add", str(file)) == (0, "b is registered\nc:1 is registered\na is registered\n", "")
    assert daemon.last("Register")["spec"]["path"] == f"{tmp_path}/m.gguf"
    assert lazyctl("--json", "add", str(file)).json == {"models": ["a", "b", "c:1"]}
    file.write_text(table.format("z") + 'uses = ["nobody"]\n')
    assert lazyctl("add", str(file)).error == "the description of z is wrong at uses: no model"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[daemon]\n[models.m]", "should hold [models.NAME] tables, not [daemon]: only models can be registered"),
        ("x = 1", "should hold [models.NAME] tables, not [x]"),
        ("nonsense", "is not TOML"),
    ],
)
def test_a_file_that_holds_no_models_is_wrong_usage(lazyctl: Lazyctl, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(text)
    result = lazyctl("add", str(file))
    assert (result.status, said in result.error) == (2, True), result.error
