"""What is known of each row: the version that last wrote it, those that last changed its columns.

What lives here: :class:`Answers`, filled by the ways to find out (``by_ids``, ``by_files``).
What it does not know: how either finds out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

UNKNOWN = -1
"""In place of a version."""

WAYS = {
    "row ids": "row commit versions, which the table keeps of every row",
    "feed": "files by the commits that added them and, where rows were rewritten, the change data feed",
    "versions": "files by the commits that added them and, where rows were rewritten, the rows before",
}
"""The ways, the surest first, and what each reads."""


class Answers:
    """Versions by row; ``columns`` are those whose last change is wanted, too."""

    def __init__(self, size: int, columns: Sequence[str]) -> None:
        self.rows: np.ndarray = np.full(size, UNKNOWN, np.int64)
        self.columns: dict[str, np.ndarray] = {name: np.full(size, UNKNOWN, np.int64) for name in columns}
        self.doubts: dict[str, np.ndarray] = {}
        """Why some answers are uncertain or missing: words -> which rows, as a mask."""
        self._ways: set[str] = set()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def open(self) -> np.ndarray:
        """The rows of which something is not known, as a mask."""
        return self.is_open(np.arange(len(self)))

    def is_open(self, rows: np.ndarray) -> np.ndarray:
        """Of which of some rows something is not known, as a mask."""
        mask: np.ndarray = self.rows[rows] == UNKNOWN
        for versions in self.columns.values():
            mask = mask | (versions[rows] == UNKNOWN)
        return mask

    @property
    def way(self) -> str:
        """The least sure way that was used."""
        used = [way for way in WAYS if way in self._ways]
        return used[-1] if used else next(iter(WAYS))

    def use(self, way: str) -> None:
        """Note that a way was used."""
        self._ways.add(way)

    def wrote(self, rows: np.ndarray, version: int) -> None:
        """A version wrote these rows, unless a later one is known."""
        unknown = rows[self.rows[rows] == UNKNOWN]
        self.rows[unknown] = version

    def changed(self, rows: np.ndarray, version: int, names: Sequence[str] | None = None) -> None:
        """A version changed columns of these rows (all by default), unless a later one is known."""
        for name in self.columns if names is None else names:
            versions = self.columns[name]
            versions[rows[versions[rows] == UNKNOWN]] = version

    def doubt(self, rows: np.ndarray, why: str) -> None:
        """Say why answers of these rows are uncertain or missing."""
        if len(rows):
            mask = self.doubts.setdefault(why, np.zeros(len(self), bool))
            mask[rows] = True
