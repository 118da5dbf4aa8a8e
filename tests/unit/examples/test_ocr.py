"""The OCR example's own arithmetic: regions, rectangles, cut-outs, and what the networks' answers mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image, ImageDraw

from examples.ocr import detection, recognition
from examples.ocr.regions import Rectangle, rectangle, regions


def mask(*rows: str) -> np.ndarray:
    return np.array([[sign == "#" for sign in row] for row in rows])


def sizes(drawn: np.ndarray) -> list[int]:
    """Pixels of each region, the largest first."""
    return sorted((int((end - first).sum()) for _, first, end in (one.T for one in regions(drawn))), reverse=True)


def test_nothing_is_no_region() -> None:
    assert regions(mask("....", "....")) == []


def test_what_does_not_touch_is_a_region_of_its_own() -> None:
    assert sizes(mask("##..#", "##..#", ".....", "#####")) == [5, 4, 2]


def test_pixels_that_touch_at_a_corner_are_connected() -> None:
    assert sizes(mask("#...", ".#..", "..##")) == [4]


def test_arms_that_meet_at_the_end_are_one_region() -> None:
    assert sizes(mask("#.#.#", "#.#.#", "#####")) == [9 + 2]
    assert sizes(mask("#####", "#...#", "#.#.#", "#...#", "#####")) == [16, 1]


def test_regions_are_those_of_flooding_pixel_by_pixel() -> None:
    rng = np.random.default_rng(1)
    for density in (0.2, 0.4, 0.6):
        drawn = rng.random((40, 50)) < density
        assert sizes(drawn) == flooded(drawn)


def flooded(drawn: np.ndarray) -> list[int]:
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(drawn), strict=True)}
    found = []
    while left:
        todo, size = [left.pop()], 0
        while todo:
            y, x = todo.pop()
            size += 1
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            todo += near
        found.append(size)
    return sorted(found, reverse=True)


@pytest.mark.parametrize("degrees", [0, 7, -20, 40])
def test_rectangle_around_a_tilted_bar_is_the_bar(degrees: int) -> None:
    bar = Rectangle(x=100, y=90, width=120, height=20, angle=math.radians(degrees))
    image = Image.new("1", (200, 180))
    ImageDraw.Draw(image).polygon(bar.corners(), fill=1)
    (runs,) = regions(np.asarray(image))
    found = rectangle(runs)
    assert (found.x, found.y) == pytest.approx((100, 90), abs=2)
    assert (found.width, found.height) == pytest.approx((120, 20), abs=5)
    assert math.degrees(found.angle) == pytest.approx(degrees, abs=2)


def test_a_line_grows_by_its_area_over_its_circumference() -> None:
    grown = Rectangle(0, 0, 100, 20, 0.1).grown(1.5)
    by = 2 * (100 * 20 * 1.5) / (2 * 100 + 2 * 20)  # twice: on both sides
    assert (grown.width, grown.height) == pytest.approx((100 + by, 20 + by))


def test_lines_are_found_where_text_is_likely_in_the_image_s_own_pixels() -> None:
    likelihood = np.zeros((64, 128), np.float32)
    likelihood[10:16, 20:100] = 0.9
    likelihood[40:46, 20:100] = 0.4  # perhaps text, and not likely enough
    likelihood[60, 3] = 0.9  # a speck
    (line,) = detection.found(likelihood, (256, 128))
    assert (line.x, line.y) == pytest.approx((120, 26))
    assert line.width > 160
    assert line.height > 12


@pytest.mark.parametrize("size", [(640, 480), (50, 9), (4000, 1000)])
def test_what_the_network_looks_at_has_sides_of_its_steps_and_is_not_too_large(size: tuple[int, int]) -> None:
    _, planes, height, width = detection.looked_at(Image.new("RGB", size)).shape
    assert planes == 3
    assert height % detection.STEP == width % detection.STEP == 0
    assert 0 < max(height, width) <= max(detection.LONGEST_SIDE, detection.STEP)


def test_reading_order_is_from_the_top_and_from_the_left() -> None:
    title, left, right = Rectangle(90, 10, 50, 20, 0), Rectangle(20, 52, 30, 20, 0), Rectangle(80, 48, 30, 20, 0)
    assert detection.in_reading_order([right, title, left]) == [title, left, right]


def test_a_cut_is_straight() -> None:
    image = Image.new("RGB", (200, 180), "white")
    bar = Rectangle(x=100, y=90, width=120, height=20, angle=math.radians(15))
    ImageDraw.Draw(image).polygon(bar.corners(), fill="black")
    cut = recognition.cut(image, bar)
    assert cut.size == (120, 20)
    assert np.asarray(cut)[2:-2, 2:-2].max() < 30


def test_text_from_the_bottom_to_the_top_is_laid_down() -> None:
    assert recognition.cut(Image.new("RGB", (200, 180)), Rectangle(50, 90, 20, 120, 0)).size == (120, 20)


def test_strips_are_filled_up_to_the_widest() -> None:
    lines = [Image.new("RGB", size, "white") for size in ((96, 48), (100, 10))]
    batch = recognition.strips(lines, 320, 3200)
    assert batch.shape == (2, 3, recognition.HEIGHT, 480)
    assert batch[0, :, :, :96].min() == 1.0  # white
    assert not batch[0, :, :, 96:].any()
    assert recognition.strips(lines, 192, 192).shape[-1] == 192


def test_a_character_that_repeats_is_read_twice_only_with_none_between() -> None:
    classes = recognition.alphabet("a\nb")
    assert classes == ["", "a", "b", " "]
    steps = [1, 1, 0, 1, 2, 2, 3, 2, 0]
    ((text, sure),) = recognition.read(np.eye(4, dtype=np.float32)[[steps]] * np.float32(0.8), classes)
    assert text == "aab b"
    assert sure == pytest.approx(0.8)


def test_where_nothing_is_read_the_text_is_empty_and_unsure() -> None:
    likelihood = np.eye(4, dtype=np.float32)[[[0, 0, 0]]]
    assert recognition.read(likelihood, recognition.alphabet("a\nb")) == [("", 0.0)]
