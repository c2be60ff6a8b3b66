"""Overwrites that replace the rows that match new ones: by columns, or by a condition over both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import AddFile, RemoveFile
from deltanb.errors import (
    AppendOnlyTable,
    ConcurrentAppendException,
    DeltaError,
    InvalidArgument,
    InvalidPredicate,
)
from tests.helpers import tree

KINDS: dict[str, dict[str, Any]] = {
    "files": {}, "vectors": {"delta.enableDeletionVectors": True},
    "feed": {"delta.enableChangeDataFeed": True}, "mapped": {"delta.columnMapping.mode": "name"},
    "tracked": {"delta.enableRowTracking": True}}
OLD = [(0, "a"), (1, "b"), (2, "a"), (3, "b"), (None, "a")]
NEW = [(1, "b"), (1, "c"), (2, "b"), (9, "z"), (None, "a")]


def rows(pairs: list[tuple[Any, Any]], v: str) -> pa.Table:
    return pa.table({"id": pa.array([one for one, _ in pairs], pa.int64()), "p": [p for _, p in pairs],
                     "v": [v] * len(pairs)})


CONDITIONS: dict[str, Any] = {
    # the arguments -> whether a row (id, p) of the table matches one of the new rows
    "id": ({"replace_using": "id"}, lambda old, new: old[0] is not None and old[0] == new[0]),
    "id, p": ({"replace_using": ["id", "P"]},
              lambda old, new: old[0] is not None and old[0] == new[0] and old[1] == new[1]),
    "p": ({"replace_using": "p"}, lambda old, new: old[1] == new[1]),
    "null-safe": ({"replace_on": "target.id <=> source.id"}, lambda old, new: old[0] == new[0]),
    "more": ({"replace_on": "target.id = source.id AND source.p > target.p"},
             lambda old, new: old[0] is not None and old[0] == new[0] and new[1] > old[1]),
    "names": ({"replace_on": "t.id = s.id + 1", "target_alias": "t", "source_alias": "s"},
              lambda old, new: None not in (old[0], new[0]) and old[0] == new[0] + 1),
    "target": ({"replace_on": "target.id >= 2"}, lambda old, new: old[0] is not None and old[0] >= 2),
    "source": ({"replace_on": "source.id = 9"}, lambda old, new: new[0] == 9),
    "none of the source": ({"replace_on": "source.id = 8 AND target.p = 'a'"}, lambda old, new: False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("partition_by", ["", "p"])
def test_matching_rows_make_room_for_all_new_ones(
    kind: str, condition: str, partition_by: str, tmp_path: Path
) -> None:
    arguments, matches = CONDITIONS[condition]
    table = dn.create(tmp_path / "t", rows(OLD, "old"), partition_by or (), KINDS[kind])
    gone = [old for old in OLD if any(matches(old, new) for new in NEW)]
    result = table.overwrite(rows(NEW, "new"), **arguments)
    expected = [(*old, "old") for old in OLD if old not in gone] + [(*new, "new") for new in NEW]
    assert sorted(map(str, expected)) == sorted(
        str((row["id"], row["p"], row["v"])) for row in table.to_arrow().to_pylist())
    assert result.metrics["numDeletedRows"] == len(gone)
    if kind == "feed":
        changes = table.changes(1).to_arrow().to_pylist()
        assert sorted(map(str, ((row["id"], row["p"], row["_change_type"]) for row in changes))) == sorted(
            map(str, [(*old, "delete") for old in gone] + [(*new, "insert") for new in NEW]))


@pytest.mark.parametrize("convert", [tuple, np.array, pd.Index, pd.Series])
def test_the_columns_may_be_those_of_a_frame(convert: Any, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "v": ["a", "b"]})
    table.overwrite({"id": [2], "v": ["B"]}, replace_using=convert(["id"]))
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2], "v": ["a", "B"]}


def test_no_new_rows_replace_none(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", rows(OLD, "old"))
    assert table.overwrite(rows([], "new"), replace_on="true").version is None
    assert table.overwrite(rows([], "new"), replace_using="id").version is None and table.count() == 5


def test_columns_may_be_added(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2]})
    table.overwrite({"id": [2], "w": ["new"]}, replace_using="id", merge_schema=True)
    assert sorted(table.to_arrow().to_pylist(), key=str) == [{"id": 1, "w": None}, {"id": 2, "w": "new"}]


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"replace_using": "nix"}, InvalidArgument, "replace_using: the table has no column 'nix'"),
    ({"replace_using": "x"}, InvalidArgument, "the data has no column 'x'"),
    ({"replace_using": []}, InvalidArgument, "neither a column's name nor a list of them"),
    ({"replace_using": 5}, InvalidArgument, "replace_using=5 is neither a column's name"),
    ({"replace_using": ["id", 5]}, InvalidArgument, "neither a column's name"),
    ({"replace_on": "id = 1"}, InvalidPredicate, "ambiguous: target.id and source.id"),
    ({"replace_on": "target.id = source.nix"}, InvalidPredicate, "no column 'source.nix' for replace_on"),
    ({"replace_on": 7}, InvalidArgument, "is SQL text"),
    *(({"replace_using": "id", **more}, InvalidArgument, "contradict") for more in (
        {"replace_on": "true"}, {"where": "id = 1"}, {"partition_overwrite": "dynamic"},
        {"overwrite_schema": True}, {"data_change": False})),
])
def test_what_makes_no_sense_is_refused_before_a_file_is_written(
    arguments: dict[str, Any], error: type[DeltaError], message: str, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "x": [1]})
    before = tree(tmp_path / "t")
    with pytest.raises(error, match=message):
        table.overwrite({"id": [1]}, **arguments)
    assert tree(tmp_path / "t") == before


def test_a_table_that_takes_appends_alone_is_refused(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]}, properties={"delta.appendOnly": True})
    with pytest.raises(AppendOnlyTable):
        table.overwrite({"id": [1]}, replace_using="id")


def test_a_row_that_would_have_matched_is_a_conflict_and_another_is_none(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "p": ["a", "b"]}, "p",
                      {"delta.isolationLevel": "Serializable"})
    for meanwhile, conflicts in (("b", False), ("a", True)):
        txn = table.transaction()
        txn.overwrite({"id": [1], "p": ["a"]}, replace_using=["id", "p"])
        table.append({"id": [1], "p": [meanwhile]})
        if conflicts:
            with pytest.raises(ConcurrentAppendException):
                txn.commit()
        else:
            txn.commit()


# --- rows that only lie elsewhere -------------------------------------------------------------------

@pytest.mark.parametrize("mode", ["append", "overwrite", "partition"])
def test_files_of_a_write_that_changes_no_data_say_so(mode: str, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "p": ["a", "b"]}, "p")
    data = table.to_arrow(where="p = 'a'" if mode == "partition" else None)
    if mode == "append":
        table.append(data, data_change=False)
    else:
        table.overwrite(data, where="p = 'a'" if mode == "partition" else None, data_change=False)
    files = [one for one in table.log.read_commit(1) if isinstance(one, AddFile | RemoveFile)]
    assert files and not any(one.data_change for one in files)
    assert table.count() == (4 if mode == "append" else 2)


@pytest.mark.parametrize(("rows", "arguments", "message"), [
    ({"id": [1], "w": [1]}, {"merge_schema": True}, "merge_schema=True would add"),
    ({"id": [1]}, {"where": "id = 1"}, "whole partitions"),
    ({"id": [1]}, {"overwrite_schema": True}, "contradict"),
])
def test_a_write_that_changes_no_data_changes_nothing_else(
    rows: dict[str, Any], arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    before = tree(tmp_path / "t")
    write = table.append if "merge_schema" in arguments else table.overwrite
    with pytest.raises(InvalidArgument, match=message):
        write(rows, data_change=False, **arguments)
    assert tree(tmp_path / "t") == before
