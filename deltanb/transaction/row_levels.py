"""Row-level concurrency: how closely two transactions on the same files are told apart.

What lives here: the levels, and what each looks at; :class:`CloserLook`, what such a look showed.
What it does not know: how statistics, values or vectors are compared (``engines/arrow/closer_look.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument
from deltanb.options import options
from deltanb.schema import properties
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    from deltanb.actions import Action, CommitInfo, Metadata

PROPERTY = "deltanb.rowLevelConcurrency"
TAG = "deltanb.rowLevel"
"""The tag of a commit that passed another one at a row level: the level."""
MAX_LOOKS = 64
"""Vectors and statistics of files that a commit reads for one conflict."""

LOOKS = {
    "layout": "files that were only rewritten (`dataChange=false`) meet nobody who leaves their rows alone; "
    "rows that the later one took from them by deletion vectors are taken from the new files, if each of "
    "them is found there",
    "statistics": "an added file passes if its statistics exclude every row that was read",
    "values": "an added file passes if none of its rows was read; the file is opened",
    "vectors": "a file from which the winner took rows by a deletion vector passes if the later one read "
    "none of them; rows that it took itself are added to the vector. The file is opened where more of it was "
    "read than taken",
}
"""What may let a commit pass where partitions do not (delta-io/delta#7360)."""
ROW_LEVELS: dict[str, frozenset[str]] = {
    "off": frozenset(),
    "statistics": frozenset({"layout", "statistics"}),
    "values": frozenset({"layout", "statistics", "values"}),
    "vectors": frozenset({"layout", "vectors"}),
    "all": frozenset(LOOKS),
}
"""The levels (:data:`deltanb.options.ROW_LEVEL_NAMES`) -> which of :data:`LOOKS` each takes."""


@dataclass(frozen=True)
class CloserLook:
    """What a closer look at a winner's files showed.

    Invariant: a file is among ``added`` or ``removed`` only where it is proved that no row of it that the
    winner brought or took was read; what could not be looked at is left out, and ``doubts`` say why.
    """

    added: Mapping[str, str] = field(default_factory=dict)
    """Paths of added files that are no conflict -> which of :data:`LOOKS` shows it."""
    removed: Mapping[str, str] = field(default_factory=dict)
    """Alike, of removed files."""
    moved: frozenset[str] = frozenset()
    """Those files of the transaction's own actions whose actions no longer hold, for ``instead``."""
    instead: tuple[Action, ...] = ()
    """What takes their place: the same rows are taken, behind the winner."""
    followed: frozenset[str] = frozenset()
    """Files to which rows have moved that the transaction has read."""
    superseded: frozenset[str] = frozenset()
    """Files that were written before, and that the transaction no longer names."""
    doubts: tuple[str, ...] = ()
    """Why files stayed that may be no conflict."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


NOTHING_SEEN = CloserLook()


def require_level(row_level: Any) -> str | None:
    """A level that was given as an argument, or None.

    Raises:
        InvalidArgument: it is none.
    """
    if row_level is None or (isinstance(row_level, str) and row_level in ROW_LEVELS):
        return row_level
    raise InvalidArgument(f"row_level={shown(row_level)} is not one of {', '.join(ROW_LEVELS)}")


def level_of(metadata: Metadata) -> str:
    """The level of a table's transactions: the option ``row_level``; where it is None, the table's property.

    Raises:
        InvalidArgument: the property is no level.
    """
    if options.row_level is not None:
        return options.row_level
    return str(properties.get(metadata.configuration, PROPERTY))


def level_passed_at(info: CommitInfo) -> str:
    """The level at which a commit says that it passed another one; ``off`` where it does not."""
    tag = info.tags.get(TAG) if isinstance(info.tags, dict) else None
    return tag if isinstance(tag, str) and tag in ROW_LEVELS else "off"


def as_markdown() -> str:
    """The levels as the documentation prints them.

    >>> print(as_markdown().splitlines()[2])
    | `off` | nothing closer |
    """
    lines = ["| `row_level` | what is looked at |", "|---|---|"]
    for level, looks in ROW_LEVELS.items():
        lines.append(f"| `{level}` | {', '.join(one for one in LOOKS if one in looks) or 'nothing closer'} |")
    lines += ["", "| look | what lets a commit pass |", "|---|---|"]
    lines += [f"| {look} | {meaning} |" for look, meaning in LOOKS.items()]
    return "\n".join(lines) + "\n"
