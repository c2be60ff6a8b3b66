"""Blame: for each row the commit that last wrote it, and for columns the commit that last changed the value.

What lives here: :func:`blame_of`, and :class:`Blame`, its result.
What it does not know: how a way finds out (``by_ids``, ``by_files``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deltanb.commands.read.diff import known_columns
from deltanb.engines.arrow.data_file import plan
from deltanb.engines.arrow.frames import library
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.errors import DeltaError, InvalidArgument, UnsupportedPredicate
from deltanb.log import commit_times
from deltanb.observe.blame.answers import UNKNOWN, Answers
from deltanb.observe.blame.by_files import Walk
from deltanb.observe.blame.by_ids import blame_by_ids
from deltanb.observe.blame.commits import Commits, key_of, reason_of
from deltanb.observe.blame.rows import Part, read
from deltanb.observe.tracks import name_writer
from deltanb.schema.column_mapping import mode_of
from deltanb.sql.conditions import text_of
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.text.safe_text import last_part
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    import pandas as pd

    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.schema.types import StructField, StructType
    from deltanb.sql.conditions import Where

FIELDS = {"version": pa.int64(), "operation": pa.string(), "writer": pa.string(),
          "timestamp": pa.timestamp("us", "UTC")}
"""What is said of a commit, in this order: columns ``_version``, …, and ``_NAME_version``, … for a column."""
FILE_COLUMNS = ("path", "partition_values", "size", "deletion_vector", "base_row_id",
                "default_row_commit_version")
"""What is read of the file list: how a file is read, and how large it is."""


@dataclass(frozen=True)
class Blamed:
    """A commit that wrote rows: what it says of itself, and how many rows it was the last to write."""

    version: int
    operation: str | None
    writer: str | None
    timestamp: int | None
    num_rows: int = 0


@dataclass(frozen=True)
class Doubt:
    """Why the commit of some rows is uncertain or not known, and of how many."""

    reason: str
    num_rows: int


@answer_wrong_arguments()
class Blame(Displayable):
    """Rows with the commits that last wrote them; see :meth:`deltanb.DeltaTable.blame`.

    ``method`` is the way in which they were found: ``row ids``, ``feed`` or ``versions``, the least sure one
    that was needed (:data:`~deltanb.observe.blame.answers.WAYS`). ``doubts`` say what is uncertain, and
    ``is_certain`` of which rows; ``version`` is the version of the table, ``columns`` are those asked for.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> _ = table.append({"id": [2]})
    >>> blame = table.blame()
    >>> blame.version, blame.to_arrow().sort_by("id")["_version"].to_pylist()
    (1, [0, 1])
    """

    def __init__(
        self, rows: pa.Table, answers: Answers, commits: Mapping[int, Blamed], table: str, version: int
    ) -> None:
        self._rows, self._answers, self._commits = rows, answers, commits
        self.table, self.version = table, version
        self.columns = tuple(answers.columns)
        self.method = answers.way

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    @cached_property
    def commits(self) -> tuple[Blamed, ...]:
        """The commits that were the last to write rows, newest first, with the number of rows.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> blame = dn.create(MemoryStore(), {"id": [1, 2]}).blame()
        >>> [(commit.version, commit.num_rows) for commit in blame.commits]
        [(0, 2)]
        """
        versions, counts = np.unique(self._answers.rows, return_counts=True)
        known = zip(versions[::-1].tolist(), counts[::-1].tolist(), strict=True)
        return tuple(replace(self._commits[version], num_rows=count)
                     for version, count in known if version != UNKNOWN)

    @property
    def num_unknown(self) -> int:
        """Rows whose commit is not known; their ``_version`` is null.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1, 2]}).blame().num_unknown
        0
        """
        return int((self._answers.rows == UNKNOWN).sum())

    @property
    def is_certain(self) -> pa.Array:
        """For each row whether everything said of it is certain.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1, 2]}).blame().is_certain.to_pylist()
        [True, True]
        """
        mask: np.ndarray = np.ones(len(self), bool)
        for doubt in self._answers.doubts.values():
            mask &= ~doubt
        return pa.array(mask)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why commits of rows are uncertain or not known.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1, 2]}).blame().doubts
        ()
        """
        return tuple(Doubt(reason, int(mask.sum())) for reason, mask in self._answers.doubts.items())

    @property
    def names(self) -> list[str]:
        """The names of the table's own columns.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> list(dn.create(MemoryStore(), {"id": [1]}).blame().names)
        ['id']
        """
        return list(self._rows.column_names)

    def to_arrow(self) -> pa.Table:
        """The rows with ``_version``, ``_operation``, ``_writer`` and ``_timestamp`` of the commit that last
        wrote each; and for each column asked for those that last changed its value, such as
        ``_amount_version``. What is not known is null.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).blame().to_arrow().column_names
        ['id', '_version', '_operation', '_writer', '_timestamp']
        """
        return self._whole

    @cached_property
    def _whole(self) -> pa.Table:
        return self.head(len(self))

    def head(self, limit: int) -> pa.Table:
        """The first rows of :meth:`to_arrow`.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": range(9)}).blame().head(2).num_rows
        2
        """
        table = self._rows.slice(0, limit)
        for prefix, versions in [("_", self._answers.rows), *(
                (f"_{name}_", versions) for name, versions in self._answers.columns.items())]:
            for name, values in self._columns_of(versions[:limit]).items():
                table = table.append_column(f"{prefix}{name}", values)
        return table

    def _columns_of(self, versions: np.ndarray) -> dict[str, pa.Array]:
        known, places = np.unique(versions, return_inverse=True)
        values_of: dict[str, list[Any]] = {name: [] for name in FIELDS}
        for version in known.tolist():
            one = self._commits.get(version, Blamed(version, None, None, None))
            micros = None if one.timestamp is None else one.timestamp * 1000
            values = (None if version == UNKNOWN else version, one.operation, one.writer, micros)
            for name, value in zip(FIELDS, values, strict=True):
                values_of[name].append(value)
        return {name: pa.array(values_of[name], kind).take(pa.array(places)) for name, kind in FIELDS.items()}

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """:meth:`to_arrow` as a pandas DataFrame; options are those of Arrow's ``to_pandas``.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> list(dn.create(MemoryStore(), {"id": [1]}).blame().to_pandas()["_version"])
        [0]
        """
        library("pandas", "blame().to_pandas")
        return self.to_arrow().to_pandas(**options)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def blame_of(
    log: LogReader, version: int, where: Where | None = None, columns: str | Sequence[str] | None = None,
    keys: str | Sequence[str] | None = None,
) -> Blame:
    """The blame of a table's rows at a version; see :meth:`deltanb.DeltaTable.blame`."""
    commits = Commits(log)  # type: ignore[arg-type]
    snapshot = commits.snapshot(version)
    names = () if columns is None else known_columns(columns, snapshot)
    key = None if keys is None else known_columns(keys, snapshot, "keys")
    _check_names(snapshot, names)
    tracked = columns_of(snapshot.metadata, snapshot.protocol)
    try:
        scan = plan(snapshot, None, None if where is None else text_of(where, lambda: snapshot.schema),
                    row_ids=True)
    except UnsupportedPredicate as reason:
        raise reason.or_else("blame all rows and choose among them") from None
    predicates = () if scan.predicate is None else (scan.predicate,)
    files = list(FileScan(snapshot.files_for_scan(*predicates, columns=FILE_COLUMNS)))
    located = read(scan, [Part(file) for file in files])
    answers = Answers(located.rows.num_rows, names)
    if tracked and not _is_clone(commits):
        ids = [located.rows[field.name].fill_null(UNKNOWN).to_numpy() for field in tracked]
        blame_by_ids(commits, snapshot, located, answers, ids)
    if answers.open.any():
        Walk(commits, snapshot, [key_of(file.path) for file in files], located, answers, key,
             scan.predicate).run()
    elif not len(answers) and not tracked:
        answers.use("versions")
    _begin_with_columns(commits, snapshot, answers)
    rows = located.rows.select(range(located.rows.num_columns - len(tracked)))
    name = getattr(log, "name", None) or snapshot.metadata.name or last_part(log.path)
    return Blame(rows, answers, dict(_blamed(commits, answers)), name, snapshot.version)


def _check_names(snapshot: Snapshot, names: Sequence[str]) -> None:
    """Refuse columns of the table that are called as ours are."""
    ours = {f"_{field}" for field in FIELDS} | {f"_{name}_{field}" for name in names for field in FIELDS}
    taken = sorted(ours & set(snapshot.schema.names))
    if taken:
        raise InvalidArgument(
            f"the table has a column {taken[0]!r}, which a blame adds; rename the column to blame its rows",
            column=taken[0])


def _is_clone(commits: Commits) -> bool:
    """Whether row commit versions may be those of another table, which this one was cloned from."""
    if 0 not in commits.log.commits.names():
        return False
    first = commits.at(0)
    return first is not None and first.operation == "CLONE"


def _begin_with_columns(commits: Commits, snapshot: Snapshot, answers: Answers) -> None:
    """Where a column was dropped or renamed and another one was added by its name, no value is older than
    this one: the commit that added it changed what the name shows."""
    if mode_of(snapshot.metadata, snapshot.protocol) == "none":
        return  # columns are their names
    for name, versions in answers.columns.items():
        known = versions[versions != UNKNOWN]
        if not len(known):
            continue
        field = snapshot.schema.field(name)
        without, added = int(known.min()), snapshot.version
        try:
            before = commits.snapshot(without).schema
            if name not in before or _has(before, field):
                continue
            while added - without > 1:
                middle = (without + added) // 2
                if _has(commits.snapshot(middle).schema, field):
                    added = middle
                else:
                    without = middle
        except (DeltaError, OSError) as error:
            answers.doubt(np.flatnonzero(versions < added), (
                f"whether {units.clean(name)} was another column before v{added} is not known: "
                f"{reason_of(error)}"))
            continue
        versions[(versions != UNKNOWN) & (versions < added)] = added


def _has(schema: StructType, field: StructField) -> bool:
    """Whether a schema has this very column, by whatever name."""
    return field.physical_name.lower() in {one.physical_name.lower() for one in schema}


def _blamed(commits: Commits, answers: Answers) -> Iterator[tuple[int, Blamed]]:
    """What is said of each version that is blamed for something."""
    versions = {int(v) for each in (answers.rows, *answers.columns.values()) for v in np.unique(each)}
    versions.discard(UNKNOWN)
    try:
        times = commit_times.commit_times(
            commits.log, min(versions), max(versions), versions) if versions else {}
    except (DeltaError, OSError):
        times = {}
    for version in versions:
        commit = commits.at(version)
        if commit is None:
            yield version, Blamed(version, None, None, times.get(version))
            answers.doubt(np.flatnonzero(answers.rows == version),
                          f"the commit of v{version} is no longer in the log")
            continue
        info = commit.info.to_value()
        yield version, Blamed(version, commit.operation or None, name_writer(info), times.get(version))


