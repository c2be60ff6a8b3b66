"""Every conflict scenario: a transaction, the commits that win meanwhile, and what must come of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltanb import actions, errors
from deltanb.actions import Action, AddFile, CommitInfo, RemoveFile
from deltanb.log.commits import commit_name
from deltanb.options import set_options
from deltanb.testing import MemoryStore
from deltanb.transaction import conflict_rules
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.operations import Operation
from deltanb.transaction.rebase import parse_high_water_mark
from deltanb.transaction.transaction import OptimisticTransaction

FILE = Path(__file__).parent.parent / "scenarios" / "conflicts.json"
SCENARIOS = json.loads(FILE.read_text())["scenarios"]
SETTINGS = {"maxCommitAttempts": lambda text: {"max_commit_attempts": int(text)},
            "commit.idempotencyCheck.enabled": lambda text: {}}  # always on here


def read(txn: OptimisticTransaction, reads: list[dict[str, Any]]) -> None:
    for one in reads:
        match one["op"]:
            case "filter_files":
                txn.filter_files(*one["predicates"])
            case "read_whole_table":
                txn.read_whole_table()
            case "txn_version":
                txn.txn_version(one["app_id"])
            case "metadata":
                assert txn.metadata is not None
            case "filter_files_in_partitions_of":
                txn.filter_files_in_partitions_of([actions.from_dict(a) for a in one["adds"]])
            case other:
                raise AssertionError(f"unknown read {other}")


def winner_lines(winner: dict[str, Any], txn: OptimisticTransaction) -> list[dict[str, Any]]:
    lines = list(winner["actions"])
    if winner.get("commit_info", {}) is None:
        return lines
    files = [key for line in lines for key in line if key in ("add", "remove", "cdc")]
    scans = [r for r in winner["reads"] if r["op"].startswith(("filter_files", "read_whole"))]
    info: dict[str, Any] = {
        "operation": winner["operation"]["name"],
        "isBlindAppend": not scans and all(key == "add" for key in files),
        **(winner.get("commit_info") or {}),
    }
    if winner.get("tags"):
        info["tags"] = winner["tags"]
    if winner.get("is_self"):
        info["txnId"] = txn.txn_id
    return [{"commitInfo": info}, *lines]


class InFolder:
    """Where a scenario takes place: a table in a folder, in memory."""

    def __init__(self, setup: list[list[dict[str, Any]]]) -> None:
        self.store = MemoryStore()
        for version, commit in enumerate(setup):
            self.put(version, commit)
        self.log = DeltaLog.for_table(self.store)

    def put(self, version: int, lines: list[dict[str, Any]]) -> None:
        """Commit another one's lines."""
        assert self.store.put_if_absent(commit_name(version), body_of(lines))

    def action(self, line: dict[str, Any]) -> Action:
        """An action of the transaction."""
        return actions.from_dict(line)

    def seen_anew(self) -> DeltaLog:
        """The table, as somebody opens it."""
        DeltaLog.clear_cache()
        return DeltaLog.for_table(self.store)


def body_of(lines: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


Run = tuple[Any, OptimisticTransaction, "Exception | None"]
"""The place, the transaction, and its error."""


def run(scenario: dict[str, Any], makes: Callable[..., Any] = InFolder) -> Run:
    place = makes(scenario["setup_commits"])
    txn = place.log.start_transaction()
    planned = scenario["txn"]
    read(txn, planned["reads"])
    for offset, winner in enumerate(scenario["winners"]):
        place.put(txn.read_version + 1 + offset, winner_lines(winner, txn))
    read(txn, planned.get("late_reads", []))
    operation = Operation(planned["operation"]["name"],
                          changes_data=planned["operation"]["changes_data"])
    commit = txn.commit_large if scenario.get("level") == "large-commit" else txn.commit
    try:
        commit([place.action(a) for a in planned["actions"]], operation)
    except errors.DeltaError as error:
        return place, txn, error
    return place, txn, None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s['id']}-{s['group']}")
def test_scenario(scenario: dict[str, Any]) -> None:
    hold(scenario)


def test_the_scenarios_as_they_were_first_written(shared: Path) -> None:
    """The two that were corrected here are answered alike in their first form."""
    first = json.loads((shared / "scenarios" / "conflicts.json").read_text())["scenarios"]
    assert {s["id"] for s in first} <= {s["id"] for s in SCENARIOS}
    for scenario in first:
        hold(scenario)


def hold(scenario: dict[str, Any], makes: Callable[..., Any] = InFolder) -> None:
    conf = scenario.get("session_conf", {})
    options: dict[str, Any] = {}
    for name, text in conf.items():
        if name not in SETTINGS:
            pytest.skip(f"{scenario['id']}: no equivalent of the setting {name}")
        options.update(SETTINGS[name](text))
    with set_options(**options):
        place, txn, error = run(scenario, makes)
    expected = scenario["expected"]
    outcome = "commit" if error is None else type(error).__name__
    assert outcome == expected["outcome"], f"{scenario['title']}: {error}"
    if "isolation_level" in expected:
        assert txn.prepared is not None
        assert txn.prepared.isolation == expected["isolation_level"]
    if error is None:
        check_commit(place, txn, expected)
    else:
        check_error(txn, error, expected, len(scenario["setup_commits"]), len(scenario["winners"]))


def check_error(txn: OptimisticTransaction, error: Exception, expected: dict[str, Any],
                setup: int, winners: int) -> None:
    assert txn.log.update().version == setup + winners - 1, "a refused commit writes nothing"
    for fragment in [expected["message_contains"]] if "message_contains" in expected else []:
        assert fragment in str(error)
    for value in expected.get("message_params", {}).values():
        assert value in str(error)
    if "conflict_version" in expected:
        assert error.version == expected["conflict_version"]
    if "error_class" in expected:
        assert expected["error_class"] in (
            getattr(error, "error_class", None), getattr(error, "kind", None))
    if isinstance(error, errors.DeltaConcurrentModificationException):
        assert error.conflict is txn.conflict is not None
        assert error.conflict.version == error.version
        assert error.conflict.partition == expected.get("partition_hint", error.conflict.partition)
        states = [c.state for c in error.conflict.checks]
        assert states.count("failed") == 1
        assert all(s == "not reached" for s in states[states.index("failed") + 1:])


def check_commit(place: Any, txn: OptimisticTransaction, expected: dict[str, Any]) -> None:
    snapshot = place.log.update()
    assert txn.committed is not None
    assert txn.committed.version == expected["commit_version"]
    again = place.seen_anew().snapshot
    assert again.version == snapshot.version
    for one in (snapshot, again):
        assert sorted(one.files["path"].to_pylist()) == sorted(expected["final_files"])
    if "final_txns" in expected:
        assert again.set_transactions == expected["final_txns"]
    for name, value in expected.get("final_domains", {}).items():
        domain = again.domain_metadata.get(name)
        assert (domain is None) if value == "removed" else (domain.configuration == value)
    written = place.log.read_commit(txn.committed.version)
    info = next(a for a in written if isinstance(a, CommitInfo))
    assert info is written[0]
    if "read_is_blind_append" in expected:
        assert info.is_blind_append is expected["read_is_blind_append"]
    for key, value in expected.get("commit_info_tags", {}).items():
        assert info.tags[key] == value
    if "min_in_commit_timestamp" in expected:
        assert info.in_commit_timestamp >= expected["min_in_commit_timestamp"]
    adds = {a.path: a for a in written if isinstance(a, AddFile)}
    removes = {a.path: a for a in written if isinstance(a, RemoveFile)}
    for path, value in expected.get("base_row_ids", {}).items():
        assert adds[path].base_row_id == value
    for path, value in expected.get("default_row_commit_versions", {}).items():
        assert adds[path].default_row_commit_version == value
    for path, value in expected.get("remove_base_row_ids", {}).items():
        assert removes[path].base_row_id == value
    if "row_id_high_watermark" in expected:
        domain = again.domain_metadata.get("delta.rowTracking")
        assert parse_high_water_mark(domain) == expected["row_id_high_watermark"]


def test_every_rule_is_met_by_a_scenario() -> None:
    """Each rule with an exception ends at least one scenario: none of them is dead."""
    fired = set()
    for scenario in SCENARIOS:
        if not scenario.get("session_conf"):
            _, txn, _ = run(scenario)
            if txn.conflict is not None:
                fired.add(txn.conflict.rule)
    assert {rule.name for rule in conflict_rules.RULES if rule.exception is not None} <= fired


@pytest.mark.parametrize("rule", conflict_rules.RULES, ids=lambda rule: rule.name)
def test_without_a_rule_some_scenario_ends_otherwise(
    rule: conflict_rules.Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were a rule deleted, these tests would say so: each of them carries weight."""
    monkeypatch.setattr(conflict_rules, "RULES", tuple(r for r in conflict_rules.RULES if r is not rule))
    assert any(not holds(s) for s in SCENARIOS if not s.get("session_conf"))


def holds(scenario: dict[str, Any]) -> bool:
    try:
        hold(scenario)
    except (AssertionError, errors.DeltaError):
        return False
    return True
