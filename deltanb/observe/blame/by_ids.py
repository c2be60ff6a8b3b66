"""Blame by row commit versions: one read tells who last wrote each row.

What lives here: :func:`blame_by_ids`. For columns, a row is followed by its id from the commit that wrote it
to what it was before, among the rows that this commit removed.
What it does not know: tables without row tracking.

A row commit version tells nothing where a commit rewrote rows without keeping ids, as when ids were given to
rows that were there (ROW TRACKING BACKFILL): such rows stay open, for another way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from deltanb.actions import AddFile, RemoveFile
from deltanb.engines.arrow.data_file import Scan, plan
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.errors import DataFileNotFound, DeltaError
from deltanb.observe.blame.answers import UNKNOWN, Answers
from deltanb.observe.blame.commits import Commit, Commits
from deltanb.observe.blame.matching import changed_values
from deltanb.observe.blame.rows import Located, Part, read

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot


def blame_by_ids(
    commits: Commits, snapshot: Snapshot, located: Located, answers: Answers, ids: Sequence[np.ndarray],
) -> None:
    """Fill in what row ids tell; ``ids`` are the row ids and row commit versions, -1 where there is none."""
    row_ids, versions = ids
    is_known = (row_ids >= 0) & (versions >= 0) & (versions <= snapshot.version)
    for version in np.unique(versions[is_known]):
        commit = commits.at(int(version))
        if commit is not None and not commit.keeps_ids:
            is_known &= versions != version
    rows = np.flatnonzero(is_known)
    if not len(rows):
        return
    answers.use("row ids")
    answers.rows[rows] = versions[rows]
    if answers.columns:
        _Columns(commits, snapshot, answers).follow(rows, row_ids[rows], versions[rows], located.rows)


class _Columns:
    """Rows followed by their ids, from each commit that wrote them to the one before."""

    def __init__(self, commits: Commits, snapshot: Snapshot, answers: Answers) -> None:
        self.commits, self.snapshot, self.answers = commits, snapshot, answers
        self.names = tuple(answers.columns)
        self.tracked = columns_of(snapshot.metadata, snapshot.protocol)
        self.scan: Scan = plan(snapshot, self.names, row_ids=True)

    def follow(self, rows: np.ndarray, ids: np.ndarray, versions: np.ndarray, values: pa.Table) -> None:
        """Newest commits first: what a row was before is older than what it became."""
        versions = versions.copy()
        values = values.take(rows).select(self.names)
        waiting: np.ndarray = np.ones(len(rows), bool)
        while waiting.any():
            version = int(versions[waiting].max())
            here = np.flatnonzero(waiting & (versions == version))
            before = self._before(version, ids[here], rows[here])
            if before is None:
                waiting[here] = False
                continue
            old, places, old_versions = before
            fresh, older = here[places < 0], here[places >= 0]
            self.answers.changed(rows[fresh], version)
            waiting[fresh] = False
            before_them = places[places >= 0]
            for name in self.names:
                differs = changed_values(old.take(before_them), values.take(older), name)
                self.answers.changed(rows[older[differs]], version, [name])
            values = _with(values, older, old.take(before_them))
            versions[older] = old_versions[before_them]
            is_open = self.answers.is_open(rows[older])
            waiting[older] = is_open & (versions[older] >= 0) & (versions[older] < version)

    def _before(
        self, version: int, ids: np.ndarray, rows: np.ndarray
    ) -> tuple[pa.Table, np.ndarray, np.ndarray] | None:
        """The rows that a commit removed, for each id its place among them (-1 for none), and their row
        commit versions; None where that cannot be known."""
        commit = self.commits.at(version)
        if commit is None:
            self.answers.doubt(rows, f"the commit of v{version} cannot be read, so what its rows were before "
                                     "is not known")
            return None
        if not commit.keeps_ids:
            self.answers.doubt(rows, f"v{version} did not keep row ids, so what its rows were before is not "
                                     "known")
            return None
        try:
            gone = read(self.scan, removed_parts(self.commits, commit))
        except DataFileNotFound:
            self.answers.doubt(rows, f"the files that v{version} rewrote are gone (vacuumed): columns may "
                                     "have changed there or before")
            return None
        except DeltaError as error:
            self.answers.doubt(rows, f"the files that v{version} rewrote cannot be read: {error}")
            return None
        numbers, old_versions = (
            gone.rows[field.name].fill_null(UNKNOWN).to_numpy() for field in self.tracked)
        order = np.argsort(numbers, kind="stable")
        at = np.searchsorted(numbers[order], ids)
        at = np.minimum(at, max(0, len(order) - 1))
        is_there = numbers[order][at] == ids if len(order) else np.zeros(len(ids), bool)
        places = np.where(is_there, order[at] if len(order) else -1, -1)
        return gone.rows.select(self.names), places, old_versions


def _with(values: pa.Table, places: np.ndarray, others: pa.Table) -> pa.Table:
    """The rows with some of them replaced."""
    order: np.ndarray = np.arange(values.num_rows)
    order[places] = values.num_rows + np.arange(len(places))
    return pa.concat_tables([values, others.cast(values.schema)]).take(order)


def removed_parts(commits: Commits, commit: Commit) -> list[Part]:
    """The rows that a commit removed: of files, and in place by deletion vectors."""
    store = commits.log.store
    values_before = cache(lambda: _partition_values(commits.snapshot(commit.version - 1)))
    parts, vectors = [], VectorFiles()
    for key, file in commit.removed.items():
        added = commit.added.get(key)
        entry = _as_file(file, values_before)
        if added is None:
            parts.append(Part(entry))
            continue
        before, after = (vectors.load(store, one.deletion_vector, data_file=one.path)
                         for one in (file, added))
        if after - before:
            parts.append(Part(entry, after - before))
    return parts


def _partition_values(snapshot: Snapshot) -> dict[str, dict[str, str | None]]:
    """The partition values of a version's files, by path; empty where it is not partitioned."""
    if not snapshot.partition_columns:
        return {}
    rows = snapshot.select_files(["path", "partition_values"]).to_pylist()
    return {row["path"]: dict(row["partition_values"] or ()) for row in rows}


def _as_file(
    file: RemoveFile, values_before: Callable[[], Mapping[str, dict[str, str | None]]]
) -> AddFile:
    """A removed file as it was named before; its partition values are looked up if the removal lacks them."""
    values = file.partition_values
    if values is None:
        values = values_before().get(file.path, {})
    return AddFile(
        path=file.path, partition_values=dict(values), size=file.size or 0, modification_time=0,
        data_change=True, stats=getattr(file, "stats", None), deletion_vector=file.deletion_vector,
        base_row_id=file.base_row_id,
        default_row_commit_version=file.default_row_commit_version)
