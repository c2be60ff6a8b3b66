"""Rivals: commits by another writer, made to meet what an open transaction has read.

What lives here: four real commits under another user's name (rows added where the transaction reads, rows
added elsewhere, a file it read removed, the metadata changed), and why one of them may be impossible.
What it does not know: the state of the transaction's own commit, or who asked for a rival.

Rows are copies of existing rows, so that they satisfy every constraint of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import AddFile
from deltanb.commands.define.alter_properties import set_properties
from deltanb.commands.rows.write import append
from deltanb.engines.arrow.read import read_table
from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.log.replay import FILES_SCHEMA
from deltanb.options import set_options
from deltanb.schema import properties
from deltanb.schema.columns import GENERATION, START, STEP
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import partition_key

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.transaction import OptimisticTransaction

APPEND_HERE, APPEND_ELSEWHERE, DELETE, METADATA = "append here", "append elsewhere", "delete", "metadata"
KINDS = {
    APPEND_HERE: "append rows where you read",
    APPEND_ELSEWHERE: "append rows elsewhere",
    DELETE: "delete what you read",
    METADATA: "change the metadata",
}
"""What a rival can do, and how a person would say it."""

WRITER = "another writer"
ROWS = 3  # rows a rival appends: enough to be seen, few enough to be nobody's loss
MAX_LOOK = 10_000  # files looked at for one in the right place; of more, an even sample
MAX_READ = 5  # files opened for rows: the first ones may hold none that live
PROPERTY = "deltanb.rival"
"""The property that a metadata change sets; no rule lets a transaction adopt it."""

_NEEDED = ("path", "partition_values", "size", "deletion_vector")


@dataclass(frozen=True)
class RivalCommit:
    """A rival's commit: its writer, what it did in words, and its version."""

    writer: str
    did: str
    version: int


def refusal(txn: OptimisticTransaction, kind: str) -> str | None:
    """Why a rival of this kind has nothing to do, according to the log in memory; None if it has.

    Raises:
        InvalidArgument: an unknown kind.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidArgument(f"there is no rival {kind!r}; there are {', '.join(map(repr, KINDS))}")
    if txn.read_version < 0:
        return "there is no table yet"
    reads, columns = txn.reads, txn.snapshot.partition_columns
    if kind == APPEND_ELSEWHERE:
        if not columns:
            return "the table has no partitions, so there is no elsewhere"
        if reads.whole_table or any(scan.partition_text == "TRUE" for scan in reads.scans):
            return "every partition is read, so there is no elsewhere"
    if kind == DELETE:
        if not reads.whole_table and not any(files.num_rows for files in reads.files):
            return "no file was read"
        if properties.get(txn.snapshot.metadata.configuration, "delta.appendOnly"):
            return "the table is append-only"
    return None


def commit_rival(txn: OptimisticTransaction, kind: str, writer: str = WRITER) -> RivalCommit:
    """Commit to the table of an open transaction as another writer, who thereby wins.

    Args:
        kind: a key of :data:`KINDS`.
        writer: the user name the commit is recorded under.

    Raises:
        InvalidArgument: an unknown kind, or a user name that is not text.
        IllegalStateError: a rival of this kind has nothing to do here; the reason is in the message.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "pond": [1, 2]}, partition_by=["pond"])
    >>> txn = table.start_transaction()
    >>> _ = txn.filter_files("pond = 1")
    >>> commit_rival(txn, "append elsewhere", "etl-b")
    RivalCommit(writer='etl-b', did='appended 1 row elsewhere, in pond=2', version=1)
    """
    reason = refusal(txn, kind)
    if reason is not None:
        raise IllegalStateError(f"table {txn.table}: a rival cannot {_plainly(kind)}: {reason}")
    with set_options(user_name=writer):
        did, version = _ACTS[kind](txn)
    return RivalCommit(writer, did, version)


def _plainly(kind: str) -> str:
    return KINDS[kind].replace("you read", "the transaction read")


def _append_here(txn: OptimisticTransaction) -> tuple[str, int]:
    where = "where you read" if txn.reads.scans else "where you write"
    rows, _ = _rows(txn, is_here=True)
    return f"appended {_rows_of(rows)} {where}", _append(txn, rows)


def _append_elsewhere(txn: OptimisticTransaction) -> tuple[str, int]:
    rows, place = _rows(txn, is_here=False)
    return f"appended {_rows_of(rows)} elsewhere, in {place}", _append(txn, rows)


def _rows_of(rows: pa.Table) -> str:
    return f"{rows.num_rows} row{'' if rows.num_rows == 1 else 's'}"


def _append(txn: OptimisticTransaction, rows: pa.Table) -> int:
    return index(append(txn.log, rows))


def _delete(txn: OptimisticTransaction) -> tuple[str, int]:
    rival = txn.log.start_transaction()
    file = _read_file(txn, rival.snapshot)
    if file is None:
        raise IllegalStateError(
            f"table {txn.table}: a rival cannot {_plainly(DELETE)}: it is deleted already")
    return "deleted a file you read", rival.commit([file.remove()], Operation("DELETE"))


def _read_file(txn: OptimisticTransaction, snapshot: Snapshot) -> AddFile | None:
    """A live file that the transaction read."""
    reads, paths = txn.reads, snapshot.select_files(["path"])["path"]
    for files in reads.files:
        first = files["path"].slice(0, MAX_LOOK)
        hits = pc.indices_nonzero(pc.is_in(paths, value_set=first))
        if len(hits):
            return _add_file(snapshot, hits[0].as_py())
    return _add_file(snapshot, 0) if reads.whole_table and len(paths) else None


def _add_file(snapshot: Snapshot, at: int) -> AddFile:
    table = snapshot.select_files(FILES_SCHEMA.names, pa.array([at]))
    return AddFile.from_row(table.to_pylist(maps_as_pydicts="lossy")[0])


def _change_metadata(txn: OptimisticTransaction) -> tuple[str, int]:
    before = txn.log.update().properties.get(PROPERTY, "0")
    after = int(before) + 1 if before.isdigit() else 1
    version = index(set_properties(txn.log, {PROPERTY: after}))
    return f"set the property {PROPERTY} = {after}", version


_ACTS = {
    APPEND_HERE: _append_here, APPEND_ELSEWHERE: _append_elsewhere, DELETE: _delete,
    METADATA: _change_metadata,
}


# -- rows to copy --------------------------------------------------------------------------------


def _rows(txn: OptimisticTransaction, is_here: bool) -> tuple[pa.Table, str]:
    """Rows of a file that the transaction's scans would see, or would not, and the file's partition."""
    for snapshot, files, at in islice(_places(txn, is_here), MAX_READ):
        file = files.slice(at, 1)
        rows = read_table(snapshot, file, _written_columns(snapshot)).slice(0, ROWS)
        if rows.num_rows:
            return rows, _place(snapshot, dict(file["partition_values"][0].as_py() or ()))
    kind = APPEND_HERE if is_here else APPEND_ELSEWHERE
    raise IllegalStateError(
        f"table {txn.table}: a rival cannot {_plainly(kind)}: there is no row to copy there")


def _places(txn: OptimisticTransaction, is_here: bool) -> Iterator[tuple[Snapshot, pa.Table, int]]:
    """Files in the right place: of the newest version, of the version read, written by the transaction."""
    newest = txn.log.update()
    for snapshot in (newest, txn.snapshot):
        apart = -(-snapshot.num_files // MAX_LOOK) or 1
        files = snapshot.select_files(_NEEDED, pa.array(range(0, snapshot.num_files, apart), pa.int64()))
        for at, hit in enumerate(_covered(txn, files["partition_values"].to_pylist())):
            if hit is is_here:
                yield snapshot, files, at
    if is_here and txn.written:
        rows: list[dict[str, Any]] = [
            {"path": a.path, "partition_values": list(a.partition_values.items()), "size": a.size}
            for a in txn.written]
        files = pa.Table.from_pylist(rows, schema=newest.select_files(_NEEDED).schema)
        yield from ((newest, files, at) for at in range(files.num_rows))


def _covered(txn: OptimisticTransaction, partitions: list[Any]) -> list[bool]:
    """Whether the transaction reads in each of these partitions or, if it reads nothing, writes there."""
    reads, snapshot = txn.reads, txn.snapshot
    columns = snapshot.partition_columns
    if not columns or reads.whole_table:
        return [True] * len(partitions)
    if not reads.scans:
        prepared = () if txn.prepared is None else txn.prepared.actions
        mine = {partition_key(a.partition_values) for a in (*prepared, *txn.written)
                if isinstance(a, AddFile)}
        return [not mine or partition_key(dict(values or ())) in mine for values in partitions]
    probes = [AddFile(path="", partition_values=dict(values or ())) for values in partitions]
    hits = [scan.matches(probes, snapshot.schema, columns) for scan in reads.scans]
    return [any(row) for row in zip(*hits, strict=True)]


def _place(snapshot: Snapshot, values: dict[str, str | None]) -> str:
    """``day=mon``: a partition by its columns' logical names."""
    known = {field.physical_name: field.name for field in snapshot.schema}
    return ", ".join(f"{known.get(key, key)}={'null' if value is None else value}"
                     for key, value in values.items())


def _written_columns(snapshot: Snapshot) -> list[str]:
    """The columns whose values a writer provides; the table computes the others."""
    computed = {GENERATION, START, STEP}
    return [field.name for field in snapshot.schema if not computed & field.metadata.keys()]
