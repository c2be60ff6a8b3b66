"""The commit timeline: what it reads, what it says, what it draws."""

from __future__ import annotations

import builtins
import json
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair
import pytest

import deltanb as dn
from deltanb.commands.rows.write import Batch
from deltanb.errors import (
    ConcurrentDeleteReadException,
    DeltaError,
    InvalidArgument,
    InvalidTable,
    MissingDependency,
    VersionNotFound,
)
from deltanb.log.commits import commit_name
from deltanb.log.compaction import write_compaction
from deltanb.notebook.drawing import chart, html, layout
from deltanb.notebook.drawing.chart import TEXT
from deltanb.notebook.drawing.colors import NEUTRAL
from deltanb.notebook.views import registry as views
from deltanb.observe import tracks as timeline_rows
from deltanb.observe.timeline import CommitTimeline, Mark, Track
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction import journal
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.journal import Attempt, LostRace
from deltanb.transaction.operations import Operation
from tests.notebook.looks import Page, assert_consistent, assert_golden_drawing, drawn_forms

HTML = "text/html"
WRITERS = ("stream", "stream", "stream", "etl-a", "etl-b", "compactor", "analyst")
DOES = {"stream": [("STREAMING UPDATE", "append")], "compactor": [("OPTIMIZE", "optimize")],
        "etl-a": [("WRITE", "append"), ("MERGE", "rewrite")], "etl-b": [("MERGE", "rewrite")],
        "analyst": [("DELETE", "delete"), ("UPDATE", "rewrite")]}  # fmt: skip


def history(n: int, seed: int = 1, races: float = 0.1) -> CommitTimeline:
    """A made-up table of ``n`` commits by five writers, with some races."""
    chance = random.Random(seed)
    tracks = [Track(0, None, "CREATE TABLE", "etl-a", "schema")]
    for version in range(1, n):
        writer = chance.choice(WRITERS)
        operation, kind = chance.choice(DOES[writer])
        read = max(0, version - (1 if writer == "stream" else chance.randint(1, 6)))
        added = 0 if kind == "delete" else chance.randint(1, 5)
        removed = 0 if kind == "append" else chance.randint(1, 20)
        lost = tuple(range(read + 1, version)) if chance.random() < races else None
        tracks.append(Track(version, read, operation, writer, kind, added, removed, added * 4100,
                            removed * 4100, lost=lost))
        if chance.random() < races / 2 and version < n - 1:
            tracks.append(Track(version, version - 1, "DELETE", "analyst", "delete", 0, 2, outcome="failed",
                                lost=(version,), reason="CONCURRENT_APPEND"))
    return CommitTimeline(tracks, "orders")


def race() -> CommitTimeline:
    """Three writers, one of which loses twice and then wins, and one that gives up."""
    return CommitTimeline([
        Track(0, None, "CREATE TABLE", "etl-a", "schema"),
        Track(1, 0, "WRITE", "etl-a", "append", 3, 0, 12_300, 0, lost=()),
        Track(2, 1, "MERGE", "etl-b", "rewrite", 2, 1, 8_200, 4_100, lost=()),
        Track(3, 1, "OPTIMIZE", "compactor", "optimize", 1, 4, 9_000, 9_100, lost=(2,)),
        Track(4, 1, "WRITE", "etl-a", "append", 1, 0, 4_100, 0, lost=(2, 3)),
        Track(3, 1, "DELETE", "analyst", "delete", 1, 2, outcome="failed", lost=(2,),
              reason="CONCURRENT_DELETE_READ"),
    ], "orders")


def words(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


# -- how it looks ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["timeline", "timeline_race", "timeline_marked"])
def test_golden(name: str, update_golden: bool) -> None:
    marks = {4: Mark("append"), 1: Mark("passes", "✓")}
    made = {"timeline": history(300), "timeline_race": race(),
            "timeline_marked": race().marked(marks, "had all been Serializable")}
    assert_golden_drawing(made[name], name, update_golden)


def test_the_same_timeline_is_the_same_output() -> None:
    assert drawn_forms(history(50)) == drawn_forms(history(50))


def test_colours_can_be_left_out() -> None:
    """Then shapes, dashes and words are what tells kinds apart, and always did."""
    with set_options(colors="plain"):
        _, spec, svg = drawn_forms(race())
        assert 'class="dnb dnb-plain"' in race()._repr_mimebundle_()[HTML]
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps(spec)))
    assert used == {NEUTRAL}
    scheme = r"light-dark\((#\w+),\s*(#\w+)\)"
    palette = [one for both in re.findall(
        rf"--dnb-(?:append|rewrite|delete|optimize|lost):{scheme}", html.stylesheet()) for one in both]
    assert len(palette) == 10 and not any(color in svg for color in palette)
    shapes = find(spec, "shape")
    assert any(shape == ["circle", "square", "triangle-up", "diamond"] for shape in ranges(shapes))


def test_only_text_where_only_text_is_wanted() -> None:
    with set_options(display="text"):
        assert race()._repr_mimebundle_() == {TEXT: str(race())}
    assert set(race()._repr_mimebundle_(include=[HTML])) == {HTML}


def find(node: Any, key: str) -> list[Any]:
    """Every value under a key, however deep."""
    if isinstance(node, dict):
        below = [each for value in node.values() for each in find(value, key)]
        return [node[key], *below] if key in node else below
    return [each for value in node for each in find(value, key)] if isinstance(node, list) else []


def ranges(shapes: list[Any]) -> list[Any]:
    return [shape["scale"]["range"] for shape in shapes if isinstance(shape, dict)]


def test_every_layer_of_the_lanes_has_the_window() -> None:
    """A single layer without it, and Vega-Lite ignores the window in all of them."""
    for timeline in (history(300), race().marked({4: "append"})):
        lanes = timeline.spec["vconcat"][1]
        scales = [layer["encoding"]["x"]["scale"] for layer in lanes["layer"]
                  if "field" in layer["encoding"].get("x", {})]
        assert len(scales) >= 6
        assert all(scale == scales[0] for scale in scales)
        assert scales[0]["domain"] == {"param": "window"}
    (param,) = find(history(300).spec["vconcat"][0], "params")[0]
    assert param["select"] == {**param["select"], "type": "interval", "encodings": ["x"]}
    assert param["value"] == {"x": [239.5, 299.5]}


def test_labels_stay_within_the_lanes() -> None:
    """One that lies over the names of the writers moves the chart: its title leaves the cell."""
    (labels,) = (layer for layer in race().spec["vconcat"][1]["layer"] if layer["data"]["name"] == "labels")
    assert labels["mark"]["clip"] is True
    assert "datum.v < window.a[0]" in labels["mark"]["opacity"]["expr"]


def test_words_take_the_colour_of_the_theme() -> None:
    for layer in history(300).spec["vconcat"][1]["layer"]:
        if layer["mark"]["type"] == "text":
            assert layer["mark"]["style"] == "guide-label"
            assert not {"color", "fill"} & {*layer["mark"], *layer["encoding"]}


def test_nothing_from_the_network_and_no_names() -> None:
    _, spec, svg = drawn_forms(history(300))
    drawn = json.dumps(spec) + svg
    assert set(re.findall(r"https?://[^\"\s<]+", drawn)) == {chart.SCHEMA, "http://www.w3.org/2000/svg"}


def test_the_sentence_is_the_name_of_the_svg_and_in_sight() -> None:
    _, _, svg = drawn_forms(history(300))
    sentence = ElementTree.fromstring(svg).get("aria-label")
    assert sentence is not None
    for part in sentence.split("; "):
        assert any(part in word for word in words(svg))


def test_what_stands_in_the_lanes_is_packed() -> None:
    data = history(300).spec["datasets"]
    places: dict[float, list[tuple[float, float]]] = {}
    for line in data["tracks"]:
        places.setdefault(line["y"], []).append((line["from"], line["v"]))
    for row in places.values():
        for (_, end), (start, _) in zip(sorted(row), sorted(row)[1:], strict=False):
            assert end <= start
    assert len(data["tracks"]) + len({(c["y"], c["v"]) for c in data["crosses"]}) >= layout.MAX_IN_LANES
    assert min(line["v"] for line in data["tracks"]) > 90


@pytest.mark.parametrize("commits", [12, 60])
def test_rows_are_packed_once_for_all_forms_of_a_picture(
    commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[tuple[layout.Span, ...]] = []

    def lanes(spans: Sequence[layout.Span], **how: Any) -> layout.Lanes:
        packed.append(tuple(spans))
        return place(spans, **how)

    place = layout.lanes
    monkeypatch.setattr(layout, "lanes", lanes)
    timeline = history(commits)
    drawn_forms(timeline)
    assert packed and len(packed) == len(set(packed))
    drawn_forms(timeline)
    assert len(packed) == len(set(packed))


def test_a_lost_race_is_dashed_up_to_its_cross_and_solid_after() -> None:
    data = race().spec["datasets"]
    rows = {line["v"]: line["y"] for line in data["tracks"]}
    lines = {line["v"]: line["from"] for line in data["tracks"]}
    assert (lines[4], lines[2]) == (3, 1)
    assert {"s": 1, "v": 3, "y": rows[4], "failed": False} in data["dashed"]
    assert {c["v"] for c in data["crosses"] if c["y"] == rows[4]} == {2, 3}
    failed = next(c for c in data["crosses"] if "ConcurrentDeleteRead" in c["text"])
    assert failed["v"] == 3 and failed["y"] not in rows.values()
    assert [c["failed"] for c in data["crosses"] if c["v"] == 3] == [True, False]
    retries = {line["version"]: line["retries"] for line in data["tracks"]}
    assert retries == {"v0": "not seen", "v1": "0", "v2": "0", "v3": "1", "v4": "2"}


def test_the_strip_tells_races_lost_from_transactions_that_failed() -> None:
    lost = race().spec["datasets"]["lost"]
    assert [(place["a"], place["text"], place["failed"]) for place in lost] == [
        (2.0, "2 races lost on the way, v2", False), (3.0, "1 race lost on the way, v3", False),
        (3.0, "1 failed, v3", True)]
    page = Page(history(100)._repr_mimebundle_()[HTML])
    signs = [attrs["class"] for tag, attrs in page.drawn if tag == "g" and attrs.get("class")]
    assert {"k-lost", "k-failed"} <= set(signs)


def test_one_huge_commit_leaves_the_others_in_sight() -> None:
    usual = [Track(n, n - 1, "WRITE", "a", "append", 2) for n in range(1, 60)]
    huge = Track(60, 59, "OPTIMIZE", "a", "optimize", 1, 90_000)
    for tracks, scale in ((usual, "linear"), ([*usual, huge], "symlog")):
        timeline = CommitTimeline(tracks, "ducks")
        _, spec, svg = drawn_forms(timeline)
        assert find(spec["vconcat"][0], "y")[0]["scale"]["type"] == scale
        (path,) = re.findall(r'<g class="k-append"[^>]*><path d="([^"]*)" fill="none"', svg)
        low, high = re.findall(r"[\d.]+ ([\d.]+)V([\d.]+)", path)[0]
        assert float(low) - float(high) > 5
        assert ("log scale" in timeline._repr_mimebundle_()[HTML]) is (scale == "symlog")


def test_remarks_are_drawn_and_said() -> None:
    plain, spec, svg = drawn_forms(race().marked({4: "append", 9: "no such version"}, "under Serializable"))
    assert "✕ append; after losing v2, v3" in plain and plain.split("\n")[2] == "under Serializable"
    assert [mark["words"] for mark in spec["datasets"]["marks"]] == ["✕ append"]
    assert [place["a"] for place in spec["datasets"]["lost"] if place["failed"]] == [3.0, 4.0]
    assert "✕ append" in svg and "under Serializable" in words(svg)
    twice = race().marked({4: "append"}, "a").marked({2: Mark("passes", "✓")})
    assert {**twice.scene.marks} == {4: Mark("append"), 2: Mark("passes", "✓")}
    assert twice.scene.title == "a"


@pytest.mark.parametrize("commits", [2, 7, 90])
def test_the_words_of_a_remark_on_the_last_commit_have_room(commits: int) -> None:
    timeline = history(commits)
    words = "dep_delay and arr_delay are integers"
    scene = timeline.marked({timeline.commits[-1].version: Mark(words, "✓")}).scene
    low, high = scene.window
    assert scene.last + len(words) * (high - low) / 100 <= high
    assert high - low <= 2 * max(commits, 60)
    _, spec, svg = drawn_forms(timeline.marked({scene.last: Mark(words, "✓")}))
    hidden = f"datum.value > {scene.last}"
    assert all(f"|| {hidden} ? ''" in json.dumps(part) for part in spec["vconcat"])
    assert f">v{scene.last + 1}<" not in svg and words in svg


def test_many_remarks_keep_their_signs() -> None:
    timeline = history(100)
    spec = timeline.marked(dict.fromkeys(range(100), "append")).spec
    assert {mark["words"] for mark in spec["datasets"]["marks"]} == {"✕"}
    assert {mark["text"] for mark in spec["datasets"]["marks"]} == {"✕ append"}


def test_altair_gets_a_chart_to_change() -> None:
    drawn = race().chart
    assert isinstance(drawn, altair.VConcatChart)
    assert drawn.properties(title="mine").to_dict()["title"] == "mine"


def test_without_altair_everything_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] in ("altair", "pandas"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert set(race()._repr_mimebundle_()) == {TEXT, HTML}
    with pytest.raises(MissingDependency, match=r"deltanb\[notebook\]"):
        race().chart  # noqa: B018


# -- size --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_commits_stay_small() -> None:
    """The worst there can be: every kind in every bar, everyone losing, long names."""
    chance = random.Random(1)
    tracks = [
        Track(version, max(0, version - chance.randint(1, 9)), "WRITE OPERATION",
              f"writer-number-{chance.randint(1, 30)}", chance.choice(timeline_rows.KINDS),
              chance.randint(1, 10**6), chance.randint(1, 10**6), 10**9, 10**8,
              lost=tuple(range(version - 50, version)))
        for version in range(50, 10_050)]
    timeline = CommitTimeline(tracks, "a table with a long name")
    plain, spec, svg = drawn_forms(timeline)
    assert len(svg) < chart.MAX_BYTES
    assert len(json.dumps(spec)) < chart.MAX_BYTES
    assert 0.9 * layout.MAX_BARS < len(spec["datasets"]["bars"]) <= layout.MAX_BARS
    assert plain.endswith("… 9\u00a0991 earlier")
    assert "lanes hold the newest 200 transactions, from v9850" in json.dumps(spec)


@pytest.mark.slow
def test_ten_thousand_commits_are_read_and_drawn_in_time(tmp_path: Path) -> None:
    folder = tmp_path / "orders" / "_delta_log"
    folder.mkdir(parents=True)
    for version in range(10_000):
        info = {"commitInfo": {"operation": "WRITE", "readVersion": version - 1, "userName": "stream",
                               "operationParameters": {"mode": "Append"}}}
        lines = [info, {"add": {"path": f"p{version}", "partitionValues": {}, "size": 9,
                                "modificationTime": 1, "dataChange": True}}]
        if version == 0:
            lines[1:1] = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
                          {"metaData": {"id": "1", "format": {"provider": "parquet", "options": {}},
                                        "schemaString": '{"type":"struct","fields":[]}',
                                        "partitionColumns": [], "configuration": {}}}]
        body = "\n".join(json.dumps(line) for line in lines)
        (folder / f"{version:020}.json").write_text(body + "\n")
    table = dn.open(str(tmp_path / "orders"))
    assert table.version == 9_999
    start = time.process_time()
    forms_of = table.timeline()._repr_mimebundle_()
    assert time.process_time() - start < 2  # what other load does not add to
    assert set(forms_of) == {TEXT, HTML}
    assert forms_of[TEXT].startswith("Timeline orders  v0 to v9999  10\u00a0000 commits  1 writer\n")


# -- short and broken histories ----------------------------------------------------------------


def table_of(*commits: list[Any], name: str = "orders") -> TableBuilder:
    table = TableBuilder(MemoryStore(f"memory:///{name}")).create("id long")
    for actions in commits:
        table.commit(*actions)
    return table


def info(**fields: Any) -> dict[str, Any]:
    return {"commitInfo": fields}


def test_no_table_and_one_commit_need_no_chart() -> None:
    empty = CommitTimeline.of(DeltaLog.for_table(MemoryStore("memory:///ducks")))
    assert str(empty) == "Timeline ducks  no commits"
    one = CommitTimeline.of(table_of().log)
    assert str(one).split("\n")[1:] == [
        "* v0  not recorded  unknown writer  +0 −0  0 B",
        "one transaction so far: a second one makes a timeline"]
    for timeline in (empty, one):
        assert_consistent(timeline)
        assert views.fields(timeline).headings == ("Timeline",)


def test_commits_that_were_cleaned_up(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "ducks", {"n": [1]})
    for n in range(4):
        table.append({"n": [n]})
    table.log.checkpoint()
    for version in range(3):
        (tmp_path / "ducks" / "_delta_log" / f"{version:020}.json").unlink()
    DeltaLog.clear_cache()
    plain, spec, _ = drawn_forms(dn.open(str(tmp_path / "ducks")).timeline())
    assert plain.startswith("Timeline ducks  v3 to v4  2 commits  1 writer\n* v4 ← v3  WRITE")
    assert "* v3 ← v2" in plain
    assert {line["from"] for line in spec["datasets"]["tracks"]} == {2, 3}
    for version in (3, 4):
        (tmp_path / "ducks" / "_delta_log" / f"{version:020}.json").unlink()
    DeltaLog.clear_cache()
    assert str(dn.open(str(tmp_path / "ducks")).timeline()) == (
        "Timeline ducks  no commits\n"
        "v0 to v4 are gone: their commits were cleaned up; no commit is left")


def test_other_writers_say_less_or_say_it_differently() -> None:
    table = table_of(
        [info(operation="WRITE", operationParameters={"mode": "Append"}, readVersion="0", engineInfo=
              "Apache-Spark/4.0.0 Delta-Lake/4.0.0", operationMetrics={"numFiles": "7"}), add("a", size=5)],
        [info(operation="WRITE", engineInfo="delta-rs:py-1.1.4", operationMetrics={"num_added_files": 3},
              operationParameters={"mode": "Overwrite"}), add("b", size=6), remove("a")],
        [info(timestamp=5), remove("b")],
        [add("c")],
        [info(operation=None, userName="", readVersion=-1, operationParameters=None, txnId=3), add("d")],
    )
    timeline = CommitTimeline.of(table.log)
    assert [(t.kind, t.writer, t.read_version, t.added, t.removed) for t in timeline.commits] == [
        ("schema", "unknown writer", None, 0, 0), ("append", "Apache-Spark", 0, 1, 0),
        ("rewrite", "delta-rs", None, 1, 1), ("delete", "unknown writer", None, 0, 1),
        ("append", "unknown writer", None, 1, 0), ("append", "unknown writer", None, 1, 0)]
    _, spec, _ = drawn_forms(timeline)
    alone = next(line for line in spec["datasets"]["tracks"] if line["v"] == 3)
    assert (alone["from"], alone["read version"]) == (3, "not recorded")


def batch(number: int, query: str, **more: str) -> dict[str, Any]:
    return info(operation="STREAMING UPDATE", userName="Gyro", readVersion=number, operationParameters={
        "outputMode": "Append", "queryId": query, "epochId": str(number), **more})


def test_each_stream_has_a_lane_of_its_own() -> None:
    one, other = "4a812577-36cc-4dce-a4d2-12161abde8b9", "adbae903-31f3-45dd-9113-153a1d433a1d"
    merge = info(operation="MERGE", operationParameters={"predicate": "[]", "queryId": other, "epochId": "1"})
    timeline = CommitTimeline.of(table_of(
        [batch(0, one, queryName="ducks"), add("a")], [batch(0, other), add("b")],
        [info(operation="WRITE", userName="Gyro"), add("c")],
        [batch(1, one, queryName="ducks"), add("d")], [merge, add("e"), remove("b")]).log)
    assert [track.writer for track in timeline.commits][1:] == [
        "stream ducks", "stream adbae903", "Gyro", "stream ducks", "stream adbae903"]
    assert [lane.name for lane in timeline.scene.lanes.lanes] == [
        "unknown writer", "stream ducks", "stream adbae903", "Gyro"]
    assert "4 writers" in str(timeline) and "stream adbae903" in timeline.svg
    assert_consistent(timeline)


def test_a_batch_that_failed_is_in_the_lane_of_its_stream() -> None:
    table = dn.create(MemoryStore("memory:///ducks"), {"id": [1]})
    first = Batch("4a812577-36cc-4dce-a4d2-12161abde8b9", 0, "complete", True, "ducks")
    txn = table.log.start_transaction()
    files = list(txn.filter_files())
    table.delete("id = 1")
    with pytest.raises(ConcurrentDeleteReadException):
        txn.commit([files[0].remove()], Operation("STREAMING UPDATE", first.named))
    assert [track.writer for track in table.timeline().failed] == ["stream ducks"]


def test_tables_of_all_writers_have_a_timeline(shared: Path) -> None:
    """Real tables of Delta Spark, delta-rs and the kernel: as many commits as files, all forms, no errors."""
    drawn = 0
    for folder in sorted(shared.glob("tables/**/_delta_log")):
        log = DeltaLog.for_table(str(folder.parent))
        versions = timeline_rows.versions(log)
        try:
            timeline = CommitTimeline.of(log, newest=max(versions, default=-1))
        except DeltaError:
            continue  # damaged on purpose, or of another protocol: its own tests say which
        assert [track.version for track in timeline.commits] == versions
        assert "cannot be shown" not in str(timeline)
        if len(versions) > 1:
            assert set(timeline._repr_mimebundle_()) == {TEXT, HTML}, folder
            drawn += 1
    assert drawn > 40


def test_names_are_harmless() -> None:
    nasty = '</script><b>"\\u202e\n& ' + "x" * 100
    table = table_of([info(operation=nasty, userName=nasty, readVersion=0), add("a")], name="o<b>&")
    _, _, svg = drawn_forms(CommitTimeline.of(table.log))
    assert "<b>" not in svg and "\u202e" not in svg
    assert max(map(len, words(svg))) < 250
    long = table_of(*([info(operation="O" * 10_000, userName=n * 10_000), add(n)] for n in "abcdefghi"))
    drawn_forms(CommitTimeline.of(long.log))


def test_many_lost_races_are_counted() -> None:
    tracks = [Track(n, 0, "WRITE", "a", "append", lost=tuple(range(1, n))) for n in (1, 4, 9)]
    ends = [line.split("  ")[-1] for line in str(CommitTimeline(tracks, "ducks")).split("\n")[2:]]
    assert ends == ["after losing 8 races, v1 to v8", "after losing v1, v2, v3", "0 B"]


def test_a_damaged_commit_is_named() -> None:
    table = table_of([add("a")])
    table.store.put("_delta_log/00000000000000000001.json", b'{"commitInfo":{}}\n{"add":')
    with pytest.raises(InvalidTable, match=r"0001\.json.*line 2"):
        CommitTimeline.of(table.log, newest=1)


# -- slices and attempts -----------------------------------------------------------------------


def test_a_slice_of_versions() -> None:
    table = table_of(*([add(name)] for name in "abcdef"))
    of = CommitTimeline.of
    assert [t.version for t in of(table.log, 2, 4).commits] == [2, 3, 4]
    assert [t.version for t in of(table.log, 5).commits] == [5, 6]
    assert [t.version for t in of(table.log, end=1).commits] == [0, 1]
    assert [t.version for t in of(table.log, 4, 99, newest=5).commits] == [4, 5]
    with pytest.raises(VersionNotFound, match="no versions from 4 to 2"):
        of(table.log, 4, 2)
    with pytest.raises(VersionNotFound, match="is pinned to version 6"):
        of(table.log, 7)
    with pytest.raises(VersionNotFound, match="no versions from -1 to 6.* a start from 0 on"):
        of(table.log, -1)


def test_versions_whose_commits_were_cleaned_up_are_named() -> None:
    table = table_of(*([add(name)] for name in "abcdef"))
    table.log.checkpoint(5)
    for version in range(4):
        table.store.delete(commit_name(version))
    of = CommitTimeline.of
    assert str(of(table.log, 0, 2)).split("\n")[1:] == [
        "v0 to v2 are gone: their commits were cleaned up; the log begins at v4"]
    assert str(of(table.log, 3, 3)).endswith(
        "\nv3 is gone: its commit was cleaned up; the log begins at v4")
    plain, spec, svg = drawn_forms(of(table.log, 2))
    for form in (plain, json.dumps(spec), svg):
        assert "v2 to v3 are gone: their commits were cleaned up; the log begins at v4" in form
    for whole in (of(table.log), of(table.log, 4)):
        assert "gone" not in str(whole)
    for version in (4, 5, 6):
        table.store.delete(commit_name(version))
    assert str(of(table.log, newest=5)).endswith(
        "\nv0 to v5 are gone: their commits were cleaned up; no commit is left")


def test_a_slice_between_times() -> None:
    with dn.teaching():
        table = table_of(*([add(name)] for name in "abcdef"))
    times = {entry.version: entry.time for entry in table.log.history()}
    timeline = CommitTimeline.of(table.log, times[2], times[4].isoformat())
    assert [t.version for t in timeline.commits] == [2, 3, 4]
    with pytest.raises(InvalidArgument, match="versions or times, not True"):
        CommitTimeline.of(table.log, True)


def test_a_table_at_a_version_knows_no_later_ones(tmp_path: Path) -> None:
    table, _ = race_for_real(tmp_path)
    past = table.as_of(2).timeline()
    assert [t.version for t in past.commits] == [0, 1, 2]
    assert [t.version for t in past.failed] == [2]
    assert table.as_of(1).timeline().failed == []


def race_for_real(tmp_path: Path) -> tuple[Any, list[Track]]:
    table = dn.create(tmp_path / "ducks", {"n": [1, 2]})
    loser, late = table.start_transaction(), table.start_transaction()
    loser.read_whole_table()
    table.append({"n": [3]})
    table.delete("n = 1")
    with pytest.raises(ConcurrentDeleteReadException):
        loser.commit([], dn.Operation("DELETE", changes_data=True))
    with set_options(user_name="Daisy"):
        late = table.start_transaction()
        table.append({"n": [5]})
        late.commit(late.write_files({"n": [6]}), "WRITE")
    return table, list(table.timeline().tracks)


def test_lost_races_come_from_this_sessions_journal(tmp_path: Path) -> None:
    table, tracks = race_for_real(tmp_path)
    failed = [track for track in tracks if not track.is_committed]
    assert [(t.read_version, t.version, t.reason, t.crosses[-1]) for t in failed] == [
        (0, 2, "CONCURRENT_DELETE_READ", 2)]
    assert [(t.version, t.read_version, t.lost) for t in tracks if t.writer == "Daisy"] == [
        (3, 2, ()), (4, 2, (3,))]
    plain, spec, svg = drawn_forms(table.timeline())
    assert plain.split("\n")[1].endswith("1 transaction failed (attempts seen in this session)")
    assert "after losing v3" in plain and "ConcurrentDeleteRead" in plain
    assert "attempts seen in this session" in json.dumps(spec) and "attempts seen in this session" in svg
    assert CommitTimeline.of(table.log, attempts=()).failed == []


def attempt(**changes: Any) -> Attempt:
    fields: dict[str, Any] = {"txn_id": "t", "writer": None, "operation": "WRITE", "read_version": 0,
                              "isolation": "Serializable", "is_blind_append": True, "outcome": "committed",
                              "version": 2, "lost": (LostRace(1, "WRITE", None),)}
    return Attempt(**{**fields, **changes})


def test_an_attempt_belongs_to_the_commit_of_its_transaction() -> None:
    ours = Track(2, 1, "WRITE", "a", "append", txn_id="t")
    theirs = Track(2, 1, "WRITE", "a", "append", txn_id="x")
    assert timeline_rows.joined([ours], [attempt()])[0].lost == (1,)
    assert timeline_rows.joined([ours], [attempt()])[0].start == 0
    assert timeline_rows.joined([theirs], [attempt()])[0].lost is None
    assert timeline_rows.joined([], [attempt()]) == []


def test_an_attempt_that_met_nobody_ends_in_a_cross() -> None:
    (alone,) = timeline_rows.joined([], [attempt(outcome="abandoned", version=1, lost=())])
    assert (alone.crosses, alone.writer, alone.read_version) == ((1,), "unknown writer", 0)
    (first,) = timeline_rows.joined([], [attempt(outcome="failed", version=0, read_version=-1, lost=())])
    assert (first.start, first.read_version) == (0, None)


def test_files_of_an_attempt_that_are_not_kept_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_KEPT", 5)
    log = table_of([add("a"), add("b")]).log
    for name in ("first", "second"):
        txn = log.start_transaction()
        removed = [file.remove() for file in txn.filter_files()][:1]
        log.start_transaction().commit([dn.actions.AddFile(name, {}, 1, 1)], "WRITE")
        with set_options(user_name=name), pytest.raises(DeltaError):
            txn.commit(removed, "DELETE")
    timeline = CommitTimeline.of(log)
    assert [(track.writer, track.is_counted) for track in timeline.failed] == [
        ("first", False), ("second", True)]
    lost = [line for line in str(timeline).split("\n") if line.startswith("✕")]
    assert re.search(r"second +\+0 −1 +0 B +ConcurrentAppend by ", lost[0])
    assert re.search(r"first +not kept +ConcurrentAppend", lost[1])


# -- the last commits in the view of a table ---------------------------------------------------


def test_a_table_shows_how_much_its_last_commits_changed() -> None:
    table = table_of([add("a"), add("b")], [add("c"), remove("a"), remove("b")], [info(operation="X")])
    page = assert_consistent(dn.DeltaTable(table.log))
    assert "·▇█· 0 to 3 files added and removed in each of the last 4 commits" in page.text
    assert "Recent" not in str(dn.DeltaTable(table.log))


def test_the_last_commits_are_known_however_they_came(tmp_path: Path) -> None:
    """Committed here, read one after the other, or followed; from a checkpoint on, only what came after."""
    table = dn.create(tmp_path / "ducks", {"n": [1]})
    for n in range(3):
        table.append({"n": [n]})
    table.delete("n = 0")
    assert table.snapshot._state.recent == (1, 1, 1, 1, 1)
    other = DeltaLog(table.log.store)
    assert other.snapshot._state.recent == (1, 1, 1, 1, 1)
    table.optimize()
    assert other.update()._state.recent == table.snapshot._state.recent == (1, 1, 1, 1, 1, 4)
    table.log.checkpoint()
    table.append({"n": [5]})
    assert DeltaLog(table.log.store).snapshot._state.recent == (1,)
    assert "Recent" not in assert_consistent(dn.DeltaTable(DeltaLog(table.log.store))).text


def test_a_compaction_tells_nothing_of_single_commits() -> None:
    table = table_of([add("a")], [add("b")], [add("c")])
    table.log.update()
    write_compaction(table.log, 0, 2)
    assert DeltaLog(table.store).snapshot._state.recent == (1,)


def test_no_more_than_fifty_commits_are_remembered() -> None:
    table = table_of(*([add(str(n))] for n in range(60)))
    assert table.log.update()._state.recent == (1,) * 50
    table.commit(add("x"), add("y"))
    assert table.log.update()._state.recent == (*(1,) * 49, 2)
