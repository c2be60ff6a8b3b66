"""Maintenance of a catalog: checking its invariants, and cleaning up after crashes.

What lives here: :func:`check`, which checks every invariant and changes nothing, and :func:`sweep`, which
publishes unpublished versions and deletes files that belong to no table.
What it does not know: running transactions. Their files are protected by time and claims: a file is deleted
only when it is older than the grace period and can no longer be committed.

====================  ===================================================  ===============================
finding               what it means                                        what repairs it
====================  ===================================================  ===============================
unpublished           ratified, and not in the folder                      sweep publishes it
staged                a staged file that is no commit's                    sweep, after the grace period
garbage               a file that was recorded before it was written,      sweep, after the grace period
                      and that no commit has taken back
gap                   a version, or its file, is not there                 a backup
foreign               a file of the folder that the catalog never          move it away
                      ratified
diverged              a file of the folder is not what was ratified        move it away, then sweep
behind                what the catalog keeps of a table, or says in its    a backup of the database
                      history, is not what its log says
time                  in-commit timestamps do not rise                     a backup
stray                 rows of the database that no table has any more      a backup of the database
missing               the table's folder, or its metadata file, is gone    a backup, or drop the table
====================  ===================================================  ===============================
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deltanb.catalog.delta.commits import CatalogCommits, staged_name
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.delta.tables import GRACE
from deltanb.catalog.store.contents import delete_folder
from deltanb.catalog.store.history import newest_seq
from deltanb.catalog.store.ownership import PURGED, FolderNote, key_of, opened
from deltanb.catalog.store.rows import TableRow
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.log.commit_times import commit_times
from deltanb.log.commits import LOG_FOLDER, STAGED_FOLDER, FolderCommits, PublishedCommits
from deltanb.options import options
from deltanb.schema.protocol import CATALOG_MANAGED, CATALOG_TABLE_ID, supports
from deltanb.text.safe_text import get_logger
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltanb.catalog.store.store import CatalogStore, Tail
    from deltanb.store.base import FileStatus, LogStore

__all__ = ["Finding", "Swept", "check", "sweep"]

logger = get_logger("deltanb.catalog")

_ENABLED_AT = "delta.inCommitTimestampEnablementVersion"  # absent where they are on from the beginning
FAR, MOST = 2**62, 100_000
"""A time after all notes of garbage, and how many of them are looked at."""
_STAGED = re.compile(re.escape(STAGED_FOLDER) + r"/(\d{20})\.[^/]+\.json")


@dataclass(frozen=True)
class Finding:
    """A violated invariant, or something that can be cleaned up."""

    kind: str
    table: str | None
    message: str
    is_fault: bool
    """Whether something is wrong; else a sweep deals with it."""

    def __str__(self) -> str:
        return f"{'FAULT' if self.is_fault else 'note'}  {self.kind}  {self.table or '-'}: {self.message}"


@dataclass(frozen=True)
class Swept:
    """The result of a sweep."""

    published: dict[str, int]
    """Table -> the version up to which it was published now."""
    deleted: tuple[str, ...]
    """Files and folders that were nobody's."""
    left: tuple[str, ...]
    """What could not be done, with the reason."""

    def __str__(self) -> str:
        lines = [f"published {name} up to version {version}" for name, version in self.published.items()]
        lines += [f"deleted {path}" for path in self.deleted] + [f"left: {why}" for why in self.left]
        return "\n".join(lines) or "nothing to do"


# -- looking -----------------------------------------------------------------------------------------


def check(store: CatalogStore) -> list[Finding]:
    """Check all tables of a catalog and the recorded garbage; nothing is changed.

    Raises:
        StorageError: the database cannot be read.
    """
    findings: list[Finding] = []
    for row in store.every_table():
        try:
            findings += _delta(store, row) if row.delta is not None else _iceberg(row)
        except DeltaError as error:
            findings.append(Finding("missing", str(row.name), str(error), True))
    findings += [Finding("stray", None, f"rows of a table {table_id}, which has no name", True)
                 for table_id in store.stray_tables()]
    findings += [Finding("garbage", None, f"{path} ({reason})", False)
                 for path, reason in store.garbage.due(options.clock())]
    return findings


def _iceberg(row: TableRow) -> Iterator[Finding]:
    """Check that the metadata file exists and is valid."""
    folder, _, name = str(row.metadata_location).rpartition("/")
    try:
        parsed = json.loads(opened(folder).read(name))
        if not isinstance(parsed, dict) or ("table-uuid" not in parsed and parsed.get("format-version") != 1):
            yield Finding("missing", str(row.name), f"{row.metadata_location} is not the metadata of a "
                                                    "table", True)
    except (OSError, ValueError) as error:
        yield Finding("missing", str(row.name), f"{row.metadata_location}: {error}", True)


def _delta(store: CatalogStore, row: TableRow) -> Iterator[Finding]:
    assert row.delta is not None and row.table_id is not None
    name, folder = str(row.name), opened(row.delta.location)
    tail = store.tails([row.table_id])[row.table_id]
    commits = CatalogCommits(folder, store, row.table_id)
    commits.take(tail)
    finding = partial(Finding, table=name)
    if not any(True for _ in folder.list_from(f"{LOG_FOLDER}/")):
        yield finding(kind="missing", message=f"{folder.root} has no log", is_fault=True)
        return
    versions = [tail.published, *(commit.version for commit in tail.commits)]
    if any(b != a + 1 for a, b in pairwise(versions)) or versions[-1] != tail.latest:
        yield finding(kind="gap", is_fault=True, message=(
            f"latest version {tail.latest}, published {tail.published}, and in between the catalog has "
            f"{versions[1:]}"))
    yield from _in_folder(folder, commits, tail, finding)
    yield from _of_log(store, row, tail, commits, finding)
    for status, version in _stray(folder, tail):
        yield finding(kind="staged", is_fault=False, message=(
            f"{status.name} of version {version} does not belong to a commit"))


def _in_folder(
    folder: LogStore, commits: CatalogCommits, tail: Tail, finding: Any
) -> Iterator[Finding]:
    """Compare the folder with the catalog."""
    files = FolderCommits(folder).names()
    published = sorted(version for version in files if version <= tail.published)
    if not published or published[-1] != tail.published or any(b != a + 1 for a, b in pairwise(published)):
        yield finding(kind="gap", is_fault=True, message=(
            f"version {tail.published} is published, and the folder has {_ranges(published)}"))
    for version in sorted(version for version in files if version > tail.latest):
        yield finding(kind="foreign", is_fault=True, message=(
            f"{files[version]} is above the latest version {tail.latest}; it was written past the catalog"))
    for commit in tail.commits:
        try:
            body = commits.read(commit.version)
        except (DeltaError, FileNotFoundError) as error:
            yield finding(kind="gap", message=str(error), is_fault=True)
            continue
        if commit.version not in files:
            yield finding(kind="unpublished", is_fault=False, message=f"version {commit.version}")
        elif folder.read(files[commit.version]) != body:
            yield finding(kind="diverged", is_fault=True, message=(
                f"{files[commit.version]} is not the commit that was ratified"))


def _of_log(
    store: CatalogStore, row: TableRow, tail: Tail, commits: CatalogCommits, finding: Any
) -> Iterator[Finding]:
    """Compare the log, read through the catalog, with the catalog's record of it."""
    assert row.delta is not None and row.table_id is not None
    snapshot = DeltaLog(opened(row.delta.location), commits).snapshot_at(tail.latest)
    times = commit_times(snapshot.log, int(snapshot.properties.get(_ENABLED_AT, 0)), tail.latest)
    for (one, before), (two, after) in pairwise(sorted(times.items())):
        if after <= before:
            yield finding(kind="time", is_fault=True, message=(
                f"version {two} has the time {after}, and version {one} before it {before}"))
    if not supports(snapshot.protocol, CATALOG_MANAGED):
        yield finding(kind="behind", is_fault=True, message="its protocol has no catalogManaged: anybody who "
                      "knows its path can write it past the catalog")
    if row.delta.last_ict is not None and row.delta.latest == tail.latest \
            and row.delta.last_ict != snapshot.timestamp:
        yield finding(kind="behind", is_fault=True, message=(
            f"the catalog keeps the time {row.delta.last_ict}, its log says {snapshot.timestamp}"))
    seq = store.database.read(newest_seq)
    pointer = store.pointers_at(seq, [row.table_id]).get(row.table_id)
    now = store.tails([row.table_id])[row.table_id].latest
    if pointer != str(now) and store.database.read(newest_seq) == seq:
        yield finding(kind="behind", is_fault=True, message=(
            f"the catalog's history ends at version {pointer}, the table is at {now}"))


def _ranges(versions: list[int]) -> str:
    if not versions:
        return "no commit"
    return f"{len(versions)} commits from {versions[0]} to {versions[-1]}"


def _stray(folder: LogStore, tail: Tail) -> Iterator[tuple[FileStatus, int]]:
    """Staged files that the catalog does not name, with their versions."""
    named = {staged_name(commit.file_name) for commit in tail.commits if commit.file_name is not None}
    for status in folder.list_from(f"{STAGED_FOLDER}/"):
        match = _STAGED.fullmatch(status.name)
        if match is not None and status.name not in named:
            yield status, int(match[1])


# -- clearing away -----------------------------------------------------------------------------------


def sweep(store: CatalogStore, grace: int = GRACE) -> Swept:
    """Publish unpublished versions, and delete files that belong to no table.

    Args:
        grace: milliseconds for which unclaimed files are left alone. A staged file of a future version, and a
        file
            recorded as garbage, is claimed first, so that it can no longer be committed.

    Raises:
        StorageError: the database cannot be read or written.
    """
    published: dict[str, int] = {}
    deleted: list[str] = []
    left: list[str] = []
    now = options.clock()
    latest: dict[str, int] = {}  # by the start of the staged files' paths
    places = store.tables.places()
    for row in store.every_table():
        if row.delta is None:
            continue
        try:
            _require_no_link(row, places.get(str(row.table_id), ()))
            version = _publish(store, row)
            if version is not None:
                published[str(row.name)] = version
            gone, newest = _sweep_staged(store, row, now - grace)
            deleted += gone
            latest[f"{row.delta.location}/{STAGED_FOLDER}/"] = newest
        except (DeltaError, OSError) as error:
            left.append(f"{row.name}: {error}")
    store.forget_claims(partial(_is_over, latest))
    due = dict(store.garbage.due(now))
    for path in store.garbage.claim(due, now):
        try:
            deleted += _delete_garbage(store, path, due[path])
            store.garbage.forget([path])
        except (DeltaError, OSError) as error:
            left.append(f"{path}: {error}")
    return Swept(published, tuple(deleted), tuple(left))


def _require_no_link(row: TableRow, places: Collection[str]) -> None:
    """Refuse a table if its folder, or that of its staged files, is a link, which may lead into another log.

    ``places`` are its folders at its registration.
    """
    assert row.delta is not None
    staged = key_of(f"{row.delta.location}/{STAGED_FOLDER}")
    if staged.removesuffix(f"/{STAGED_FOLDER}") not in places:
        raise InvalidArgument(f"a link now leads from its folder to {staged}")


def _publish(store: CatalogStore, row: TableRow) -> int | None:
    """Publish a table's versions; returns the last one, or None if there was nothing to publish."""
    assert row.delta is not None and row.table_id is not None
    folder = opened(row.delta.location)
    commits = CatalogCommits(folder, store, row.table_id)
    tail = commits.look()
    if not tail.commits:
        return None
    log = DeltaLog(folder, commits)
    ManagedCommitter(store, row.name, row.table_id, log, log.snapshot_at(tail.published)).publish(tail.latest)
    commits.report()
    return tail.latest


def _is_over(latest: Mapping[str, int], path: str) -> bool:
    """Whether a staged file can no longer be ratified, because its version is taken."""
    start, _, name = path.rpartition("/")
    return int(name[:20]) <= latest.get(f"{start}/", -1)


def _sweep_staged(store: CatalogStore, row: TableRow, before: int) -> tuple[list[str], int]:
    """Delete staged files that are older than a time and not ratified; returns also the latest version."""
    assert row.delta is not None and row.table_id is not None
    folder = opened(row.delta.location)
    tail = store.tails([row.table_id])[row.table_id]
    old = [(status.name, version) for status, version in _stray(folder, tail)
           if status.modification_time < before]
    open_ones = {f"{folder.root}/{name}": name for name, version in old if version > tail.latest}
    claimed = store.claim_staged(row.table_id, open_ones) if open_ones else []
    gone = [name for name, version in old if version <= tail.latest] + [open_ones[path] for path in claimed]
    for name in gone:
        folder.delete(name)
    return [f"{folder.root}/{name}" for name in gone], tail.latest


def _delete_garbage(store: CatalogStore, path: str, reason: str) -> Iterable[str]:
    """Delete a file, or the folder of a table that was never registered or was purged."""
    folder, _, name = path.rpartition("/")
    parent, noted = opened(folder), FolderNote.of(reason)
    if noted is None:
        if parent.status(name) is None:  # it was never written
            return []
        parent.delete(name)
        return [path]
    if key_of(path) != path:
        raise InvalidArgument(f"a link now leads from there to {key_of(path)}")
    if store.tables.claims_on(path, [noted.table_id]).other is not None:
        return []  # it is a table's after all
    its_id = _table_id(opened(path))
    if its_id not in (None, noted.table_id):
        return []  # a table that no catalog has, made there meanwhile
    if noted.why != PURGED and its_id is None and _has_metadata(store, path):
        return []  # the same of an Iceberg table
    delete_folder(opened(path))
    return [path]


def _has_metadata(store: CatalogStore, path: str) -> bool:
    """Whether an Iceberg table is in a folder: one of whose files none is left of a commit that failed."""
    files = [f"{path}/{file.name}" for file in opened(path).list_from("metadata/")
             if ".metadata.json" in file.name]
    noted = {key_of(each) for each, _ in store.garbage.due(FAR, MOST)} if files else set()
    return not noted.issuperset(map(key_of, files))


def _table_id(folder: LogStore) -> str | None:
    """The id that a catalog gave to the table in a folder; "" if it is no catalog's, None without any."""
    log = DeltaLog(folder, PublishedCommits(folder))
    return log.snapshot.properties.get(CATALOG_TABLE_ID, "") if log.exists else None


