"""Log compaction files: the sum of a run of commits, in one file.

Lives here: which runs are worth one, writing and reading ``<x>.<y>.compacted.json`` (PROTOCOL.md, "Log
Compaction Files"). Replay may read one in place of the commits it covers.

Does not know: who writes one, or after what. The commits stay; a compaction holds no commitInfo and no change
files, so history and change feeds go on reading the commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from deltanb.actions import Action
from deltanb.concurrency.precedence import yield_to_commits
from deltanb.errors import InvalidArgument, StorageError, VersionNotFound
from deltanb.log.commits import commit_name
from deltanb.log.lines import parse_commit
from deltanb.log.replay import Delta, feed_actions
from deltanb.schema.protocol import check_writable

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.store.base import LogStore


RUN = 100
"""Versions of a compaction. So a thousand commits between two checkpoints, which a table of a million files
may have, are nine files and a hundred commits at most."""


def due_run(version: int, interval: int) -> tuple[int, int] | None:
    """The first and last version of the compaction that is due behind a version; None where none is.

    They lie behind the checkpoint that is due every ``interval`` versions: together they replace no commits
    that it replaces, too. Where checkpoints are as near as compactions would be, there are none.

    >>> due_run(100, 1000), due_run(200, 150), due_run(150, 1000), due_run(1000, 1000), due_run(100, 100)
    ((1, 100), (151, 200), None, None, None)
    """
    first = max(version - RUN, version // interval * interval) + 1
    return (first, version) if first < version and not version % RUN and interval > RUN else None


def compaction_name(start: int, end: int) -> str:
    """The name of the compaction of versions ``start`` to ``end``, both included.

    >>> compaction_name(4, 6)
    '_delta_log/00000000000000000004.00000000000000000006.compacted.json'
    """
    return f"_delta_log/{start:020d}.{end:020d}.compacted.json"


def write_compaction(
    log: LogReader, start: int, end: int, before: Callable[[], object] = lambda: None
) -> str:
    """Write the compaction of the commits ``start`` to ``end``, both included; returns its name.

    ``before`` is called when all is read, before the file is written.

    Raises InvalidArgument unless ``0 <= start < end`` and ``end`` is published, VersionNotFound if one of
    the commits is not in the log, InvalidTable if one is damaged, UnsupportedProtocol if the table may not
    be written.
    """
    if not 0 <= start < end:
        raise InvalidArgument(f"A compaction needs 0 <= start < end, not {start} and {end}.")
    yield_to_commits()
    snapshot = log.update()
    check_writable(snapshot.protocol, snapshot.metadata, log.path, writes_data=False)
    log.must_be_published(end, "compacted")
    delta = Delta()
    for actions in _commits(log, start, end, snapshot.version):
        feed_actions(delta, actions)
    text = "".join(action.to_json() + "\n" for action in _actions(delta))
    name = compaction_name(start, end)
    before()
    try:
        log.store.put_if_absent(name, text.encode())
    except StorageError:
        raise
    except OSError as error:  # there or not there: it says what the commits say
        raise StorageError.of(error, "written", f"{log.path}/{name}") from error
    return name


def read_compaction(store: LogStore, start: int, end: int) -> list[Action]:
    """The reconciled actions of a compaction file; FileNotFoundError if it is not there."""
    name = compaction_name(start, end)
    return parse_commit(store.read(name), name, store.root)


def _commits(log: LogReader, start: int, end: int, latest: int) -> Iterator[list[Action]]:
    """The actions of each commit; in a bucket many are read at a time."""
    commits = log.as_listed()[1]
    listed = {version: status.name for version, status in commits.listed(start)}
    names = {version: listed.get(version, commit_name(version)) for version in range(start, end + 1)}
    for (version, name), data in zip(names.items(), commits.read_many(names), strict=True):
        if data is None:
            raise VersionNotFound(
                f"Version {version} cannot be compacted: {commit_name(version)} is not in the log. "
                "Compact later versions.",
                version=version, earliest=log.earliest_version(), latest=latest)
        yield parse_commit(data, name, log.path)


def _actions(delta: Delta) -> Iterator[Action]:
    """One action per row; removed domains stay, because they hide those of earlier commits."""
    if delta.protocol is not None:
        yield delta.protocol
    if delta.metadata is not None:
        yield delta.metadata
    yield from delta.txns.values()
    yield from delta.domains.values()
    yield from delta.adds.values()
    yield from delta.removes.values()
