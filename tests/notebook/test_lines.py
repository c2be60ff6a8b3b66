"""The line chart: the same numbers as chart, drawing and text; every line told by more than colour."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from deltanb import formatting as units
from deltanb import set_options
from deltanb.errors import InvalidArgument
from deltanb.notebook.drawing import chart, text
from deltanb.notebook.drawing.lines import LOOKS, MAX_POINTS, Lines, ticks
from tests.notebook.looks import GOLDEN

KEYS = {"line": "policy", "step": "writers", "x": "retries", "y": "speed"}
SVG = "{http://www.w3.org/2000/svg}"


def rows(*measured: tuple[str, Any, float, float]) -> list[dict[str, Any]]:
    return [dict(zip(KEYS.values(), one, strict=True)) for one in measured]


def sample() -> Lines:
    return Lines(rows(("at once", 1, 0, 16.5), ("at once", 4, 1.3, 21.75), ("at once", 8, 2.6, 13),
                      ("slowly", 1, 0, 16.5), ("slowly", 8, 1.3, 18.75)), **KEYS)


def words(lines: Lines) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(lines.svg()).iter(f"{SVG}text")]


def test_text_has_every_number_and_a_dash_where_none_was_measured() -> None:
    assert repr(sample()).splitlines() == [
        "speed against retries, by writers",
        "writers  ● at once    ■ slowly",
        "1        16.5 at 0.0  16.5 at 0.0",
        "4        21.8 at 1.3  –",
        "8        13.0 at 2.6  18.8 at 1.3",
    ]


def test_bundle_is_chart_svg_and_text_and_no_html() -> None:
    assert set(sample()._repr_mimebundle_()) == {chart.VEGALITE, chart.SVG, chart.TEXT}
    with set_options(display="text"):
        assert set(sample()._repr_mimebundle_()) == {chart.TEXT}


def test_svg_is_the_golden_one(request: pytest.FixtureRequest) -> None:
    path = GOLDEN / "lines.svg"
    if request.config.getoption("--update-golden"):
        path.write_text(sample().svg().replace("><", ">\n<") + "\n", "utf-8")
    assert sample().svg().replace("><", ">\n<") + "\n" == path.read_text("utf-8")


def test_each_line_has_a_shape_a_dash_and_its_name_in_the_drawing() -> None:
    lines = Lines(rows(*((f"way {n}", 1, n, n) for n in range(len(LOOKS)))), **KEYS)
    assert {f"way {n}" for n in range(len(LOOKS))} <= set(words(lines))
    paths = [path for path in ElementTree.fromstring(lines.svg()).iter(f"{SVG}path")
             if path.get("class") is None]
    strokes = [path.get("stroke-dasharray") for path in paths if path.get("fill") == "none"]
    shapes = [path.get("d", "").partition("m")[2] for path in paths if path.get("fill") != "none"]
    assert len(set(strokes)) == len(set(shapes)) == len(LOOKS)


def test_chart_draws_each_line_by_shape_dash_and_name_too() -> None:
    layers = sample().spec()["layer"]
    channels = {name for layer in layers for name in layer["encoding"]}
    assert {"color", "strokeDash", "shape", "text"} <= channels
    assert json.loads(json.dumps(sample().spec())) == sample().spec()


def test_words_take_the_colour_of_the_theme() -> None:
    said = [layer["mark"] for layer in sample().spec()["layer"] if layer["mark"]["type"] == "text"]
    assert said
    assert all(mark["style"] == "guide-label" and "color" not in mark for mark in said)


def test_numbers_stand_at_points_and_never_on_each_other() -> None:
    lines = Lines(rows(*(("a", n, n / 150, 10) for n in range(150))), **KEYS)
    shown = [value for value in lines.spec()["data"]["values"] if value["side"] != "none"]
    assert 3 <= len(shown) < 150
    texts = [node for node in ElementTree.fromstring(lines.svg()).iter(f"{SVG}text")
             if node.get("font-size") == "11"]
    spots = [(float(node.get("x", 0)), float(node.get("y", 0))) for node in texts]
    assert len(spots) == len(shown)
    assert all(abs(a[0] - b[0]) >= 13 or abs(a[1] - b[1]) >= 14
               for n, a in enumerate(spots) for b in spots[:n])


def test_two_lines_that_begin_at_one_point_say_its_step_once() -> None:
    lines = Lines(rows(("a", "start", 0, 5), ("a", "end a", 9, 9), ("b", "start", 0, 5),
                       ("b", "end b", 9, 1)), **KEYS)
    assert words(lines).count("start") == 1


def test_names_stand_where_the_line_does_not_go() -> None:
    ends = {value["line"]: value["end"] for value in sample().spec()["data"]["values"]
            if value["end"] != "none"}
    assert ends == {"at once": "falls", "slowly": "rises"}


def test_markup_in_a_name_is_text() -> None:
    lines = Lines(rows(("<script>", "&", 1, 1)), **KEYS)
    assert {"<script>", "&"} <= set(words(lines))
    assert "<script>" not in lines.svg()


@pytest.mark.parametrize("least, most", [
    (0, 0), (0, 1e-9), (0, 2.9), (13, 22), (7, 7), (0.1, 0.3), (999, 1001), (5, 1e12), (0, 6.02e23),
])
def test_ticks_enclose_the_values_with_few_round_numbers(least: float, most: float) -> None:
    found = ticks(least, most)
    assert found[0] <= least and most <= found[-1] * (1 + 1e-9)
    assert 2 <= len(found) <= 14
    assert found == sorted(set(found))


def test_as_many_points_as_it_takes_stay_within_the_bounds_of_an_output() -> None:
    lines = Lines(rows(*((f"way {way}", n, n * 1.2345, math.sin(n) + 1)
                         for way in range(len(LOOKS)) for n in range(MAX_POINTS))), **KEYS)
    assert len(json.dumps(lines.spec())) <= chart.MAX_BYTES
    plain = repr(lines).splitlines()
    assert len(plain) <= text.MAX_LINES
    assert max(map(units.width, plain)) <= units.MAX_COLUMNS


@pytest.mark.parametrize("measured, message", [
    ((), "at least one row"),
    ((("a", 1, math.nan, 1),), "retries=nan of a"),
    ((("a", 1, 1, -1),), "speed=-1 of a"),
    ((("a", 1, "fast", 1),), "retries='fast' of a"),
    (tuple((str(n), 1, 1, 1) for n in range(5)), "5 lines"),
    (tuple(("a", n, 1, 1) for n in range(MAX_POINTS + 1)), "leave out some of writers"),
])
def test_refuses_what_it_cannot_draw(measured: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Lines(rows(*measured), **KEYS)


def test_a_row_without_a_key_is_named() -> None:
    with pytest.raises(InvalidArgument, match="no 'speed'; it has 'policy'"):
        Lines([{"policy": "a", "writers": 1, "retries": 1}], **KEYS)


def test_control_characters_in_names_and_keys_are_written_out() -> None:
    bad = "a\n\x1b\u202e"
    keys = {key: bad + name for key, name in KEYS.items()}
    measured = [{keys["line"]: bad, keys["step"]: bad, keys["x"]: 1, keys["y"]: 2}]
    said = repr(Lines(measured, **keys))
    assert len(said.split("\n")) == 3
    assert all(character.isprintable() for character in said.replace("\n", ""))
