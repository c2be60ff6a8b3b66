"""What a checkup cannot read or understand is said by name, and the rest is answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.errors import TableNotFound
from deltanb.observe.checkup import BlindSpot, Checkup, checkup
from deltanb.observe.checkup.kinds import BLIND_SPOTS
from deltanb.testing import MemoryStore, TableBuilder, add
from tests.observe.verify.planting import Broken


@pytest.fixture
def broken(tmp_path: Path) -> Broken:
    """A table of twelve small files, none of which is damaged yet."""
    table = dn.create(tmp_path / "made", {"id": [1], "p": ["a"]})
    for number in range(11):
        table.append({"id": [number], "p": ["b"]})
    dn.flush()
    (tmp_path / "made").rename(tmp_path / "t")  # nobody in this process remembers anything of it
    return Broken(tmp_path / "t")


def spot(report: Checkup, kind: str) -> BlindSpot:
    """The blind spot of a kind."""
    (one,) = [one for one in report.blind_spots if one.kind == kind]
    assert one.evidence.startswith(BLIND_SPOTS[kind])
    return one


def test_a_damaged_newest_commit(broken: Broken) -> None:
    broken.file(broken.last).write_text('{"add":{"path":')
    report = checkup(broken.path)
    assert spot(report, "newest-version").versions == (11,)
    assert "00000000000000000011.json" in spot(report, "newest-version").missing
    assert spot(report, "commit-unreadable").versions == (11,)
    assert report.version == 10 and report.num_files == 11 and report.kinds == ("small-files",)


def test_a_damaged_commit_in_the_middle(broken: Broken) -> None:
    broken.file(11).write_text("{")
    broken.append({"add": {"path": "x"}})
    report = checkup(broken.path)
    assert report.version == 10 and report.kinds == ("small-files",)


def test_a_hole_in_the_log(broken: Broken) -> None:
    broken.file(11).unlink()
    (broken.path / "_delta_log/00000000000000000012.json").write_text(
        '{"commitInfo":{"operation":"WRITE"}}\n')
    report = checkup(broken.path)
    hole = spot(report, "version-missing")
    assert hole.versions == (11,) and "00000000000000000011.json" in hole.missing
    assert spot(report, "newest-version").versions == (12,)
    assert report.version == 10 and report.kinds == ("small-files",)


def test_no_version_can_be_read(broken: Broken) -> None:
    for version in range(12):
        broken.file(version).write_text("{")
    report = checkup(broken.path)
    assert spot(report, "no-version").versions == (11,)
    assert report.num_files is None and report.findings == () and report.num_commits == 0
    json.loads(report.to_json())


def test_no_table_at_all(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        checkup(tmp_path)


def test_operations_and_actions_of_nobody(broken: Broken) -> None:
    broken.append({"shine": {"on": True}}, operation="POLISH")
    broken.write(13, [{"shine": {"on": False}}])
    broken.write(14, [{"commitInfo": {"operation": ["WRITE"], "operationMetrics": [1]}}])
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    broken.write(15, [{"commitInfo": "by hand"}, protocol])
    report = checkup(broken.path)
    unknown = spot(report, "operation-unknown")
    assert unknown.versions == (12,) and "POLISH" in unknown.missing
    assert spot(report, "action-unknown").versions == (12, 13)
    assert spot(report, "action-unknown").missing == "'shine'"
    assert spot(report, "commit-info-missing").versions == (13, 14, 15)
    assert report.version == 15 and report.kinds == ("small-files",)


def test_changes_that_do_not_say_what_they_copied(broken: Broken) -> None:
    broken.append(operation="DELETE", operationParameters={"predicate": "[\"tired(id)\",\"p = 'a'\"]"})
    broken.append(operation="MERGE", operationParameters={"mergePredicate": "t.id = s.key"})
    report = checkup(broken.path)
    assert spot(report, "metrics-missing").versions == (12, 13)
    condition = spot(report, "condition")
    assert condition.versions == (12, 13)
    assert "tired(id)" in condition.missing and "s.key" in condition.missing


def test_properties_that_are_none(broken: Broken) -> None:
    broken.configure(0, targetFileSize="huge", deletedFileRetentionDuration="for ever",
                     checkpointInterval="never")
    report = checkup(broken.path)
    several = [one for one in report.blind_spots if one.kind == "property"]
    assert len(several) == 3 and "huge" in several[0].missing
    assert report.kinds == ("small-files",)


def test_features_that_this_library_lacks(broken: Broken) -> None:
    broken.set(0, "protocol", minReaderVersion=3, minWriterVersion=7, readerFeatures=["shine"],
               writerFeatures=["shine"])
    report = checkup(broken.path)
    assert "shine" in spot(report, "protocol").missing
    assert report.kinds == ("small-files",)


def test_statistics_that_are_none(broken: Broken) -> None:
    broken.set(3, "add", stats="{]")
    broken.set(4, "add", stats='{"numRecords":"many","minValues":{"id":[]}}')
    assert checkup(broken.path).kinds == ("small-files",)


def test_a_partition_value_that_is_none() -> None:
    table = TableBuilder(MemoryStore()).create("id long, day date", partition_by=["day"])
    table.commit(*(add(f"day=x/{n}", {"day": "x"}) for n in range(20)))
    report = checkup(table.store)
    assert "day" in spot(report, "partition-value").missing
    assert report.num_files == 20 and report.kinds == ("small-files",)


def test_a_schema_that_is_none(broken: Broken) -> None:
    broken.set(0, "metaData", schemaString="{")
    report = checkup(broken.path)
    assert spot(report, "schema").versions == (11,)
    assert report.kinds == ("small-files",)


def test_a_check_that_cannot_be_made(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the store is gone")

    monkeypatch.setattr("deltanb.log.cleanup.expired_files", fail)
    report = checkup(broken.path)
    assert spot(report, "check").missing == "log-age: the store is gone"
    assert report.kinds == ("small-files",)


def test_a_damaged_clustering_domain(broken: Broken) -> None:
    broken.append({"domainMetadata": {"domain": "delta.clustering", "configuration": "{", "removed": False}})
    assert checkup(broken.path).kinds == ("small-files",)


def test_an_optimize_whose_version_is_gone(broken: Broken) -> None:
    info = {"operation": "OPTIMIZE", "operationParameters": {"zOrderBy": "[\"id\"]"}}
    broken.write(2, [{"commitInfo": info}, *(line for line in broken.lines(2) if "add" in line)])
    dn.open(broken.path).log.checkpoint()
    broken.path.rename(broken.path.with_name("moved"))
    path = broken.path.with_name("moved")
    for version in (0, 1):
        (path / f"_delta_log/{version:020d}.json").unlink()
    report = checkup(path)
    assert spot(report, "optimized-version").versions == (2,)
    assert spot(report, "history")


def test_conditions_on_very_many_columns(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltanb.observe.checkup.state.MAX_COLUMNS", 1)
    for predicate in ("[\"id = 1\"]", "[\"p = 'a' AND id = 1\"]"):
        broken.append(operation="DELETE", operationParameters={"predicate": predicate})
    assert spot(checkup(broken.path), "columns").missing == "p"


def test_the_listing_is_left_out_where_it_is_not_asked_for(broken: Broken) -> None:
    assert spot(checkup(broken.path, list_files=False), "listing").missing == ""


def test_foreign_records_are_safe(broken: Broken) -> None:
    broken.append(operation="\x1b[2J" + "x" * 100)
    report = checkup(broken.path)
    assert "\x1b" not in str(report)


def test_every_blind_spot_is_met() -> None:
    here = Path(__file__).read_text("utf-8")
    assert [kind for kind in BLIND_SPOTS if f'"{kind}"' not in here] == []
