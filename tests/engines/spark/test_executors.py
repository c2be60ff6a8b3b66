"""What tasks do with files, without a session: plans travel, files come back or are gone."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from deltanb.engines.arrow.data_file import plan
from deltanb.engines.arrow.prewritten import Target
from deltanb.engines.spark.executors import (
    Place,
    begun,
    ended,
    files_as_dicts,
    parts,
    read_files,
    write_files,
)
from deltanb.errors import ConstraintViolation
from tests.helpers import tree

ROWS = {"id": [1, 2, 3, 4], "p": ["a", "b", "a", None]}


def travelled(value):
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(value))


def target_of(table) -> Target:
    snapshot = table.snapshot
    return Target(snapshot.version, snapshot.metadata, snapshot.protocol)


@pytest.fixture
def table(tmp_path):
    return dn.create(tmp_path / "t", ROWS, partition_by="p")


@pytest.mark.parametrize("where", [None, "id > 1", "p = 'a'", "p IS NULL AND id < 9"])
def test_tasks_read_what_the_process_reads(table, where):
    table.delete("id = 3")
    snapshot = table.snapshot
    scan = plan(snapshot, None, where)
    tasks = parts(files_as_dicts(snapshot.files_for_scan(*([where] if where else [])), scan), 1)
    rows = [row for task in tasks
             for batch in read_files(travelled(Place(table.log.store)), travelled(scan), travelled(task))
             for row in batch.to_pylist()]
    expected = table.to_arrow(where=where).to_pylist()
    assert sorted(rows, key=str) == sorted(expected, key=str)
    assert expected


def test_a_file_is_divided_by_its_row_groups(tmp_path):
    table = dn.create(tmp_path / "t", "id long")
    rows = pa.table({"id": range(3_000_000)})
    table.append(rows)
    snapshot = table.snapshot
    scan = plan(snapshot)
    (file,) = files_as_dicts(snapshot.files, scan)
    tasks = parts([file], file["size"] // 3)
    assert [[unit[1] for unit in task] for task in tasks] == [[(n, 3)] for n in range(3)]
    batches = [batch for task in tasks for batch in read_files(Place(table.log.store), scan, task)]
    assert pa.Table.from_batches(batches).equals(rows)


def test_files_of_a_task_are_described_and_named_by_the_write(table):
    write = travelled(begun(Place(table.log.store), target_of(table)))
    files = write_files(write, [pa.record_batch({"id": [7, 8], "p": ["x", "y"]})])
    assert [(file.partition_values, file.num_records) for file in files] == [({"p": "x"}, 1), ({"p": "y"}, 1)]
    assert all(write.name in file.path for file in files)
    assert write_files(write, []) == []


def test_all_files_of_a_write_can_be_removed_and_no_others(table):
    before = tree(Path(table.path))
    write = begun(Place(table.log.store), target_of(table))
    other = begun(Place(table.log.store), target_of(table))
    for number in range(2):
        write_files(write, [pa.record_batch({"id": [number], "p": [str(number)]})])
    others = write_files(other, [pa.record_batch({"id": [5], "p": ["0"]})])
    ended(write)
    ended(other, [file.path for file in others])
    assert tree(Path(table.path)) - before == {file.path for file in others}


def test_a_task_that_fails_leaves_no_file(table):
    table.add_constraint("small", "id < 10")
    plan_of = begun(Place(table.log.store), target_of(table))
    before = tree(Path(table.path))

    def broken():
        yield pa.record_batch({"id": [5], "p": ["x"]})
        raise OSError("the stream broke off")

    with pytest.raises(OSError, match="broke off"):
        write_files(plan_of, broken())
    with pytest.raises(ConstraintViolation):
        write_files(plan_of, [pa.record_batch({"id": [50], "p": ["x"]})])
    assert tree(Path(table.path)) == before


def test_options_travel_and_are_not_shown(tmp_path):
    place = Place(dn.create(tmp_path / "t", {"a": [1]}).log.store, {"aws_secret_access_key": "hush"})
    assert "hush" not in repr(place)
    assert travelled(place).storage_options == {"aws_secret_access_key": "hush"}
