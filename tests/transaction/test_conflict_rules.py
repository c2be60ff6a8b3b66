"""The table of conflict rules is the documentation's, and each rule of its own kind."""

from __future__ import annotations

from pathlib import Path

from deltanb.actions import AddFile, CommitInfo, SetTransaction
from deltanb.transaction.conflict_rules import RULES, as_markdown
from deltanb.transaction.steps import Winner

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_documentation_prints_the_table_that_the_checker_reads() -> None:
    assert as_markdown() in (ROOT / "docs/explanation/conflict-rules.md").read_text("utf-8")


def test_rules_are_in_the_order_of_the_reference() -> None:
    assert [rule.name for rule in RULES] == [
        "protocol", "metadata", "domain metadata", "application id", "row tracking", "append",
        "delete / read", "delete / delete", "timestamp"]
    assert len({rule.passed for rule in RULES}) == len(RULES)


def test_a_winner_is_told_by_the_kinds_of_its_actions() -> None:
    first, second = AddFile("a", {}, 1, 1, True), AddFile("b", {}, 1, 1, True)
    winner = Winner(3, (first, SetTransaction("app", 1), second))
    assert (winner.adds, winner.removes, winner.app_ids) == ((first, second), (), {"app"})
    assert (winner.metadata, winner.protocol, winner.domains) == (None, None, {})
    assert winner.commit_info == CommitInfo() and winner.operation == "TRANSACTION"
