"""The change data feed, and columns whose values the table generates, beside Delta Spark.

Each reads the feed of what the other did and finds the same; each writes on where the other ended.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import ConstraintViolation
from deltanb.schema.columns import MARK
from deltanb.table.table import DeltaTable
from tests.examples import every
from tests.peers.delta_spark import DeltaSpark, PeerError, table
from tests.transaction.test_metadata_check import ALLOWED, REFUSED

pytestmark = [pytest.mark.slow, pytest.mark.spark]

FEED = {"delta.enableChangeDataFeed": "true"}
TABLES = {
    "plain": FEED,
    "vectors": {**FEED, "delta.enableDeletionVectors": "true"},
    "mapped": {**FEED, "delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
    "by id": {**FEED, "delta.columnMapping.mode": "id", "delta.enableInCommitTimestamps": "true"},
}


def feed_of(peer: DeltaSpark, path: Path, start: int, end: int) -> list[dict[str, Any]]:
    return peer.sql(f"SELECT * FROM table_changes_by_path('{path}', {start}, {end})")


def same(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order, times in UTC without regard to the zone they are shown in."""
    return sorted(str({key: value.timestamp() if isinstance(value, dt.datetime) else value
                       for key, value in row.items()}) for row in rows)


@pytest.mark.parametrize("kind", every(2, list(TABLES)))
def test_both_read_the_same_changes(tmp_path: Path, delta_spark: DeltaSpark, kind: str) -> None:
    path = tmp_path / "a b%c"
    partition_by = ["p"] if kind != "vectors" else []
    ours = dn.create(path, {"id": [1, 2, 3, 4], "p": ["a b", "a b", "c%d", None]}, properties=TABLES[kind],
                     partition_by=partition_by)
    t = table(path)
    delta_spark.sql(f"UPDATE {t} SET id = id + 10 WHERE id = 1")
    delta_spark.sql(f"DELETE FROM {t} WHERE id = 2")
    ours.update({"id": "id * 2"}, where="id >= 3", engine="arrow")
    ours.delete("id = 6", engine="arrow")
    delta_spark.sql(f"INSERT INTO {t} VALUES (7, 'x'), (8, 'c%d')")
    delta_spark.sql(f"MERGE INTO {t} t USING (SELECT * FROM VALUES (7L, 'y'), (9L, 'z') AS s(id, p)) s "
                    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT *")
    ours.overwrite({"id": [20], "p": ["a b"]}, where="id > 10")
    ours.delete("p = 'c%d'", engine="arrow")
    if "vectors" in kind or kind == "mapped":
        delta_spark.sql(f"RESTORE TABLE {t} TO VERSION AS OF 2")
    last = ours.version
    assert last >= 8
    assert same(ours.changes(0).to_pylist()) == same(feed_of(delta_spark, path, 0, last))
    assert same(ours.changes(3, 5).to_pylist()) == same(feed_of(delta_spark, path, 3, 5))


COLUMNS = ("id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 10), ts TIMESTAMP, "
           "day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), n INT DEFAULT 7")
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone.utc)


def mark(t: DeltaTable) -> int:
    return int(t.schema.field("id").metadata[MARK])


def test_both_give_values_and_go_on_where_the_other_ended(
    tmp_path: Path, delta_spark: DeltaSpark
) -> None:
    path = tmp_path / "t"
    ours = dn.create(path, COLUMNS, partition_by="day")
    ours.append({"ts": [NOON, NOON]})
    delta_spark.sql(f"INSERT INTO {table(path)} (ts) VALUES (TIMESTAMP'2024-05-02 12:00:00Z')")
    theirs = ours.to_arrow(where="day = '2024-05-02'").to_pylist()
    assert [(row["day"], row["n"]) for row in theirs] == [(dt.date(2024, 5, 2), 7)]
    assert theirs[0]["id"] > 110 and theirs[0]["id"] % 10 == 0
    assert mark(ours) == theirs[0]["id"]
    assert ours.history()[0].tags == {"delta.identity.schemaUpdate": "true"}
    ours.append({"ts": [NOON], "n": pa.array([None], pa.int32())})
    delta_spark.sql(f"INSERT INTO {table(path)} (ts) VALUES (TIMESTAMP'2024-05-03 12:00:00Z')")
    rows = ours.to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows) == 5
    assert max(row["id"] for row in rows) == mark(ours)
    assert same(rows) == same(delta_spark.rows(path))


def test_both_refuse_a_value_that_is_not_the_expressions(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    path = tmp_path / "t"
    ours = dn.create(path, COLUMNS)
    with pytest.raises(ConstraintViolation):
        ours.append({"ts": [NOON], "day": [dt.date(2024, 5, 2)]})
    with pytest.raises(PeerError, match=r"(?i)generated column|constraint"):
        delta_spark.sql(f"INSERT INTO {table(path)} (ts, day) VALUES "
                        "(TIMESTAMP'2024-05-01 12:00:00Z', DATE'2024-05-02')")
    with pytest.raises(PeerError, match="(?i)identity"):
        delta_spark.sql(f"INSERT INTO {table(path)} (id, ts) VALUES (5L, TIMESTAMP'2024-05-01 12:00:00Z')")
    assert ours.version == 0


def test_both_sync_to_the_same_mark(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    columns = "id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 1 INCREMENT BY 10), p STRING"
    marks = []
    for name in ("ours", "theirs"):
        path = tmp_path / name
        ours = dn.create(path, columns)
        ours.append({"id": [37], "p": ["a"]})
        if name == "ours":
            ours.sync_identity("id")
        else:
            delta_spark.sql(f"ALTER TABLE {table(path)} ALTER COLUMN id SYNC IDENTITY")
        marks.append((mark(ours), ours.history()[0].operation, ours.history()[0].tags))
    assert marks[0] == marks[1]


# --- which generated columns there may be ---------------------------------------------------------------

CREATED = (
    "CREATE TABLE {t} (n INT, s STRING, ts TIMESTAMP, a ARRAY<INT>, st STRUCT<x:INT>, d DECIMAL(10,1), "
    "m MAP<STRING,INT>, h INT GENERATED ALWAYS AS (n), g {kind} GENERATED ALWAYS AS ({sql})) USING delta")
REFUSED_HERE_ALONE = {"now()"}
"""Delta Spark takes it, though every engine that computes it later has another value."""


def test_both_take_and_refuse_the_same_generated_columns(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    decided = {}
    for place, (kind, sql) in enumerate([*ALLOWED, *((kind, sql) for kind, sql, _ in REFUSED if sql)]):
        try:
            delta_spark.sql(CREATED.format(t=table(tmp_path / str(place)), kind=kind, sql=sql))
        except PeerError:
            decided[sql, kind] = False
        else:
            decided[sql, kind] = True
    assert [sql for kind, sql in ALLOWED if not decided[sql, kind]] == []
    assert {sql for kind, sql, _ in REFUSED if decided.get((sql, kind))} == REFUSED_HERE_ALONE
