"""The handle: it follows the table, or stands at a version and can be read only."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import deltanb as dn
import deltanb.commands
from deltanb.errors import (
    IllegalStateError,
    InvalidArgument,
    InvalidPredicate,
    InvalidTable,
    TableNotFound,
    VersionNotFound,
)
from deltanb.options import StepClock, set_options
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

ROWS = {"id": [1, 2], "p": ["a", "b"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = dn.create(tmp_path / "t", ROWS, partition_by="p", properties={"mine": "x"})
    table.append({"id": [3], "p": ["c"]})
    return tmp_path / "t"


def test_opening(path: Path) -> None:
    for table in (dn.open(path), DeltaTable.for_path(str(path)), dn.open(path.as_uri())):
        assert (table.version, table.path, table.name) == (1, str(path), "t")
    table = dn.open(path)
    assert table.schema.names == ["id", "p"] and table.partition_columns == ("p",)
    assert table.properties == {"mine": "x"} and table.metadata.partition_columns == ("p",)
    assert table.protocol.min_writer_version == 2
    assert table.log is dn.DeltaLog.for_table(path)


def test_opening_nothing(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match=r"deltanb\.create"):
        dn.open(tmp_path / "none")
    assert not DeltaTable.is_delta_table(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_it_follows_the_table(path: Path) -> None:
    table, other = dn.open(path), dn.open(path)
    assert other.append({"id": [4], "p": ["a"]}) == 2
    assert table.version == 2 and table.to_arrow().num_rows == 4
    assert [entry.version for entry in table.history()] == [2, 1, 0]
    assert [entry.version for entry in table.history(limit=1)] == [2]


def test_rows_by_columns_and_condition(path: Path) -> None:
    table = dn.open(path)
    assert table.to_arrow(columns=["p"], where="id > 1").to_pylist() == [{"p": "b"}, {"p": "c"}]
    frame = table.to_pandas(where="p IN ('a', 'c')")
    pd.testing.assert_frame_equal(
        frame.sort_values("id", ignore_index=True), pd.DataFrame({"id": [1, 3], "p": ["a", "c"]}))
    with pytest.raises(InvalidPredicate, match="nowhere"):
        table.to_arrow(where="nowhere = 1")
    with pytest.raises(InvalidArgument, match="nowhere"):
        table.to_arrow(columns=["nowhere"])


def test_versions_of_the_past_stand_still(path: Path) -> None:
    table = dn.open(path)
    past = table.as_of(0)
    assert table.as_of(np.int64(0)).version == 0  # type: ignore[arg-type]
    table.append({"id": [5], "p": ["a"]})
    assert (past.version, past.to_arrow().num_rows) == (0, 2)
    assert past.version == 0
    assert [entry.version for entry in past.history()] == [0]
    assert dn.open(path, version=1).to_arrow().num_rows == 3
    with pytest.raises(VersionNotFound):
        table.as_of(9)
    with pytest.raises(InvalidArgument, match="version or timestamp"):
        dn.open(path, version=1, timestamp="2024-01-01")
    for nonsense in (None, 1.5, True):
        with pytest.raises(InvalidArgument, match="as_of"):
            table.as_of(nonsense)  # type: ignore[arg-type]


def test_versions_by_time() -> None:
    with set_options(clock=StepClock(1_700_000_000_000, step=1000)):
        table = dn.create(MemoryStore(), ROWS, properties={"delta.enableInCommitTimestamps": True})
        table.append(ROWS)
        first, second = (entry.timestamp for entry in reversed(table.history()))
    moment = dt.datetime.fromtimestamp(second / 1000, dt.timezone.utc)
    assert table.as_of(moment).version == 1
    assert table.as_of(moment - dt.timedelta(milliseconds=1)).version == 0
    assert table.as_of(moment.isoformat()).version == 1
    with pytest.raises(VersionNotFound):
        table.as_of(dt.datetime.fromtimestamp(first / 1000 - 1, dt.timezone.utc))


def test_a_table_of_the_past_refuses_writes_by_name(path: Path) -> None:
    past = dn.open(path).as_of(0)
    for name, write in {
        "append": lambda: past.append(ROWS), "overwrite": lambda: past.overwrite(ROWS),
        "start_transaction": past.start_transaction,
    }.items():
        with pytest.raises(IllegalStateError, match=f"^{name}: .* as of version 0"):
            write()
    assert dn.open(path).version == 1


def test_a_transaction_by_hand(path: Path) -> None:
    table = dn.open(path)
    txn = table.start_transaction()
    gone = [file.remove() for file in txn.filter_files("p = 'a'")]
    assert txn.commit([*gone, *txn.write_files({"id": [7], "p": ["z"]})],
                      dn.Operation("DELETE", {"predicate": ["p = 'a'"]})) == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3, 7]


def test_detail(path: Path) -> None:
    table = dn.open(path)
    detail = table.detail()
    assert detail["location"] == str(path) and detail["partitionColumns"] == ["p"]
    assert (detail["numFiles"], detail["sizeInBytes"]) == (3, table.snapshot.size_in_bytes)
    assert detail["properties"] == {"mine": "x"} and detail["minWriterVersion"] == 2
    assert detail["tableFeatures"] == ["appendOnly", "invariants"]
    assert detail["createdAt"] <= detail["lastModified"]


def test_it_can_be_seen(path: Path) -> None:
    table = dn.open(path)
    assert "v1" in str(table) and "partitioned by p" in str(table)
    assert "version 0" in str(table.as_of(0))
    assert set(table._repr_mimebundle_()) >= {"text/plain"}


def test_a_version_can_be_opened_before_a_damaged_one(path: Path) -> None:
    (path / "_delta_log" / f"{2:020d}.json").write_text('{"add":')
    with pytest.raises(InvalidTable, match=r"2\.json.*line 1"):
        dn.open(path)
    assert dn.open(path, version=1).to_arrow().num_rows == 3
    with pytest.raises(TableNotFound):
        dn.open(path.parent / "none", version=1)


@pytest.mark.parametrize("thing", [None, 5, ["lake"]])
def test_what_names_no_table(thing: Any) -> None:
    with pytest.raises(InvalidArgument, match="path, a URI or a store"):
        dn.open(thing)


def test_a_decimal_meets_a_double_of_the_same_value(path: Path) -> None:
    tiny = Decimal("-1.36744000E-10")
    rows = pa.table({"d": pa.array([tiny, Decimal(1)], pa.decimal128(35, 18))})
    table = dn.create(path.parent / "d", rows)
    assert table.to_arrow(where="d = -1.36744E-10")["d"].to_pylist() == [tiny]
    assert table.to_arrow(where="d < -1.36744E-10").num_rows == 0


def test_a_method_writes_out_every_argument_of_its_command() -> None:
    """Shift-Tab is how a notebook is read: each keyword of the command stands there, with its default."""
    seen = set()
    for name, command in commands():
        method = vars(DeltaTable).get(name)
        if method is None:
            continue
        seen.add(name)
        ours = inspect.signature(getattr(method, "__func__", method)).parameters
        theirs = dict(list(inspect.signature(command).parameters.items())[1:])
        for known in ("newest", "up_to", "files"):  # where the handle stands, which it says itself
            theirs.pop(known, None)
        assert not [p for p in ours.values() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)], name
        assert set(theirs) <= set(ours), name
        assert {n: ours[n].default for n in theirs} == {n: p.default for n, p in theirs.items()}, name
    assert {"append", "overwrite", "delete", "merge", "optimize", "vacuum", "diff"} <= seen


def commands() -> Iterator[tuple[str, Any]]:
    """The public functions that begin with a table's log, snapshot or path, by name."""
    for module in pkgutil.walk_packages(deltanb.commands.__path__, "deltanb.commands."):
        for name, value in vars(importlib.import_module(module.name)).items():
            own = inspect.isfunction(value) and value.__module__ == module.name
            first = next(iter(inspect.signature(value).parameters), "") if own else ""
            if name[0] != "_" and first in ("log", "snapshot", "path"):
                yield name, value
