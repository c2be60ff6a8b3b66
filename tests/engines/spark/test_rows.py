"""Rows found and changed by Spark are those found and changed in the process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltanb.commands.begin import begin
from deltanb.commands.choose_engine import named
from deltanb.commands.rows.find_and_change import find
from deltanb.errors import ConstraintViolation, DeltaError, InvalidPredicate, SchemaMismatch
from deltanb.sql.predicates import parse_condition
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from tests.examples import every

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAN = float("nan")
NOON = datetime(2024, 5, 6, 12, 0, 0, 123456, timezone.utc)
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
ROWS = pa.table({
    "id": range(12),
    "p": ["a b", "ü%", None] * 4,
    "x": [None, NAN, 1.5, -0.0, 0.0, float("inf"), -1.0, NAN, 2.5, 1e10, None, 3.0],
    "t": ["x", None, "", "Ab", "aB%", "ß", "x", "y", "a_b", "it's", "x", "ab"],
    "at": [NOON if n % 4 else None for n in range(12)],
    "ntz": pa.array([NOON.replace(tzinfo=None, hour=n) for n in range(12)], pa.timestamp("us")),
    "day": [date(2024, 1, n + 1) for n in range(12)],
    "d": [Decimal(n).scaleb(-2) + 1 for n in range(12)],
    "s": [{"n": n, "in": {"k": str(n)}} if n % 3 else None for n in range(12)],
    "many": [[n, None] if n % 2 else None for n in range(12)],
    "ok": [True, False, None] * 4,
}).cast(pa.schema([
    ("id", pa.int64()), ("p", pa.string()), ("x", pa.float64()), ("t", pa.string()),
    ("at", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("us")), ("day", pa.date32()),
    ("d", pa.decimal128(6, 2)), ("s", pa.struct([("n", pa.int32()), ("in", pa.struct(
        [("k", pa.string())]))])), ("many", pa.list_(pa.int32())), ("ok", pa.bool_())]))

CONDITIONS = [
    "x > 1", "NOT x > 1", "x = 0", "x <=> NULL", "isnan(x) OR id = 0", "x IN (1.5, 2.5, NULL)",
    "NOT x IN (1.5, NULL)", "t LIKE 'a\\\\_%'", "upper(t) = 'AB'", "t >= 'a' AND p IS NULL",
    "at > '2024-05-06 11:00:00'", "ntz < '2024-05-06 05:00:00'", "day = '2024-01-04'",
    "d BETWEEN 1.03 AND 1.07", "s.n > 4", "s.in.k = '5'", "s IS NULL AND ok", "NOT ok",
    "p = 'ü%' AND id < 5", "year(at) = 2024 AND id % 2 = 0", "p = 'a b' OR t = 'x'",
]
MAPPED = {"delta.columnMapping.mode": "name"}
BY_ID = {"delta.columnMapping.mode": "id"}


def made(path: Path, properties: dict[str, str], **more: Any) -> DeltaTable:
    """Two commits of six rows each, so that a partition has two files."""
    table = create(path, ROWS.slice(0, 6), properties=properties, **more)
    table.append(ROWS.slice(6))
    return table


def content(table: DeltaTable) -> list[str]:
    """All rows as text, which unlike values holds NaN for NaN."""
    return sorted(map(repr, table.to_arrow().to_pylist()))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, DeltaTable]]:
    """Plain, partitioned and mapped tables, some rows of each deleted by a vector."""
    root = tmp_path_factory.mktemp("tables")
    kinds: dict[str, Any] = {
        "plain": ({}, {}), "parted": ({}, {"partition_by": "p"}),
        "mapped": (MAPPED, {"partition_by": "p"}), "by id": (BY_ID, {"partition_by": "p"})}
    by_kind = {}
    for kind, (properties, more) in kinds.items():
        table = made(root / kind, {**VECTORS, **properties}, **more)
        table.delete("id IN (2, 7)", engine="arrow")
        by_kind[kind] = table
    yield by_kind


@pytest.mark.parametrize("kind, every", [("plain", 1), ("parted", 2), ("mapped", 3), ("by id", 3)])
def test_both_find_the_same_rows(
    kind: str, every: int, tables: dict[str, DeltaTable], spark: Any
) -> None:
    table = tables[kind]
    for where in CONDITIONS[::every]:
        matches = []
        for engine in ("arrow", "spark"):
            txn = begin(table.log, "rows", removes="DELETE")
            condition = parse_condition(where, txn.snapshot.schema)
            assert condition.reason is None, where
            touched = find(txn, txn.filter_files(*condition.parts), condition, named(engine))
            matches.append({f.file.path: (list(f.rows), f.live) for f in touched})
        assert matches[0] == matches[1], where
        assert bool(matches[0]) == (where != "NOT x IN (1.5, NULL)"), where


@pytest.mark.parametrize("properties, more", every(2, [
    ({**VECTORS, **MAPPED, **FEED}, {"partition_by": "p"}), (FEED, {"partition_by": "p"}),
    ({**BY_ID}, {"partition_by": "p"}), (VECTORS, {}), ({}, {}),
]))
def test_both_leave_the_same_table(
    tmp_path: Path, spark: Any, properties: dict[str, str], more: dict[str, Any]
) -> None:
    tables = {engine: made(tmp_path / engine, properties, **more) for engine in ("arrow", "spark")}
    for step in (
        lambda t, e: t.update({"x": "id + 0.5", "t": "concat('<', t, '>')"}, "x > 1", engine=e),
        lambda t, e: t.update({"s.in.k": "upper(t)", "s.n": "NULL"}, "s IS NULL OR id = 4", engine=e),
        lambda t, e: t.update({"d": "d * 1.1", "day": "at", "ok": "x IS NULL"}, "id > 6", engine=e),
        lambda t, e: t.delete("t LIKE '<%' AND id > 3", engine=e),
        lambda t, e: t.update({"p": "'c'", "id": "id + 100"}, "p IS NULL AND id < 9", engine=e),
        lambda t, e: t.update({"many": "NULL", "ntz": "day"}, engine=e),
        lambda t, e: t.delete("NOT ok OR isnan(x)", engine=e),
        lambda t, e: t.delete("id >= 0 AND x IS NULL", engine=e),
    ):
        done = {engine: step(table, engine) for engine, table in tables.items()}
        assert {engine: result.engine for engine, result in done.items()} == {
            "arrow": "arrow", "spark": "spark"}
        counts = [result.metrics.get("numUpdatedRows", result.metrics.get("numDeletedRows"))
                  for result in done.values()]
        assert counts[0] == counts[1] > 0
        assert content(tables["arrow"]) == content(tables["spark"])
        assert fed(tables["arrow"]) == fed(tables["spark"])
    assert tables["spark"].to_arrow().num_rows not in (0, 12)


def fed(table: DeltaTable) -> list[str]:
    """What the feed says of the last commit; how files are cut decides whether change files say it."""
    if table.properties.get("delta.enableChangeDataFeed") != "true":
        return []
    rows = table.changes(table.version, table.version).drop(["_commit_version", "_commit_timestamp"])
    return sorted(str(values(row)) for row in rows.to_pylist())


def values(value: Any) -> Any:
    """Without names: those of mapped columns are random."""
    return [values(inner) for inner in value.values()] if isinstance(value, dict) else value


# --- what only Spark understands ------------------------------------------------------------------

@pytest.mark.parametrize("properties", [{}, VECTORS, FEED])
def test_auto_takes_spark_for_what_only_it_understands(
    tmp_path: Path, spark: Any, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties, partition_by="p")
    done = table.delete("p = 'ü%' AND soundex(t) = 'A100'")
    assert (done.engine, done.metrics["numDeletedRows"]) == ("spark", 1)
    done = table.update({"t": "soundex(t)", "x": "id / (id - 100)", "many": "array(1, 2)"},
                        "size(many) = 2 AND rand() >= 0")
    assert (done.engine, done.metrics["numUpdatedRows"]) == ("spark", 6)
    done = table.delete("at < current_timestamp() AND id > 5")
    assert (done.engine, done.metrics["numDeletedRows"]) == ("spark", 5)
    by_id = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert sorted(by_id) == [0, 1, 2, 3, 5, 8]  # of 4: soundex('aB%') is A100
    assert (by_id[3]["t"], by_id[3]["many"], by_id[3]["x"]) == ("A100", [1, 2], 3 / -97)
    assert by_id[2]["t"] == ""


def test_the_partition_part_of_what_only_spark_understands_narrows_the_conflicts(
    tmp_path: Path, spark: Any
) -> None:
    table = made(tmp_path / "t", {}, partition_by="p")
    txn = begin(table.log, "rows", removes="DELETE")
    condition = parse_condition("soundex(t) = 'A100' AND p = 'ü%'", txn.snapshot.schema)
    assert len(txn.filter_files(*condition.parts)) == 2
    assert [scan.partition_text for scan in txn.reads.scans] == ["p = 'ü%'"]


def test_the_session_does_not_decide_which_rows(tmp_path: Path, spark: Any) -> None:
    table = made(tmp_path / "t", {})
    changed = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}
    before = {name: spark.conf.get(name) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        assert table.delete("hour(at) = 12 AND id < 3", engine="spark").metrics["numDeletedRows"] == 2
        table.update({"at": "'2024-01-01 00:00:00'"}, "id = 3", engine="spark")
        assert {name: spark.conf.get(name) for name in changed} == changed
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    (row,) = table.to_arrow(where="id = 3").to_pylist()
    assert row["at"] == datetime(2024, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("properties", [{}, {**VECTORS, **FEED}])
def test_what_is_refused_leaves_no_trace(
    tmp_path: Path, spark: Any, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", {**properties, "delta.constraints.c": "id < 50"})

    def files() -> list[str]:
        return sorted(p.name for p in (tmp_path / "t").rglob("*")
                      if p.is_file() and "_delta_log" not in p.parts)

    before = files()
    refusals: list[tuple[type[DeltaError], dict[str, str] | None, str]] = [
        (InvalidPredicate, None, "soundexx(t) = 1"),
        (InvalidPredicate, None, "idd = 1"),
        (InvalidPredicate, {"id": "soundexx(t)"}, "id = 1"),
        (InvalidPredicate, {"id": "t"}, "id = 1"),
        (InvalidPredicate, {"many": "array('x')"}, "id = 1"),
        (InvalidPredicate, {"id": "'x'"}, "id = 1"),
        (SchemaMismatch, {"d": "d * 10000"}, "id = 1"),
        (SchemaMismatch, {"id": "x"}, "id = 1"),
        (ConstraintViolation, {"id": "id + 50"}, "id = 1"),
    ]
    for error, assignments, where in refusals:
        with pytest.raises(error) as caught:
            if assignments is None:
                table.delete(where, engine="spark")
            else:
                table.update(assignments, where, engine="spark")
        assert (table.version, files()) == (1, before), (assignments, where)
        if error is SchemaMismatch:
            assert caught.value.column in assignments
    assert table.update({"id": "'7'"}, "id = 1", engine="spark").version == 2


def test_what_spark_changed_passes_others_at_row_level(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, "deltanb.rowLevelConcurrency": "all"})
    with table.transaction() as txn:
        txn.delete("id = 3", engine="spark")
        txn.update({"t": "'new'"}, "id = 9", engine="spark")
        table.delete("id = 2")
        table.update({"t": "'other'"}, "id = 8")
    rows = {row["id"]: row["t"] for row in table.to_arrow(["id", "t"]).to_pylist()}
    assert sorted(rows) == [n for n in range(12) if n not in (2, 3)]
    assert (rows[8], rows[9]) == ("other", "new")
