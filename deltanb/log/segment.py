"""Which files of ``_delta_log`` make up a version: the log segment.

What lives here: the choice of checkpoint, compactions and commits that together cover every version up to a
given one. A version that nothing covers is an error that names it.
What it does not know: the content of the files. Only names are parsed.

Names that match no pattern (temporary files, ``.crc`` files, ``_staged_commits``, files of other
tools) are not part of the log.

>>> from deltanb.log.commits import commit_name
>>> names = [commit_name(v) for v in (3, 4)] + ["_delta_log/%020d.checkpoint.parquet" % 3]
>>> segment = choose(names)
>>> segment.version, segment.checkpoint
(4, ('_delta_log/00000000000000000003.checkpoint.parquet',))
>>> segment.files
((4, 4, '_delta_log/00000000000000000004.json'),)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from deltanb.errors import InvalidTable, VersionNotFound
from deltanb.log.bucket_commits import BucketCommits
from deltanb.log.checkpoint.names import CheckpointFiles, complete_checkpoints, parse_name
from deltanb.log.commits import LOG_FOLDER, Commits, commit_name, commits_among
from deltanb.store.base import LogStore

__all__ = ["LogSegment", "checksum_name", "choose", "find"]

_LOG_START = LOG_FOLDER + "/"
MAX_VERSION = 2**63 - 1  # a long, in every implementation
_COMPACTED = re.compile(r"_delta_log/(\d{20})\.(\d{20})\.compacted\.json")


@dataclass(frozen=True)
class LogSegment:
    """The files to replay for one version, oldest first.

    ``files`` holds (first version, last version, name): one version for a commit, several for a
    compaction. ``checkpoint`` is empty when replay starts at version 0.
    """

    version: int
    checkpoint_version: int | None
    checkpoint: tuple[str, ...]
    files: tuple[tuple[int, int, str], ...]
    commits: Mapping[int, str] = field(compare=False, repr=False, default_factory=dict)
    has_checksum: bool = field(compare=False, repr=False, default=False)


def checksum_name(version: int) -> str:
    """The file of a version's checksum.

    >>> checksum_name(1)
    '_delta_log/00000000000000000001.crc'
    """
    return f"{_LOG_START}{version:020}.crc"


def find(
    store: LogStore,
    version: int | None = None,
    hint: int | None = None,
    skip: frozenset[str] = frozenset(),
    commits: Commits | None = None,
) -> LogSegment | None:
    """The segment of a version (the latest one by default), or None without a log.

    ``hint`` is the version of ``_last_checkpoint``: the listing then starts there. A wrong hint
    costs a second listing and nothing else. In a bucket, a version before it is searched backwards.
    Checkpoints with a file in ``skip`` are left out. ``commits`` are those of the table, by default the files
    of the folder.

    Raises:
        VersionNotFound: the version is beyond the log, or was cleaned up.
        InvalidTable: a commit is missing and no checkpoint or compaction covers it.
    """
    if hint is not None and (version is None or hint <= version):
        listed = store.list_names(f"{_LOG_START}{hint:020}.")
        if any(checkpoint.version == hint for checkpoint in _checkpoints(listed)):
            with suppress(VersionNotFound, InvalidTable):
                return choose(listed, version, store.root, skip, commits)
    if version is not None and isinstance(commits, BucketCommits):
        with suppress(VersionNotFound, InvalidTable):  # all names say what is wrong
            return _before(version, store, skip, commits)
    return choose(store.list_names(_LOG_START), version, store.root, skip, commits)


def _before(version: int, store: LogStore, skip: frozenset[str], commits: BucketCommits) -> LogSegment | None:
    """The segment of a version among as few names before it as have a checkpoint, or among all of them."""
    names: list[str] = []
    for names in commits.names_before(version):
        if _checkpoints(name for name in names if name not in skip):
            break
    return choose(names, version, store.root, skip, commits)


def choose(
    names: Iterable[str],
    version: int | None = None,
    root: str = "",
    skip: frozenset[str] = frozenset(),
    known: Commits | None = None,
) -> LogSegment | None:
    """The segment among listed names, as :func:`find` chooses it."""
    names = [name for name in names if name not in skip] if skip else list(names)
    commits = commits_among(names) if known is None else known.names(names)
    checkpoints = _checkpoints(names)
    if known is not None and known.is_managed:  # whoever wrote one above the newest did not ask the catalog
        checkpoints = [one for one in checkpoints if one.version <= max(commits, default=-1)]
    if not commits and not checkpoints:
        _refuse_incomplete(names, root)
        return None
    latest = max([*commits, *(checkpoint.version for checkpoint in checkpoints)])
    target = latest if version is None else version
    base = next((checkpoint for checkpoint in checkpoints if checkpoint.version <= target), None)
    start = 0 if base is None else base.version + 1
    if not 0 <= target <= latest:
        raise _version_not_readable(target, commits, checkpoints, latest, root)
    try:
        covered = _cover(names, commits, start, target, root)
    except InvalidTable:
        if version is not None and base is None and version < _earliest(commits, checkpoints):
            raise _version_not_readable(version, commits, checkpoints, latest, root) from None
        raise
    has_checksum = checksum_name(target) in names
    if base is None:
        return LogSegment(target, None, (), covered, commits, has_checksum)
    return LogSegment(target, base.version, base.names, covered, commits, has_checksum)


def earliest_version(names: Iterable[str], known: Commits | None = None) -> int | None:
    """The first version that can be read: 0, or that of the oldest complete checkpoint."""
    names = list(names)
    commits = commits_among(names) if known is None else known.names(names)
    checkpoints = _checkpoints(names)
    return _earliest(commits, checkpoints) if commits or checkpoints else None


def _earliest(commits: dict[int, str], checkpoints: list[CheckpointFiles]) -> int:
    if 0 in commits:
        return 0
    return min((checkpoint.version for checkpoint in checkpoints), default=min(commits, default=0))


def _version_not_readable(
    target: int,
    commits: dict[int, str],
    checkpoints: list[CheckpointFiles],
    latest: int,
    root: str,
) -> VersionNotFound:
    earliest = _earliest(commits, checkpoints)
    return VersionNotFound(
        f"version {target} of {root} cannot be read: the log holds versions {earliest} to {latest}",
        version=target, earliest=earliest, latest=latest, path=root,
    )


def _cover(
    names: list[str], commits: dict[int, str], start: int, target: int, root: str
) -> tuple[tuple[int, int, str], ...]:
    """Commits and compactions for start..target; the longest compaction that fits comes first."""
    compactions: dict[int, tuple[int, str]] = {}
    for name in names:
        match = _COMPACTED.fullmatch(name) if name.endswith(".compacted.json") else None
        if match:
            first, last = int(match[1]), int(match[2])
            if first >= start and first < last <= target and last > compactions.get(first, (0,))[0]:
                compactions[first] = last, name
    covered = []
    at = start
    while at <= target:
        if at in compactions:
            last, name = compactions[at]
            covered.append((at, last, name))
            at = last + 1
        elif at in commits:
            covered.append((at, at, commits[at]))
            at += 1
        else:
            raise _missing(at, start, target, names, root)
    return tuple(covered)


def _missing(at: int, start: int, target: int, names: list[str], root: str) -> InvalidTable:
    message = (
        f"the log of {root or 'the table'} has no version {at}: {commit_name(at)} is missing, "
        f"and no checkpoint covers it up to version {target}"
    )
    broken = _incomplete(names, at, target)
    if broken:
        message += f"; the checkpoint of {', '.join(broken)} is incomplete"
    way_out = "Restore the file from a backup or copy of the table"
    if at > start:
        way_out += f", or read an earlier version with snapshot_at({at - 1})"
    return InvalidTable(f"{message}. {way_out}", path=root, file=commit_name(at), version=at)


def _refuse_incomplete(names: list[str], root: str) -> None:
    """Refuse a folder that has only parts of checkpoints: it was a table once."""
    broken = _incomplete(names, 0, MAX_VERSION)
    if broken:
        raise InvalidTable(
            f"the log of {root or 'the table'} holds only an incomplete checkpoint "
            f"({', '.join(broken)}). Restore its missing parts or the commits from a backup",
            path=root, file=broken[0],
        )


def _checkpoints(names: Iterable[str]) -> list[CheckpointFiles]:
    """The complete checkpoints, best first; multi-part ones that lack a part do not count."""
    return complete_checkpoints(name for name in names if ".checkpoint" in name)


def _incomplete(names: Iterable[str], first: int, last: int) -> list[str]:
    """Files of checkpoints in a range of versions that lack a part."""
    whole = {name for checkpoint in _checkpoints(names) for name in checkpoint.names}
    rest = [name for name in names if ".checkpoint" in name and name not in whole]
    parsed = ((name, parse_name(name)) for name in sorted(rest))
    return [name for name, part in parsed if part and first <= part.version <= last]
