"""``lazyctl simulate``: what is asked, played, drawn and said."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lazyctl import simulate_runs
from lazyctl.simulate_axes import bytes_axis, round_above, step_name, ticks
from lazyctl.simulate_plot import HEIGHT, drawn
from lazyctl.terminal import Look
from lazyd import errors

from . import samples
from .conftest import Daemon, Lazyctl

T0 = 1_800_000_000.0
HALF_HOURS = [(T0 + 1800.0 * beat, "gemma", 0.5) for beat in range(30)]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No configuration on disk, and a directory for files."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("lazyd.config.files.SYSTEM_CONFIG", str(tmp_path / "none"))
    return tmp_path


def recorded(daemon: Daemon, *uses: tuple[float, str, float], problems: Sequence[str] = (), **known: Any) -> None:
    """The daemon has recorded these, and tells them in two pages."""
    half = len(uses) // 2
    pages = [samples.used(*page) for page in (uses[:half], uses[half:]) if page]
    daemon.answer("History", samples.known(**known), *pages, {"problems": list(problems)})


def rows(out: str) -> dict[str, list[str]]:
    """The table, by the words that a row begins with."""
    found = {}
    for line in out.splitlines():
        words = [word for word in line.strip().split("  ") if word.strip()]
        if len(words) > 1:
            found[words[0].strip()] = [word.strip() for word in words[1:]]
    return found


def test_todays_configuration_is_compared_with_fixed_idle_times(daemon: Daemon, lazyctl: Lazyctl) -> None:
    recorded(daemon, *HALF_HOURS)
    result = lazyctl("simulate")
    assert (result.status, result.err) == (0, "")
    assert daemon.last("History") == {}
    table = rows(result.out)
    assert table["TODAY'S"] == ["FIXED TIMES", "RATIO"]
    today, fixed, ratio = table["cold starts"]
    assert int(today) < 8
    assert fixed == "30"
    assert ratio == f"× {30 / int(today):.2f}"
    assert table["wait, p95"][:2] == ["4.0 s", "4.0 s"]
    assert table["memory held"][1].endswith("GiB·h")
    assert table["prewarms"][1] == "0"
    assert "30 uses of 1 model in 14 h 30 min, 2027-01-1" in result.out
    assert "not replayed: reservations" in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_the_plot_shows_both_over_time(daemon: Daemon, lazyctl: Lazyctl) -> None:
    recorded(daemon, *HALF_HOURS)
    out = lazyctl("simulate").out
    held, cold = out.index("memory held, MiB"), out.index("cold starts per ")
    assert held < cold
    assert out[held:cold].count("█") > 0
    for part in (out[held:cold], out[cold:]):
        assert ("today's" in part, "fixed times" in part) == (True, True)


def test_json_has_all_of_it(daemon: Daemon, lazyctl: Lazyctl) -> None:
    recorded(daemon, *HALF_HOURS, (T0, "old", 1.0))
    told = lazyctl("--json", "simulate").json
    assert (told["uses"], told["models"], told["from"]) == (30, 1, T0)
    assert told["leftOut"] == {"today's": {"old": 1}, "fixed times": {"old": 1}}
    assert (told["today"]["name"], told["other"]["name"]) == ("today's", "fixed times")
    assert told["other"]["coldStarts"] == 30
    assert told["other"]["waitSec"] == {"p50": 4.0, "p95": 4.0, "p99": 4.0, "max": 4.0, "mean": 4.0}
    assert told["other"]["mostBytes"] == {"ram": 2**30}
    assert told["ratio"]["coldStarts"] == pytest.approx(30 / told["today"]["coldStarts"])
    assert told["ratio"]["prewarms"] == 0
    assert sum(told["other"]["course"]["coldStarts"]) == 30


def test_since_is_asked_of_the_daemon(daemon: Daemon, lazyctl: Lazyctl) -> None:
    recorded(daemon, *HALF_HOURS)
    lazyctl("simulate", "--since", "7d")
    assert daemon.last("History") == {"sinceSec": 7 * 86_400.0}


def test_another_configuration_is_compared_by_its_name(daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path) -> None:
    recorded(daemon, *HALF_HOURS)
    other = tmp_path / "keep.toml"
    other.write_text('[models.gemma]\nruntime = "llama_cpp"\npath = "/models/none.gguf"\nidle_timeout = "1h"\n')
    table = rows(lazyctl("simulate", "--with", str(other)).out)
    assert table["TODAY'S"][0] == "KEEP.TOML"
    assert table["cold starts"][1] == "1"


def test_problems_of_another_configuration_are_told_as_by_config_check(
    daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path
) -> None:
    recorded(daemon, *HALF_HOURS)
    other = tmp_path / "new.toml"
    other.write_text('[models.gemma]\nruntime = "llama_cpp"\npath = "/m"\nidle_timeout = "soon"\nprice = 3\n')
    result = lazyctl("simulate", "--with", str(other))
    assert (result.status, result.out) == (1, "")
    told = result.err.splitlines()
    assert len(told) == 2
    checked = lazyctl("config", "check", str(other)).out
    assert all(line.removeprefix("lazyctl: ") in checked for line in told)


def test_models_that_a_side_does_not_have_are_left_out_of_both(
    daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path
) -> None:
    uses = [*HALF_HOURS, *((T0 + n, "ocr", 1.0) for n in range(3)), (T0, "old", 1.0)]
    daemon.answer("History", samples.known("gemma", "ocr"), samples.used(*uses), {"problems": []})
    other = tmp_path / "new.toml"
    other.write_text('[models.gemma]\nruntime = "llama_cpp"\npath = "/models/none.gguf"\n')
    out = lazyctl("simulate", "--with", str(other)).out
    assert "30 uses of 1 model" in out
    assert "left out: 1 use of 1 model not in today's (old)" in out
    assert "left out: 4 uses of 2 models not in new.toml (ocr, old)" in out


@pytest.mark.parametrize(
    ("known", "problems", "line", "told"),
    [
        ({}, [], [], "no uses are recorded yet: use a model, or give a history with --csv"),
        ({}, [], ["--since", "7d"], "no uses are recorded in the last 7 d: leave out --since"),
        ({"kept": 0}, [], [], "no uses are recorded: history = 0 in [daemon] switches that off"),
        ({}, ["history.db was damaged (…)"], [], "no uses can be read: history.db was damaged (…)"),
    ],
)
def test_a_history_without_uses_says_why(
    daemon: Daemon, lazyctl: Lazyctl, known: dict[str, Any], problems: list[str], line: list[str], told: str
) -> None:
    recorded(daemon, problems=problems, **known)
    result = lazyctl("simulate", *line)
    assert result.status == 1
    assert told in result.error


def test_what_is_wrong_with_the_record_is_said_beside_the_table(daemon: Daemon, lazyctl: Lazyctl) -> None:
    recorded(daemon, *HALF_HOURS, problems=["history.db was damaged: it is set aside"], kept=0)
    out = lazyctl("simulate").out
    assert "history.db was damaged: it is set aside" in out
    assert "uses are not recorded any more (history = 0)" in out


def test_none_of_the_uses_may_be_left(daemon: Daemon, lazyctl: Lazyctl) -> None:
    recorded(daemon, (T0, "old", 1.0), (T0, "older", 1.0))
    result = lazyctl("simulate")
    assert result.status == 1
    assert "none of the 2 uses is of a model that both configurations have" in result.err


def test_a_daemon_of_another_kind_is_not_understood(daemon: Daemon, lazyctl: Lazyctl) -> None:
    daemon.answer("History", {"config": 3, "facts": {}}, {})
    result = lazyctl("simulate")
    assert result.status == 1
    assert "it may be of another version than lazyctl" in result.error


@pytest.mark.parametrize("error", [errors.PermissionDenied(method="History", role="user"), errors.ShuttingDown()])
def test_what_the_daemon_refuses_is_an_error_as_always(
    daemon: Daemon, lazyctl: Lazyctl, error: errors.LazydError
) -> None:
    daemon.answer("History", error)
    assert lazyctl("simulate").status in (69, 77)


# From a file.


def test_a_file_is_played_with_what_the_daemon_knows(daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path) -> None:
    daemon.answer("History", samples.known(), {"problems": []})
    file = tmp_path / "uses.csv"
    file.write_text("time,model\n" + "".join(f"{T0 + 3600 * n},gemma\n" for n in range(5)))
    told = lazyctl("--json", "simulate", "--csv", str(file)).json
    assert (told["uses"], told["other"]["waitSec"]["max"]) == (5, 4.0)
    assert told["notes"] == [told["notes"][-1]]


def test_without_a_daemon_models_are_supposed_to_be_as_the_options_say(lazyctl: Lazyctl, alone: Path) -> None:
    file = alone / "uses.csv"
    file.write_text("".join(f"{T0 + 3600 * n},gemma,1\n" for n in range(5)))
    given = ("--csv", str(file), "--load-sec", "7", "--memory", "100MiB")
    told = lazyctl("--json", "simulate", *given).json
    assert told["other"]["waitSec"]["max"] == 7.0
    assert told["other"]["mostBytes"] == {"ram": 100 * 2**20}
    assert told["notes"][0].startswith("the daemon does not answer")
    assert told["notes"][1].startswith("no model of the file is configured")


def test_since_counts_from_the_last_use_of_a_file(lazyctl: Lazyctl, alone: Path) -> None:
    file = alone / "uses.csv"
    file.write_text("".join(f"{T0 + 3600 * n},gemma,1\n" for n in range(50)))
    assert lazyctl("--json", "simulate", "--csv", str(file), "--since", "5h").json["uses"] == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("soon,gemma\n", ", line 1, column 1 (time): 'soon' is no time"),
        ("", " has no uses: write a line for each"),
        (None, " cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(lazyctl: Lazyctl, alone: Path, text: str | None, told: str) -> None:
    file = alone / "uses.csv"
    if text is not None:
        file.write_text(text)
    result = lazyctl("simulate", "--csv", str(file))
    assert result.status == 1
    assert result.error.startswith(f"{file}{told}")


# The picture.


def test_the_picture_is_svg_with_axes_units_and_a_legend(daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path) -> None:
    recorded(daemon, *HALF_HOURS)
    file = tmp_path / "new.svg"
    assert lazyctl("simulate", "--svg", str(file)).status == 0
    root = ElementTree.parse(file).getroot()
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "memory held (GiB)" in texts
    assert any(text.startswith("cold starts per ") for text in texts)
    assert any(text.startswith("fixed times: 30 cold starts, ") for text in texts)
    (style,) = root.iter("{http://www.w3.org/2000/svg}style")
    assert "prefers-color-scheme: dark" in (style.text or "")


def test_a_picture_that_cannot_be_written_is_one_line(daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path) -> None:
    recorded(daemon, *HALF_HOURS)
    result = lazyctl("simulate", "--svg", str(tmp_path / "none" / "new.svg"))
    assert result.status == 1
    assert "new.svg cannot be written: No such file or directory" in result.error


def test_a_name_that_looks_like_markup_is_text(daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path) -> None:
    recorded(daemon, *HALF_HOURS)
    other = tmp_path / "<a&b>.toml"
    other.write_text('[models.gemma]\nruntime = "llama_cpp"\npath = "/models/none.gguf"\n')
    file = tmp_path / "new.svg"
    assert lazyctl("simulate", "--with", str(other), "--svg", str(file)).status == 0
    assert "<a&b>.toml: " in "".join(ElementTree.parse(file).getroot().itertext())


# Its parts.


def test_a_long_history_is_played_in_two_processes_with_the_same_outcome(
    daemon: Daemon, lazyctl: Lazyctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(daemon, *HALF_HOURS)
    together = lazyctl("--json", "simulate").json
    monkeypatch.setattr(simulate_runs, "ALONE", 0)
    assert lazyctl("--json", "simulate").json == together


def test_columns_are_as_high_as_their_values_and_what_is_not_nothing_is_seen() -> None:
    assert drawn([0, 0.001, 5, 10], 10, Look()) == ["   █", "  ▄█", " ▁██"]
    assert len(drawn([0.0], 1, Look())) == HEIGHT
    assert set("".join(drawn([0, 0.001, 5, 10], 10, Look(unicode=False)))) <= set(" .:|")


def test_axes_have_round_numbers() -> None:
    assert [round_above(value) for value in (0, 0.011, 0.99, 1, 12, 130, 4200)] == [1, 0.015, 1, 1, 15, 150, 5000]
    assert bytes_axis([3 * 2**30]) == (2**30, "GiB")
    assert bytes_axis([3 * 2**20]) == (2**20, "MiB")


@pytest.mark.parametrize("span_s", [5, 100, 3600, 86_400, 30 * 86_400, 400 * 86_400, 4000 * 86_400])
def test_times_on_an_axis_are_few_and_in_order(span_s: float) -> None:
    found = ticks(T0, T0 + span_s, 8)
    assert 1 <= len(found) <= 8
    moments = [moment for moment, _ in found]
    assert moments == sorted(moments)
    assert moments[0] >= T0
    assert moments[-1] <= T0 + span_s


def test_steps_have_names() -> None:
    assert [step_name(step) for step in (1, 300, 3600, 10_800, 86_400, 604_800)] == [
        "second",
        "5 minutes",
        "hour",
        "3 hours",
        "day",
        "week",
    ]
