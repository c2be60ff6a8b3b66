"""Rows stored and deleted by their keys, as one MERGE.

What lives here: :func:`apply_changes`, which turns Python keys and rows into a source of typed columns and
the clauses of a merge; :func:`partition_for`, the partition of a row.
What it does not know: how a merge works (``merge``), its caller, whether keys are unique.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.commands.merge.merge import SOURCE_ALIAS, TARGET_ALIAS, MergeBuilder, Narrow, merge
from deltanb.commands.result import CommandResult
from deltanb.engines.arrow import generated
from deltanb.engines.arrow.enforce import nullable
from deltanb.engines.arrow.key_index import Key, KeyColumns, rank
from deltanb.engines.arrow.keyed_rows import KeyedRows
from deltanb.engines.arrow.row_values import column_of
from deltanb.errors import InvalidArgument
from deltanb.log.skipping.partitions import format_value
from deltanb.schema.types import StructType, backticked, to_arrow
from deltanb.sql.literals import text_literal
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

Changes = Mapping[tuple[Any, ...], Mapping[str, Any] | None]
"""By key: the row that is to be there, or None where none is."""

DELETED = 0
"""In place of the number of a kind of rows."""


def apply_changes(
    table: Any, key: Sequence[str], changes: Changes, *,
    partitions: Iterable[Sequence[str | None]] | None = None, rows: KeyedRows | None = None,
    user_metadata: str | None = None,
) -> CommandResult:
    """Store and delete rows by their keys, in one statement: a MERGE in the process.

    A row replaces those with its key, or is added if there are none. Columns that it lacks get their default,
    or NULL; generated columns are computed, and identity columns keep their values, or get new ones in new
    rows. NULL in a key equals NULL.

    Args:
        table: a table, also one with staged statements, or a ``DeltaLog``.
        key: names of columns.
        changes: rows by key (a tuple of one value for each column); None deletes the rows with that key.
        partitions: the partitions that may have rows with these keys, from
            :meth:`~deltanb.engines.arrow.keyed_rows.KeyedRows.partition_of`: others are not read, and commits
            there are no conflict. All by default.
        rows: a version's rows by the same key, whose knowledge of keys in files is reused.
        user_metadata: text to record in the commit.

    Returns:
        The version (None if nothing changed), and the metrics of a MERGE.

    Raises:
        InvalidArgument: no key of this table; a row with a column that the table does not have, with a value
            that does not fit, or that contradicts its key; a key twice.
        ConstraintViolation: a row does not satisfy the table's constraints; nothing was written.
        AppendOnlyTable: the table has ``delta.appendOnly=true``.
        DeltaConcurrentModificationException: another commit changed what was read.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Huey", "Daisy"], "hat": ["red", None]})
    >>> result = apply_changes(table, ["name"], {("Huey",): None, ("Louie",): {"hat": "green"}})
    >>> table.to_arrow().sort_by("name").to_pylist()
    [{'name': 'Daisy', 'hat': None}, {'name': 'Louie', 'hat': 'green'}]
    """
    log: DeltaLog = getattr(table, "log", table)
    snapshot = log.update()
    columns = KeyColumns(snapshot, key)
    if rows is not None and rows.key != columns.names:
        raise InvalidArgument(
            f"rows are by the key {list(rows.key)}, the changes by {list(columns.names)}; give both one key")
    if not changes:
        return CommandResult("MERGE", None, "log")
    source = _Source(snapshot, columns, changes, rows)
    on = _condition(snapshot, columns, source.keys, partitions)
    begin = getattr(table, "merge", None)  # of a handle, which may be one that is not to be written through
    builder = merge(log, source.table, on) if begin is None else begin(source.table, on)
    if rows is not None:
        builder = replace(builder, narrow=_narrowed(rows, source.keys))
    return source.clauses(builder).execute(engine="arrow", user_metadata=user_metadata)


def partition_for(
    snapshot: Snapshot, key: Sequence[str], key_values: Sequence[Any], row: Mapping[str, Any]
) -> tuple[str | None, ...]:
    """The partition of a row written by :func:`apply_changes`: the log's texts, in the order of the partition
    columns.

    Raises:
        InvalidArgument: as :func:`apply_changes`.

    >>> import deltanb as dn
    >>> table = dn.create("born", {"name": ["Huey"], "year": [1937]}, partition_by=["year"])
    >>> partition_for(table.snapshot, ["name"], ("Scrooge",), {"year": 1947})
    ('1947',)
    """
    if not snapshot.partition_columns:
        return ()
    rows = _Source(snapshot, KeyColumns(snapshot, key), {tuple(key_values): row}).table
    filler = generated.Filler(rows.schema.names, snapshot.metadata, snapshot.protocol, {})
    schema = to_arrow(nullable(snapshot.schema))
    arrays = [rows[one.name].combine_chunks() if one.name in rows.schema.names else pa.nulls(1, one.type)
              for one in schema]
    filled = filler.fill(pa.RecordBatch.from_arrays(arrays, schema=schema))
    fields = [snapshot.schema.field(name) for name in snapshot.partition_columns]
    return tuple(format_value(filled.column(one.name)[0].as_py(), one.type) for one in fields)


def _narrowed(rows: KeyedRows, keys: Sequence[Key]) -> Narrow:
    def narrow(snapshot: Snapshot, files: FileScan) -> FileScan:
        paths = rows.at(snapshot).paths_of(keys)
        if paths is None:
            return files
        known = pa.array(list(paths), pa.string())
        return FileScan(files.table.filter(pc.is_in(files.table["path"], value_set=known)))

    return narrow


def _condition(
    snapshot: Snapshot, columns: KeyColumns, keys: Sequence[Key],
    partitions: Iterable[Sequence[str | None]] | None,
) -> str:
    """The ON condition; null-safe if keys have NULLs."""
    parts = []
    for place, name in enumerate(columns.names):
        equal = "<=>" if any(key[place] is None for key in keys) else "="
        parts.append(f"{TARGET_ALIAS}.{backticked(name)} {equal} {SOURCE_ALIAS}.{backticked(name)}")
    if partitions is not None:
        parts += _within(snapshot, list(partitions))
    return " AND ".join(parts)


def _within(snapshot: Snapshot, partitions: Sequence[Sequence[str | None]]) -> list[str]:
    names = snapshot.partition_columns
    for values in partitions:
        if isinstance(values, str) or len(values) != len(names):
            raise InvalidArgument(f"a partition has one string or None for each of {list(names)}, "
                                  f"found {shown(values)}")
    conditions = []
    for place, name in enumerate(names):
        texts = sorted({values[place] or "" for values in partitions})
        column = f"{TARGET_ALIAS}.{backticked(name)}"
        listed = ", ".join(text_literal(text) for text in texts if text)
        known = [f"{column} IN ({listed})"] if listed else []
        known += [f"{column} IS NULL"] if "" in texts or not texts else []
        conditions.append(f"({' OR '.join(known)})")
    return conditions


# --- the source -----------------------------------------------------------------------------------

@dataclass(frozen=True)
class _Change:
    """One row of the source, by the schema's names; ``kind`` are the columns that the table computes."""

    key: Key
    row: dict[str, Any] | None
    kind: frozenset[str] = field(default_factory=frozenset)


class _Source:
    """The changes as a table: the columns of the rows and, if there are several kinds of rows, the number of
    the kind."""

    def __init__(
        self, snapshot: Snapshot, columns: KeyColumns, changes: Changes, rows: KeyedRows | None = None
    ) -> None:
        self._columns = columns
        self._schema = snapshot.schema
        self._table_gives = generated.plan((), snapshot.metadata, snapshot.protocol)
        self._snapshot = snapshot
        self._rows = rows
        self._changes = [self._change(key, row) for key, row in changes.items()]
        self.keys = [change.key for change in self._changes]
        _refuse_twice(columns, self.keys)
        kinds = dict.fromkeys(change.kind for change in self._changes if change.row is not None)
        self._kinds = {kind: number for number, kind in enumerate(kinds, DELETED + 1)}
        self._deletes = any(change.row is None for change in self._changes)
        self._marker = "change"
        while self._schema.get(self._marker) is not None:
            self._marker = "_" + self._marker

    @property
    def table(self) -> pa.Table:
        """The source of the merge."""
        names = [name for name in self._schema.names if name in self._columns.names or any(
            name not in kind for kind in self._kinds)]
        fields = nullable(StructType(self._schema.field(name) for name in names))
        rows = [dict(zip(self._columns.names, change.key, strict=True)) if change.row is None else change.row
                for change in self._changes]
        schema = to_arrow(fields)
        table = pa.Table.from_arrays(
            [column_of([row.get(one.name) for row in rows], one, schema.field(one.name).type)
             for one in fields.fields], schema=schema)
        if not self._is_mixed:
            return table
        numbers = [DELETED if change.row is None else self._kinds[change.kind] for change in self._changes]
        return table.append_column(self._marker, pa.array(numbers, pa.int32()))

    @property
    def _is_mixed(self) -> bool:
        return len(self._kinds) + self._deletes > 1

    def clauses(self, builder: MergeBuilder) -> MergeBuilder:
        """The merge with the clauses for each kind of rows."""
        if self._deletes:
            builder = builder.when_matched_delete(self._when(DELETED))
        for kind, number in self._kinds.items():
            builder = builder.when_matched_update_all(
                self._when(number), except_cols=sorted({*kind, *self._table_gives.identities}))
        for kind, number in self._kinds.items():
            builder = builder.when_not_matched_insert_all(self._when(number), except_cols=sorted(kind))
        return builder

    def _when(self, number: int) -> str | None:
        return f"{SOURCE_ALIAS}.{backticked(self._marker)} = {number}" if self._is_mixed else None

    # -- one row -------------------------------------------------------------------------------------

    def _change(self, key_values: tuple[Any, ...], values: Mapping[str, Any] | None) -> _Change:
        key = self._columns.normal(key_values)
        if values is None:
            return _Change(key, None)
        if not isinstance(values, Mapping):
            raise InvalidArgument(
                f"the row of key {shown(key)} is {shown(values)}; give a dict of columns and values, or None "
                "to delete what is there")
        row = self._named(values)
        for name, value in zip(self._columns.names, key, strict=True):
            new = self._columns.value(name, row[name]) if name in row else value
            if rank((new,)) != rank((value,)):
                raise InvalidArgument(
                    f"the row of key {shown(key)} has {name}={shown(new)}; to change a key, delete the row "
                    "and store a new one", column=name)
            row[name] = value
        return self._completed(key, row)

    def _named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The row with the schema's spelling of names."""
        row: dict[str, Any] = {}
        for name, value in values.items():
            field = self._schema.get(name) if isinstance(name, str) else None
            if field is None:
                hint, _ = did_you_mean(str(name), self._schema.names)
                raise InvalidArgument(f"a row has the column {shown(name)}, which the table does not have; "
                                      f"{hint}", column=str(name))
            if field.name in row:
                raise InvalidArgument(f"a row has column {field.name!r} twice", column=field.name)
            row[field.name] = value
        return row

    def _completed(self, key: Key, row: dict[str, Any]) -> _Change:
        """The row with missing defaults, and the columns that the table computes."""
        gives = self._table_gives
        for name, sql in gives.defaults.items():
            if name not in row:
                row[name] = generated.constant(sql, self._schema.field(name)).as_py()
        explicit = {name for name in gives.identities if row.get(name) is not None}
        kind = {*(name for name in gives.computed if name not in row), *(gives.identities.keys() - explicit)}
        if explicit:
            kind.update(self._unchanged(key, row, explicit))
        return _Change(key, row, frozenset(kind))

    @cached_property
    def _current_rows(self) -> KeyedRows:
        if self._rows is not None:
            return self._rows.at(self._snapshot)
        return KeyedRows(self._snapshot, self._columns.names)

    def _unchanged(self, key: Key, row: Mapping[str, Any], names: Collection[str]) -> Collection[str]:
        """The identity columns among ``names`` that have the row's values already.

        Raises:
            InvalidArgument: an existing row has another value, or only the table may generate values.
        """
        rows = self._current_rows.get(key)
        for name in names:
            values = [old[name] for old in rows]
            always = not self._table_gives.identities[name].explicit
            if any(value != row[name] for value in values) or (always and not values):
                raise InvalidArgument(
                    f"the row of key {shown(key)} has {name}={shown(row[name])}, and {name!r} is an identity "
                    "column, whose values the table generates; leave it out of the row", column=name)
        return names if rows else ()


def _refuse_twice(columns: KeyColumns, keys: Sequence[Key]) -> None:
    seen = set()
    for key in keys:
        if rank(key) in seen:
            raise InvalidArgument(f"the changes have the key {shown(key)} of {list(columns.names)} twice")
        seen.add(rank(key))
