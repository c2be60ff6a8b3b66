"""Who wrote the rows, shown: commits, rows with their versions, and what is not certain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.observe.blame.answers import Answers
from deltanb.observe.blame.blame import Blame, Blamed
from deltanb.options import set_options
from deltanb.testing import MemoryStore
from tests.notebook.looks import assert_consistent, assert_golden
from tests.notebook.samples import TIME


def orders(properties: dict[str, Any] | None = None) -> dn.DeltaTable:
    """Three writers, each of whom wrote a row last."""
    clock = iter(range(TIME, TIME + 1_000_000_000, 1_000))
    with set_options(clock=lambda: next(clock)):
        with set_options(user_name="etl-a"):
            table = dn.create(MemoryStore("memory:///lake/orders"),
                              {"id": [1, 2, 3], "price": [10, 20, 30], "note": ["a", None, "c"]},
                              properties=properties)
        with set_options(user_name="ann"):
            table.update({"price": "price * 2"}, where="id > 1")
        with set_options(user_name="ben"):
            table.update({"note": "'late'"}, where="id = 3")
    return table


def many(size: int = 20_000, commits: int = 500, columns: int = 60) -> Blame:
    values = pa.array(["x" * 40] * size)
    rows = pa.table({f"column_{at}": values for at in range(columns)})
    answers = Answers(size, [f"column_{at}" for at in range(10)])
    versions = np.arange(size) % commits
    answers.rows[:] = versions - 1
    for name in answers.columns:
        answers.columns[name][:] = versions
    for at in range(100):
        answers.doubt(np.arange(at + 1), f"reason {at} " * 30)
    known = {version: Blamed(version, "OPERATION " * 9, "a writer " * 9, TIME) for version in range(commits)}
    return Blame(rows, answers, known, "orders", 999)


def test_rows_with_their_commits(update_golden: bool) -> None:
    blame = orders().blame()
    page = assert_consistent(blame)
    assert_golden(blame, "blame", update_golden)
    assert str(blame).startswith("Blame orders  v2  3 rows  by comparing versions\n")
    assert "UPDATE" in page.text and "CREATE TABLE AS SELECT" in page.text


def test_columns_with_their_commits(update_golden: bool) -> None:
    blame = orders({"delta.enableRowTracking": True}).blame("id > 1", columns=["price", "note"])
    assert_consistent(blame)
    assert_golden(blame, "blame_columns", update_golden)
    assert "price since" in str(blame) and "by row ids" in str(blame)


def test_what_is_not_certain(update_golden: bool) -> None:
    table = orders()
    table.vacuum(0, check=False)
    blame = table.blame()
    page = assert_consistent(blame)
    assert_golden(blame, "blame_unknown", update_golden)
    assert "? 3 not known" in page.text and "vacuumed" in page.text


def test_a_table_without_rows() -> None:
    blame = dn.create(MemoryStore("memory:///lake/none"), "id long").blame()
    assert "0 rows" in assert_consistent(blame).text


@pytest.mark.parametrize("max_rows", [3, 20])
def test_much_stays_within_bounds_and_what_is_left_out_has_a_number(max_rows: int) -> None:
    blame = many()
    with set_options(max_rows=max_rows):
        page = assert_consistent(blame)
    text = page.text.replace("\u00a0", " ")
    assert f"showing {max_rows} of 499 commits" in text and f"showing {max_rows} of 20 000 rows" in text
    assert f"showing {max_rows} of 100 reasons" in text and "columns not shown" in text
