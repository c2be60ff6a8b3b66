"""The content of one commit: its actions, sorted by what they do to the table.

What lives here: :class:`CommitContent`: files added, removed, or with rows deleted in place, with their sums,
and the lines of the commit in the log.
What it does not know: where commits are read (``commits``), the commitInfo (``history``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from deltanb.actions import Action, AddCDCFile, AddFile, FileAction, RemoveFile, decode_path
from deltanb.log.commits import commit_name
from deltanb.log.lines import parse_commit


@dataclass(frozen=True)
class FileSum:
    """A number of files, with their bytes and rows; None if unknown for one of them."""

    files: int
    size: int | None
    rows: int | None


class CommitContent:
    """The actions of one commit.

    ``data`` are the lines of the commit in the log; ``name`` and ``root`` are for errors.

    Raises:
        InvalidTable: a line that is not an action, naming file and line.

    >>> lines = b'{"txn":{"appId":"etl","version":4}}\\n{"remove":{"path":"a","dataChange":true}}'
    >>> content = CommitContent(lines)
    >>> content.counts, [file.path for file in content.removed], content.sums["removed"].files
    ({'txn': 1, 'remove': 1}, ['a'], 1)
    """

    def __init__(self, data: bytes, version: int = 0, root: str = "") -> None:
        self.lines: tuple[bytes, ...] = tuple(line for line in data.split(b"\n") if line.strip())
        """The lines, as they are in the log; one for each action."""
        self.actions: tuple[Action, ...] = tuple(parse_commit(data, commit_name(version), root))
        """The actions, in the order of the lines."""
        self.counts: dict[str, int] = dict(Counter(action.key for action in self.actions))
        """How many actions there are of each kind, by their names in the log."""
        adds = [a for a in self.actions if isinstance(a, AddFile)]
        gone = {decode_path(a.path): a for a in self.actions if isinstance(a, RemoveFile)}
        stayed = {path for add in adds if (path := decode_path(add.path)) in gone}
        self.added = tuple(a for a in adds if decode_path(a.path) not in stayed)
        """Files that came; those of :attr:`masked` are not among them."""
        self.removed = tuple(a for path, a in gone.items() if path not in stayed)
        """Files that went; those of :attr:`masked` are not among them."""
        self.masked = tuple((gone[path], a) for a in adds if (path := decode_path(a.path)) in stayed)
        """Files that stay and whose deletion vector changed: as they were, and as they are now."""
        self.change_data = tuple(a for a in self.actions if isinstance(a, AddCDCFile))
        """Files with the rows that changed, for the change data feed."""
        self.others = tuple(a for a in self.actions
                            if not isinstance(a, FileAction) and a.key != "commitInfo")
        """All that is no file, without the commitInfo: metadata, protocol, transactions, domains."""
        self.sums: dict[str, FileSum] = {
            "added": _sum(self.added), "removed": _sum(self.removed), "change data": _sum(self.change_data)}
        """Files, bytes and live rows, added up."""


def live_rows(file: FileAction) -> int | None:
    """Rows of a file that are not deleted; None where its statistics do not count them."""
    rows = file.num_records
    gone = file.deletion_vector.cardinality if file.deletion_vector is not None else 0
    return None if rows is None else rows - gone


def _sum(files: Sequence[FileAction]) -> FileSum:
    return FileSum(len(files), _total([file.size for file in files]), _total(list(map(live_rows, files))))


def _total(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)
