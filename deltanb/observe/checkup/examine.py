"""The checkup of a table: its newest version, its newest commits, its log and its store, asked in turn.

What lives here: :func:`checkup`, which version is looked at where the newest cannot be read, and the order of
the checks. A check that fails is a blind spot, and the others go on.
What it does not know: what any check finds (``kinds``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.commands.define.place import no_table
from deltanb.errors import DeltaError, UnsupportedProtocol
from deltanb.observe.checkup import commits, kinds
from deltanb.observe.checkup.clustering import check_clustering
from deltanb.observe.checkup.files import check_sizes, check_skew, check_vectors
from deltanb.observe.checkup.logs import check_checkpoint, check_log
from deltanb.observe.checkup.report import BlindSpot, Checkup, Finding
from deltanb.observe.checkup.rewrites import check_rewrites
from deltanb.observe.checkup.state import TableState
from deltanb.observe.checkup.statistics import check_statistics
from deltanb.observe.checkup.storage import check_storage
from deltanb.schema.protocol import check_readable, check_writable
from deltanb.text.safe_text import last_part
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore

MAX_TRIED = 3
"""Earlier versions that are tried where the newest cannot be read: before what is damaged, before a hole."""
FAILURES = (DeltaError, OSError, ValueError, TypeError, KeyError, pa.ArrowException)
"""What a damaged log makes a check fail with; anything else is a fault of this library."""


def checkup(
    path: str | os.PathLike[str] | LogStore, *, list_files: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Checkup:
    """What maintenance the table at a path needs, with the command for each finding; nothing is written.

    Unlike ``dn.open(path).checkup()`` it takes a table that is too damaged to be opened.

    Args:
        path: a folder, a URI, or a store, whoever writes the table there.
        list_files: whether to list the store for removed files and orphans; by default yes, in a bucket up to
            100,000 files.
        storage_options: access to a bucket, as in :func:`deltanb.open`.

    Returns:
        Findings, each with its figures, its command, and what that reads, writes and saves; and what was not
        looked at.

    Raises:
        TableNotFound: the place has no log.
        StorageError: the log cannot be listed.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> for name in ("Huey", "Dewey", "Louie") * 4:
    ...     _ = table.append({"name": [name]})
    >>> [(finding.kind, finding.command) for finding in checkup("ducks").findings]
    [('small-files', 'table.optimize()')]
    """
    return checkup_log(DeltaLog.for_table(path, storage_options), list_files=list_files)


def checkup_log(
    log: LogReader, version: int | None = None, list_files: bool | None = None
) -> Checkup:
    """:func:`checkup` of a log that is open; arguments and errors are those.

    Args:
        log: the table's.
        version: that of a table pinned to one; the newest by default. Of a past version neither the log nor
            the store is looked at: they are the newest one's.
        list_files: as there.
    """
    spots: list[BlindSpot] = []
    newest = log.commits.newest() if version is None else version
    if newest < 0:
        raise no_table(log.store)
    records = commits.read(log, newest)
    snapshot = _readable(log, newest, version is None, spots)
    table = last_part(log.path)
    spots += records.blind_spots
    if snapshot is None:
        return Checkup(table, newest, None, None, len(records.records), (), tuple(spots))
    state = TableState(snapshot, records, spots)
    findings = tuple(_findings(state, version is None, list_files))
    spots += _asked(state, "conditions", lambda: state.conditions.blind_spots)
    spots += _protocol(snapshot)
    return Checkup(
        table, snapshot.version, *_counts(state), len(records.records), findings, tuple(spots))


def _findings(state: TableState, is_newest: bool, list_files: bool | None) -> Iterator[Finding]:
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "small-files": lambda: check_sizes(state), "file-skew and partition-skew": lambda: check_skew(state),
        "vectors-due": lambda: check_vectors(state), "clustering-decay": lambda: check_clustering(state),
        "statistics-missing": lambda: check_statistics(state), "rewrites": lambda: check_rewrites(state)}
    if is_newest:
        checks |= {"checkpoint-age": lambda: check_checkpoint(state), "log-age": lambda: check_log(state),
                   "tombstones and orphans": lambda: check_storage(state, list_files)}
    for what, check in checks.items():
        yield from _asked(state, what, lambda check=check: list(check()))  # type: ignore[misc]


def _asked(state: TableState, what: str, ask: Callable[[], Any]) -> Any:
    """What a check gives; nothing, and a blind spot with its failure, where it cannot be made."""
    try:
        return ask()
    except FAILURES as error:
        state.blind_spots.append(kinds.blind_spot(
            "check", [state.snapshot.version], f"{what}: {' '.join(str(error).split())}"))
        return []


def _readable(log: LogReader, newest: int, is_newest: bool, spots: list[BlindSpot]) -> Snapshot | None:
    """The version, or the nearest one before it that can be read."""
    try:
        return log.update() if is_newest else log.snapshot_at(newest)
    except FAILURES as error:
        failure = error
    for version in _candidates(log, newest, failure):
        try:
            snapshot = log.snapshot_at(version)
        except FAILURES:
            continue
        spots.append(kinds.blind_spot("newest-version", [newest], str(failure)))
        return snapshot
    spots.append(kinds.blind_spot("no-version", [newest], str(failure)))
    return None


def _candidates(log: LogReader, newest: int, failure: Exception) -> list[int]:
    """Versions to try: the one before a damaged commit, the one before a hole, the one before the newest."""
    listed = sorted(version for version, _ in log.commits.listed(0) if version <= newest)
    before = [newest - 1]
    name = str(getattr(failure, "data", {}).get("file") or "").rpartition("/")[2]
    if name[:20].isdigit():
        before.insert(0, int(name[:20]) - 1)
    holes = [one for one, after in pairwise(listed) if after > one + 1]
    return list(dict.fromkeys(one for one in (*before[:1], *holes[-1:], *before[1:]) if one >= 0))[:MAX_TRIED]


def _counts(state: TableState) -> tuple[int | None, int | None]:
    with suppress(*FAILURES):
        return len(state.files), state.files.total
    try:
        return state.snapshot.num_files, state.snapshot.size_in_bytes
    except FAILURES:
        return None, None


def _protocol(snapshot: Snapshot) -> list[BlindSpot]:
    """What this library cannot read or write, and so refuses the commands for."""
    try:
        check_readable(snapshot.protocol, snapshot.log.path)
        check_writable(snapshot.protocol, snapshot.metadata, snapshot.log.path)
    except UnsupportedProtocol as error:
        return [kinds.blind_spot("protocol", [snapshot.version], ", ".join(error.features) or str(error))]
    except FAILURES as error:
        return [kinds.blind_spot("protocol", [snapshot.version], str(error))]
    return []
