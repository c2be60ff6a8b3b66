"""Every command that writes, as data: the tables it finds, and what it is run as.

What lives here: :data:`COMMANDS` and :data:`TABLES`, both small on purpose: what counts is the number of
file operations, not of rows.
What it does not know: what goes wrong meanwhile.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import deltanb as dn
from deltanb.commands.define.row_tracking import backfill
from deltanb.commands.merge.by_key import apply_changes
from deltanb.commands.rows.stream import add_batch
from deltanb.commands.rows.write import Batch
from deltanb.locks import LockManager
from deltanb.log.compaction import write_compaction

Work = Callable[[Path], Any]
DAY = 86_400


@dataclass(frozen=True)
class Command:
    """One command: ``work`` is given the folder that a table of :data:`TABLES` was made in."""

    name: str
    finds: str
    work: Work
    target: str = "table"
    """The table that it changes."""


def rows(*ids: int, **more: Any) -> dict[str, list[Any]]:
    """Rows of the tables below, by their ids."""
    return {"id": list(ids), "part": [f"p{n % 2}" for n in ids], "text": [f"t{n}" for n in ids],
            "amount": [n * 10 for n in ids], **more}


def statements(made: Any) -> None:
    """Statements of one transaction, of which a later one takes away what an earlier one wrote."""
    with made.transaction() as txn:
        txn.append(rows(7, 8))
        txn.update({"amount": "0"}, "id IN (1, 7)")
        txn.delete("id = 8")


def behind_others(made: Any) -> None:
    """A statement that is committed behind others of the same files, whose rows differ."""
    with dn.set_options(row_level="all"), made.transaction() as txn:
        txn.update({"amount": "0"}, "id = 2")
        other = dn.open(made.path)
        other.delete("id = 4")
        other.optimize()


def locked(work: Callable[[Any, Any], object]) -> Callable[[Any], None]:
    """Work of a transaction under locks on a table, and its commit."""

    def run(made: Any) -> None:
        with LockManager().new_transaction() as txn:
            work(txn, made)
            txn.commit()

    return run


def locked_statements(txn: Any, made: Any) -> None:
    """Statements, and a scope of them that is taken back."""
    mine = txn.table(made)
    mine.append(rows(7, 8))
    with txn.scope():
        mine.update({"amount": "0"}, "part = 'p1' AND id IN (1, 7)")
    with txn.scope():
        mine.append(rows(9))
        mine.delete("part = 'p0'")
        txn.rollback()
    mine.delete("id = 8")


def locked_rows(txn: Any, made: Any) -> None:
    """Rows that a cursor changes, deletes and adds, one of them in a scope that is taken back."""
    cursor = txn.cursor(made, key=["id"])
    cursor.first()
    cursor.store({"amount": 0})
    cursor.find(2)
    cursor.delete()
    with txn.scope():
        cursor.find(4)
        cursor.delete()
        txn.rollback()
    cursor.find(9)
    cursor.commit({"part": "p1", "text": "new", "amount": 1})


def locked_both(txn: Any, made: Any) -> None:
    """Rows that a cursor has stored, and statements that see them."""
    cursor = txn.cursor(made, key=["id"])
    cursor.find(3)
    cursor.store({"amount": -1})
    txn.table(made).delete("amount < 0")
    cursor.find(5)
    cursor.store({"amount": 5})


# -- the tables that commands find -------------------------------------------------------------------


def table(properties: Mapping[str, Any] | None = None, then: Callable[[Any], object] = lambda table: None,
          partition_by: str | tuple[str, ...] = "part") -> Work:
    """Makes a table of three commits, two partitions, six rows and a constraint."""

    def make(folder: Path) -> None:
        made = dn.create(folder / "table", rows(1, 2, 3, 4), partition_by=partition_by,
                         properties=properties, name="ducks", description="kept")
        made.add_constraint("positive", "id > 0")
        made.append(rows(5, 6), txn=("loader", 1))
        then(made)

    return make


def parquet(folder: Path) -> None:
    """A folder of Parquet files, in partitions."""
    for part in ("p0", "p1"):
        (folder / "table" / f"part={part}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), folder / "table" / f"part={part}" / "a.parquet")


def old(made: Any) -> None:
    """Give a table a checkpoint, and its log so far an age beyond its retention."""
    made.log.checkpoint()
    log = Path(made.path) / "_delta_log"
    then = time.time() - 60 * DAY
    for file in log.iterdir():
        os.utime(file, (then, then))
    made.append(rows(7))
    made.log.checkpoint()


def restored(made: Any) -> None:
    """Rows that went, and a file that no version needs any more."""
    made.delete("id <= 2")
    made.overwrite(rows(3, 9), where="part = 'p1'")


VECTORS = {"delta.enableDeletionVectors": True}
OFF = {"delta.enableDeletionVectors": False}
FEED = {"delta.enableChangeDataFeed": True}
TRACKED = {"delta.enableRowTracking": True}
MAPPED = {"delta.columnMapping.mode": "name"}

TABLES: dict[str, Work] = {
    "nothing": lambda folder: None,
    "plain": table(),
    "flat": table(partition_by=()),
    "often checkpointed": table({"delta.checkpointInterval": 3}),
    "V2 checkpoints": table({"delta.checkpointInterval": 3, "delta.checkpointPolicy": "v2"}),
    "vectors": table(VECTORS, lambda made: made.delete("id = 1"), ()),
    "without vectors": table(VECTORS, lambda made: made.set_properties(OFF)),
    "feed": table(FEED, partition_by=()),
    "feed and vectors": table({**FEED, **VECTORS}, partition_by=()),
    "tracked": table(TRACKED, partition_by=()),
    "mapped": table(MAPPED),
    "clustered": table(VECTORS, lambda made: made.cluster_by(["id"]), ()),
    "widening": table({"delta.enableTypeWidening": True},
                      lambda made: made.add_columns({"small": "int"}), ()),
    "identity": lambda folder: dn.create(
        folder / "table",
        "id bigint GENERATED BY DEFAULT AS IDENTITY, part string, text string, amount bigint"
    ).append(rows(1, 20)),
    "without statistics": table({"delta.dataSkippingNumIndexedCols": 0}, lambda made: made.set_properties(
        {"delta.dataSkippingNumIndexedCols": 8})),
    "changed": table(then=restored),
    "old": table({"delta.logRetentionDuration": "interval 30 days"}, old),
    "expiring": table({"delta.logRetentionDuration": "interval 30 days",
                       "delta.checkpointInterval": 4}, old),
    "manifests": table({"delta.compatibility.symlinkFormatManifest.enabled": True}),
    "parquet": parquet,
}
"""Name -> what makes it, in a folder that is empty before."""


# -- the commands ------------------------------------------------------------------------------------


def on(work: Callable[[Any], Any]) -> Work:
    """Work on the folder's table."""
    return lambda folder: work(dn.open(folder / "table"))


def create(folder: Path, **more: Any) -> Any:
    """A table of two partitions."""
    return dn.create(folder / "table", rows(1, 2, 3), partition_by="part", **more)


def merge(made: Any) -> Any:
    """A merge that updates, deletes and inserts."""
    source = rows(2, 3, 8, amount=[1, 2, 3])
    return (made.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
            .when_matched_delete("s.amount = 1").when_matched_update_all()
            .when_not_matched_insert_all().execute())


def several(made: Any) -> Any:
    """Statements by hand, in one transaction."""

    def work(txn: Any) -> int:
        files = txn.filter_files("part = 'p1'")
        added = txn.write_files(rows(11, 13))
        return int(txn.commit([*added, *(file.remove() for file in files)], "WRITE"))

    return by_hand(made, work)


def large(made: Any) -> Any:
    """One attempt, and a checkpoint."""
    return by_hand(made, lambda txn: txn.commit_large(txn.write_files(rows(11)), "WRITE"))


def by_hand(made: Any, work: Callable[[Any], int]) -> int:
    """Work in a transaction whose files go if it surely has not landed."""
    txn = made.start_transaction()
    try:
        return work(txn)
    except BaseException:
        if txn.has_surely_not_landed:
            txn.discard_written()
        raise


COMMANDS = [
    Command("create", "nothing", create),
    Command("create, empty", "nothing", lambda folder: dn.create(folder / "table", "id bigint")),
    Command("create over", "plain", lambda folder: create(folder, mode="overwrite")),
    Command("create if there is none", "nothing", lambda folder: create(folder, mode="ignore")),
    Command("replace", "clustered", lambda folder: create(folder, mode="replace")),
    Command("append", "plain", on(lambda t: t.append(rows(7, 8)))),
    Command("append by an application", "plain", on(lambda t: t.append(rows(7), txn=("loader", 2)))),
    Command("append, new column", "plain",
            on(lambda t: t.append(rows(7, more=[1]), merge_schema=True))),
    Command("append, checkpoint", "often checkpointed", on(lambda t: t.append(rows(7)))),
    Command("append, V2 checkpoint", "V2 checkpoints", on(lambda t: t.append(rows(7)))),
    Command("append, checkpoint and clean-up", "expiring", on(lambda t: t.append(rows(9)))),
    Command("append, manifests", "manifests", on(lambda t: t.append(rows(7)))),
    Command("append, row ids", "tracked", on(lambda t: t.append(rows(7)))),
    Command("append, identity", "identity",
            on(lambda t: t.append({"part": ["p"], "text": ["t"], "amount": [1]}))),
    Command("overwrite", "plain", on(lambda t: t.overwrite(rows(7, 8)))),
    Command("overwrite schema", "flat",
            on(lambda t: t.overwrite({"id": [1], "other": ["x"]}, overwrite_schema=True))),
    Command("overwrite schema, clustered", "clustered", on(lambda t: t.overwrite(
        {"id": [1], "other": ["x"]}, overwrite_schema=True, cluster_by="other"))),
    Command("overwrite where", "plain", on(lambda t: t.overwrite(rows(7, 9), where="part = 'p1'"))),
    Command("overwrite where, rows kept", "feed",
            on(lambda t: t.overwrite(rows(2, 7), where="id = 2 OR id = 7"))),
    Command("overwrite partitions", "plain",
            on(lambda t: t.overwrite(rows(7, 9), partition_overwrite="dynamic"))),
    Command("delete", "flat", on(lambda t: t.delete("id IN (2, 5)"))),
    Command("delete partition", "plain", on(lambda t: t.delete("part = 'p0'"))),
    Command("delete by vector", "vectors", on(lambda t: t.delete("id IN (2, 5)"))),
    Command("truncate", "vectors", on(lambda t: t.truncate())),
    Command("delete with feed", "feed", on(lambda t: t.delete("id IN (2, 5)"))),
    Command("update", "flat", on(lambda t: t.update({"amount": "amount + 1"}, "id IN (2, 5)"))),
    Command("update by vector, with feed", "feed and vectors",
            on(lambda t: t.update({"amount": "amount + 1"}, "id IN (2, 5)"))),
    Command("update with row ids", "tracked", on(lambda t: t.update({"amount": "0"}, "id = 2"))),
    Command("merge", "flat", on(merge)),
    Command("merge by vector, with feed", "feed and vectors", on(merge)),
    Command("upsert", "flat", on(lambda t: t.upsert(rows(2, 7), on="id"))),
    Command("batch of a stream", "plain",
            on(lambda t: add_batch(t.log, rows(7, 8), Batch("a query", 3, "append")))),
    Command("batch of a stream, complete", "plain",
            on(lambda t: add_batch(t.log, rows(7, 8), Batch("a query", 3, "complete")))),
    Command("batch of a stream, update", "feed and vectors",
            on(lambda t: add_batch(t.log, rows(2, 8), Batch("a query", 3, "update"), ["id"]))),
    Command("changes by key", "feed and vectors",
            on(lambda t: apply_changes(t, ["id"], {(2,): None, (3,): {"part": "p1"}, (8,): {"part": "p0"}}))),
    Command("several statements", "plain", on(several)),
    Command("statement behind others", "feed and vectors", on(behind_others)),
    Command("commit large", "plain", on(large)),
    Command("optimize", "plain", on(lambda t: t.optimize())),
    Command("optimize with row ids", "tracked", on(lambda t: t.optimize())),
    Command("z-order", "flat", on(lambda t: t.optimize(zorder_by=["id", "amount"]))),
    Command("optimize clustered", "clustered", on(lambda t: t.optimize())),
    Command("purge", "vectors", on(lambda t: t.purge())),
    Command("vacuum", "changed", on(lambda t: t.vacuum(0, check=False))),
    Command("vacuum lite", "changed", on(lambda t: t.vacuum(0, check=False, lite=True))),
    Command("restore", "changed", on(lambda t: t.restore(2))),
    Command("clone", "plain", lambda folder: dn.open(folder / "table").clone(folder / "clone"),
            "clone"),
    Command("convert", "parquet",
            lambda folder: dn.convert(folder / "table", partition_by={"part": "string"})),
    Command("generate", "plain", on(lambda t: t.generate())),
    Command("analyze", "without statistics", on(lambda t: t.analyze())),
    Command("add columns", "plain", on(lambda t: t.add_columns({"more": "int"}))),
    Command("rename column", "mapped", on(lambda t: t.rename_column("text", "words"))),
    Command("drop columns", "mapped", on(lambda t: t.drop_columns("text"))),
    Command("replace columns", "mapped",
            on(lambda t: t.replace_columns([f for f in t.schema.fields if f.name != "text"]))),
    Command("widen column", "widening", on(lambda t: t.change_column("small", type="bigint"))),
    Command("change columns", "plain", on(lambda t: t.change_columns(
        {"id": {"comment": "which"}, "part": {"position": "first"}}))),
    Command("comment on column", "plain", on(lambda t: t.change_column("id", comment="which"))),
    Command("set properties", "plain", on(lambda t: t.set_properties({"delta.appendOnly": True}))),
    Command("unset properties", "often checkpointed",
            on(lambda t: t.unset_properties("delta.checkpointInterval", if_exists=True))),
    Command("set description", "plain", on(lambda t: t.set_description("other"))),
    Command("set name", "plain", on(lambda t: t.set_name("geese"))),
    Command("add constraint", "plain", on(lambda t: t.add_constraint("small", "id < 100"))),
    Command("drop constraint", "plain", on(lambda t: t.drop_constraint("positive"))),
    Command("add feature", "plain", on(lambda t: t.add_feature("deletionVectors"))),
    Command("drop feature", "without vectors", on(lambda t: t.drop_feature("deletionVectors"))),
    Command("upgrade protocol", "plain", on(lambda t: t.upgrade_protocol(2, 5))),
    Command("column mapping on", "plain", on(lambda t: t.set_properties(MAPPED))),
    Command("row tracking on", "flat", on(lambda t: t.set_properties(TRACKED))),
    Command("row ids given", "flat", on(lambda t: backfill(t.log).read_version)),
    Command("feed on", "plain", on(lambda t: t.set_properties(FEED))),
    Command("cluster by", "flat", on(lambda t: t.cluster_by(["id"]))),
    Command("sync identity", "identity", on(lambda t: t.sync_identity("id"))),
    Command("statements as one", "plain", on(statements)),
    Command("statements as one, with feed and vectors", "feed and vectors", on(statements)),
    Command("statements under locks", "plain", on(locked(locked_statements))),
    Command("statements under locks, with feed and vectors", "feed and vectors",
            on(locked(locked_statements))),
    Command("rows under locks", "plain", on(locked(locked_rows))),
    Command("rows under locks, with feed and vectors", "feed and vectors", on(locked(locked_rows))),
    Command("rows and statements under locks", "flat", on(locked(locked_both))),
    Command("checkpoint", "plain", on(lambda t: t.log.checkpoint())),
    Command("checkpoint V2", "V2 checkpoints", on(lambda t: t.log.checkpoint())),
    Command("compact log", "plain", on(lambda t: write_compaction(t.log, 0, t.version))),
    Command("clean up log", "old", on(lambda t: t.log.clean_up())),
]


def frame(*ids: int) -> Any:
    """The same rows as a Spark DataFrame, in one partition."""
    session = dn.spark()
    return session.createDataFrame(pa.table(rows(*ids))).coalesce(1)


def stream(made: Any) -> None:
    """A stream of one batch, to its end; its files are beside the table's. What it has made is not asked
    here: that would be an operation after its commit."""
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table(rows(7, 8)), f"{folder}/rows.parquet")
        source = dn.spark().readStream.schema("id bigint, part string, text string, amount bigint").parquet(
            f"file:{folder}").coalesce(1)
        running = made.write_stream(source, checkpoint=f"{folder}/_checkpoint", trigger="availableNow")
        assert running.awaitTermination(60)


ON_SPARK = [
    Command("a stream", "plain", on(stream)),
    Command("append a frame", "plain", on(lambda t: t.append(frame(7, 8)))),
    Command("update on Spark", "feed", on(lambda t: t.update({"amount": "0"}, "id = 2", engine="spark"))),
]
"""Spark writes the files, into a folder of its own; this process moves and describes them, and commits."""
