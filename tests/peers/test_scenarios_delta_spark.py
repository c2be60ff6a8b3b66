"""The conflict scenarios, decided by Delta Spark's own OptimisticTransaction: it must say the same.

`tests/transaction/test_scenarios.py` holds deltanb to the same file. A scenario that the real engine
contradicts is wrong: ``corrected`` in the file says what was changed, and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltanb.actions import AddFile, CommitInfo, RemoveFile, from_dict
from deltanb.errors import DeltaError
from deltanb.log.commits import commit_name
from deltanb.testing import TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.rebase import parse_high_water_mark
from tests.examples import crossed, every
from tests.peers.delta_spark import DeltaSpark, PeerError
from tests.transaction.test_scenarios import SCENARIOS, winner_lines

pytestmark = [pytest.mark.slow, pytest.mark.spark]

CONDITIONS = {
    "RowIdAssignmentWithoutStats": "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS",
    "RowTrackingBackfillRunningConcurrentlyWithUnbackfill":
        "DELTA_ROW_TRACKING_BACKFILL_RUNNING_CONCURRENTLY_WITH_UNBACKFILL",
    "MaxCommitRetriesExceeded": "DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
    "DuplicateActions": "DELTA_DUPLICATE_ACTIONS_FOUND",
    "PartitionMismatch": "DELTA_INVALID_PARTITIONING_SCHEMA",
}
"""Errors outside the family of conflicts: Delta Spark tells them by condition, not by class."""
ASSERTIONS = {"C162": "Cannot change the metadata more than once in a transaction",
              "C163": "Cannot change the protocol more than once in a transaction",
              "C165": "Two SetTransaction actions within the same transaction"}
"""Transactions that are wrong in themselves: there it is an assertion of Scala's, told by its text."""


class Anybody:
    """Stands for the transaction whose id the winners are to carry; the server knows it."""

    txn_id = "${txnId}"


def written_by_winner(winner: dict[str, Any]) -> list[str]:
    """The lines of a winner's commit; Delta Spark wants to know when it was."""
    lines: list[dict[str, Any]] = winner_lines(winner, Anybody())  # type: ignore[arg-type]
    return [json.dumps({"commitInfo": {"timestamp": 1, **line["commitInfo"]}}
                       if "commitInfo" in line else line) for line in lines]


def decide(peer: DeltaSpark, scenario: dict[str, Any], path: Path) -> Any:
    log = path / "_delta_log"
    log.mkdir(parents=True)
    for version, commit in enumerate(scenario["setup_commits"]):
        (path / commit_name(version)).write_text("".join(json.dumps(line) + "\n" for line in commit))
    planned = scenario["txn"]
    return peer.ask(
        "scenario", path=str(path), reads=planned["reads"], late_reads=planned.get("late_reads", []),
        winners=[written_by_winner(winner) for winner in scenario["winners"]],
        actions=[json.dumps(action) for action in planned["actions"]],
        operation=planned["operation"]["name"], large=scenario.get("level") == "large-commit",
        settings=scenario.get("session_conf", {}))


@pytest.mark.parametrize("scenario", every(2, SCENARIOS), ids=lambda s: f"{s['id']}-{s['group']}")
def test_delta_spark_decides_the_same(
    delta_spark: DeltaSpark, scenario: dict[str, Any], tmp_path: Path
) -> None:
    path, expected = tmp_path / "table", scenario["expected"]
    try:
        committed = decide(delta_spark, scenario, path)
    except PeerError as error:
        check_error(error, scenario["id"], expected)
        last = len(scenario["setup_commits"]) + len(scenario["winners"]) - 1
        assert not (path / commit_name(last + 1)).exists()
        return
    assert expected["outcome"] == "commit", f"Delta Spark commits: {scenario['title']}"
    assert committed == {"version": expected["commit_version"],
                         "files": sorted(expected["final_files"])}
    check_commit(path, expected)


def check_error(error: PeerError, name: str, expected: dict[str, Any]) -> None:
    outcome = expected["outcome"]
    if name in ASSERTIONS:
        assert outcome == "InvalidTransaction"
        assert ASSERTIONS[name] in error.message
    elif outcome in CONDITIONS:
        assert error.condition == CONDITIONS[outcome], error
    else:
        assert error.kind == outcome, error
        assert error.condition == expected.get("error_class", error.condition)
    if "partition_hint" in expected:
        hint = expected["partition_hint"]
        assert hint is None or hint in error.message
    for fragment in [expected["message_contains"]] if "message_contains" in expected else []:
        assert fragment in error.message


def check_commit(path: Path, expected: dict[str, Any]) -> None:
    """What Delta Spark wrote, read by us."""
    snapshot = DeltaLog.for_table(str(path)).snapshot
    assert snapshot.version == expected["commit_version"]
    assert sorted(snapshot.files["path"].to_pylist()) == sorted(expected["final_files"])
    assert snapshot.set_transactions == expected.get("final_txns", snapshot.set_transactions)
    for name, value in expected.get("final_domains", {}).items():
        domain = snapshot.domain_metadata.get(name)
        assert (domain is None) if value == "removed" else (domain.configuration == value)
    if "row_id_high_watermark" in expected:
        domain = snapshot.domain_metadata.get("delta.rowTracking")
        assert parse_high_water_mark(domain) == expected["row_id_high_watermark"]
    written = DeltaLog.for_table(str(path)).read_commit(snapshot.version)
    info = next(a for a in written if isinstance(a, CommitInfo))
    if "read_is_blind_append" in expected:  # else the commit is the winner's, found to be our own
        assert info.is_blind_append is expected["read_is_blind_append"]
        assert info.isolation_level == expected["isolation_level"]
    for key, value in expected.get("commit_info_tags", {}).items():
        assert info.tags[key] == value
    adds = {a.path: a for a in written if isinstance(a, AddFile)}
    removes = {a.path: a for a in written if isinstance(a, RemoveFile)}
    for file, value in expected.get("base_row_ids", {}).items():
        assert adds[file].base_row_id == value
    for file, value in expected.get("default_row_commit_versions", {}).items():
        assert adds[file].default_row_commit_version == value
    for file, value in expected.get("remove_base_row_ids", {}).items():
        assert removes[file].base_row_id == value


@pytest.mark.parametrize(("enabled", "stats", "operation"), crossed(
    3, ["true", "false"], ['{"numRecords":3,"tightBounds":true}', '{"numRecords":3}', "{}",
                           '{"numRecords":3,"tightBounds":false}'], ["DELETE", "RESTORE", "Manual Update"]))
def test_both_refuse_the_same_vectors(
    delta_spark: DeltaSpark, tmp_path: Path, enabled: str, stats: str, operation: str
) -> None:
    log, vector = tmp_path / "_delta_log", {
        "storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40, "cardinality": 6}
    log.mkdir()
    text = TableBuilder().create("id long", properties={"delta.enableDeletionVectors": enabled}).store.read(
        commit_name(0)).decode()
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}
    lines = [line for line in text.splitlines() if '"protocol"' not in line]
    (log / "00000000000000000000.json").write_text("\n".join([json.dumps({"protocol": features}), *lines]))
    action = add("a", deletionVector=vector, stats=stats)
    theirs = ours = None
    try:
        delta_spark.ask("scenario", path=str(tmp_path), reads=[], late_reads=[], winners=[],
                        actions=[json.dumps(action)], operation=operation, large=False, settings={})
        (tmp_path / commit_name(1)).unlink()
    except PeerError as error:
        theirs = error.condition
    try:
        DeltaLog.for_table(str(tmp_path)).start_transaction().commit([from_dict(action)], operation)
    except DeltaError as error:
        ours = error.kind
    if theirs == "DELTA_ADDING_DELETION_VECTORS_DISALLOWED" and operation == "RESTORE":
        assert ours is None or "numRecords" not in stats  # a version with vectors can be restored
        return
    assert (ours is None) == (theirs is None), (ours, theirs)
    if enabled == "true" and "numRecords" in stats:  # else two things are wrong at once, or there is no code
        assert ours == theirs
