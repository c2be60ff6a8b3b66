"""The folders on which statements of the corpus run: each is made by deltanb, the same for both engines.

What lives here: :data:`FOLDERS`, by name what fills an empty folder: the table ``t`` that a statement is
about, and beside it ``s`` and ``w``, from which rows come, one with a column more than the other.
What it does not know: statements (``sql_statements``), how results are compared (``sql_results``).
"""

from __future__ import annotations

import datetime as dt
import decimal
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import deltanb as dn

INT = pa.int32()
FIRST_COMMIT = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
"""When version 0 of each table was committed; every later one an hour after the one before."""
UPDATES = pa.table({"id": [2, 3, 7, 8], "name": ["B", None, "g", "h"], "v": pa.array([-2, -3, 70, 80], INT)})
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
TRACKED = {"delta.enableRowTracking": "true"}
REMEMBERED = {"delta.logRetentionDuration": "interval 9999 weeks",
              "delta.deletedFileRetentionDuration": "interval 9999 weeks"}
"""Versions of long ago stay readable."""
WIDENING = {"delta.enableTypeWidening": "true"}


def named(first: int, last: int) -> pa.Table:
    """Rows with ids, of which one has no name and one no value."""
    ids = list(range(first, last + 1))
    return pa.table({"id": ids, "name": [None if n == 3 else "abcdefgh"[n - 1] for n in ids],
                     "v": pa.array([None if n == 5 else n * 10 for n in ids], INT)})


def parted(first: int, last: int) -> pa.Table:
    """Rows of three partitions, of which one is NULL."""
    ids = list(range(first, last + 1))
    return pa.table({"id": ids, "p": [["a", "b", None][n % 3] for n in ids],
                     "v": pa.array([n * 10 for n in ids], INT)})


def in_two_commits(rows: Callable[[int, int], pa.Table], **how: Any) -> Callable[[Path], Any]:
    """A table ``t`` of six rows, three of each commit."""
    def make(folder: Path) -> None:
        dn.create(folder / "t", rows(1, 3), **how).append(rows(4, 6))
    return make


def of(schema: str, rows: pa.Table | None = None, **how: Any) -> Callable[[Path], Any]:
    """A table ``t`` with a schema, and rows if there are any."""
    def make(folder: Path) -> None:
        table = dn.create(folder / "t", schema, **how)
        if rows is not None:
            table.append(rows)
    return make


def with_history(**properties: str) -> Callable[[Path], Any]:
    """Every kind of change to rows."""
    def make(folder: Path) -> None:
        table = dn.create(folder / "t", named(1, 3), properties={**FEED, **properties})
        table.append(named(4, 6))
        table.update({"v": "v + 1"}, "id <= 2")
        table.delete("id = 6")
        table.optimize()
    return make


def with_deletions(folder: Path) -> None:
    """Rows that are gone by deletion vectors."""
    table = dn.create(folder / "t", named(1, 3), properties=VECTORS)
    table.append(named(4, 6))
    table.delete("id IN (2, 5)")


def with_constraint(folder: Path) -> None:
    """No negative values, and ids that are never NULL."""
    table = dn.create(folder / "t", "id bigint NOT NULL, name string, v int")
    table.append(named(1, 4))
    table.add_constraint("positive", "v >= 0")


def with_defaults(folder: Path) -> None:
    """Columns that have a value of their own where a row brings none."""
    dn.create(folder / "t", "id bigint, name string DEFAULT 'nobody', v int DEFAULT 7",
              properties={"delta.feature.allowColumnDefaults": "supported"}).append(named(1, 2))


def with_clusters(folder: Path) -> None:
    """Rows that OPTIMIZE keeps together by a column."""
    table = dn.create(folder / "t", named(1, 6))
    table.cluster_by("id")
    table.append(named(4, 6))


def with_odd_names(folder: Path) -> None:
    """Names that have to be quoted."""
    rows = pa.table({"a b": [1, 2, 3], "x.y": ["p", None, "q"], "select": pa.array([1, None, 3], INT),
                     "größe": [1.5, 2.5, None], "c`d": [True, False, None]})
    dn.create(folder / "t", rows, properties=MAPPED)


def of_parquet(folder: Path) -> None:
    """Folders with files and no table: ``f``, and ``p`` with one folder for each value of a column."""
    (folder / "f").mkdir()
    pq.write_table(named(1, 3), folder / "f" / "one.parquet")
    for value in ("a", "b"):
        (folder / "p" / f"k={value}").mkdir(parents=True)
        pq.write_table(named(1, 2), folder / "p" / f"k={value}" / "one.parquet")


NESTED = pa.table({
    "id": [1, 2, 3],
    "s": [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None],
    "l": [[1, 2], [], None],
    "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), INT)),
    "ls": [[{"q": 1}], None, [None]],
}).cast(pa.schema([("id", pa.int64()), ("s", pa.struct([("x", INT), ("y", pa.string())])),
                   ("l", pa.list_(INT)), ("m", pa.map_(pa.string(), INT)),
                   ("ls", pa.list_(pa.struct([("q", INT)])))]))
SCALARS = pa.table({
    "b": pa.array([True, None]), "i8": pa.array([1, None], pa.int8()), "i16": pa.array([2, None], pa.int16()),
    "i32": pa.array([3, None], INT), "i64": pa.array([4, None]), "f": pa.array([1.5, None], pa.float32()),
    "d": pa.array([float("nan"), None]),
    "dec": pa.array([decimal.Decimal("12.34"), None], pa.decimal128(10, 2)),
    "s": pa.array(["text", None]), "bin": pa.array([b"\x00\xff", None]),
    "day": pa.array([dt.date(2026, 3, 1), None]),
    "ts": pa.array([dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc), None], pa.timestamp("us", "UTC")),
    "ntz": pa.array([dt.datetime(2026, 3, 1, 12), None], pa.timestamp("us")),
})
SMALL = pa.table({"id": [1, 2], "n": pa.array([1, None], pa.int8()),
                  "dec": pa.array([decimal.Decimal("1.5"), None], pa.decimal128(4, 1))})

FOLDERS: dict[str, Callable[[Path], Any]] = {
    "nothing": lambda folder: None,
    "plain": in_two_commits(named),
    "parts": in_two_commits(parted, partition_by="p"),
    "vectors": in_two_commits(named, properties=VECTORS),
    "deletions": with_deletions,
    "feed": in_two_commits(named, properties=FEED),
    "feed and vectors": in_two_commits(named, properties={**FEED, **VECTORS}),
    "mapped": in_two_commits(named, properties=MAPPED),
    "tracked": in_two_commits(named, properties=TRACKED),
    "append only": in_two_commits(named, properties={"delta.appendOnly": "true"}),
    "described": in_two_commits(named, properties={"k": "1", "delta.logRetentionDuration": "interval 9 days"},
                                description="about people"),
    "clustered": with_clusters,
    "constrained": with_constraint,
    "not null": of("id bigint NOT NULL, s struct<x: int NOT NULL, y: string>, v int"),
    "defaults": with_defaults,
    "odd names": with_odd_names,
    "nested": lambda folder: dn.create(folder / "t", NESTED),
    "nested and mapped": lambda folder: dn.create(folder / "t", NESTED, properties=MAPPED),
    "scalars": lambda folder: dn.create(folder / "t", SCALARS),
    "small": lambda folder: dn.create(folder / "t", SMALL, properties=WIDENING),
    "history": with_history(**REMEMBERED),
    "old history": with_history(),
    "parquet": of_parquet,
}


def make(name: str, folder: Path) -> None:
    """Fill an empty folder; commits have the times of :data:`FIRST_COMMIT` and after."""
    with dn.teaching(seed=1), dn.set_options(durability="none"):
        FOLDERS[name](folder)
        dn.create(folder / "s", UPDATES)
        dn.create(folder / "w", UPDATES.append_column("extra", pa.array(["e2", "e3", "e7", "e8"])))
    for log in folder.glob("*/_delta_log"):
        for commit in log.glob("0*.json"):
            time = (FIRST_COMMIT + dt.timedelta(hours=int(commit.stem))).timestamp()
            os.utime(commit, (time, time))
