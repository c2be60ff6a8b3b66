"""What the documentation says of conflicts over time: its tables and bounds are the code's."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltanb.observe import finer_rules
from deltanb.observe.meetings import as_markdown
from deltanb.options import JOURNAL_VARIABLE
from deltanb.transaction import kept_journal, row_levels
from tests.pages import assert_part

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conflicts.md"
TABLES = {"meetings": as_markdown, "levels": row_levels.as_markdown}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_tables_of_the_code(name: str, update_golden: bool) -> None:
    assert_part(PAGE, name, TABLES[name](), update_golden)


def test_the_page_has_the_bounds() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    days, size = kept_journal.MAX_AGE_MS // (24 * 3_600_000), kept_journal.MAX_BYTES // 10**6
    assert f"the newest {kept_journal.MAX_FILES:,} files, {size} MB and {days} days" in text
    assert f"At most {finer_rules.MAX_FILES_READ} data files and vectors, and" in text
    assert f"and {finer_rules.MAX_BYTES_READ >> 30} GB of data files" in text
    assert kept_journal.FOLDER in text and JOURNAL_VARIABLE in text
