"""Rows that a commit removes and adds again: unchanged or updated, decided by their ids.

What lives here: :func:`classify_moved`, for a commit that replaces whole files without change data files,
like a RESTORE (PROTOCOL.md, "Row Tracking").
What it does not know: the feed, versions, which actions name the files.

A row with the same id and commit version on both sides only moved; with another version it was updated. Ids
are small compared to rows, so they are read first, and then only the rows that matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from deltanb.engines.arrow.data_file import ROW_POSITION, Scan, read_data_file

ALONE, CHANGED, SAME = range(3)


@dataclass(frozen=True)
class Piece:
    """Rows of a file: its entry in the log, and their positions, None for all live rows."""

    file: Mapping[str, Any]
    only: BitMap64 | None = None


def classify_moved(
    scan: Scan, removed: Sequence[Piece], added: Sequence[Piece]
) -> list[list[dict[int, BitMap64]]] | None:
    """For each piece of both sides, the positions of its rows that are only on its side (:data:`ALONE`),
    :data:`CHANGED`, or the :data:`SAME`.

    Args:
        scan: the scan of row ids and commit versions only.

    Returns:
        None if no row is on both sides, or if ids are not unique.
    """
    sides = [_rows(scan, pieces) for pieces in (removed, added)]
    known = [np.flatnonzero(side["known"]) for side in sides]
    ids = [side["id"][rows] for side, rows in zip(sides, known, strict=True)]
    if any(len(np.unique(numbers)) < len(numbers) for numbers in ids):
        return None
    _, *places = np.intersect1d(ids[0], ids[1], assume_unique=True, return_indices=True)
    if not len(places[0]):
        return None
    met = [rows[at] for rows, at in zip(known, places, strict=True)]
    same = sides[0]["version"][met[0]] == sides[1]["version"][met[1]]
    for side, rows in zip(sides, met, strict=True):
        side["fate"][rows] = np.where(same, SAME, CHANGED)
    return [[_parted(side, place) for place in range(len(pieces))]
            for side, pieces in zip(sides, (removed, added), strict=True)]


def _rows(scan: Scan, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Of all rows, one behind the other: piece, position, id and version, and what becomes of them."""
    batches, counts = [], []
    for piece in pieces:
        decoded = list(read_data_file(scan, piece.file, positions=True, only=piece.only))
        batches += decoded
        counts.append(sum(batch.num_rows for batch in decoded))
    row_id, version = (column.name for column in scan.tracked)
    table = pa.Table.from_batches(batches, scan.schema.append(pa.field(ROW_POSITION, pa.int64())))
    known = table[row_id].is_valid().to_numpy() & table[version].is_valid().to_numpy()
    return {
        "piece": np.repeat(np.arange(len(pieces)), counts),
        "position": table[ROW_POSITION].to_numpy(),
        "known": known,
        "id": table[row_id].fill_null(-1).to_numpy(),
        "version": table[version].fill_null(-1).to_numpy(),
        "fate": np.full(table.num_rows, ALONE, np.int8),
    }


def _parted(side: Mapping[str, Any], piece: int) -> dict[int, BitMap64]:
    mine = side["piece"] == piece
    return {fate: BitMap64(side["position"][mine & (side["fate"] == fate)].astype(np.uint64))
            for fate in (ALONE, CHANGED, SAME)}
