"""Warm-up, prewarming and fallbacks: what a right configuration becomes, and what a wrong one is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lazyd import config
from lazyd.config import Files
from lazyd.config.keys import MODEL, Group
from lazyd.config.shown import shown
from lazyd.core.spec import Config, Fallback, Prewarm, PrewarmWhen, Warmup, WarmupMode

from .conftest import Write, let_settle

Accepted = Callable[..., Config]
Lines = Callable[..., list[str]]

M = '[models.m]\nruntime = "llama_cpp"\npath = "/m.gguf"\n'
N = M.replace(".m]", ".n]")
OTHER = M.replace(".m]", ".o]")
FAMILY = '[models."s/*"]\nruntime = "python"\nfactory = "m:f"\n'
WARMUP = M + "[models.m.warmup]\n"
PREWARM = M + "[models.m.prewarm]\n"
FALLBACK = M + "[models.m.fallback]\n"

WHOLE = (
    M
    + """
    ram_lock = true
    priority = -3
    load_slow_above = "2.5x"
    [models.m.warmup]
    mode = "on-demand"
    method = "embed"
    calls = 3
    args = [{tokens = "max_seq_len", text = "word"}, [{shape = [[1, 2], [3]], fill = 0.5}], 1]
    kwargs = {x = {file = "/x.npy"}, deep = {y = {shape = [4], dtype = "uint8", fill = "ones"}}, plain = "p"}
    timeout = "90s"
    fail_above = 0.5
    [models.m.warmup.expect]
    finite = true
    not_empty = true
    shape = [-1, 0]
    contains = "Paris"
    [models.m.prewarm]
    schedule = ["*/5  9-15 * * mon-fri", "0 8 L * *"]
    time_zone = "Europe/Berlin"
    [models.m.fallback]
    model = "n"
    after = "250ms"
"""
    + N
)


def test_every_key_of_readiness(accepted: Accepted) -> None:
    spec = accepted(WHOLE).models["m"]
    assert (spec.ram_lock, spec.priority, spec.load_slow_above) == (True, -3, 2.5)
    assert spec.warmup == Warmup(
        mode=WarmupMode.ON_DEMAND,
        method="embed",
        calls=3,
        args=({"tokens": "max_seq_len", "text": "word"}, [{"shape": [[1, 2], [3]], "fill": 0.5}], 1),
        kwargs={
            "x": {"file": "/x.npy"},
            "deep": {"y": {"shape": [4], "dtype": "uint8", "fill": "ones"}},
            "plain": "p",
        },
        expect={"finite": True, "not_empty": True, "shape": [-1, 0], "contains": "Paris"},
        timeout_s=90,
        fail_above=0.5,
    )
    assert spec.prewarm == Prewarm(
        when=PrewarmWhen.SCHEDULE, schedule=("*/5 9-15 * * mon-fri", "0 8 L * *"), time_zone="Europe/Berlin"
    )
    assert spec.fallback == Fallback(model="n", after_s=0.25)


def test_an_empty_table_of_warmup_means_its_defaults(accepted: Accepted) -> None:
    spec = accepted(WARMUP).models["m"]
    assert (spec.warmup, spec.prewarm, spec.fallback) == (Warmup(), Prewarm(), None)


def test_uses_kept_for_simulations(accepted: Accepted) -> None:
    assert accepted("").settings.history == 200_000
    assert accepted("[daemon]\nhistory = 0").settings.history == 0


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (M, False),
        (M + "idle_timeout = '10min'\n", True),
        ("[daemon]\nidle_timeout = '10min'\n" + M, True),
        ("[daemon]\nload_timeout = '10min'\n" + M, False),
    ],
)
def test_an_idle_timeout_that_was_written_down_is_told_from_the_default(
    accepted: Accepted, text: str, written: bool
) -> None:
    spec = accepted(text).models["m"]
    assert (spec.idle_timeout_s, spec.idle_written) == (600, written)


def test_a_schedule_may_be_switched_off(accepted: Accepted) -> None:
    prewarm = accepted(PREWARM + "when = 'off'\nschedule = '0 9 * * *'").models["m"].prewarm
    assert prewarm == Prewarm(when=PrewarmWhen.OFF, schedule=("0 9 * * *",))


@pytest.mark.parametrize("value", ["{}", "[]", "0", '""', "false", "{a = [1, {b = 2.5}]}"])
def test_a_fallback_value_may_be_anything(accepted: Accepted, value: str) -> None:
    spec = accepted(f"{FALLBACK}value = {value}").models["m"]
    assert spec.fallback is not None
    table = shown(spec)["fallback"]
    assert table == {"value": spec.fallback.value, "after": "5s"}
    assert toml(spec.fallback.value) == value


def test_the_new_tables_are_shown_as_people_write_them(accepted: Accepted) -> None:
    view = shown(accepted(WHOLE).models["m"])
    assert (view["ram_lock"], view["priority"], view["load_slow_above"]) == (True, -3, "2.5x")
    assert view["prewarm"] == {
        "when": "schedule",
        "schedule": ["*/5 9-15 * * mon-fri", "0 8 L * *"],
        "time_zone": "Europe/Berlin",
    }
    assert view["fallback"] == {"model": "n", "after": "250ms"}
    warmup = view["warmup"]
    assert isinstance(warmup, dict)
    assert (warmup["mode"], warmup["timeout"], warmup["fail_above"]) == ("on-demand", "90s", 0.5)
    json.dumps(view)


def test_what_is_shown_of_them_is_accepted_again(accepted: Accepted) -> None:
    first = accepted(WHOLE).models["m"]
    again = "[models.m]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in shown(first).items())
    second = accepted(again + N).models["m"]
    assert (second.warmup, second.prewarm, second.fallback) == (first.warmup, first.prewarm, first.fallback)
    assert (second.ram_lock, second.priority, second.load_slow_above) == (True, -3, 2.5)


def test_a_relative_file_of_a_recipe_starts_from_the_file_that_has_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "a.toml").write_text(WARMUP + 'args = [[{file = "a.npy"}]]\nkwargs = {x = {file = "x.txt"}}\n')
    (two / "b.toml").write_text('[models.m.warmup]\ncalls = 2\nkwargs = {y = {file = "sub/../y.json"}}\n')
    loaded = config.load(Files(paths=(str(one / "a.toml"), str(two / "b.toml"))), paths_must_exist=False)
    assert loaded.config is not None
    warmup = loaded.config.models["m"].warmup
    assert warmup is not None
    assert warmup.calls == 2
    assert warmup.args == ([{"file": str(one / "a.npy")}],)
    assert warmup.kwargs == {"x": {"file": str(one / "x.txt")}, "y": {"file": str(two / "y.json")}}


def test_a_file_of_a_recipe_has_to_be_there(write: Write, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    (tmp_path / "page.npy").touch()
    text = WARMUP.replace("/m.gguf", "m.gguf") + 'args = [{file = "page.npy"}]\nkwargs = {x = [{file = "pge.npy"}]}\n'
    (problem,) = config.load(write(text)).problems
    assert problem.key == "models.m.warmup.kwargs.x.0.file"
    assert "cannot be read: No such file or directory" in problem.what
    assert problem.remedy == "did you mean page.npy?"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WARMUP + "cals = 2", "0.toml:5: models.m.warmup.cals: unknown key; did you mean calls?"),
        (WARMUP + "zzz = 2", "models.m.warmup.zzz: unknown key; valid: mode, calls, method,"),
        (WARMUP + "idle_timeout = '1s'", "models.m.warmup.idle_timeout: unknown key; it belongs to [models.m]"),
        (WARMUP + "when = 'off'", "models.m.warmup.when: unknown key; it belongs to [models.m.prewarm]"),
        (WARMUP + "expect = {finit = true}", "models.m.warmup.expect.finit: unknown key; did you mean finite?"),
        (M + "calls = 3", "models.m.calls: unknown key; it belongs to [models.m.warmup]"),
        ("[daemon]\nschedule = 'x'", "daemon.schedule: unknown key; it belongs to [models.NAME.prewarm]"),
        (WARMUP + "mode = 'asinc'", 'models.m.warmup.mode: "asinc" is not known; did you mean async?'),
        (WARMUP + "calls = 0", "models.m.warmup.calls: 0 is out of range; write 1 to 1000"),
        (WARMUP + "method = ''", '"" is not the name of a method'),
        (WARMUP + "timeout = '0s'", "no time at all; write a duration above"),
        (WARMUP + "timeout = 'never'", '"never" makes no sense here'),
        (WARMUP + "fail_above = 2", "2 is out of range; write 0 to 1"),
        (WARMUP + "fail_above = nan", "nan is out of range"),
        (WARMUP + "fail_above = true", "expected a number from 0 to 1, not a boolean (true)"),
        (WARMUP + "args = {}", "models.m.warmup.args: expected a list, not a table; put it in brackets"),
        (WARMUP + "kwargs = 1", "expected a table, not an integer; write [models.m.warmup.kwargs] on a line"),
        (WARMUP + "expect = {finite = 1}", "models.m.warmup.expect.finite: expected true or false"),
        (WARMUP + "expect = {shape = [-2]}", "models.m.warmup.expect.shape: an integer (-2) is no length"),
        (WARMUP + "expect = {contains = ''}", 'models.m.warmup.expect.contains: "" is not a text'),
        (M + "load_slow_above = '3'", 'models.m.load_slow_above: "3" has no x; write how many times, as "3x"'),
        (M + "load_slow_above = 3", "expected a factor in quotes, not an integer (3)"),
        (M + "load_slow_above = '1x'", '"1x" is out of range; write more than "1x"'),
        (M + "load_slow_above = '3s'", '"3s" is not a factor; write it as "3x"'),
        (M + "priority = 1.5", "expected a whole number, not a number (1.5)"),
        ("[daemon]\nhistory = 10000001", "10000001 is out of range; write 0 to 10000000"),
    ],
)
def test_a_wrong_key_of_a_table_inside_is_named_with_its_way(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(text)
    assert says in line


@pytest.mark.parametrize(
    "key", [key for key in MODEL if isinstance(key.kind, Group) and not key.only], ids=lambda key: key.name
)
def test_a_table_inside_refuses_what_is_no_table(lines: Lines, key: object) -> None:
    name = getattr(key, "name", "")
    (line,) = lines(f"{M}{name} = true")
    assert f"0.toml:4: models.m.{name}: expected a table, not a boolean; write [models.m.{name}]" in line


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        ("{shape = 3}", "args.0.shape: expected a list of whole numbers, not an integer (3)"),
        ("{shape = []}", "args.0.shape: an empty shape"),
        ("{shape = [1, 0]}", "args.0.shape: an integer (0) is no length; write whole numbers of 1 or more"),
        ("{shape = [1, -1]}", "an integer (-1) is no length"),
        ("{shape = [1, 'x']}", 'a string ("x") is no length'),
        ("{shape = [true]}", "a boolean (true) is no length"),
        ("{shape = [[1, 2], 3]}", "shape 2: expected a list of whole numbers"),
        ("{shape = [[1, 2], []]}", "shape 2: expected a list of whole numbers"),
        ("{shape = [[1], [0]]}", "shape 2: an integer (0) is no length"),
        (f"{{shape = {[1] * 33}}}", "33 dimensions; write at most 32"),
        ("{shape = [100000, 100000]}", "arrays of 37.3GiB; make them smaller: at most 1GiB in all"),
        (f"{{shape = {[2**62] * 32}}}", "arrays of more than a pebibyte"),
        ("{shape = [1], dtype = 'float'}", 'args.0.dtype: "float" is no dtype; did you mean float64?'),
        ("{shape = [1], dtype = 3}", "args.0.dtype: an integer (3) is no dtype"),
        ("{shape = [1], dtyp = 'int8'}", "args.0.dtyp: unknown key beside shape; did you mean dtype?"),
        ("{shape = [1], file = 'a.npy'}", "args.0.file: unknown key beside shape; valid: shape, dtype, fill"),
        ("{shape = [1], fill = 'zero'}", 'args.0.fill: "zero" is no fill; did you mean zeros?'),
        ("{shape = [1], fill = true}", "a boolean (true) is no fill; write zeros, ones, random or a number"),
        ("{shape = [1], fill = nan}", "args.0.fill: nan cannot be passed on"),
        ("{shape = [1], fill = 256, dtype = 'uint8'}", "256 does not fit into uint8"),
        ("{shape = [1], fill = -1, dtype = 'uint8'}", "-1 does not fit into uint8"),
        ("{shape = [1], fill = 0.5, dtype = 'int32'}", "0.5 does not fit into int32"),
        ("{shape = [1], fill = 65536, dtype = 'float16'}", "65536 does not fit into float16"),
        ("{x = [{file = 'a.bin'}]}", "args.0.x.0.file: "),
        ("{file = 'a.bin'}", "is not read; name a file that ends in .npy, .txt, .json"),
        ("{file = 3}", "args.0.file: expected a path in quotes"),
        ("{file = 's3://a/b.npy'}", '"s3://a/b.npy" is not a path'),
        ("{tokens = 0}", 'args.0.tokens: 0 is no number of tokens; write 1 to 10000000, or "max_seq_len"'),
        ("{tokens = 'max'}", '"max" is no number of tokens'),
        ("{tokens = 2.5}", "expected a number of tokens, not a number (2.5)"),
        ("{tokens = 5, text = ' '}", "args.0.text: expected words to repeat"),
        ("2020-01-01", "args.0: a date or time cannot be passed on"),
    ],
)
def test_a_recipe_that_cannot_be_made(lines: Lines, recipe: str, says: str) -> None:
    (line,) = lines(f"{WARMUP}args = [{recipe}]")
    assert says in line


def test_all_arrays_of_a_warmup_count_together(lines: Lines) -> None:
    (line,) = lines(WARMUP + "args = [{shape = [16384, 16384]}]\nkwargs = {x = {shape = [1]}}")
    assert "0.toml:4: models.m.warmup: its arrays are 1073741828B together; make them smaller" in line


def test_a_wrong_argument_by_name_does_not_hide_another(lines: Lines) -> None:
    told = lines(WARMUP + "kwargs = {a = {shape = [0]}, b = {tokens = 0}, c = 1}")
    assert [line.split(": ")[1] for line in told] == [
        "models.m.warmup.kwargs.a.shape",
        "models.m.warmup.kwargs.b.tokens",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("61 * * * *", 'minute "61" of "61 * * * *" is wrong; write * or 0 to 59'),
        ("* 24 * * *", 'hour "24"'),
        ("* * 32 * *", 'day-of-month "32"'),
        ("* * * 13 *", 'month "13" of "* * * 13 *" is wrong; write * or 1 to 12, or jan to dec'),
        ("* * * * mon-fir", 'day-of-week "mon-fir"'),
        ("* * * * fri-sun", 'write "fri-sat,sun", or sunday as 7'),
        ("* * * * sat-sun", 'write "sat,sun", or sunday as 7'),
        ("*/0 * * * *", 'minute "*/0"'),
        ("* * 30 2 *", '"* * 30 2 *" never comes: no such month has a day 30'),
        ("* * */20 * 1L", "never comes; correct the days or the month"),
        ("0 9-15 * mon-fri", "has 4 fields; write five: minute, hour, day-of-month, month, day-of-week"),
        ("0 0 0 * * *", "has 6 fields"),
        ("", "has 0 fields"),
        ("@hourly", '"@hourly" is no cron line; write it as "0 * * * *"'),
        ("0," * 200 + "0 * * * *", "is too long; use at most 200 characters"),
    ],
)
def test_a_cron_line_that_is_wrong_says_which_field(lines: Lines, line: str, says: str) -> None:
    (told,) = lines(f"{PREWARM}schedule = '{line}'")
    assert told.startswith("0.toml:5: models.m.prewarm.schedule: ")
    assert says in told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schedule = ['* * * * *', '* 25 * * *']", 'schedule: item 2: hour "25"'),
        ("schedule = []", "an empty list of cron lines"),
        ("schedule = 5", "expected a cron line in quotes, not an integer (5)"),
        ("when = 'schedule'", 'prewarm.schedule: missing: when = "schedule" needs it; write schedule = "*/5'),
        ("when = 'learned'\nschedule = '* * * * *'", 'when = "learned" has no schedule; write when = "schedule"'),
        ("when = 'sometimes'", '"sometimes" is not known; valid: learned, schedule, off'),
        ("time_zone = 'Europe/Berlin'", "time_zone: there is no schedule that it could be for"),
    ],
)
def test_what_prewarming_demands(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(PREWARM + text)
    assert says in line


@pytest.mark.parametrize(
    ("zone", "says"),
    [
        ("Europe/Belrin", "did you mean Europe/Berlin?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("new york", "did you mean America/New_York?"),
        ("Mars/Base", 'write it as "Europe/Berlin"'),
        ("", "is no time zone"),
        ("../etc/passwd", "is no time zone"),
        ("Europe", "is no time zone"),
        ("x" * 5000, "is no time zone"),
    ],
)
def test_a_time_zone_that_is_unknown(lines: Lines, zone: str, says: str) -> None:
    (line,) = lines(f"{PREWARM}schedule = '* * * * *'\ntime_zone = '{zone}'")
    assert line.startswith("0.toml:6: models.m.prewarm.time_zone: ")
    assert says in line


def test_a_machine_without_time_zones_says_so(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    (line,) = lines(f"{PREWARM}schedule = '* * * * *'\ntime_zone = 'Not/Here'")
    assert "this machine has no time zones; install tzdata, or leave it out" in line


@pytest.mark.parametrize(("key", "prewarm"), [("schedule", "schedule = '* * * * *'"), ("when", "when = 'schedule'")])
def test_a_family_has_no_schedule_and_neither_has_a_transient_model(lines: Lines, key: str, prewarm: str) -> None:
    (line,) = lines(f"{FAMILY}prewarm = {{{prewarm}}}")
    assert f'models."s/*".prewarm.{key}: a family has no schedule: its members are not known; leave it out' in line
    (line,) = lines(f"{M}tier = 'transient'\nprewarm = {{{prewarm}}}")
    assert f"models.m.prewarm.{key}: a transient model has no schedule: it is loaded only when somebody asks" in line
    assert 'leave it out, or write tier = "on-demand"' in line


@pytest.mark.parametrize("table", [FAMILY, f"{M}tier = 'transient'\n", f"{M}tier = 'resident'\n"])
def test_a_habit_may_be_followed_or_not_whatever_the_tier(accepted: Accepted, table: str) -> None:
    (spec,) = accepted(f"{table}prewarm = {{when = 'off'}}").models.values()
    assert spec.prewarm.when is PrewarmWhen.OFF


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "0.toml:4: models.m.fallback: missing: model or value; say what answers"),
        ("after = '1s'", "missing: model or value"),
        ("model = 'n'\nvalue = 1", "0.toml:6: models.m.fallback.value: model and value stand together"),
        ("model = 'nn'", 'models.m.fallback.model: no model "nn"; did you mean n?'),
        ("model = 'zzz'", 'no model "zzz"; name a model that is configured'),
        ("model = 's/*'", '"s/*" is a family; name one of its members'),
        ("model = 3", "expected the name of a model in quotes, not an integer (3)"),
        ("value = nan", "models.m.fallback.value: nan cannot be passed on"),
        ("value = 1\nafter = '5'", 'models.m.fallback.after: "5" has no unit'),
    ],
)
def test_what_a_fallback_demands(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(f"{FALLBACK}{text}\n{N}{FAMILY}")
    assert says in line


@pytest.mark.parametrize("model", ["n", "s/a", "reader", "v", "v:2"])
def test_a_fallback_may_be_named_in_every_way(accepted: Accepted, model: str) -> None:
    versions = "".join(f'[models."v:{n}"]\nruntime = "python"\nfactory = "m:f"\n' for n in (2, 10))
    text = f"{FALLBACK}model = '{model}'\n{N}{FAMILY}{versions}[aliases]\nreader = 'n'\n"
    assert accepted(text).models["m"].fallback == Fallback(model=model)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (FALLBACK + "model = 'm'\n", "0.toml:5: models.m.fallback.model: goes round: m -> m; let one of them answer"),
        (
            f"{FALLBACK}model = 'n'\n{N}[models.n.fallback]\nmodel = 'm'\n",
            "0.toml:5: models.m.fallback.model: goes round: m -> n -> m; ",
        ),
        (
            f"{FALLBACK}model = 'al'\n{N}fallback = {{model = 'm'}}\n[aliases]\nal = 'ali'\nali = 'n'\n",
            "goes round: m -> n -> m",
        ),
        (
            f"{OTHER}fallback = {{model = 'm'}}\n{FALLBACK}model = 'n'\n{N}fallback = {{model = 'm'}}\n",
            "models.m.fallback.model: goes round: m -> n -> m",
        ),
        (FAMILY + "fallback = {model = 's/a'}\n", 'models."s/*".fallback.model: goes round: s/* -> s/*'),
        (
            FAMILY.replace("s/*", "v:9") + FAMILY.replace("s/*", "v:10") + "fallback = {model = 'v'}\n",
            "goes round: v:10 -> v:10",
        ),
    ],
)
def test_a_circle_of_fallbacks_is_told_once_and_written_out(lines: Lines, text: str, says: str) -> None:
    (line,) = lines(text)
    assert says in line


def test_another_version_is_no_circle(accepted: Accepted) -> None:
    text = FAMILY.replace("s/*", "v:9") + FAMILY.replace("s/*", "v:10") + "fallback = {model = 'v:9'}\n"
    assert accepted(text).models["v:10"].fallback == Fallback(model="v:9")


def test_a_long_circle_is_shortened(lines: Lines) -> None:
    models = "".join(
        f'[models.m{n}]\nruntime = "llama_cpp"\npath = "/m"\nfallback = {{model = "m{(n + 1) % 2000}"}}\n'
        for n in range(2000)
    )
    (line,) = lines(models)
    assert "goes round: m0 -> m1 -> m2 -> m3 -> m4 -> m5 -> m6 -> m7 -> … -> m0; " in line


def test_what_may_stand_in_an_unreadable_file_is_not_missed_in_a_table_inside(lines: Lines) -> None:
    told = lines(f"{FALLBACK}after = '1s'\n[models.m.prewarm]\nwhen = 'schedule'\n", "[models.m\n")
    assert [line.split(": ")[1] for line in told] == ["not TOML"]


def test_a_start_from_the_quick_form_reads_schedules_without_a_library(write: Write, tmp_path: Path) -> None:
    files = write(WHOLE)
    let_settle(files)
    state = str(tmp_path / "state")
    first = config.load_for_start(files, state)
    assert config.accept(first, state) is None
    code = (
        "import sys; from lazyd import config; "
        f"loaded = config.load_for_start(config.find({files.paths[0]!r}), {state!r}); "
        "print(loaded.origin.name, loaded.config.models['m'].prewarm.schedule[1].replace(' ', '_'), "
        "*(m for m in ('cronsim', 'zoneinfo', 'lazyd.config.keys', 'lazyd.config.recipes') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["UNCHANGED", "0_8_L_*_*"]
    assert config.load_for_start(files, state).config == first.config


def test_files_without_a_schedule_are_read_without_the_library(write: Write) -> None:
    files = write(WARMUP + "args = [{tokens = 5}]\n" + FAMILY)
    code = (
        "import sys; from lazyd import config; "
        f"loaded = config.load(config.find({files.paths[0]!r}), paths_must_exist=False); "
        "print(len(loaded.problems), *(m for m in ('cronsim', 'zoneinfo') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["0"]


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)
