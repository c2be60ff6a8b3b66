"""When each version was committed, and the version of a time.

What lives here: the rules for commit times (in-commit timestamps, else modification times made monotonic),
and the search for the version of a time.
What it does not know: what else a commit says (``history``), the state of the table at those versions.

PROTOCOL.md, "In-Commit Timestamps": from ``delta.inCommitTimestampEnablementVersion`` on a commit's
time is its ``inCommitTimestamp``; before that version, and without the feature, it is the
modification time of its file.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltanb.errors import DeltaError, InvalidArgument, TableNotFound, VersionNotFound
from deltanb.log.bucket_commits import BucketCommits
from deltanb.log.commits import LOG_FOLDER
from deltanb.log.lines import commit_info_of, whole_number

if TYPE_CHECKING:
    from deltanb.log.commits import Commits
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import FileStatus

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def shown_time(log: LogReader, version: int, info: Mapping[str, Any], modified: int | None) -> int | None:
    """The time of one commit in epoch milliseconds, as every view shows it: the in-commit timestamp where
    the table has these by now, else ``modified``, when its file was written, else what its writer says; None
    where nothing is known.

    ``info`` is its commitInfo, as the log has it; ``modified`` is as in :func:`file_times`. Where in-commit
    timestamps were switched off, those of earlier commits are not the table's times any more.

    >>> from deltanb.testing import TableBuilder
    >>> log = TableBuilder().create("id long").log
    >>> shown_time(log, 0, {"inCommitTimestamp": 3, "timestamp": 1}, 2)
    2
    >>> shown_time(log, 0, {"timestamp": 1}, None)
    1
    """
    stamp = _stamp(log, version, info)
    return _without_stamp(info, modified) if stamp is None else stamp


def _without_stamp(info: Mapping[str, Any], modified: int | None) -> int | None:
    """The time of a commit whose in-commit timestamp does not count."""
    if modified is not None:  # which may be before 1970
        return modified
    written = whole_number(info.get("timestamp"))
    return written if written is not None and written >= 0 else None


def _stamp(log: LogReader, version: int, info: Mapping[str, Any]) -> int | None:
    """The in-commit timestamp of a commit, where the table has these by now."""
    stamp = in_commit(info, -1)
    if stamp < 0:  # so that it does not matter what the table says of them
        return None
    switched_on = _switched_on(log)
    return stamp if switched_on is not None and version >= switched_on[0] else None


def time_of(log: LogReader, version: int, info: Mapping[str, Any]) -> int | None:
    """As :func:`shown_time`, of a version; the store is asked when its file was written, if that counts."""
    stamp = _stamp(log, version, info)
    if stamp is not None:
        return stamp
    modified = None
    with suppress(OSError, DeltaError):  # a view of a commit does not fail for want of its file's time
        modified = _file_time(log, version)
    return _without_stamp(info, modified)


def known_time_of(snapshot: Snapshot) -> int | None:
    """As :func:`shown_time`, of a snapshot's version, without asking the store.

    That a file before its own is newer is known once commits were listed. A bucket has not said yet when it
    took a commit of our own.
    """
    log, version, seen = snapshot.log, snapshot.version, snapshot.commit_identity
    info, modified = dict(snapshot.last_commit_info or {}), getattr(seen, "modification_time", None)
    if isinstance(log.commits, BucketCommits):
        modified = log.commits.known_time(version)
        info.pop("timestamp", None)  # the writer's clock is not the bucket's
    status, time = log.known_times.get(version, (None, None))
    if status is not None and seen in (status, status.tag):
        modified = time
    elif modified is not None and version - 1 in log.known_times:
        modified = max(modified, log.known_times[version - 1][1] + 1)
    return shown_time(log, version, info, modified)


def time_of_snapshot(snapshot: Snapshot) -> int:
    """As :func:`shown_time`, of a snapshot's version; -1 without a table."""
    log, version = snapshot.log, snapshot.version
    if version < 0:
        return -1
    info: Mapping[str, Any] = snapshot.last_commit_info or {}
    if not info and _switched_on(log) is not None:
        with suppress(FileNotFoundError):
            info = _read_info(log, version)
    stamp = _stamp(log, version, info)
    if stamp is not None:
        return stamp
    modified = _file_time(log, version)
    if modified is None and (of_checkpoint := _modified(log, version)) != -1:
        modified = of_checkpoint
    time = _without_stamp(info, modified)
    return -1 if time is None else time


def _switched_on(log: LogReader) -> tuple[int, int | None] | None:
    """As :func:`enablement`, of the newest version that is known. Of a table that cannot be read, a timestamp
    in a commit stands for itself."""
    try:
        return enablement(log.snapshot)
    except (DeltaError, OSError):
        return 0, None


def timestamp_of(snapshot: Snapshot) -> int:
    """The time of a snapshot's version in epoch milliseconds, as the protocol has it; -1 without a table.

    In-commit timestamps count only where the table has them; the store is asked for what is not known.
    """
    version = snapshot.version
    if version < 0:
        return -1
    switched_on = enablement(snapshot)
    if switched_on is None or version < switched_on[0]:
        return _modified(snapshot.log, version)
    if snapshot._state.commit_info is not None:
        info = snapshot._state.info
    else:
        try:
            info = _read_info(snapshot.log, version)
        except FileNotFoundError:
            info = {}
    time = in_commit(info, -1)
    return time if time >= 0 else _modified(snapshot.log, version)


def _modified(log: LogReader, version: int) -> int:
    """When the commit's file was written; for a cleaned-up commit, the time of its checkpoint."""
    status = log.commits.status(version)
    if status is None:
        status = next(iter(log.store.list_from(f"{LOG_FOLDER}/{version:020}.")), None)
    return status.modification_time if status is not None else -1


def commit_times(
    log: LogReader, first: int, last: int, only: Collection[int] | None = None
) -> dict[int, int]:
    """Commit times (epoch ms) of the versions from ``first`` to ``last``, or some, that are in the log.

    Raises:
        TableNotFound: there is no table.
    """
    switched_on = enablement(existing(log))
    times = {v: at for v, at in file_times(log).items() if first <= v <= last and v in (only or (v,))}
    for version in times:
        if switched_on is not None and version >= switched_on[0]:
            times[version] = in_commit(_read_info(log, version), times[version])
    return times


def version_as_of(log: LogReader, when: int | str | dt.datetime) -> int:
    """The last version committed at or before a time, among those that can be read.

    A day alone means its midnight, as in Delta's ``TIMESTAMP AS OF``.

    Raises:
        VersionNotFound: before the first or after the last of them; the message names both.
        InvalidArgument: a time that cannot be understood.
        TableNotFound: there is no table.
    """
    moment = to_milliseconds(when)
    snapshot = existing(log)
    times = file_times(log)
    first = log.earliest_version()
    versions = sorted(v for v in times if first <= v <= snapshot.version)
    switched_on = enablement(snapshot)
    older = [v for v in versions if switched_on is None or v < switched_on[0]]
    newer = versions[len(older) :]

    def exact(version: int) -> int:
        if version not in newer_set:
            return times[version]
        return in_commit(_read_info(log, version), times[version])

    newer_set = frozenset(newer)
    if switched_on is not None and newer and moment >= (switched_on[1] or exact(newer[0])):
        candidates = newer
    else:
        candidates = older
    if versions and candidates and exact(candidates[0]) <= moment:
        chosen = candidates[bisect_right(candidates, moment, key=exact) - 1]
        if chosen != versions[-1] or moment == exact(chosen):
            return chosen
    earliest, latest = (versions[0], versions[-1]) if versions else (first, snapshot.version)
    bounds = [(v, exact(v)) for v in (earliest, latest) if v in times]
    raise VersionNotFound(
        f"{log.path} has no version for {_iso(moment)}: "
        + "; ".join(
            f"the {word} commit that can be read, version {v}, is of {_iso(at)}"
            for word, (v, at) in zip(("first", "last"), bounds, strict=False)
        )
        + ". Ask for a time between them, or for a version by number" + _about_day(when, bounds),
        version=None, earliest=earliest, latest=latest, timestamp=moment,
    )


def _about_day(when: int | str | dt.datetime, bounds: Sequence[tuple[int, int]]) -> str:
    """A hint to ask for the end of a day, if that has a version and its midnight has none."""
    try:
        day = dt.date.fromisoformat(when.strip()) if isinstance(when, str) else None
    except ValueError:
        return ""
    if day is None or not bounds:
        return ""
    end = dt.datetime.combine(day, dt.time(23, 59, 59, 999_000), dt.timezone.utc)
    (_, begin), (latest, last) = bounds[0], bounds[-1]
    if not to_milliseconds(day.isoformat()) < begin <= to_milliseconds(end):
        return ""
    note = f". A day alone means its midnight, {day}T00:00:00Z; "
    if to_milliseconds(end) > last:
        return f"{note}at its end the table is at version {latest}: ask for that"
    return f"{note}its end is {_iso(to_milliseconds(end))}"


def to_milliseconds(when: int | str | dt.datetime) -> int:
    """Epoch milliseconds of a time; without a zone it is taken as UTC.

    >>> to_milliseconds("1970-01-01T00:00:01Z"), to_milliseconds("1970-01-02"), to_milliseconds(5)
    (1000, 86400000, 5)
    """
    if isinstance(when, int) and not isinstance(when, bool):
        return when
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when.strip().replace("Z", "+00:00"))
        except ValueError:
            raise InvalidArgument(
                f"{when!r} is not a valid time; write it like '2026-11-20T10:00:00Z' or '2026-11-20'"
            ) from None
    if not isinstance(when, dt.datetime):
        raise InvalidArgument(
            f"a time is epoch milliseconds, a datetime or an ISO 8601 string, not {when!r}"
        )
    if when != when:
        raise InvalidArgument(f"expected a time, got {when!r}")
    if when.tzinfo is None:
        when = when.replace(tzinfo=dt.timezone.utc)
    return (when - _EPOCH) // dt.timedelta(milliseconds=1)


def _iso(milliseconds: int) -> str:
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def existing(log: LogReader) -> Snapshot:
    """The newest version of a table.

    Raises:
        TableNotFound: there is none.
    """
    snapshot = log.update()
    if snapshot.version < 0:
        raise TableNotFound(f"there is no Delta table at {log.path}", path=log.path)
    return snapshot


MAX_BEFORE = 1_000
"""Commits before one that are looked at for a file that is newer than its own: a page of a listing."""


def file_times(log: LogReader, commits: Commits | None = None) -> dict[int, int]:
    """Modification times by version, raised if a later file is older than an earlier one: of the log's
    commits, or of a view of them."""
    return raised(log, (commits or log.commits).listed())


def raised(log: LogReader, listed: Iterable[tuple[int, FileStatus]]) -> dict[int, int]:
    """Modification times of listed commits, oldest first, raised if a later file is older than an earlier
    one."""
    times: dict[int, int] = {}
    known: dict[int, tuple[FileStatus, int]] = {}
    before = None
    for version, status in listed:
        at = status.modification_time
        times[version] = before = at if before is None or at > before else before + 1
        known[version] = status, before
    log.known_times = dict(list(known.items())[-MAX_BEFORE:])
    return times


def _file_time(log: LogReader, version: int) -> int | None:
    """The same of one version; None if its commit was cleaned up."""
    return raised(log, log.commits.listed(max(0, version - MAX_BEFORE))).get(version)


def enablement(snapshot: Snapshot) -> tuple[int, int | None] | None:
    """(first version with in-commit timestamps, its time or None); None if they are off."""
    properties = snapshot.properties
    if properties.get("delta.enableInCommitTimestamps", "").lower() != "true":
        return None
    try:
        version = int(properties.get("delta.inCommitTimestampEnablementVersion", 0))
        time = properties.get("delta.inCommitTimestampEnablementTimestamp")
        return version, None if time is None else int(time)
    except ValueError:
        return 0, None


def in_commit(info: Mapping[str, Any], otherwise: int) -> int:
    """A commitInfo's in-commit timestamp in epoch milliseconds, if it has one."""
    value = info.get("inCommitTimestamp")
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _read_info(log: LogReader, version: int) -> dict[str, Any]:
    return commit_info_of(log.commits.read(version), version, log.path)
