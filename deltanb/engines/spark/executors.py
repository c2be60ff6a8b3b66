"""What executors do with a table's files: rows read from listed files, rows written as files.

What lives here: :func:`read_files` and :func:`write_files`, for tasks that run in another process or on
another machine. Their arguments are values that can be pickled; the store is opened where the task runs.
What it does not know: the driver, sessions, transactions; which files to read, and what a commit makes of
those that were written.

The driver plans, and a commit of its own names the files::

    place = Place(table.log.store)                            # or Place(store, storage_options)
    scan = deltanb.engines.arrow.data_file.plan(snapshot, columns, where)
    for part in parts(files_as_dicts(snapshot.files_for_scan(where), scan)):
        ...read_files(place, scan, part)                      # on an executor: an iterator of Arrow batches

    plan = begun(place, target)                               # target: a prewritten.Target
    files = write_files(plan, batches)                        # on an executor: a list of AddFile
    ended(plan, [file.path for file in files])                # on the driver; ended(plan) if the job failed

A pickled store has no secrets: on executors they come from the environment there (``AWS_ACCESS_KEY_ID``, …)
or from the machine's role. ``storage_options`` that are given to a :class:`Place` do travel with it,
including secrets, like options of a Spark reader.

Memory is bounded: a task reads one file at a time (a few in a bucket), batch by batch, and writes like any
write in the process.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.actions import decode_path
from deltanb.concurrency import parallel
from deltanb.engines.arrow import read as in_process
from deltanb.engines.arrow import write as in_process_write
from deltanb.engines.arrow.data_file import Scan, read_data_file
from deltanb.engines.arrow.inputs import Source
from deltanb.engines.spark import permits
from deltanb.store.base import LogStore, delete_many, is_remote
from deltanb.store.open import store_for

if TYPE_CHECKING:
    from deltanb.actions import AddFile
    from deltanb.engines.arrow.prewritten import Target

__all__ = ["Part", "Place", "WritePlan", "begun", "ended", "files_as_dicts", "new_name", "parts",
           "read_files", "write_files"]

PART_BYTES = 128 << 20
"""Bytes of files that a task reads, as ``spark.sql.files.maxPartitionBytes`` has it where nobody sets it."""
SMALL_BYTES = 16 << 20
"""Less than these is not worth a task of its own."""
OPEN_BYTES = 1 << 20
"""What opening a file counts for beside its bytes."""
MIN_PARTS = 8
"""Tasks that a read is divided into where its files are large enough for them."""

Part = list[tuple[Mapping[str, Any], tuple[int, int]]]
"""What one task reads: files as a snapshot lists them, each with (number, parts) of its row groups."""


@dataclass(frozen=True)
class Place:
    """A table's place for other processes: its store, and options that travel with it."""

    store: LogStore
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, path: str, storage_options: Mapping[str, str]) -> Place:
        """The place of a path, with options or None."""
        return cls(store_for(path, storage_options or None), storage_options)

    def opened(self) -> LogStore:
        """The store, in this process."""
        return store_for(self.store.root, self.storage_options) if self.storage_options else self.store


# --- reading --------------------------------------------------------------------------------------

def files_as_dicts(files: pa.Table, scan: Scan) -> list[dict[str, Any]]:
    """The rows of a snapshot's files that tasks need, as dicts."""
    needed = (*in_process.NEEDED, "base_row_id", "default_row_commit_version") if scan.tracked \
        else in_process.NEEDED
    return files.select([name for name in needed if name in files.schema.names]).to_pylist()


def parts(files: Sequence[Mapping[str, Any]], part_bytes: int | None = None) -> list[Part]:
    """Files divided among tasks in order; large ones among several tasks, by row groups.

    >>> sizes = [{"size": 300 << 20}, {"size": 1}, {"size": 1}]
    >>> [[unit[1] for unit in part] for part in parts(sizes, 128 << 20)]
    [[(0, 3)], [(1, 3)], [(2, 3), (0, 1), (0, 1)]]
    """
    sizes = [file["size"] or 0 for file in files]
    if part_bytes is None:
        part_bytes = min(PART_BYTES, max(SMALL_BYTES, sum(sizes) // MIN_PARTS))
    divided: list[Part] = []
    room = 0
    for file, size in zip(files, sizes, strict=True):
        count = max(1, -(-size // part_bytes))
        for number in range(count):
            cost = size // count + OPEN_BYTES
            if cost > room:
                divided.append([])
                room = part_bytes + OPEN_BYTES
            divided[-1].append((file, (number, count)))
            room -= cost
    return divided


def read_files(place: Place, scan: Scan, part: Part) -> Iterator[pa.RecordBatch]:
    """The live rows of a task's files for a scan, in batches, none of them empty.

    Args:
        place: the table's place.
        scan: from :func:`deltanb.engines.arrow.data_file.plan`, made on the driver.
        part: from :func:`parts`.

    Raises:
        DataFileNotFound, InvalidTable: a file that is gone or damaged.
    """
    scan = replace(scan, store=place.opened())
    if is_remote(scan.store):  # several requests are waited for at a time
        batches: Iterator[pa.RecordBatch] = parallel.streamed(
            lambda one: read_data_file(scan, one[0], part=one[1]), iter(part),
            min(len(part), parallel.MAX_WAITING), "read")
    else:
        batches = (batch for file, of in part for batch in read_data_file(scan, file, part=of))
    return (batch for batch in batches if batch.num_rows)


# --- writing --------------------------------------------------------------------------------------

@dataclass(frozen=True)
class WritePlan:
    """One write by many tasks: its place, its table, and a name that all its files begin with.

    In a bucket the files are below that name, where one listing finds them; in a folder they are where files
    of the table always are.
    """

    place: Place
    target: Target
    name: str = field(default_factory=lambda: new_name("part"))


def new_name(beginning: str) -> str:
    """A name for a write."""
    # Random, not options.new_id(): two drivers that draw their ids from one seed must not meet here.
    return f"{beginning}-{uuid.uuid4().hex[:16]}"


def begun(place: Place, target: Target) -> WritePlan:
    """Begin a write, on the driver, which also ends it (:func:`ended`).

    Raises:
        StorageError: nothing can be written there.
    """
    plan = WritePlan(place, target)
    permits.grant(place.opened(), plan.name)
    return plan


def write_files(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> list[AddFile]:
    """Write a stream of rows as files of the table and describe them; no commit names them yet.

    The rows pass enforcement, generated columns and constraints, like rows written in the process. After any
    error, including one of the stream, the files of this call are deleted.

    Raises:
        SchemaMismatch, ConstraintViolation: rows that do not fit.
        StorageError: a file cannot be written.
        IllegalStateError: the write has ended.
    """
    rows = iter(batches)
    first = next(rows, None)
    if first is None:
        return []
    target, store = plan.target, plan.place.opened()
    files = in_process_write.write_files(
        store, target.metadata, target.protocol,
        Source(first.schema, lambda: itertools.chain([first], rows)),
        file_options=target.file_options, checks=target.checks, clustering=target.clustering,
        folder=plan.name if is_remote(store) else "", prefix=plan.name)
    try:
        permits.check(store, plan.name)
    except BaseException:
        in_process_write.delete_files(store, [decode_path(file.path) for file in files])
        raise
    return files


def ended(plan: WritePlan, retained_files: Iterable[str] = (), *, look: bool = True) -> None:
    """End a write, on the driver: remove all its files except ``retained_files``, paths as in actions.

    A task that still runs removes its own (:mod:`~deltanb.engines.spark.permits`).

    ``look=False`` means that every task ran once, so that there can be no other files. It saves a walk
    through the table's folder; in a bucket the files of a write are listed all the same.

    Files that cannot be listed or removed now are left for VACUUM.
    """
    store = plan.place.opened()
    permits.withdraw(store, plan.name)
    if not (look or is_remote(store)):
        return
    stay = {decode_path(path).rpartition("/")[2] for path in retained_files}
    with suppress(OSError):
        leftovers = [status.name for status in store.list_all(plan.name if is_remote(store) else "")
                 if (name := status.name.rpartition("/")[2]).startswith(plan.name) and name not in stay]
        for _ in delete_many(store, leftovers):
            pass
