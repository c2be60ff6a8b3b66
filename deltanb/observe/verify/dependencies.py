"""Which commit must come before which: dependencies that the log proves, and the cycles that they make.

What lives here: :class:`Dependencies`. One commit comes before another if that one removed what it added; if
it did not see what the other added and would have removed it; or if the other saw that it removed files, and
would have removed them itself. Reads count where partition values alone decide what they find.
What it does not know: which commits raced, the conflict rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.actions import AddFile, Metadata
from deltanb.actions.data_files import num_records_of
from deltanb.errors import DeltaError
from deltanb.transaction.operations import REPLACE_TABLE

if TYPE_CHECKING:
    from deltanb.observe.recorded import Recorded, Recorder
    from deltanb.observe.verify.isolation import Window

MAX_SPAN = 64
"""Versions among which a cycle is looked for, up to its last commit."""
_REMOVES_ALL_IT_FINDS = frozenset({"DELETE", "TRUNCATE", "UPDATE", "WRITE", *REPLACE_TABLE})
Edge = tuple[int, int, str]


class Dependencies:
    """The graph, of which no more is made than is asked for."""

    def __init__(self, recorder: Recorder, windows: Mapping[int, Window]) -> None:
        self.recorder, self.windows = recorder, windows
        self.recorded: dict[int, Recorded | None] = {}

    def cycle(self, version: int, other: int, edge: str = "") -> tuple[Edge, ...]:
        """Dependencies from a commit to an earlier one that it did not see, and back; none where an order
        explains both. ``edge`` is the first dependency, where it is known."""
        edge = edge or self._edge(version, other)
        if not edge:
            return ()
        before: dict[int, Edge] = {other: (version, other, edge)}
        queue = deque([other])
        while queue:
            at = queue.popleft()
            for following in self._near(version):
                if following in before or following == at:
                    continue
                closing = self._edge(at, following)
                if closing:
                    before[following] = (at, following, closing)
                    if following == version:
                        return _back(before, version, other)
                    queue.append(following)
        return ()

    def _near(self, version: int) -> Sequence[int]:
        return [one for one in range(max(0, version - MAX_SPAN), version + 1) if one in self.windows]

    def _edge(self, first: int, second: int) -> str:
        """Why the first one must come before the second one; empty if nothing proves it."""
        one, other = self.windows[first], self.windows[second]
        if one.added & other.removed:
            return "wr"
        if not self._sees(first, second) and self._covers(first, self._winner(second), "adds"):
            return "rw"
        sees = second > first and self._sees(second, first)
        return "ww" if sees and self._covers(second, self._winner(first), "removes") else ""

    def _sees(self, version: int, other: int) -> bool | None:
        """Whether a commit saw another one; None where its log does not say what it read."""
        if other >= version:
            return False
        read = self.windows[version].read_version
        return None if read is None else other <= read

    def _winner(self, version: int) -> Any:
        return self.recorder.commit(version)

    def _covers(self, version: int, commit: Any, which: str) -> bool:
        """Whether a commit would have removed some file of another, had it seen it."""
        files = [file for file in getattr(commit, which)
                 if num_records_of(file.stats) != 0 and file.partition_values is not None]
        recorded = self._transaction(version) if files else None
        if recorded is None or recorded.is_assumed:
            return False
        current = recorded.current
        if current.operation.name not in _REMOVES_ALL_IT_FINDS or current.is_blind_append:
            return False
        scans = [scan for scan in current.reads.scans
                 if scan.partitions is not None or len(scan.sql) == len(scan.partition)]
        as_added = [AddFile(path=file.path, partition_values=file.partition_values) for file in files]
        return any(any(scan.matches(as_added, current.schema, current.partition_columns)) for scan in scans)

    def _transaction(self, version: int) -> Recorded | None:
        if version not in self.recorded:
            read = self.windows[version].read_version
            try:
                self.recorded[version] = self.recorder.transaction(
                    version, version - 1 if read is None else read)
            except (DeltaError, OSError):
                self.recorded[version] = None
        return self.recorded[version]


def _back(before: Mapping[int, Edge], version: int, other: int) -> tuple[Edge, ...]:
    edges, at = [], version
    while at != other:
        edges.append(before[at])
        at = before[at][0]
    return (before[other], *reversed(edges))


def undoes(later: Metadata, earlier: Metadata, base: Metadata) -> list[str]:
    """What of an earlier commit's definition a later one, made from ``base``, has set back."""
    mine, theirs, old = _parts(later), _parts(earlier), _parts(base)
    return sorted(name for name in {**theirs, **old} if theirs.get(name) != old.get(name) == mine.get(name))


def _parts(metadata: Metadata) -> dict[str, Any]:
    return {"schema": metadata.schema_string, "partition columns": metadata.partition_columns,
            "name": metadata.name, "description": metadata.description, **metadata.configuration}
