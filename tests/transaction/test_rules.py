"""The table of conflict rules is the documentation's, and each rule of its own kind."""

from __future__ import annotations

from pathlib import Path

from deltanb.transaction.rules import RULES, as_markdown

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_readme_prints_the_table_that_the_checker_reads() -> None:
    assert as_markdown() in (ROOT / "README.md").read_text("utf-8")


def test_rules_are_in_the_order_of_the_reference() -> None:
    assert [rule.name for rule in RULES] == [
        "protocol", "metadata", "domain metadata", "application id", "row tracking", "append",
        "delete / read", "delete / delete", "timestamp"]
    assert len({rule.passed for rule in RULES}) == len(RULES)
