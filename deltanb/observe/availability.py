"""Which versions of a table can still be read, and what the others lack.

What lives here: :func:`versions`: one listing of the log, one of the data files, and one pass over the
commits, which remembers only the files that are gone.
What it does not know: who deleted a file, or what files contain.

A version can be read if the log has its state (all commits since version 0 or since a checkpoint) and every
data file and deletion vector of that state is in the store.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.engines.arrow.deletion_vectors import vector_path
from deltanb.errors import DeltaError, InvalidTable, TableNotFound
from deltanb.log.checkpoint.names import complete_checkpoints
from deltanb.log.commits import LOG_FOLDER
from deltanb.log.lines import DAMAGED, NamedVector, decode_files
from deltanb.log.replay import file_key, key_array
from deltanb.store.paths import place_of
from deltanb.text.display import Displayable
from deltanb.text.safe_text import last_part
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.store.base import LogStore

__all__ = ["Gap", "Versions", "versions"]

MAX_NAMED = 20  # files that a gap names; there may be thousands
Kind = Literal["log", "damaged", "files"]


@dataclass(frozen=True)
class Gap:
    """A run of versions, ``first`` to ``last``, that cannot be read for one reason.

    ``kind``: ``log`` (cleaned up, and no checkpoint has the state), ``damaged`` (a commit or checkpoint is
    not valid; see ``detail``), ``files`` (``num_files`` data files or deletion vectors are gone; ``files``
    has the first of them).
    """

    first: int
    last: int
    kind: Kind
    num_files: int = 0
    files: tuple[str, ...] = ()
    detail: str = ""

    @property
    def reason(self) -> str:
        """Why these versions cannot be read, in words.

        >>> Gap(3, 9, "files", 14).reason, Gap(2, 2, "files", 1).reason
        ('14 of their files are gone (vacuumed)', '1 of its files is gone (vacuumed)')
        """
        owner = "its" if self.first == self.last else "their"
        if self.kind == "files":
            verb = "is" if self.num_files == 1 else "are"
            return f"{self.num_files} of {owner} files {verb} gone (vacuumed)"
        if self.kind == "log":
            return "the log was cleaned up: no checkpoint before"
        return self.detail

    def __str__(self) -> str:
        span = f"v{self.first}" if self.first == self.last else f"v{self.first} to v{self.last}"
        return f"{span}: {self.reason}"


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False)
class Versions(Displayable):
    """The versions of a table from 0 to ``last``; the readable ones are its members.

    >>> ducks = Versions("ducks", 5, (Gap(0, 1, "log"), Gap(4, 4, "files", 2)))
    >>> list(ducks), len(ducks), 4 in ducks, ducks.reason(4)
    ([2, 3, 5], 3, False, '2 of its files are gone (vacuumed)')
    """

    table: str
    last: int
    gaps: tuple[Gap, ...] = ()

    @property
    def runs(self) -> tuple[range, ...]:
        """The readable versions as runs without a gap.

        >>> Versions("ducks", 5, (Gap(0, 1, "log"), Gap(4, 4, "files", 2))).runs
        (range(2, 4), range(5, 6))
        """
        edges = [-1, *(edge for gap in self.gaps for edge in (gap.first, gap.last)), self.last + 1]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return tuple(range(low + 1, high) for low, high in pairs if high > low + 1)

    def __iter__(self) -> Iterator[int]:
        return (version for run in self.runs for version in run)

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def __contains__(self, version: object) -> bool:
        return any(version in run for run in self.runs)

    def reason(self, version: int) -> str | None:
        """Why a version cannot be read; None if it can.

        >>> versions = Versions("ducks", 5, (Gap(4, 4, "files", 2),))
        >>> versions.reason(4), versions.reason(5)
        ('2 of its files are gone (vacuumed)', None)
        """
        if 0 <= version <= self.last:
            return next((gap.reason for gap in self.gaps if gap.first <= version <= gap.last), None)
        return f"there is no version {version}: the newest is {self.last}"


def versions(log: LogReader, up_to: int | None = None) -> Versions:
    """Which versions of the table can be read, up to the newest one or ``up_to``.

    Raises:
        TableNotFound: there is no table.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> _ = table.overwrite({"name": ["Scrooge"]})
    >>> _ = table.vacuum(0, check=False)
    >>> readable = versions(table.log)
    >>> list(readable), str(readable.gaps[0])
    ([1, 2, 3], 'v0: 1 of its files is gone (vacuumed)')
    """
    names = log.store.list_names(LOG_FOLDER + "/")
    commits = set(log.commits.names(names))
    checkpoints = {checkpoint.version for checkpoint in complete_checkpoints(
        name for name in names if ".checkpoint" in name)}
    if not commits and not checkpoints:
        raise TableNotFound(f"there is no Delta table at {log.path}", path=log.path)
    last = max(commits | checkpoints)
    last = last if up_to is None else min(last, up_to)
    compactions = {int(name[32:52]): int(name[11:31]) for name in names if name.endswith(".compacted.json")}
    walk = _Walk(log, commits, checkpoints, compactions)
    for version in range(last + 1):
        walk.step(version)
    walk.close(last)
    name = last_part(log.path)
    return Versions(name, last, tuple(walk.gaps))


class _Walk:
    """A walk from version to version: is its state known, and which of its files are gone?

    Invariant: after ``step(v)``, ``known`` says whether the log has the state of v; if so, ``missing`` has
    exactly the files of v that are gone. It holds at the first version because nothing comes before it, and
    at each later one because the store is listed once: a file is present or gone for the whole walk, so a
    commit changes ``missing`` only by the files it names, and present files need no memory. After missing or
    damaged commits, the walk starts again at a checkpoint or compaction.
    """

    def __init__(
        self, log: LogReader, commits: set[int], checkpoints: set[int], ends: dict[int, int]
    ) -> None:
        self.log, self.commits, self.checkpoints = log, commits, checkpoints
        self.ends = ends
        """Compactions: last version -> first one."""
        self.present = _Present(log.store)
        self.known = True
        """Whether the state of the version before is known; that of version -1 is: nothing."""
        self.missing: dict[str, tuple[str, ...]] = {}
        """Of the files of the version, those that are gone: key -> names."""
        self.fresh: list[str] = []
        """Names that this version found gone."""
        self.gaps: list[Gap] = []
        self.detail = ""
        self.open: _Open | None = None
        self.states: dict[int, bool] = {}

    def step(self, version: int) -> None:
        """Advance to a version."""
        self.fresh = []
        follows = self.known and version in self.commits
        # Before any known version it is the start of the log that was cleaned up, which is no damage.
        if self.known and not follows and any(self.states.values()):
            self.detail = f"the commit of v{version} is missing"
        self.known = (follows and self._apply(version)) or self._jump(version)
        self.states[version] = self.known
        kind: Kind | None = "files" if self.missing else None
        if not self.known:
            kind, self.missing = "damaged" if self.detail else "log", {}
        self._note(version, kind)
        if self.known:
            self.detail = ""

    def _apply(self, version: int) -> bool:
        """Apply the commit that follows a known state."""
        try:
            lines = decode_files(self.log.commits.read(version))
        except (FileNotFoundError, *DAMAGED):
            lines = []
        if not lines:
            self.detail = f"the commit of v{version} is damaged"
            return False
        for line in lines:
            if line.add is not None:
                gone = self.present.missing(line.add.path, line.add.deletion_vector)
                key = file_key(line.add)
                if gone:
                    self.missing[key] = gone
                    self.fresh += gone
                elif self.missing:
                    self.missing.pop(key, None)
            elif line.remove is not None and self.missing:
                self.missing.pop(file_key(line.remove), None)
        return True

    def _jump(self, version: int) -> bool:
        """Take the state from a checkpoint or a compaction if the commits do not give it."""
        first = self.ends.get(version)
        covered = first is not None and (first == 0 or self.states.get(first - 1, False))
        if version not in self.checkpoints and not covered:
            return False
        try:
            files = self.log.snapshot_at(version).select_files(["path", "deletion_vector"])
        except (DeltaError, FileNotFoundError):
            self.detail = f"the checkpoint of v{version} is damaged"
            return False
        self.missing = self.present.missing_of(files)
        self.fresh = [name for gone in self.missing.values() for name in gone]
        return True

    def _note(self, version: int, kind: Kind | None) -> None:
        if self.open is not None and (self.open.kind, self.open.detail) != (kind, self.detail):
            self.close(version - 1)
        if kind is not None and self.open is None:
            names = {name for gone in self.missing.values() for name in gone}
            self.open = _Open(version, kind, names, self.detail)
        elif self.open is not None:
            self.open.names.update(self.fresh)

    def close(self, last: int) -> None:
        """End the run of versions that cannot be read, if there is one."""
        if self.open is None:
            return
        one, self.open = self.open, None
        named = tuple(sorted(one.names)[:MAX_NAMED])
        self.gaps.append(Gap(one.first, last, one.kind, len(one.names), named, one.detail))


@dataclass
class _Open:
    """A gap that has not ended yet."""

    first: int
    kind: Kind
    names: set[str]
    detail: str


class _Present:
    """Which files exist: the table's folder is listed once, other folders when a path leads to them."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.names = {status.name for status in store.list_all("")
                      if not status.name.startswith(LOG_FOLDER + "/")}
        self.elsewhere: dict[tuple[str, str], frozenset[str]] = {}

    def missing(self, path: str, vector: Any) -> tuple[str, ...]:
        """Which parts of a file are gone: the file, its deletion vector, both, or nothing."""
        gone = [] if path in self.names and "%" not in path else self._if_gone(path)
        if vector is not None:
            gone = [*gone, *self._vector(vector.storage_type, vector.path_or_inline_dv)]
        return tuple(gone)

    def missing_of(self, files: Any) -> dict[str, tuple[str, ...]]:
        """As :meth:`missing`, for a table of files: key -> names of what is gone.

        Arrow filters out the paths that exist; only the files in doubt become Python objects.
        """
        paths, vectors = files["path"], files["deletion_vector"]
        present = pc.and_(pc.is_in(paths, value_set=pa.array(list(self.names), pa.string())),
                        pc.invert(pc.match_substring(paths, "%")))
        doubt = files.filter(pc.or_(pc.invert(present), pc.is_valid(vectors)))
        keys = key_array(doubt["path"], doubt["deletion_vector"]).to_pylist()
        missing = {}
        for key, row in zip(keys, doubt.to_pylist(), strict=True):
            vector = row["deletion_vector"]
            gone = self.missing(row["path"], None if vector is None else NamedVector(
                vector["storage_type"], vector["path_or_inline_dv"], vector["offset"]))
            if gone:
                missing[key] = gone
        return missing

    def _vector(self, storage: str, text: str) -> list[str]:
        try:
            named = vector_path(storage, text)
            return [] if named is None else self._if_gone(*named)
        except DeltaError:
            return []  # damaged, which reading it will say

    def _if_gone(self, path: str, is_encoded: bool = True) -> list[str]:
        try:
            place = place_of(self.store, path, is_encoded=is_encoded)
        except InvalidTable:  # no file can have such a name
            return [path]
        if place.name is not None:
            exists = place.name in self.names or self._is_behind_a_link(place.name)
            return [] if exists else [place.name]
        target, name = place.opened()
        folder = posixpath.dirname(name)
        key = target.root, folder
        if key not in self.elsewhere:
            self.elsewhere[key] = frozenset(target.list_names(folder + "/" if folder else ""))
        return [] if name in self.elsewhere[key] else [place.address]

    def _is_behind_a_link(self, name: str) -> bool:
        """Whether a file exists though it is not listed; a listing follows no links."""
        return self.store.local_path(name) is not None and self.store.status(name) is not None


def spans(runs: Iterable[range]) -> str:
    """Runs of versions as text for a sentence.

    >>> spans([range(0, 3), range(5, 6)]), spans([])
    ('v0 to v2, v5', 'none')
    """
    return ", ".join(f"v{run[0]}" if len(run) == 1 else f"v{run[0]} to v{run[-1]}" for run in runs) or "none"
