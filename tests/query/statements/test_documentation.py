"""The documentation of SQL is the table of statements."""

from __future__ import annotations

from pathlib import Path

from deltanb.query.statements.kinds import as_markdown
from tests.pages import assert_part

PAGE = Path(__file__).resolve().parents[3] / "docs" / "sql.md"


def test_the_page_has_every_statement(update_golden: bool) -> None:
    assert_part(PAGE, "statements", as_markdown(), update_golden)
