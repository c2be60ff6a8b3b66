"""The commit timeline: what it reads, what it says, what it draws."""

from __future__ import annotations

import json
import random
from typing import Any
from xml.etree import ElementTree

import altair
import pytest

from deltanb.notebook import chart, text, units
from deltanb.notebook.chart import SVG, TEXT, VEGALITE
from deltanb.notebook.timeline import CommitTimeline, Mark, Track
from tests.notebook.looks import ADDRESS, GOLDEN, MACHINE

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


def forms(timeline: CommitTimeline) -> tuple[str, dict[str, Any], str]:
    """Text, specification and SVG, checked for what holds of all timelines."""
    found = timeline._repr_mimebundle_()
    assert set(found) == {TEXT, VEGALITE, SVG}
    lines = found[TEXT].split("\n")
    assert len(lines) <= text.MAX_LINES
    assert max(map(units.width, lines)) <= text.MAX_COLUMNS
    altair.Chart.from_dict(found[VEGALITE])  # validates
    ElementTree.fromstring(found[SVG])
    packed = json.dumps(found[VEGALITE], separators=(",", ":"))
    assert len(packed) <= chart.MAX_BYTES
    for form in (found[TEXT], packed, found[SVG]):
        assert not ADDRESS.search(form) and not MACHINE.search(form)
    return found[TEXT], found[VEGALITE], found[SVG]


def words(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


# -- how it looks ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["timeline", "timeline_race", "timeline_marked"])
def test_golden(name: str, update_golden: bool) -> None:
    marks = {4: Mark("append"), 1: Mark("passes", "✓")}
    made = {"timeline": history(300), "timeline_race": race(),
            "timeline_marked": race().marked(marks, "had all been Serializable")}
    plain, spec, svg = forms(made[name])
    one_a_line = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).replace("{", "\n{").lstrip()
    drawn = svg.replace("<", "\n<").lstrip()
    for suffix, content in ((".txt", plain), (".json", one_a_line), (".svg", drawn)):
        path = GOLDEN / f"{name}{suffix}"
        if update_golden:
            path.write_text(content + "\n", "utf-8")
        assert content + "\n" == path.read_text("utf-8"), f"{path.name} differs"


def test_the_same_timeline_is_the_same_output() -> None:
    assert forms(history(50)) == forms(history(50))
