"""delta-rs as the oracle: it reads what we write, we read what it writes, both write at once."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import AddFile, RemoveFile
from deltanb.errors import ConstraintViolation
from tests.patience import PATIENCE

APPENDS = 100

OURS = """
import sys, deltanb as dn
table = dn.open(sys.argv[1])
for n in range(int(sys.argv[2])):
    table.append({"who": ["deltanb"], "n": [n], "part": [n % 3]})
"""
THEIRS = """
import sys, pyarrow as pa, deltalake
retries = deltalake.CommitProperties(max_commit_retries=1000)
for n in range(int(sys.argv[2])):
    rows = pa.table({"who": ["deltalake"], "n": [n], "part": [n % 3]})
    deltalake.write_deltalake(sys.argv[1], rows, mode="append", commit_properties=retries)
"""

EVERY_TYPE = pa.table({
    "n": pa.array([1, 2]),
    "int": pa.array([1, None], pa.int32()), "short": pa.array([1, None], pa.int16()),
    "byte": pa.array([1, None], pa.int8()), "float": pa.array([1.5, None], pa.float32()),
    "double": pa.array([1.5, None]), "flag": pa.array([True, None]),
    "dec": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
    "text": pa.array(["é", None]), "bytes": pa.array([b"\x00\xff", None]),
    "day": pa.array([date(2024, 2, 29), None]),
    "time": pa.array([datetime(2024, 1, 2, 3, 4, 5, 6, timezone.utc), None],
                     pa.timestamp("us", "UTC")),
    "wall": pa.array([datetime(2024, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us")),
    "list": pa.array([[1, None], None], pa.list_(pa.int64())),
    "struct": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
})


def theirs(path: Path, order: str = "n") -> list[dict[str, Any]]:
    """The table's rows as delta-rs reads them."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return pa.table(builder.execute(f"select * from t order by {order}")).to_pylist()


def ours(path: Path, order: str = "n") -> list[dict[str, Any]]:
    """The table's rows as we read them."""
    return dn.open(path).to_arrow().sort_by(order).to_pylist()


def test_it_reads_what_we_write(tmp_path: Path) -> None:
    table = dn.create(tmp_path, EVERY_TYPE, partition_by=["int", "text"])
    table.append(EVERY_TYPE.set_column(0, "n", pa.array([3, 4])))
    columns = EVERY_TYPE.schema.names
    read = [{name: row[name] for name in columns} for row in theirs(tmp_path)]
    expected = EVERY_TYPE.to_pylist() + EVERY_TYPE.set_column(0, "n", pa.array([3, 4])).to_pylist()
    assert read == expected


def test_we_read_what_it_writes(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, EVERY_TYPE, partition_by=["int", "text"])
    assert [{name: row[name] for name in EVERY_TYPE.schema.names} for row in ours(tmp_path)] == (
        EVERY_TYPE.to_pylist())
    assert dn.open(tmp_path).append(EVERY_TYPE) == 1
    assert len(theirs(tmp_path)) == 4


def test_it_finds_rows_by_our_statistics(tmp_path: Path) -> None:
    table = dn.create(tmp_path, {"n": [1, 2], "t": ["a", "b"]})
    table.append({"n": [10, 20], "t": ["x" * 100, "y" * 100]})
    peer = deltalake.DeltaTable(tmp_path)
    described = pa.table(peer.get_add_actions(flatten=True)).to_pydict()
    assert sorted(described["num_records"]) == [2, 2]
    assert sorted(described["min.n"]) == [1, 10] and sorted(described["max.n"]) == [2, 20]
    builder = deltalake.QueryBuilder().register("t", peer)
    conditions = {"n >= 10": 2, "n < 10": 2, f"t = '{'y' * 100}'": 1, "t > 'x'": 2}
    for condition, count in conditions.items():
        (batch,) = pa.table(builder.execute(
            f"select count(*) as c from t where {condition}")).to_batches()
        assert batch["c"].to_pylist() == [count], condition


def test_its_changes_are_seen_by_us(tmp_path: Path) -> None:
    table = dn.create(tmp_path, {"n": [1, 2, 3], "p": ["a", "a", "b"]}, partition_by="p")
    peer = deltalake.DeltaTable(tmp_path)
    peer.delete("n = 2")
    peer.update(updates={"n": "n * 10"}, predicate="p = 'b'")
    peer.optimize.compact()
    assert [(row["n"], row["p"]) for row in ours(tmp_path)] == [(1, "a"), (30, "b")]
    table.overwrite({"n": [7], "p": ["a"]}, where="p = 'a'")
    assert [(row["n"], row["p"]) for row in theirs(tmp_path)] == [(7, "a"), (30, "b")]
    assert [entry.version for entry in table.history()] == list(range(table.version, -1, -1))


def test_we_pass_its_commits_at_row_level_and_it_reads_what_came_of_it(tmp_path: Path) -> None:
    mine = dn.create(tmp_path, {"n": [1, 2, 3]}, properties={
        "delta.enableDeletionVectors": "true", "deltanb.rowLevelConcurrency": "all"})
    with mine.transaction() as txn:
        txn.delete("n = 1")
        deltalake.write_deltalake(tmp_path, pa.table({"n": [7]}), mode="append")
        mine.delete("n = 2")
        deltalake.DeltaTable(tmp_path).optimize.compact()
    assert ours(tmp_path) == theirs(tmp_path) == [{"n": 3}, {"n": 7}]
    assert not dn.verify(tmp_path).findings


def test_its_constraints_hold_for_us(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"n": [1]}))
    deltalake.DeltaTable(tmp_path).alter.add_constraint({"positive": "n > 0"})
    table = dn.open(tmp_path)
    with pytest.raises(ConstraintViolation, match="positive"):
        table.append({"n": [5, -5]})
    assert table.append({"n": [5]}) == 2
    assert [row["n"] for row in theirs(tmp_path)] == [1, 5]


def test_statistics_are_those_it_writes(tmp_path: Path) -> None:
    """Where both describe a column they agree; it cuts strings and describes less."""
    deltalake.write_deltalake(tmp_path / "theirs", EVERY_TYPE)
    dn.create(tmp_path / "ours", EVERY_TYPE)

    def stats(name: str) -> dict[str, Any]:
        actions = dn.open(tmp_path / name).log.read_commit(0)
        (file,) = [a for a in actions if isinstance(a, AddFile)]
        return json.loads(file.stats or "", parse_float=Decimal)

    mine, others = stats("ours"), stats("theirs")
    assert mine["numRecords"] == others["numRecords"]
    timed = ("time", "wall")  # it spells times in another way
    compared = 0
    for kind in ("minValues", "maxValues", "nullCount"):
        for column in mine[kind].keys() & others[kind].keys():
            if kind == "nullCount" and column in ("list", "map"):
                continue  # it counts null elements
            if kind != "nullCount" and column in timed:
                stated = others[kind][column].replace(" ", "T")
                assert stated.startswith(mine[kind][column].rstrip("Z")), (kind, column)
            else:
                assert mine[kind][column] == others[kind][column], (kind, column)
            compared += 1
    assert compared > 20


def run(script: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, str(path), str(APPENDS)],
                            stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_both_append_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    dn.create(tmp_path, pa.schema({"who": pa.string(), "n": pa.int64(), "part": pa.int64()}),
              partition_by="part")
    running = [run(OURS, tmp_path), run(THEIRS, tmp_path)]
    try:
        for process in running:
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors
    finally:
        for process in running:
            process.kill()
    expected = sorted((who, n) for who in ("deltanb", "deltalake") for n in range(APPENDS))
    assert sorted((row["who"], row["n"]) for row in ours(tmp_path)) == expected
    assert sorted((row["who"], row["n"]) for row in theirs(tmp_path)) == expected
    table = dn.open(tmp_path)
    assert table.version == deltalake.DeltaTable(tmp_path).version() == 2 * APPENDS
    for version in range(1, table.version + 1):
        actions = table.log.read_commit(version)
        assert len([a for a in actions if isinstance(a, AddFile)]) == 1
        assert not [a for a in actions if isinstance(a, RemoveFile)]
