"""Conditions of thousands of terms, as programs write them: understood, run, held in conflicts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import ConcurrentAppendException, UnsupportedPredicate
from deltanb.sql import predicates
from deltanb.sql.expressions import MAX_CHAIN

TERMS = 2_000
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64())])
TABLE = pa.table({"id": [1, TERMS - 1, TERMS, None], "x": [1.0, TERMS - 1.0, float(TERMS), None]})
EQUAL = " OR ".join(f"id = {n}" for n in range(TERMS))
APART = " AND ".join(f"id <> {n}" for n in range(TERMS))


def in_small_stack(work: Callable[[], object]) -> object:
    """Run in a thread with a stack of half a megabyte: what threads have on macOS."""
    before, answers = threading.stack_size(512 * 1024), []
    try:
        thread = threading.Thread(target=lambda: answers.append(work()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return answers[0]


@pytest.mark.parametrize("terms", [MAX_CHAIN - 1, MAX_CHAIN + 1, TERMS])
def test_rows_of_long_chains(terms: int) -> None:
    equal = predicates.parse(" OR ".join(f"id = {n}" for n in range(terms)), SCHEMA)
    apart = predicates.parse(" AND ".join(f"id <> {n}" for n in range(terms)), SCHEMA)
    inside = [n for n in (1, TERMS - 1, TERMS) if n < terms]
    outside = [n for n in (1, TERMS - 1, TERMS) if n >= terms]

    def rows(predicate: predicates.Predicate) -> list[int]:
        ids: list[int] = predicates.filter_table(TABLE, predicate)["id"].to_pylist()
        return ids

    assert in_small_stack(lambda: rows(equal)) == inside
    assert in_small_stack(lambda: rows(apart)) == outside
    assert len(apart.conjuncts()) == 1, "constants of one column are one set"
    above = predicates.parse(" AND ".join(f"id > {n}" for n in range(terms)), SCHEMA)
    assert len(above.conjuncts()) == terms
    assert above.conjuncts()[-1].sql == f"id > {terms - 1}"


def test_null_stays_null_in_a_long_chain() -> None:
    """NOT of it is neither true: three values, as in a short one."""
    for sql in (f"NOT ({EQUAL})", f"NOT ({APART})", f"({EQUAL}) IS TRUE"):
        rows = predicates.filter_table(TABLE, sql)["id"].to_pylist()
        assert rows == ([1, TERMS - 1] if "<>" in sql or "IS TRUE" in sql else [TERMS])


@pytest.mark.parametrize("nots", [20, 21])
def test_a_chain_of_nots(nots: int) -> None:
    rows = in_small_stack(lambda: predicates.filter_table(TABLE, "NOT " * nots + "id = 1")["id"].to_pylist())
    assert rows == ([TERMS - 1, TERMS] if nots % 2 else [1])


def test_a_chain_of_nots_that_nobody_writes_is_refused() -> None:
    with pytest.raises(UnsupportedPredicate, match="nested too deeply; write an IN list"):
        predicates.filter_table(TABLE, "NOT " * 2**14 + "id = 1")


@pytest.mark.parametrize("branches", [MAX_CHAIN // 2 - 1, MAX_CHAIN // 2 + 1, 2**14])
def test_a_case_of_many_branches(branches: int) -> None:
    """The first that holds counts, NULL is none, and none has no value."""
    cases = "WHEN x IS NULL THEN NULL WHEN id = 1 THEN 1 " + " ".join(
        f"WHEN x = {n} OR NULL THEN {n + 1}" for n in range(branches))
    ids = predicates.filter_table(TABLE, f"CASE {cases} ELSE -1 END IN (1, -1)")["id"].to_pylist()
    assert ids == [1, *(n for n in (TERMS - 1, TERMS) if n >= branches)]


def test_a_long_list_of_doubles() -> None:
    listed = f"x IN ({', '.join(f'{n}.0D' for n in range(TERMS))})"
    assert predicates.filter_table(TABLE, listed)["id"].to_pylist() == [1, TERMS - 1]


@pytest.mark.parametrize(("sql", "met", "left"), [(EQUAL, 1, 2 * TERMS), (APART, 2 * TERMS, 1)])
def test_files_rows_and_conflicts_by_long_conditions(sql: str, met: int, left: int, tmp_path: Path) -> None:
    table = dn.create(tmp_path, {"id": [1, 2 * TERMS], "x": [0.0, 0.0]}, partition_by=["id"],
                      properties={"delta.isolationLevel": "Serializable"})
    assert table.snapshot.files_for_scan(sql).num_rows == 1
    txn = table.start_transaction()
    removed = [file.remove() for file in txn.filter_files(sql)]
    for winner in (left, met):
        assert dn.explain_conflict(txn).ok
        table.append({"id": [winner], "x": [1.0]})
    assert dn.explain_conflict(txn).conflict.rule == "append"
    with pytest.raises(ConcurrentAppendException):
        txn.commit(removed, "DELETE")
    table.delete(sql)
    assert table.to_arrow()["id"].to_pylist() == [left, left]


@pytest.mark.parametrize("sql", ["(" * 5_000 + "id = 1" + ")" * 5_000, " + ".join(["id"] * 5_000) + " = 1"])
def test_what_is_nested_too_deeply_says_so(sql: str) -> None:
    with pytest.raises(UnsupportedPredicate, match="characters long, is nested too deeply; write an IN "):
        predicates.parse(sql, SCHEMA)
