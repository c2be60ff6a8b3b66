"""Charts that people change, show and save: of every kind of table, of none, of very long histories.

What a browser makes of the saved pages is in ``tests/browser/test_charts.py``.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import altair
import pytest

import deltanb as dn
from deltanb.catalog.iceberg.table import IcebergTable
from deltanb.errors import InvalidArgument, MissingDependency
from deltanb.notebook.drawing import vega_page
from deltanb.notebook.drawing.chart import MAX_BYTES, SVG, TEXT, VEGALITE, Chart
from deltanb.notebook.views.diff_bars import MAX_PLACES, WHOLE, panels_of
from deltanb.observe.conflict_map import ConflictMap
from deltanb.observe.meetings import Meetings
from deltanb.observe.timeline import CommitTimeline
from deltanb.text.display import Charted
from tests.notebook.looks import drawn_forms
from tests.notebook.test_conflict_map import crowd, raced
from tests.notebook.test_file_layout_view import layout
from tests.notebook.test_timeline import history, race
from tests.table_kinds import HANDLES, Maker

CHARTS: dict[str, Callable[[Any], Charted]] = {
    "timeline": lambda table: table.timeline(),
    "conflicts": lambda table: table.history().conflicts(),
    "layout": lambda table: table.layout("id"),
    "diff": lambda table: table.diff(0),
}
"""What has a chart, of a table with the column ``id``."""
VEGA = "window.vegaEmbed = () => '</script>'; // <!--"


@pytest.fixture
def vega(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """vl-convert, or what gives a few words in place of its scripts; the versions that were asked for."""
    asked: list[Any] = []
    fake = ModuleType("vl_convert")
    fake.get_vegalite_versions = lambda: ["5.20", "6.1"]  # type: ignore[attr-defined]
    fake.javascript_bundle = lambda vl_version=None: asked.append(vl_version) or VEGA  # type: ignore[attr-defined]
    fake.vegalite_to_svg = lambda spec: f"<svg>{spec['title']}</svg>"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vl_convert", fake)
    vega_page._vega.cache_clear()
    yield asked
    vega_page._vega.cache_clear()


@pytest.fixture
def no_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    vega_page._vega.cache_clear()


def specification(page: str) -> dict[str, Any]:
    """What the page of a chart draws."""
    spec: dict[str, Any] = json.loads(re.search(r"const spec = (.*);\n", page)[1])  # type: ignore[index]
    return spec


# -- every kind of table -----------------------------------------------------------------------


@pytest.mark.parametrize("handle", HANDLES, ids=lambda maker: maker.__name__)
def test_every_kind_of_table_has_charts(handle: Maker, tmp_path: Path, vega: list[Any]) -> None:
    with handle(tmp_path, {"id": [1, 2, 3]}) as home:
        if isinstance(home.itself, IcebergTable):
            assert not any(hasattr(home.table, name) for name in ("timeline", "history", "layout", "diff"))
            return
        for name, of in CHARTS.items():
            shown = of(home.table)
            drawn_forms(shown)
            made = shown.chart
            assert isinstance(made, (altair.LayerChart, altair.VConcatChart)), name
            made.save(tmp_path / f"{name}.html")
            page = (tmp_path / f"{name}.html").read_text("utf-8")
            assert specification(page) == made.to_dict()


@pytest.mark.parametrize("rows", [0, 1], ids=["an empty table", "one commit"])
def test_a_table_with_nothing_to_compare_has_charts(rows: int, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "table", {"id": [1]} if rows else "id bigint")
    for of in CHARTS.values():
        drawn_forms(of(table))
        assert of(table).chart.to_dict()["title"]["text"]
    same = table.diff(0, 0)
    assert panels_of(same) == () and "the same rows and files" in same.svg


def test_a_timeline_without_commits_says_so() -> None:
    empty = CommitTimeline((), "ducks")
    drawn_forms(empty)
    assert empty.chart.to_dict()["title"]["text"] == "ducks: no commits" and "no commits" in empty.svg


@pytest.mark.slow
@pytest.mark.parametrize(("make", "words"), [
    (lambda: history(10_000), ["each of its bars is of 100 versions", "lanes hold the newest 200"]),
    (lambda: layout("n > 4000", files=10_000), ["10\u00a0000 files as 48 bars of neighbours"]),
], ids=["timeline", "layout"])
def test_what_is_very_long_is_bounded_and_its_subtitle_says_so(
    make: Callable[[], Charted], words: list[str]
) -> None:
    spec = make().chart.to_dict()
    subtitle = " ".join(spec["title"]["subtitle"])
    assert all(part in subtitle for part in words), subtitle
    assert len(json.dumps(spec, separators=(",", ":"))) < MAX_BYTES


def test_a_map_of_many_writers_is_bounded_and_says_so() -> None:
    spec = crowd(10_000).chart.to_dict()
    assert len(json.dumps(spec)) < MAX_BYTES and "9990 more" in json.dumps(spec)


def test_nobody_met_and_the_map_is_a_title() -> None:
    nobody = ConflictMap(Meetings("ducks", (), 3, 0, 0), (0, 2))
    assert nobody.chart.to_dict()["title"]["text"] == "ducks: 0 races, 0 lost, 0 would fail"


# -- interaction -------------------------------------------------------------------------------


def params(node: Any) -> list[dict[str, Any]]:
    """The selections of a chart, wherever they are."""
    if isinstance(node, list):
        return [one for part in node for one in params(part)]
    if not isinstance(node, dict):
        return []
    return [*node.get("params", ()), *(one for part in node.values() for one in params(part))]


def compared() -> Any:
    """The diff of a table in partitions: rows of all three kinds."""
    table = dn.create("compared", {"day": [1, 1, 2, 2], "id": [1, 2, 3, 4], "price": [1, 2, 3, 4]},
                      partition_by=["day"])
    table.append({"day": [3, 3], "id": [5, 6], "price": [5, 6]})
    table.update({"price": "price * 2"}, where="day = 2")
    table.delete("id = 1")
    return table.diff(0, 3, keys="id")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("make", "kinds"), [
    (race, {"interval"}), (raced, {"point"}), (layout, {"interval", "point"}),
    (compared, {"interval", "point"}),
], ids=["timeline", "conflicts", "layout", "diff"])
def test_charts_have_tooltips_and_selections(make: Callable[[], Charted], kinds: set[str]) -> None:
    spec = make().chart.to_dict()
    selects = [one["select"] for one in params(spec)]
    assert {one["type"] for one in selects} == kinds
    assert '"tooltip"' in json.dumps(spec)


def test_a_diff_has_bars_for_rows_columns_and_partitions() -> None:
    rows, columns, files = panels_of(compared())
    assert {(bar.kind, bar.signed) for bar in rows.bars} == {("changed", 2), ("added", 2), ("removed", -1)}
    assert [(bar.name, bar.number) for bar in columns.bars] == [("price", 2)]
    by_place = {(bar.name, bar.kind): (bar.signed, bar.more.split(",")[0]) for bar in files.bars}
    assert by_place == {("day=2", "added"): (2, "1 file"), ("day=2", "removed"): (-2, "1 file"),
                        ("day=1", "added"): (1, "1 file"), ("day=1", "removed"): (-2, "1 file"),
                        ("day=3", "added"): (2, "1 file")}
    diff = compared_again()
    _, spec, svg = drawn_forms(diff)
    assert "from v0 to v1: +1 row" in spec["title"]["text"] and "+1 row" in svg
    assert [bar.name for bar in panels_of(diff)[-1].bars] == [WHOLE]


def compared_again() -> Any:
    table = dn.create("again", {"id": [1]})
    table.append({"id": [2]})
    return table.diff(0, 1)


def test_deletion_vectors_are_rows_that_went() -> None:
    table = dn.create("masked", {"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 2")
    assert [(bar.kind, bar.signed) for bar in panels_of(table.diff(0, 1))[-1].bars] == [("removed", -1)]


def test_a_diff_of_many_partitions_is_bounded_and_says_so() -> None:
    table = dn.create("many", "day int, id bigint", partition_by=["day"])
    days = MAX_PLACES + 9
    table.append({"day": [*range(days), 5], "id": [*range(days), 99]})
    files = panels_of(table.diff(0, 1))[-1]
    assert len(files.bars) == MAX_PLACES + 1 and files.bars[0].name == "day=5"
    assert files.bars[-1].name == "9 more" and files.bars[-1].number == 9
    assert files.note == f"{days} partitions, by rows of files that came and went"


# -- shown -------------------------------------------------------------------------------------


def test_a_chart_is_shown_as_a_notebook_draws_it_without_a_network() -> None:
    forms = race().chart._repr_mimebundle_()
    assert set(forms) == {VEGALITE, SVG, TEXT}
    assert forms[SVG] == race().svg and forms[TEXT] == str(race())
    assert set(race().chart._repr_mimebundle_(include=[TEXT])) == {TEXT}


def test_a_changed_chart_has_no_picture_of_what_it_was(vega: list[Any]) -> None:
    changed = race().chart.properties(title="Ducks")
    forms = changed._repr_mimebundle_()
    assert forms[TEXT] == "Ducks" and forms[SVG] == "<svg>Ducks</svg>"
    assert forms[VEGALITE]["title"] == "Ducks"


def test_a_changed_chart_without_a_converter_has_its_title(no_vega: None) -> None:
    assert set(race().chart.properties(title="Ducks")._repr_mimebundle_()) == {VEGALITE, TEXT}


def test_who_has_chosen_a_renderer_has_it() -> None:
    with altair.renderers.enable("json"):
        forms, _ = race().chart._repr_mimebundle_()
    assert set(forms) == {"application/json", TEXT}


# -- saved -------------------------------------------------------------------------------------


def test_a_saved_chart_is_a_page_that_reaches_nothing_else(tmp_path: Path, vega: list[Any]) -> None:
    race().chart.save(tmp_path / "race.html")
    page = (tmp_path / "race.html").read_text("utf-8")
    [script] = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert script.startswith("window.vegaEmbed") and "<!--" not in script
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in page and f"script-src 'sha256-{digest}'" in page
    assert not re.search(r"<(link|img|iframe|script [^>]*src)", page)
    assert "unsafe-eval" not in page and "ast: true" in script
    assert str(race()).splitlines()[1].strip()[:20] in page  # the words, for who does not see it
    assert len(vega) == 1


def test_data_cannot_end_the_script(tmp_path: Path, vega: list[Any]) -> None:
    evil = Chart({"title": "</script><script>alert(1)</script>", "mark": "bar"}, "a <b>bar")
    page = evil.save(tmp_path / "a.html").read_text("utf-8")
    assert page.count("<script>") == 1 and "<title>a &lt;b&gt;bar</title>" in page
    assert specification(page)["title"] == "</script><script>alert(1)</script>"


def test_the_version_of_vega_is_the_one_that_the_chart_names(tmp_path: Path, vega: list[Any]) -> None:
    Chart(race().spec, "a race").save(tmp_path / "a.html")
    Chart({"mark": "bar"}, "a bar").save(tmp_path / "b.html")
    unknown = {"mark": "bar", "$schema": "https://vega.github.io/schema/vega-lite/v9.9.json"}
    Chart(unknown, "a bar").save(tmp_path / "c.htm")
    assert vega == ["5.20", None, None]


def test_a_chart_is_saved_into_an_open_file_and_as_json(vega: list[Any], tmp_path: Path) -> None:
    words, raw = io.StringIO(), io.BytesIO()
    race().chart.save(words, format="html")
    race().chart.save(raw, format="html")
    assert words.getvalue() == raw.getvalue().decode() and specification(words.getvalue())["vconcat"]
    race().chart.save(tmp_path / "race.json")
    assert json.loads((tmp_path / "race.json").read_text("utf-8"))["vconcat"]


@pytest.mark.parametrize("name", ["chart.html", "chart.svg", "chart.png", "chart.pdf"])
def test_without_vl_convert_it_is_said_what_to_install(name: str, no_vega: None, tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match=r"vl-convert.* pip install 'deltanb\[charts\]'\. ") as failed:
        race().chart.save(tmp_path / name)
    assert failed.value.extra == "charts"
    assert list(tmp_path.iterdir()) == []


def test_a_chart_whose_rows_are_elsewhere_is_refused(tmp_path: Path, vega: list[Any]) -> None:
    far = {"layer": [{"data": {"url": "https://example.org/ducks.csv"}, "mark": "bar"}]}
    with pytest.raises(InvalidArgument, match=r"reads 'https://example.org/ducks.csv'"):
        Chart(far, "ducks").save(tmp_path / "far.html")
    assert list(tmp_path.iterdir()) == []


def test_a_chart_of_ones_own_is_saved_as_what_it_has(tmp_path: Path) -> None:
    drawn = Chart({"mark": "bar"}, "one bar", "<svg/>")
    assert drawn.save(tmp_path / "bar.svg").read_text() == "<svg/>"
    with pytest.raises(InvalidArgument, match="has no drawing"):
        Chart({"mark": "bar"}, "one bar").save(tmp_path / "none.svg")
    with pytest.raises(InvalidArgument, match=r"does not end in \.html"):
        drawn.save(tmp_path / "bar.txt")
    with pytest.raises(InvalidArgument, match="there is no folder"):
        drawn.save(tmp_path / "missing" / "bar.svg")
