"""Rows at random, from as few row groups as they lie in.

What lives here: :func:`sample`, which draws places in a version and reads these; and :func:`sample_of`, which
draws from a stream of rows whose number is unknown.
What it does not know: transactions, which version is read, where the randomness comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from deltanb.actions import decode_path
from deltanb.commands.read.count import live_rows
from deltanb.engines.arrow.data_file import Scan, plan, read_data_file
from deltanb.log.arrays import array_of

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

__all__ = ["sample", "sample_of"]


def sample(
    snapshot: Snapshot, files: pa.Table, n: int, random: Random, columns: Sequence[str] | None = None
) -> pa.Table:
    """``n`` different rows of a version, or all of them where it has fewer; each is as likely as any other.

    The same state of ``random`` gives the same rows of the same version, in the same order. Only row groups
    that have some of them are read: at most ``n``.

    Args:
        snapshot, files: the version and its files.
        columns: top-level names in any case.

    Raises:
        DataFileNotFound, InvalidTable: a file that is gone or damaged; the message names it.

    >>> import deltanb as dn
    >>> snapshot = dn.create("pond", {"coins": range(1000)}).snapshot
    >>> sample(snapshot, snapshot.files, 3, Random(1))["coins"].to_pylist()
    [867, 582, 137]
    """
    scan = plan(snapshot, columns)
    files = files.sort_by("path")  # the log lists them in one order or another
    ends = np.cumsum(live_rows(snapshot, files), dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    places = np.array(sorted(random.sample(range(total), min(n, total))), np.int64)
    numbers = np.searchsorted(ends, places, side="right")
    tables = [
        _rows_at(scan, files.slice(int(number), 1).to_pylist()[0],
                 places[numbers == number] - (int(ends[number - 1]) if number else 0))
        for number in np.unique(numbers)]
    return _shuffled(pa.concat_tables([scan.schema.empty_table(), *tables]), random)


def _rows_at(scan: Scan, file: Mapping[str, Any], places: np.ndarray[Any, Any]) -> pa.Table:
    """The rows at places among the live ones of a file."""
    if file["deletion_vector"] is not None:
        deleted = np.array(scan.vectors.load(
            scan.store, file["deletion_vector"], data_file=decode_path(file["path"])), np.int64)
        before = deleted - np.arange(len(deleted))  # the live rows before each of them
        places = places + np.searchsorted(before, places, side="right")
    batches = read_data_file(scan, file, only=BitMap64(places.tolist()))
    return pa.Table.from_batches(batches, scan.schema)


def sample_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema, n: int, random: Random) -> pa.Table:
    """``n`` different rows of a stream, or all where there are fewer; each is as likely as any other.

    All of it is read, and no more than ``n`` rows and a batch are in memory.

    >>> batches = pa.table({"coins": range(1000)}).to_batches(100)
    >>> sample_of(batches, batches[0].schema, 3, Random(1)).num_rows
    3
    """
    draw = np.random.default_rng(random.getrandbits(64))
    rows, keys = schema.empty_table(), np.empty(0)
    for batch in _nonempty(batches):
        all_keys = np.concatenate([keys, draw.random(batch.num_rows)])
        chosen = np.sort(np.argsort(all_keys, kind="stable")[:n])
        keys = all_keys[chosen]
        rows = pa.concat_tables([rows, pa.Table.from_batches([batch], schema)]).take(array_of(chosen))
    return _shuffled(rows, random)


def _nonempty(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _shuffled(rows: pa.Table, random: Random) -> pa.Table:
    order = list(range(rows.num_rows))
    random.shuffle(order)
    return rows.take(array_of(np.array(order, np.int64)))
