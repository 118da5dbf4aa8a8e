"""Devices as bars."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lazyctl.bars import apportion
from lazyctl.devices import device_lines, program, reservation_lines, wish_lines
from lazyctl.terminal import Look, cells

from .samples import GIB, MIB, device, gpu, hot, reservation, stranger, wish, worker

GLYPHS = "█▌▓▒▚░·"


def bar(lines: list[str]) -> str:
    """The cells of the first bar."""
    return next(line for line in lines if line.strip() and set(line) <= {*GLYPHS, " "})


def on_gpu0(name: str, count: int, worker_id: str, **fields: object) -> dict[str, object]:
    """A model whose worker has so many bytes of gpu0."""
    return hot(name, workers=[worker(id=worker_id, bookedBytes={"gpu0": count})], **fields)


def test_a_bar_is_divided_as_the_device_is() -> None:
    drawn = bar(device_lines([device(bookedBytes=8 * GIB, foreignBytes=4 * GIB, freeBytes=4 * GIB)], Look(width=82)))
    assert len(drawn) == 82
    assert (drawn.count("█") + drawn.count("▌"), drawn.count("▒"), drawn.count("·")) == (40, 20, 20)
    assert drawn.strip() == "".join(sorted(drawn.strip(), key=GLYPHS.index))


def test_a_little_is_still_seen() -> None:
    little = device(totalBytes=80 * GIB, bookedBytes=2**20, foreignBytes=0, freeBytes=79 * GIB)
    assert bar(device_lines([little], Look())).count("█") == 1


def test_what_the_budget_leaves_out_is_blank() -> None:
    half = device(bookedBytes=0, foreignBytes=0, budgetBytes=8 * GIB, freeBytes=8 * GIB)
    assert bar(device_lines([half], Look(width=82))).strip() == "·" * 40


def test_the_headings_are_the_legend() -> None:
    heading = device_lines([gpu()], Look())[0]
    assert heading.split("  ")[0] == "DEVICE"
    for glyph, title in (("█", "MODELS"), ("▓", "RESERVED"), ("▒", "FOREIGN"), ("░", "MARGIN"), ("·", "FREE")):
        assert f"{glyph} {title}" in heading


def test_figures_add_up_to_what_is_booked() -> None:
    assert device_lines([gpu()], Look())[1].split()[:5] == ["gpu0", "7.0", "GiB", "8.0", "GiB"]


def test_what_no_device_has_takes_no_column() -> None:
    heading = device_lines([device()], Look())[0]
    assert "RESERVED" not in heading
    assert "MARGIN" not in heading


def test_names_stand_beneath_their_parts() -> None:
    models = [on_gpu0("llava", 4 * GIB, "a"), on_gpu0("ocr", 3 * GIB, "b", version="3")]
    lines = device_lines([gpu()], Look(width=99), models, [reservation(command="train.py")])
    drawn, names = bar(lines), lines[3]
    assert names.split() == ["llava", "4.0", "GiB", "ocr:3", "train.py", "8.0", "GiB"]
    assert drawn.index("█") == names.index("llava")
    assert drawn.index("▌") + 1 == names.index("ocr:3")
    assert drawn.index("▓") == names.index("train.py")


def test_a_family_has_one_part_however_many_members_share_it() -> None:
    members = [on_gpu0(f"strategy/{member}", 4 * GIB, "a", family="strategy/*") for member in "xyz"]
    lines = device_lines([gpu(reservedBytes=0, bookedBytes=4 * GIB)], Look(), members)
    assert lines[3].split() == ["strategy/*", "4.0", "GiB"]


def test_a_model_with_several_workers_has_one_part() -> None:
    crowd = hot("crowd", workers=[worker(id=letter, bookedBytes={"gpu0": 2 * GIB}) for letter in "abc"])
    lines = device_lines([gpu(reservedBytes=0, bookedBytes=6 * GIB)], Look(), [crowd])
    assert lines[3].split() == ["crowd", "6.0", "GiB"]


@pytest.mark.parametrize(("name", "rest"), [("gpu0", "leaving"), ("ram", "other")])
def test_what_is_booked_for_no_worker_is_named_too(name: str, rest: str) -> None:
    one = device(name, bookedBytes=8 * GIB, foreignBytes=0)
    models = [hot(workers=[worker(bookedBytes={name: 5 * GIB})])]
    assert device_lines([one], Look(), models)[3].split() == ["gemma", "5.0", "GiB", rest, "3.0", "GiB"]


def test_what_two_workers_share_is_drawn_once() -> None:
    models = [on_gpu0("big", 5 * GIB, "a"), on_gpu0("small", 4 * GIB, "b")]
    drawn = bar(device_lines([gpu(reservedBytes=0, bookedBytes=7 * GIB, freeBytes=11 * GIB)], Look(), models))
    assert drawn.count("█") + drawn.count("▌") == round(78 * 7 / 22)


def test_where_names_do_not_fit_the_largest_come_first() -> None:
    sizes = [(7 + 60 * (number == 13)) * GIB // 80 for number in range(20)]
    models = [on_gpu0(f"model-number-{number}", size, str(number)) for number, size in enumerate(sizes)]
    lines = device_lines([gpu(reservedBytes=0, bookedBytes=sum(sizes))], Look(), models)
    assert "model-number-13" in lines[3]
    assert cells(lines[3]) <= 80


def test_temperature_and_power_are_told_and_in_a_wide_terminal_the_product() -> None:
    assert device_lines([gpu()], Look())[1].endswith("22.0 GiB  64°C 171W")
    assert device_lines([gpu()], Look(width=130))[1].endswith("64°C 171W NVIDIA GeForce RTX 2080 Ti")
    unknown = gpu(temperatureC=None, powerW=None, label=None)
    assert device_lines([unknown], Look())[1].endswith("22.0 GiB")


def test_a_lost_device_has_no_bar() -> None:
    lines = device_lines([gpu(state="lost"), device()], Look())
    assert lines[2].startswith("  lost: the driver does not find it any more")
    assert bar(lines[3:])


def test_a_silent_device_says_so_beneath_its_bar() -> None:
    lines = device_lines([gpu(state="silent")], Look())
    assert bar(lines)
    assert lines[-1] == "  its driver does not answer: nothing is admitted there until it does"


def test_memory_that_never_came_back_is_named() -> None:
    lines = device_lines([gpu(quarantinedBytes=GIB, quarantined=[{"model": "tts", "pid": 4711, "bytes": GIB}])], Look())
    assert lines[-1] == "  ▚ 1.0 GiB of tts (pid 4711) never came back"
    assert (bar(lines).count("▚"), bar(lines).count("▒")) == (4, 7)


def test_processes_of_others_are_named_as_far_as_they_are_known() -> None:
    used = gpu(bookedBytes=8 * GIB, foreignBytes=8 * GIB, freeBytes=11 * GIB // 2)
    lines = device_lines([{**used, "strangers": [stranger(bytes=6 * GIB)]}], Look(width=120))
    assert bar(lines).count("▒") == pytest.approx(110 * 8 / 22, abs=1)
    assert "comfyui (pid 4711) 6.0 GiB" in lines[3]
    unnamed = stranger(name=None, bytes=6 * GIB)
    assert "pid 4711 6.0 GiB" in device_lines([{**used, "strangers": [unnamed]}], Look(width=120))[3]


def test_of_many_that_left_memory_a_few_are_named() -> None:
    left = [{"model": f"m{number}", "bytes": GIB // 8} for number in range(8)]
    lines = device_lines([gpu(quarantinedBytes=GIB, quarantined=left)], Look())
    assert [line.strip() for line in lines[-4:]] == [
        *(f"▚ 128 MiB of m{number} never came back" for number in range(3)),
        "▚ 640 MiB of others never came back",
    ]


@pytest.mark.parametrize("fields", [{"foreignBytes": 10 * GIB}, {"budgetBytes": int(13.5 * GIB), "foreignBytes": 0}])
def test_a_device_that_holds_more_than_it_should_says_what_happens(fields: dict[str, Any]) -> None:
    lines = device_lines([gpu(freeBytes=0, **fields)], Look())
    assert "more than there is: nothing is admitted, and idle models leave for it" in lines[-1]
    assert len(bar(lines)) <= 80


def test_without_unicode_bars_are_drawn_in_ascii() -> None:
    models = [on_gpu0("llava", 4 * GIB, "a"), on_gpu0("ocr", 3 * GIB, "b")]
    lines = device_lines([device(), gpu(quarantinedBytes=GIB)], Look(unicode=False), models, [reservation()])
    assert all(line.isascii() for line in lines)
    assert "###|" in "".join(lines)
    assert "%%%|" in "".join(lines)


def test_colour_changes_no_column() -> None:
    models = [on_gpu0("llava", 4 * GIB, "a")]
    plain = device_lines([gpu()], Look(), models, [reservation()])
    painted = device_lines([gpu()], Look(colour=True), models, [reservation()])
    assert painted != plain
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in painted] == plain


@pytest.mark.parametrize("width", [60, 79, 80, 99, 100, 120, 132, 250])
def test_every_line_fits(width: int) -> None:
    devices = [
        device(),
        gpu(totalBytes=99 * GIB, budgetBytes=99 * GIB, freeBytes=88 * GIB, quarantinedBytes=3 * GIB),
        gpu("gpu15", freeBytes=999 * MIB, state="silent"),
        gpu("gpu16", state="lost"),
    ]
    models = [on_gpu0("语音模型" * 20, 5 * GIB, "a"), on_gpu0("m" * 100, 2 * GIB, "b")]
    drawn = device_lines(devices, Look(width=width), models, [reservation(command="c" * 200)])
    assert max(map(cells, drawn)) <= width


def test_a_wide_terminal_shows_the_total_too() -> None:
    assert "TOTAL" not in device_lines([device()], Look(width=99))[0]
    assert "16.0 GiB" in device_lines([device()], Look(width=100))[1]


def test_reservations_are_listed_with_what_they_are_for() -> None:
    lines = reservation_lines([reservation(command="python train.py --epochs 3"), reservation(command=None)], Look())
    assert [line.split() for line in lines] == [
        ["RESERVED", "ON", "PID", "FOR"],
        ["8.0", "GiB", "gpu0", "99", "python", "train.py", "--epochs", "3"],
        ["8.0", "GiB", "gpu0", "99"],
    ]


def test_a_reservation_that_waits_says_what_for() -> None:
    lines = wish_lines([wish()], Look(width=60))
    assert [line.split() for line in lines[:2]] == [
        ["WAITING", "ON", "PID", "SINCE", "FOR"],
        ["8.0", "GiB", "gpu0", "98", "12", "s", "./render.sh"],
    ]
    assert " ".join(" ".join(lines[2:]).split()) == wish()["why"][0]
    assert max(map(cells, lines)) <= 60


def test_a_program_is_named_without_its_directory_and_options() -> None:
    assert program(reservation(command="/opt/venv/bin/python train.py --epochs 3")) == "python train.py"
    assert program(reservation(command="bin/")) == "bin/"
    assert program(reservation(command=None)) == "pid 99"


@pytest.mark.parametrize("amounts", [[0, 0, 0], [1, 1, 1], [1, 0, 10**12], [5, 5, 0], [1] * 30])
def test_the_parts_of_a_bar_add_up(amounts: list[int]) -> None:
    counts = apportion(amounts, 20)
    assert sum(counts) == max(20, sum(1 for amount in amounts if amount))
    assert all(count > 0 for count, amount in zip(counts, amounts, strict=True) if amount)
