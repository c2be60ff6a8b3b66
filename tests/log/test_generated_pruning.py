"""Partition pruning through generated columns: it leaves files out, and never one with a matching row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.errors import ConcurrentAppendException
from deltanb.log.skipping.generated import implied_predicates
from deltanb.log.skipping.partitions import format_value
from deltanb.log.snapshot import Snapshot
from deltanb.schema.columns import generated_as
from deltanb.schema.types import PrimitiveType, StructField, StructType, to_arrow
from deltanb.sql import expressions as ex
from deltanb.sql import predicates
from deltanb.testing import MemoryStore, TableBuilder, add
from tests.examples import few

UTC = dt.timezone.utc
BASES = {"ts": "timestamp", "ntz": "timestamp_ntz", "d": "date", "s": "string", "n": "long"}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 4}


def snapshot_of(
    generated: dict[str, tuple[str, str]], files: list[dict[str, Any]], protocol: Any = PROTOCOL
) -> Snapshot:
    """A table with files of these partition values; ``generated`` is type and expression by column."""
    fields = [StructField(name, PrimitiveType(kind)) for name, kind in BASES.items()]
    fields += [StructField(name, PrimitiveType(kind), metadata=generated_as(sql))
               for name, (kind, sql) in generated.items()]
    builder = TableBuilder(MemoryStore()).create(
        StructType(fields).to_dict(), partition_by=list(generated), protocol=protocol)
    kinds = {name: PrimitiveType(kind) for name, (kind, _) in generated.items()}
    builder.commit(*(add(str(number), {
        name: format_value(value, kinds[name]) for name, value in file.items()})
        for number, file in enumerate(files)))
    return builder.log.update()


def left(snapshot: Snapshot, *conditions: str) -> list[int]:
    return sorted(int(path) for path in snapshot.files_for_scan(*conditions)["path"].to_pylist())


def days(*texts: str) -> list[dict[str, Any]]:
    return [{"g": dt.date.fromisoformat(text)} for text in texts]


# --- files that are left out ----------------------------------------------------------------------

@pytest.mark.parametrize("kind, sql, values, condition, expected", [
    ("date", "CAST(ntz AS DATE)", days("2024-05-01", "2024-05-02", "2024-05-03"),
     "ntz >= '2024-05-02 23:00:00'", [1, 2]),
    ("date", "CAST(ntz AS DATE)", days("2024-05-01", "2024-05-02", "2024-05-03"),
     "ntz BETWEEN '2024-05-02' AND '2024-05-02 10:00:00'", [1]),
    ("date", "to_date(ts)", days("2024-05-01", "2024-05-05", "2024-05-09"),
     "ts = '2024-05-05 12:00:00'", [1]),
    ("date", "CAST(ts AS DATE)", days("2024-05-01", "2024-05-05", "2024-05-09"),
     "ts IN ('2024-05-05 12:00:00', '2024-05-09 12:00:00')", [1, 2]),
    ("integer", "YEAR(d)", [{"g": 2023}, {"g": 2024}, {"g": 2025}], "d < '2024-06-01'", [0, 1]),
    ("integer", "MONTH(d)", [{"g": 5}, {"g": 6}], "d = '2024-06-01'", [1]),
    ("integer", "MONTH(d)", [{"g": 5}, {"g": 6}], "d >= '2024-06-01'", [0, 1]),
    ("string", "date_format(ntz, 'yyyy-MM')", [{"g": "2024-05"}, {"g": "2024-06"}],
     "ntz > '2024-06-01'", [1]),
    ("string", "DATE_FORMAT(`ntz`, 'yyyyMMdd')", [{"g": "20240501"}, {"g": "20240601"}],
     "ntz < '2024-05-15'", [0]),
    ("timestamp", "date_trunc('MONTH', ts)",
     [{"g": dt.datetime(2024, month, 1, tzinfo=UTC)} for month in (3, 5, 7)],
     "ts = '2024-05-15'", [1]),
    ("date", "trunc(d, 'QUARTER')", days("2024-01-01", "2024-04-01"), "d = '2024-06-30'", [1]),
    ("date", "trunc(d, 'WEEK')", days("2024-04-29", "2024-05-06"), "d = '2024-05-05'", [0]),
    ("string", "SUBSTRING(s, 1, 2)", [{"g": "ab"}, {"g": "cd"}], "s >= 'ca'", [1]),
    ("string", "s", [{"g": "ab"}, {"g": "cd"}], "s = 'ab'", [0]),
    ("long", "n", [{"g": 1}, {"g": 2}], "n >= 2", [1]),
    ("long", "n", [{"g": 1}, {"g": 2}], "1 = n OR n = 7", [0]),
    ("long", "n", [{"g": 1}, {"g": None}], "n IS NULL", [1]),
    ("long", "n", [{"g": 1}, {"g": 2}], "n <=> 2 AND s = 'x'", [1]),
])
def test_files_that_cannot_match_are_left_out(
    kind: str, sql: str, values: list[dict[str, Any]], condition: str, expected: list[int]
) -> None:
    assert left(snapshot_of({"g": (kind, sql)}, values), condition) == expected


def test_year_month_and_day_are_compared_as_one() -> None:
    generated = {"y": ("integer", "YEAR(d)"), "m": ("integer", "MONTH(d)"), "dd": ("integer", "DAY(d)")}
    dates = [dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 2, 15), dt.date(2025, 1, 1)]
    snapshot = snapshot_of(generated, [{"y": v.year, "m": v.month, "dd": v.day} for v in dates])
    assert left(snapshot, "d > '2023-12-31' AND d <= '2024-02-14'") == [0, 1]
    assert left(snapshot, "d >= '2024-02-15'") == [2, 3]
    assert left(snapshot, "d = '2024-02-15'") == [2]


@pytest.mark.parametrize("condition", [
    "ts != '2024-05-05'", "NOT (ts > '2024-05-05')", "ts > '2024-05-05' OR s = 'x'", "ts IS NOT NULL",
    "year(ts) = 2024", "ts > ntz", "s > 'x'",
])
def test_what_implies_nothing_leaves_no_file_out(condition: str) -> None:
    snapshot = snapshot_of({"g": ("date", "CAST(ts AS DATE)")}, days("2020-01-01", "2024-05-05"))
    assert left(snapshot, condition) == [0, 1]


@pytest.mark.parametrize("sql", ["date_format(ts, 'MM-yyyy')", "date_format(ts, 'E')", "upper(s)",
                                 "substring(s, 2, 1)", "concat(s, 'x')", "hash(s)"])
def test_a_function_of_which_nothing_is_known_leaves_no_file_out(sql: str) -> None:
    snapshot = snapshot_of({"g": ("string", sql)}, [{"g": "a"}, {"g": "b"}])
    assert left(snapshot, "s = 'z'", "ts = '2024-05-05'") == [0, 1]


def test_without_the_feature_an_expression_says_nothing() -> None:
    for protocol, expected in [({"minReaderVersion": 1, "minWriterVersion": 2}, [0, 1]), (PROTOCOL, [1])]:
        snapshot = snapshot_of({"g": ("long", "n")}, [{"g": 1}, {"g": 2}], protocol)
        assert left(snapshot, "n = 2") == expected


def test_a_partition_of_null_is_kept() -> None:
    """An empty text is NULL as a partition value, and its row still has one."""
    snapshot = snapshot_of({"g": ("string", "substring(s, 1, 1)")}, [{"g": None}, {"g": "b"}])
    assert left(snapshot, "s <= 'a'") == [0]


def test_years_beyond_the_texts_order_are_kept() -> None:
    snapshot = snapshot_of({"g": ("string", "date_format(ntz, 'yyyy')")}, [{"g": "+10000"}, {"g": "2023"}])
    assert left(snapshot, "ntz > '2024-01-01'") == [0]


def test_reads_of_a_table_are_pruned_and_right() -> None:
    schema = StructType([StructField("ts", PrimitiveType("timestamp")),
                         StructField("day", PrimitiveType("date"),
                                     metadata=generated_as("CAST(ts AS DATE)"))])
    table = dn.create(MemoryStore(), schema, partition_by="day")
    times = [dt.datetime(2024, 5, day, 12, tzinfo=UTC) for day in (1, 5, 9)]
    table.append({"ts": times})
    assert table.snapshot.files_for_scan("ts > '2024-05-04'").num_rows == 2
    assert table.to_arrow(where="ts > '2024-05-04'").num_rows == 2
    txn = table.start_transaction()
    assert len(txn.filter_files("ts > '2024-05-07'")) == 1


@pytest.mark.parametrize("day, conflicts", [(1, False), (5, True)])
def test_a_read_beside_rows_of_other_partitions_commits(day: int, conflicts: bool) -> None:
    schema = StructType([StructField("ts", PrimitiveType("timestamp")),
                         StructField("day", PrimitiveType("date"),
                                     metadata=generated_as("CAST(ts AS DATE)"))])
    table = dn.create(MemoryStore(), schema, partition_by="day")
    table.append({"ts": [dt.datetime(2024, 5, 5, tzinfo=UTC)]})
    txn = table.start_transaction()
    files = txn.filter_files("ts > '2024-05-04 20:00:00'")
    assert txn.reads.scans[0].partition_text == "(`day` >= DATE'2024-05-04' OR `day` IS NULL)"
    table.append({"ts": [dt.datetime(2024, 5, day, tzinfo=UTC)]})
    removed = [file.remove() for file in files]
    if conflicts:
        with pytest.raises(ConcurrentAppendException):
            txn.commit(removed, "DELETE")
    else:
        assert txn.commit(removed, "DELETE") == 3


def test_what_is_implied_says_what_it_means() -> None:
    generated = {
        "y": ("integer", "YEAR(ts)"), "m": ("integer", "MONTH(ts)"), "g": ("string", "s"),
        "t": ("timestamp", "date_trunc('DAY', ts)"), "pn": ("long", "n"), "pd": ("date", "d")}
    snapshot = snapshot_of(generated, [dict.fromkeys(generated)])
    schema = snapshot.schema
    conditions = [predicates.parse(text, schema) for text in (
        "ts >= '2024-05-05'", "s = 'it\\'s \\\\'", "n IN (1, 2)", "d < '2024-05-05' OR d IS NULL")]
    implied = implied_predicates(snapshot.metadata, snapshot.protocol, conditions)
    assert len(implied) == 4
    for predicate in implied:
        assert flat(predicates.parse(predicate.sql, schema).expression) == flat(predicate.expression)


def flat(node: Any) -> Any:
    """An expression as nested lists, without brackets inside a run of ANDs or ORs."""
    if not isinstance(node, ex.Call):
        return node
    parts = [flat(arg) for arg in node.args]
    if node.op in ("and", "or"):
        parts = [piece for part in parts
                 for piece in (part[1:] if isinstance(part, list) and part[0] == node.op else [part])]
    return [node.op, *parts]


# --- never a file with a matching row -------------------------------------------------------------

def truncated(value: dt.datetime, unit: str) -> dt.datetime:
    zero = value.replace(hour=0, minute=0, second=0, microsecond=0)
    return {"DAY": zero, "MONTH": zero.replace(day=1), "YEAR": zero.replace(month=1, day=1),
            "QUARTER": zero.replace(month=(value.month - 1) // 3 * 3 + 1, day=1),
            "WEEK": zero - dt.timedelta(days=zero.weekday()),
            "HOUR": value.replace(minute=0, second=0, microsecond=0)}[unit]


# Column sets: how a writer computes them from its local time, as Spark does.
TIMES: dict[str, tuple[tuple[str, str], Any]] = {
    "day": (("date", "CAST({} AS DATE)"), lambda v: v.date()),
    "y": (("integer", "YEAR({})"), lambda v: v.year),
    "m": (("integer", "MONTH({})"), lambda v: v.month),
    "dd": (("integer", "DAY({})"), lambda v: v.day),
    "h": (("integer", "HOUR({})"), lambda v: v.hour),
    "ym": (("string", "date_format({}, 'yyyy-MM')"), lambda v: f"{v.year:04}-{v.month:02}"),
    "ymdh": (("string", "date_format({}, 'yyyy-MM-dd-HH')"),
             lambda v: f"{v.year:04}-{v.month:02}-{v.day:02}-{v.hour:02}"),
    **{unit: (("timestamp", f"date_trunc('{unit}', {{}})"), lambda v, unit=unit: truncated(v, unit))
       for unit in ("DAY", "MONTH", "YEAR", "QUARTER", "WEEK", "HOUR")},
}
NEAR = st.datetimes(dt.datetime(2023, 12, 28), dt.datetime(2024, 3, 3))
# The start of a moment's year, in any zone, must be a time that Python has.
FAR = st.datetimes(dt.datetime(2, 1, 3), dt.datetime(9999, 12, 29))
MOMENTS = (NEAR | FAR).map(lambda v: v.replace(microsecond=0))
OPS = st.sampled_from(["=", "<", "<=", ">", ">=", "<=>"])


@st.composite
def conditions(draw: Any, column: str, literals: Any) -> str:
    def leaf() -> str:
        kind = draw(st.sampled_from(["compare", "mirrored", "between", "in", "null"]))
        one, two = draw(literals), draw(literals)
        if kind == "compare":
            return f"{column} {draw(OPS)} {one}"
        if kind == "mirrored":
            return f"{one} {draw(OPS)} {column}"
        if kind == "between":
            return f"{column} BETWEEN {min(one, two)} AND {max(one, two)}"
        return f"{column} IN ({one}, {two})" if kind == "in" else f"{column} IS NULL"

    first = leaf()
    joined = draw(st.sampled_from(["", "AND", "OR"]))
    return f"({first}) {joined} ({leaf()})" if joined else first


def matching(rows: list[Any], column: str, condition: str) -> list[int]:
    """The rows that the condition is TRUE for, by the evaluation that reads use."""
    field = StructField(column, PrimitiveType(BASES[column]))
    schema = to_arrow(StructType([field]))
    table = pa.table({column: pa.array(rows, schema.field(column).type)}).append_column(
        "row", pa.array(range(len(rows))))
    return list(predicates.filter_table(table, condition)["row"].to_pylist())


@given(st.data())
def test_no_file_with_a_matching_time_is_left_out(data: Any) -> None:
    """Whatever zone the writer was in."""
    column = data.draw(st.sampled_from(["ts", "ntz", "d"]))
    names = data.draw(st.lists(st.sampled_from(
        [n for n in TIMES if column != "d" or n not in ("h", "ymdh", "HOUR")]), min_size=1, max_size=4,
        unique=True))
    zone = dt.timezone(dt.timedelta(minutes=data.draw(st.integers(-18 * 60, 18 * 60))))
    rows, files = [], []
    for moment in data.draw(st.lists(MOMENTS, min_size=1, max_size=5)):
        local = moment.replace(tzinfo=UTC).astimezone(zone)  # what the writer's clock shows
        if column != "ts":
            local = moment.replace(tzinfo=zone)
        if column == "d":
            local = local.replace(hour=0, minute=0, second=0)
        value: Any = moment.replace(tzinfo=UTC) if column == "ts" else moment
        rows.append(moment.date() if column == "d" else value)
        files.append({name: TIMES[name][1](local) for name in names})
    rows.append(None)
    files.append(dict.fromkeys(names))
    text = ("DATE'{:%Y-%m-%d}'" if column == "d" else "'{:%Y-%m-%d %H:%M:%S}'").format
    literals = MOMENTS.map(lambda v: text(v).replace("'" + str(v.year), "'" + f"{v.year:04}"))
    condition = data.draw(conditions(column, literals))
    snapshot = snapshot_of({n: (TIMES[n][0][0], TIMES[n][0][1].format(column)) for n in names}, files)
    assert set(matching(rows, column, condition)) <= set(left(snapshot, condition))


TEXTS = st.text(alphabet="ab\u00e9\U0001f986 '+0", max_size=4)


@few
@given(data=st.data(), length=st.integers(1, 3), rows=st.lists(st.none() | TEXTS, min_size=1, max_size=5))
def test_no_file_with_a_matching_text_is_left_out(data: Any, length: int, rows: list[Any]) -> None:
    literals = TEXTS.map(lambda v: "'" + v.replace("'", "\\'") + "'")
    condition = data.draw(conditions("s", literals))
    files = [{"g": None if v is None else v[:length], "i": v} for v in rows]
    snapshot = snapshot_of({"g": ("string", f"SUBSTRING(s, 1, {length})"), "i": ("string", "s")}, files)
    assert set(matching(rows, "s", condition)) <= set(left(snapshot, condition))
