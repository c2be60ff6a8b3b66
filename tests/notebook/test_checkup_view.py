"""What upkeep a table needs, shown: findings with commands, costs and savings, figures, blind spots."""

from __future__ import annotations

from typing import Any

from deltanb.notebook.views.checkup import listing
from deltanb.observe.checkup import Checkup, checkup
from deltanb.observe.checkup.kinds import KINDS
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add
from tests.notebook.looks import assert_consistent, assert_golden

CLOCK = 1_772_442_862_000


def needy() -> TableBuilder:
    """Many small files, a DELETE that copied a lot by a column without bounds, and a commit of nobody."""
    builder = TableBuilder(MemoryStore("memory:///lake/orders")).create("id long, day string")
    stats = '{"numRecords":900,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
    for number in range(12):
        builder.commit(info("WRITE"), add(f"f{number}", size=4100, stats=stats))
    metrics = {"numCopiedRows": "899", "numDeletedRows": "1", "numAddedBytes": "4000"}
    for _ in range(2):
        builder.commit(info("DELETE", metrics, predicate="[\"day = 'mon'\",\"tired(id)\"]"))
    builder.commit({"commitInfo": {"operation": "POLISH"}})
    return builder


def info(operation: str, metrics: Any = None, **parameters: Any) -> Any:
    return {"commitInfo": {"operation": operation, "timestamp": 1, "operationParameters": parameters,
                           "operationMetrics": metrics or {}}}


def many(of_each: int = 4) -> Checkup:
    findings = [kind("a sentence on what was found", dict.fromkeys(kind.figures, 10**6),
                     dict.fromkeys(kind.saves, 10**6), reads=10**9, writes=10**6,
                     case=next(iter(kind.commands)), columns=("a" * 40,) * 4, size=1, names="a")
                for kind in KINDS.values() for _ in range(of_each)]
    return Checkup("orders", 9, 10**6, 10**12, 1000, tuple(findings))


def test_a_table_that_needs_upkeep(update_golden: bool) -> None:
    with set_options(clock=lambda: CLOCK):
        report = checkup(needy().store)
    page = assert_consistent(report)
    assert_golden(report, "checkup", update_golden)
    plain = str(report)
    assert plain.startswith("Checkup orders  ! 3 findings  v15  12 files  49.2 kB\n")
    assert report.kinds == ("small-files", "statistics-missing", "rewrites")
    assert "! small-files         11 files, 11 requests  table.optimize()\n" in plain
    assert "files_to_rewrite 12" in page.text  # unfolds
    assert "operation-unknown" in page.text and "condition" in plain


def test_a_table_that_needs_none(update_golden: bool) -> None:
    report = checkup(TableBuilder(MemoryStore("memory:///lake/ducks")).create("name string").store)
    page = assert_consistent(report)
    assert_golden(report, "checkup_nothing", update_golden)
    assert "✓ nothing to do" in str(report) and "Findings" not in page.text


def test_many_findings_stay_within_bounds_and_what_is_left_out_has_a_number() -> None:
    report = many()
    page = assert_consistent(report)
    assert f"! {len(report.findings)} findings" in str(report)
    assert f"showing 20 of {len(report.findings)} findings" in page.text
    with set_options(max_rows=3):
        assert f"showing 3 of {len(report.findings)} findings" in assert_consistent(report).text


def test_the_listing_has_every_finding_and_every_blind_spot_in_full() -> None:
    assert listing(many()).count("  to do: ") == len(many().findings)
    with set_options(clock=lambda: CLOCK):
        lines = listing(checkup(needy().store)).splitlines()
    assert "  to do: table.set_properties({'delta.enableDeletionVectors': True})" in lines
    assert "  saves 1\u00a0798 rows, 8.0 kB; reads 0 B, writes 2.0 kB" in lines
    (unknown,) = [line for line in lines if line.startswith("  operation-unknown  v15  ")]
    assert unknown.endswith(": 'POLISH'")
