"""Faults beside the commits: in files derived from them, and in data files, vectors and change files.

What lives here: one function for each fault; it makes a table with our commands, breaks it and returns the
versions that the finding has.
What it does not know: what finds them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq

import deltanb as dn
from tests.observe.verify.faults_in_logs import P, appended, vectors
from tests.observe.verify.planting import Broken, Versions, fault

# -- what is derived from the log -----------------------------------------------------------------------


def checkpointed(b: Broken) -> Path:
    """Three appends, and a checkpoint of version 2; its file."""
    appended(b)
    dn.open(b.path).log.checkpoint()
    (name,) = (b.path / "_delta_log").glob("*.checkpoint*")
    return name


@fault("checksum-differs")
def a_checksum_of_another_log(b: Broken) -> Versions:
    appended(b)
    checksum = b.path / "_delta_log" / f"{2:020}.crc"
    checksum.write_text(json.dumps({**json.loads(checksum.read_text()), "numFiles": 7}))
    return 2


@fault("checksum-differs", along="metrics-differ")
def a_commit_changed_after_it(b: Broken) -> Versions:
    appended(b)
    checksum = b.path / "_delta_log" / f"{1:020}.crc"
    recorded = checksum.read_bytes()
    b.drop(1, "add")
    checksum.write_bytes(recorded)
    return 1


@fault("checksum-unreadable", P)
def half_a_checksum(b: Broken) -> Versions:
    appended(b)
    checksum = b.path / "_delta_log" / f"{2:020}.crc"
    checksum.write_bytes(checksum.read_bytes()[:40])
    return 2


@fault("checkpoint-differs")
def a_commit_changed_after_a_checkpoint(b: Broken) -> Versions:
    checkpointed(b)
    b.edit(1, "add", lambda add: add.update(path="another.parquet"))
    return 2


@fault("checkpoint-differs")
def a_checkpoint_of_other_applications(b: Broken) -> Versions:
    checkpointed(b)
    b.write(2, [*b.lines(2), {"txn": {"appId": "etl", "version": 1}}])
    return 2


@fault("checkpoint-unreadable")
def half_a_checkpoint(b: Broken) -> Versions:
    name = checkpointed(b)
    name.write_bytes(name.read_bytes()[:-30])
    return 2


@fault("checkpoint-unreadable")
def a_sidecar_gone(b: Broken) -> Versions:
    appended(b, checkpointPolicy="v2")
    dn.open(b.path).log.checkpoint()
    for sidecar in (b.path / "_delta_log" / "_sidecars").iterdir():
        sidecar.unlink()
    return 2


@fault("checkpoint-incomplete", P, along="hint-wrong")
def one_part_of_two(b: Broken) -> Versions:
    name = checkpointed(b)
    name.rename(name.with_name(f"{2:020}.checkpoint.{1:010}.{2:010}.parquet"))
    return 2


def compacted(b: Broken, *left_out: int) -> Path:
    """The log of versions 0 to 2 in one file, but for some of them."""
    appended(b)
    lines = [line for version in range(3) if version not in left_out for line in b.lines(version)
             if "commitInfo" not in line]
    name = b.path / "_delta_log" / f"{0:020}.{2:020}.compacted.json"
    name.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


@fault("compaction-differs")
def a_commit_left_out(b: Broken) -> Versions:
    compacted(b, 1)
    return 0, 2


@fault("compaction-unreadable")
def half_a_compaction(b: Broken) -> Versions:
    name = compacted(b)
    name.write_bytes(name.read_bytes()[:-20])
    return 0, 2


@fault("hint-wrong", P)
def a_hint_to_nothing(b: Broken) -> Versions:
    appended(b)
    (b.path / "_delta_log" / "_last_checkpoint").write_text('{"version":1,"size":3}')
    return 1


@fault("hint-wrong", P)
def half_a_hint(b: Broken) -> Versions:
    checkpointed(b)
    (b.path / "_delta_log" / "_last_checkpoint").write_text('{"ver')
    return ()


# -- data files -----------------------------------------------------------------------------------------


@fault("file-missing", files="sample")
def a_data_file_deleted(b: Broken) -> Versions:
    appended(b)
    b.data_files()[1].unlink()
    return 2


@fault("file-size-differs", files="sample", along="file-unreadable")
def a_data_file_cut_off(b: Broken) -> Versions:
    appended(b)
    name = b.data_files()[1]
    name.write_bytes(name.read_bytes()[:-20])
    return 2


@fault("file-unreadable", files="sample")
def a_footer_damaged(b: Broken) -> Versions:
    appended(b)
    name = b.data_files()[1]
    data = name.read_bytes()
    name.write_bytes(data[:-8] + bytes(8))
    return 2


@fault("file-unreadable", files="all")
def a_page_damaged(b: Broken) -> Versions:
    b.create({"id": list(range(20_000))})
    name = b.data_files()[0]
    data = name.read_bytes()
    name.write_bytes(data[:200] + bytes(len(data) - 1200) + data[-1000:])
    return 0


@fault("change-file-missing", P, files="sample")
def a_change_file_deleted(b: Broken) -> Versions:
    vectors(b, enableChangeDataFeed="true")
    (change,) = [action for version, action in b.actions("cdc") if version == 1]
    (b.path / change["path"]).unlink()
    return 1


@fault("orphan", P, files="sample")
def a_file_of_no_commit(b: Broken) -> Versions:
    appended(b)
    shutil.copy(b.data_files()[1], b.path / "part-00000-d3b07384-d113-4ec1-a7b0-1f3c5a4e2b6f-c000.parquet")
    return 2


@fault("vector-cardinality", files="sample")
def a_vector_of_other_rows(b: Broken) -> Versions:
    vectors(b)
    b.edit(2, "add", lambda add: add["deletionVector"].update(cardinality=3))
    return 2


@fault("vector-missing", files="sample")
def a_vector_deleted(b: Broken) -> Versions:
    vectors(b)
    for name in b.path.glob("deletion_vector*"):
        name.unlink()
    return 2


@fault("vector-missing", files="sample")
def a_vector_damaged(b: Broken) -> Versions:
    vectors(b)
    for name in b.path.glob("deletion_vector*"):
        name.write_bytes(bytes(len(name.read_bytes())))
    return 2


@fault("vector-too-large", files="sample", along="vector-cardinality statistics-rows")
def a_vector_of_a_larger_file(b: Broken) -> Versions:
    vectors(b)
    b.stats(2, numRecords=50)
    b.edit(2, "add", lambda add: add["deletionVector"].update(cardinality=9))
    return 2


@fault("statistics-rows", files="sample")
def rows_miscounted(b: Broken) -> Versions:
    appended(b)
    b.stats(1, numRecords=3)
    return 2


@fault("statistics-values", files="all")
def bounds_too_narrow(b: Broken) -> Versions:
    b.create().append({"id": [5, 9], "p": ["c", "d"]})
    return b.stats(1, maxValues={"id": 6, "p": "d"})


@fault("statistics-values", files="all")
def bounds_of_text_too_narrow(b: Broken) -> Versions:
    b.create().append({"id": [5, 9], "p": ["c", "d"]})
    return b.stats(1, minValues={"id": 5, "p": "cc"}, maxValues={"id": 9, "p": "cd"})


@fault("statistics-count", files="all")
def nulls_miscounted(b: Broken) -> Versions:
    b.create().append({"id": [5, None], "p": ["c", "d"]})
    return b.stats(1, nullCount={"id": 0, "p": 0})


@fault("null-in-not-null", files="all", along="statistics-count")
def a_null_that_statistics_hide(b: Broken) -> Versions:
    b.create({"id": [None, 1]})
    b.schema(0, lambda fields: fields[0].update(nullable=False))
    return b.stats(0, nullCount={"id": 0})


@fault("check-broken", files="all")
def a_row_against_a_check(b: Broken) -> Versions:
    b.create({"id": [-1, 1]}, feature__checkConstraints="supported")
    return b.configure(0, constraints__positive="id > 0")


@fault("generated-broken", files="all")
def a_row_against_its_expression(b: Broken) -> Versions:
    b.create("n BIGINT, twice BIGINT GENERATED ALWAYS AS (n * 2)").append({"n": [1, 2]})
    b.schema(0, lambda fields: fields[1]["metadata"].update({"delta.generationExpression": "n * 3"}))
    return 1


@fault("file-unreadable", files="all")
def a_file_of_other_columns(b: Broken) -> Versions:
    appended(b)
    name = b.data_files()[1]
    table = pq.read_table(name)
    pq.write_table(table.set_column(0, "id", table["p"]), name)
    b.set(1, "add", size=name.stat().st_size)
    return 2
