"""Whether a table is sound, shown: verdict, findings by kind, cycles, blind spots, and the timeline."""

from __future__ import annotations

import json
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import IllegalStateError
from deltanb.notebook.views.verification import listing
from deltanb.observe.verify import Finding, Verification
from deltanb.observe.verify.kinds import KINDS
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from tests.notebook.looks import assert_consistent, assert_golden


def info(operation: str, read: int | None, user: str, **parameters: Any) -> Any:
    return {"commitInfo": {"operation": operation, "readVersion": read, "userName": user, "timestamp": 1,
                           "operationParameters": parameters, "txnId": f"{operation} {read} {user}"}}


def broken() -> TableBuilder:
    """Two writers removed one file, files without their partition, a batch that went back, one who tells
    nothing."""
    builder = TableBuilder(MemoryStore("memory:///lake/orders")).create(
        "id long, day string", partition_by=["day"])
    mon, condition = {"day": "mon"}, "[\"day = 'mon'\"]"
    builder.commit(info("WRITE", 0, "etl-a"), add("day=mon/a", mon), add("day=tue/b", {"day": "tue"}))
    builder.commit(info("DELETE", 1, "ann", predicate=condition), remove("day=mon/a", partitionValues=mon))
    builder.commit(info("UPDATE", 1, "ben", predicate=condition), remove("day=mon/a", partitionValues=mon),
                   add("day=mon/c", mon))
    builder.commit(info("WRITE", 3, "etl-a"), add("day=wed/d", {"day": "wed", "hour": "3"}), add("e", {}))
    for read, batch in ((4, 7), (5, 5)):
        builder.commit(info("WRITE", read, "etl-a"), {"txn": {"appId": "nightly", "version": batch}},
                       add(f"day=thu/{batch}", {"day": "thu"}))
    builder.commit({"commitInfo": {"operation": "WRITE", "userName": "other"}},
                   add("day=tue/h", {"day": "tue"}))
    return builder


def verified(files: str = "none") -> Verification:
    return dn.verify(broken().store, files=files)


def many(kinds: int = 30, of_each: int = 12) -> Verification:
    findings = [Finding(kind, "proved" if at % 2 else "possible", (at,), ("a", "b"),
                        f"version {at} has number {number} of these, which is a sentence", "Look at it")
                for at, kind in enumerate(list(KINDS)[:kinds]) for number in range(of_each)]
    return Verification("orders", (0, 99), 100, "all", tuple(findings), omitted=(("orphan", 1234),))


def test_a_broken_table(update_golden: bool) -> None:
    report = verified()
    page = assert_consistent(report)
    assert_golden(report, "verification", update_golden)
    plain = str(report)
    assert "✗ 4 proved  ? 1 possible  1 cycle  v0 to v7  8 commits" in plain
    assert plain.index("removed-twice") < plain.index("application-version-fell")
    assert "lost update v3 →rw v2 →ww v3" in plain and "v3 →rw v2 →ww v3" in page.text
    assert "Compare the batches of the application" in page.text
    assert "version 4 gives e values of no column" in page.text  # unfolds
    assert report.drawn is not None and [track.version for track in report.drawn.commits] == [2, 3]
    assert "lost update with v2" in page.text, "the cycle is drawn on its timeline"


def test_a_sound_table(update_golden: bool) -> None:
    report = dn.verify(TableBuilder(MemoryStore("memory:///lake/ducks")).create("name string").store)
    page = assert_consistent(report)
    assert_golden(report, "verification_sound", update_golden)
    assert str(report).startswith("Verification ducks  ✓ sound  v0  1 commit\n")
    assert "a sample of the data files was opened" in page.text and "Findings" not in page.text


def test_many_findings_stay_within_bounds_and_what_is_left_out_has_a_number() -> None:
    report = many()
    page = assert_consistent(report)
    assert "✗ 180 proved  ? 180 possible  1 234 more not listed" in str(report).replace("\u00a0", " ")
    assert "not listed: 1 234 orphan" in page.text.replace("\u00a0", " ")
    assert "showing 10 of 12 findings" in page.text
    with set_options(max_rows=3):
        assert "Findings: showing 3 of 30 kinds" in assert_consistent(report).text


def test_the_timeline_names_cycles_and_findings_at_their_commits(update_golden: bool) -> None:
    timeline = verified("sample").timeline()
    words = {version: mark.words for version, mark in timeline.marks.items()}
    assert words == {2: "lost update with v3", 3: "lost update with v2", 4: "partition-columns-differ",
                     6: "application-version-fell"}
    assert timeline.title == "11 proved, 1 possible"
    assert_golden(timeline, "verification_timeline", update_golden)


def test_a_timeline_needs_the_log() -> None:
    with pytest.raises(IllegalStateError, match=r"made by hand.*table\.verify\(\)"):
        many().timeline()


def test_the_log_is_no_part_of_what_is_compared_or_written() -> None:
    report = verified()
    assert report == verified()
    assert "log" not in json.loads(report.to_json())


def test_the_listing_has_everything_and_each_remedy_once() -> None:
    lines = listing(many()).splitlines()
    assert len([line for line in lines if "has number" in line]) == 360
    assert len([line for line in lines if line == "  to do: Look at it"]) == 30
    assert "not listed: 1\u00a0234 orphan" in lines
    shown = listing(verified())
    assert "✗ lost update  proved  v3 →rw v2 →ww v3" in shown and "\n  read-version  v7  " in shown
