"""Planting what upkeep mends: real tables that need it, by any writer, and near misses that do not.

What lives here: :class:`Writer`, what a table is planted with; :class:`Plant` and :func:`plant`, by which one
is declared for a kind; the plants.
What it does not know: what finds them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import deltalake
import pyarrow as pa

import deltanb as dn
from deltanb.log.reader import LogReader
from deltanb.observe.checkup import Checkup, Finding
from deltanb.options import options
from deltanb.schema.properties import DAY_MS

ROWS = 100
DAYS = 40
"""How much later a table is looked at than it was written: beyond all retentions."""


def rows(start: int, stop: int, p: str = "a") -> pa.Table:
    """Rows by their ids: ``v`` cannot be compressed, and is as good as random."""
    ids = range(start, stop)
    texts = [p] * len(ids), [hashlib.md5(str(one).encode()).hexdigest() for one in ids]
    return pa.table([pa.array(ids, pa.int64()), *(pa.array(one, pa.string()) for one in texts)],
                    names=["id", "p", "v"])


class Writer(Protocol):
    """A writer of Delta tables; each insert is one file of the rows of :func:`rows`."""

    name: str

    def create(self, path: Path, partition_by: list[str], properties: Mapping[str, str]) -> None: ...
    def insert(self, path: Path, start: int, stop: int, p: str = "a") -> None: ...
    def delete(self, path: Path, where: str) -> None: ...
    def overwrite(self, path: Path, start: int, stop: int) -> None: ...
    def configure(self, path: Path, properties: Mapping[str, str]) -> None: ...
    def zorder(self, path: Path, column: str) -> None: ...


class Ours:
    """This library."""

    name = "ours"

    def create(self, path: Path, partition_by: list[str], properties: Mapping[str, str]) -> None:
        dn.create(path, rows(0, 0).schema, partition_by=partition_by, properties=properties)

    def insert(self, path: Path, start: int, stop: int, p: str = "a") -> None:
        dn.open(path).append(rows(start, stop, p))

    def delete(self, path: Path, where: str) -> None:
        dn.open(path).delete(where)

    def overwrite(self, path: Path, start: int, stop: int) -> None:
        dn.open(path).overwrite(rows(start, stop))

    def configure(self, path: Path, properties: Mapping[str, str]) -> None:
        dn.open(path).set_properties(properties)

    def zorder(self, path: Path, column: str) -> None:
        dn.open(path).optimize(zorder_by=column)


class DeltaRs:
    """deltalake."""

    name = "delta-rs"

    def create(self, path: Path, partition_by: list[str], properties: Mapping[str, str]) -> None:
        deltalake.DeltaTable.create(
            path, deltalake.Schema.from_arrow(rows(0, 0).schema), partition_by=partition_by,
            configuration=dict(properties))

    def insert(self, path: Path, start: int, stop: int, p: str = "a") -> None:
        deltalake.write_deltalake(path, rows(start, stop, p), mode="append")

    def delete(self, path: Path, where: str) -> None:
        deltalake.DeltaTable(path).delete(where)

    def overwrite(self, path: Path, start: int, stop: int) -> None:
        deltalake.write_deltalake(path, rows(start, stop), mode="overwrite")

    def configure(self, path: Path, properties: Mapping[str, str]) -> None:
        deltalake.DeltaTable(path).alter.set_table_properties(dict(properties))

    def zorder(self, path: Path, column: str) -> None:
        deltalake.DeltaTable(path).optimize.z_order([column])


@dataclass(frozen=True)
class Plant:
    """A table that has a finding of a kind: how it is made, and what shows that the saving comes true.

    ``make`` gets a writer, a path and whether the table is to have the finding or only nearly so. ``saved``
    gets the path, the finding and the checkup behind the command, and returns what was saved in truth;
    ``tolerance`` is the share by which it may miss what was predicted. ``writers`` can write it.
    """

    kind: str
    case: str
    """The case of the command that the finding has."""
    make: Callable[[Writer, Path, bool], None]
    saved: Callable[[Path, Finding, Checkup], Mapping[str, float]]
    writers: tuple[str, ...]
    tolerance: float
    later: bool
    """Whether it is looked at :data:`DAYS` days later."""

    @property
    def name(self) -> str:
        """What the test is called."""
        return f"{self.kind}-{self.make.__name__}"

    @property
    def clock(self) -> Callable[[], int]:
        """The clock by which it is looked at and mended."""
        now = options.clock
        return (lambda: now() + DAYS * DAY_MS) if self.later else now


PLANTS: list[Plant] = []
ALL = ("ours", "delta-rs", "spark")


def plant(
    kind: str, saved: Callable[[Path, Finding, Checkup], Mapping[str, float]], case: str = "",
    writers: tuple[str, ...] = ALL, tolerance: float = 0.0, later: bool = False,
) -> Callable[[Any], Any]:
    """Declare a plant."""
    def declared(make: Any) -> Any:
        PLANTS.append(Plant(kind, case, make, saved, writers, tolerance, later))
        return make
    return declared


# -- what was saved in truth ------------------------------------------------------------------------------


def by_commit(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """Fewer files, by the metrics of the last commit that rewrote some."""
    metrics = next(one.operation_metrics for one in dn.open(path).history()
                   if one.operation in ("OPTIMIZE", "REORG"))
    assert int(metrics["numRemovedFiles"]) == finding.figures["files_to_rewrite"]
    return {"files": int(metrics["numRemovedFiles"]) - int(metrics["numAddedFiles"]),
            "bytes": int(metrics["numRemovedBytes"]) - int(metrics["numAddedBytes"])}


def by_largest(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The largest file or partition, against what one condition on the columns opens now."""
    sizes = dn.open(path).snapshot.files["size"].to_pylist()
    return {"bytes": finding.figures["largest_bytes"] - max(sizes)}


def by_vacuum(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The files and bytes that VACUUM says it was to delete."""
    metrics = next(one.operation_metrics for one in dn.open(path).history()
                   if one.operation == "VACUUM START")
    return {"files": int(metrics["numFilesToDelete"]), "bytes": int(metrics["sizeOfDataToDelete"])}


def by_look_up(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The files that a look-up of each id by its column opens, against those before, on average."""
    table, (column,) = dn.open(path), finding.figures["columns"]
    values = table.to_arrow()[column].to_pylist()[::97]
    opened = [table.explain(f"{column} = {value!r}").opened for value in values]
    return {"files": finding.figures["depth_files"] - sum(opened) / len(opened)}


def by_statistics(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The files without bounds of a column that no other has either now have them."""
    table = dn.open(path)
    known = [json.loads(text)["minValues"].keys() for text in table.snapshot.files["stats"].to_pylist()]
    before = finding.figures["files"] - finding.figures["files_without"]
    return {"files": sum(set(finding.figures["columns"]) <= names for names in known) - before}


def by_opening(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The commits that somebody who opens the table no longer reads."""
    snapshot = LogReader(dn.open(path).log.store).snapshot  # one that was not there before
    assert snapshot.checkpoint_version is not None
    return {"requests": finding.figures["commits_since"] - (after.version - snapshot.checkpoint_version)}


def by_listing(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The files of the log that are left, all of them needed."""
    versions = [int(one.name[:20]) for one in (path / "_delta_log").glob("*.json")]
    (checkpoint,) = (int(one.name[:20]) for one in (path / "_delta_log").glob("[0-9]*.checkpoint*"))
    return {"files": finding.figures["log_files"] if min(versions) == checkpoint else 0}


def by_another(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The rows that the same change copies from now on."""
    metrics = dn.open(path).delete("id = 7").metrics
    return {"rows": finding.saves["rows"] - int(metrics["numCopiedRows"])}


def by_pruning(path: Path, finding: Finding, after: Checkup) -> Mapping[str, float]:
    """The rows of the files that a change of one row of the column no longer opens: at least those saved."""
    table = dn.open(path)
    value = table.to_arrow(columns=["v"], limit=1)["v"][0].as_py()
    scan = table.explain(f"v = '{value}'")
    rows_opened = table.count() * scan.opened_bytes / table.snapshot.size_in_bytes / scan.opened
    copied = finding.figures["rows_copied"] / finding.figures["commits"]
    return {"rows": min(copied - rows_opened, finding.saves["rows"])}


# -- the plants -------------------------------------------------------------------------------------------


@plant("small-files", by_commit)
def many_inserts(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {})
    for number in range(11 if has_it else 10):
        writer.insert(path, number * ROWS, (number + 1) * ROWS)


@plant("small-files", by_commit)
def small_files_of_partitions(writer: Writer, path: Path, has_it: bool) -> None:
    """OPTIMIZE makes one file of each partition."""
    writer.create(path, ["p"], {"delta.targetFileSize": "1000000"})
    for number in range(12):
        partition = "ab"[number % 2] if has_it else "abc"[number % 3]
        writer.insert(path, number * ROWS, (number + 1) * ROWS, partition)


@plant("small-files", by_commit, writers=("ours",))
def clustered(writer: Writer, path: Path, has_it: bool) -> None:
    dn.create(path, rows(0, ROWS)).cluster_by("id")
    for number in range(1, 11 if has_it else 10):
        writer.insert(path, number * ROWS, (number + 1) * ROWS)


@plant("small-files", by_commit, "ordered", ("ours", "spark"))
def inserts_of_neighbours_behind_zorder(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {})
    writer.insert(path, 0, ROWS)
    writer.zorder(path, "id")
    for number in range(1, 11 if has_it else 10):
        writer.insert(path, number * ROWS, (number + 1) * ROWS)


@plant("small-files", by_commit, "full", ("ours",))
def small_files_that_are_clustered(writer: Writer, path: Path, has_it: bool) -> None:
    """They were of the size that files were to have when they were clustered."""
    table = dn.create(path, rows(0, 5_000))
    table.cluster_by("id")
    size = table.snapshot.size_in_bytes
    table.optimize(target_size=size // (20 if has_it else 8))


@plant("file-skew", by_largest, "full", ("ours",), tolerance=0.3)
def one_large_file_that_is_clustered(writer: Writer, path: Path, has_it: bool) -> None:
    table = dn.create(path, rows(0, 8_000))
    table.cluster_by("id")
    table.optimize()
    (size,) = table.snapshot.files["size"].to_pylist()
    table.set_properties({"delta.targetFileSize": str(size // (5 if has_it else 3))})


@plant("file-skew", by_largest, "ordered", tolerance=0.3)
def one_large_file(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {})
    writer.insert(path, 0, 8_000)
    size = max(dn.open(path).snapshot.files["size"].to_pylist())
    writer.configure(path, {"delta.targetFileSize": str(size // (5 if has_it else 3))})


@plant("partition-skew", by_largest, tolerance=0.3)
def one_large_partition(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, ["p"], {})
    for p in "bcde":
        writer.insert(path, 0, 10, p)
    writer.insert(path, 1_000, 9_000 if has_it else 1_020, "a")
    size = max(dn.open(path).snapshot.files["size"].to_pylist())
    writer.configure(path, {"delta.targetFileSize": str(size // 5 if has_it else size)})


@plant("vectors-due", by_commit, writers=("ours", "spark"), tolerance=0.25)
def rows_deleted_by_vectors(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {"delta.enableDeletionVectors": "true"})
    writer.insert(path, 0, 1_000)
    writer.insert(path, 1_000, 2_000)
    writer.delete(path, "id < 400" if has_it else "id < 49")


@plant("clustering-decay", by_look_up, "ordered", ("ours", "spark"), tolerance=0.2)
def inserts_behind_zorder(writer: Writer, path: Path, has_it: bool) -> None:
    """Files that each reach over the whole range come after an OPTIMIZE that ordered them."""
    writer.create(path, [], {})
    for number in range(2):
        writer.insert(path, number * 1_000, (number + 1) * 1_000)
    writer.zorder(path, "v")
    for number in range(2, 8 if has_it else 4):
        writer.insert(path, number * 1_000, (number + 1) * 1_000)


@plant("clustering-decay", by_look_up, "full", ("ours",), tolerance=0.2)
def each_insert_clustered_alone(writer: Writer, path: Path, has_it: bool) -> None:
    """Each OPTIMIZE clusters what is new, and leaves the files that were clustered before; none says so."""
    table = dn.create(path, rows(0, 1_000))
    table.cluster_by("v")
    table.set_properties({"delta.targetFileSize": "40000"})
    table.optimize()
    for number in range(1, 7 if has_it else 3):
        writer.insert(path, number * 1_000, (number + 1) * 1_000)
        table.optimize()
    for commit in (path / "_delta_log").glob("*.json"):
        lines = commit.read_text().splitlines(keepends=True)
        commit.write_text("".join(line for line in lines if '"operation":"OPTIMIZE"' not in line))


@plant("clustering-decay", by_look_up, writers=("ours",), tolerance=0.2)
def inserts_behind_clustering(writer: Writer, path: Path, has_it: bool) -> None:
    table = dn.create(path, rows(0, 1_000))
    table.cluster_by("v")
    table.optimize()
    for number in range(1, 8 if has_it else 3):
        writer.insert(path, number * 1_000, (number + 1) * 1_000)


@plant("statistics-missing", by_statistics)
def files_of_a_time_without_statistics(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {"delta.dataSkippingNumIndexedCols": "1"})
    for number in range(3):
        writer.insert(path, number * ROWS, (number + 1) * ROWS)
    writer.configure(path, {"delta.dataSkippingNumIndexedCols": "32"})
    writer.delete(path, f"v = '{rows(5, 6)['v'][0]}'" if has_it else "id = 5")


@plant("statistics-missing", by_statistics, "unindexed")
def conditions_on_what_has_no_statistics(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {"delta.dataSkippingNumIndexedCols": "1"})
    for number in range(3):
        writer.insert(path, number * ROWS, (number + 1) * ROWS)
    writer.delete(path, f"v = '{rows(5, 6)['v'][0]}'" if has_it else "id = 5")


@plant("rewrites", by_another, tolerance=0.01)
def one_row_of_a_large_file(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {"delta.enableDeletionVectors": "false"})
    writer.insert(path, 0, 1_100 if has_it else 900)
    writer.delete(path, "id = 5")


def _copies(path: Path, has_it: bool) -> None:
    """A DELETE of somebody who rewrites files where the table has vectors."""
    metrics = {"numCopiedRows": "4000" if has_it else "9", "numDeletedRows": "1", "numAddedBytes": "90000"}
    commit = json.dumps({"commitInfo": {
        "operation": "DELETE", "operationParameters": {"predicate": '["v = \'none\'"]'},
        "operationMetrics": metrics, "readVersion": 3}})
    (path / "_delta_log" / f"{dn.open(path).version + 1:020d}.json").write_text(commit + "\n")


@plant("rewrites", by_pruning, "clustered", ("ours",), tolerance=0.1)
def rows_copied_despite_vectors(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, [], {"delta.enableDeletionVectors": "true", "delta.targetFileSize": "20000"})
    for number in range(3):
        writer.insert(path, number * 1_000, (number + 1) * 1_000)
    _copies(path, has_it)


@plant("rewrites", by_pruning, "ordered", ("ours",), tolerance=0.1)
def rows_copied_despite_vectors_in_partitions(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, ["p"], {"delta.enableDeletionVectors": "true", "delta.targetFileSize": "20000"})
    for number in range(4):
        writer.insert(path, number * 1_000, (number + 1) * 1_000, "ab"[number % 2])
    _copies(path, has_it)


def _commits(writer: Writer, path: Path, number: int, interval: int) -> None:
    writer.create(path, [], {"delta.checkpointInterval": str(interval)})
    for at in range(number - 1):
        writer.insert(path, at, at + 1)


@plant("checkpoint-age", by_opening)
def checkpoints_lost(writer: Writer, path: Path, has_it: bool) -> None:
    _commits(writer, path, 10 if has_it else 9, 5)
    for file in (*(path / "_delta_log").glob("*checkpoint*"), path / "_delta_log" / "_last_checkpoint"):
        file.unlink(missing_ok=True)


@plant("log-age", by_listing, later=True)
def old_commits(writer: Writer, path: Path, has_it: bool) -> None:
    """The log is as old as it is looked at later; or all commits behind the first four are of today."""
    _commits(writer, path, 15, 12 if has_it else 4)
    for file in (path / "_delta_log").glob("*") if not has_it else ():
        if file.name[:20].isdigit() and int(file.name[:20]) > 4:
            os.utime(file, (2**32, 2**32))


@plant("tombstones", by_vacuum, later=True)
def an_overwrite_long_ago(writer: Writer, path: Path, has_it: bool) -> None:
    retentions = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
    writer.create(path, [], {} if has_it else dict.fromkeys(retentions, "interval 60 days"))
    writer.insert(path, 0, ROWS)
    writer.overwrite(path, ROWS, 2 * ROWS)


@plant("orphans", by_vacuum, later=True)
def a_write_that_failed(writer: Writer, path: Path, has_it: bool) -> None:
    writer.create(path, ["p"], {})
    writer.insert(path, 0, ROWS)
    (path / "p=a" / "part-00000-lost.c000.snappy.parquet").write_bytes(b"PAR1" * 100)
    (path / "_hidden.parquet").write_bytes(b"PAR1")
    if not has_it:
        os.utime(path / "p=a" / "part-00000-lost.c000.snappy.parquet", (2**32, 2**32))
