"""The new rows that the clauses of a merge make, in the process.

What lives here: :class:`Outcome`, the new rows of a clause, or only their changed columns;
:func:`plain_column` and :func:`type_at`, for a value that is a plain column.
What it does not know: which rows these are, files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.commands.merge.clauses import MATCHED, Fields, Names, Resolved
from deltanb.commands.merge.on import Key
from deltanb.commands.merge.sides import inner
from deltanb.engines.arrow import assignments as assigning
from deltanb.engines.arrow.enforce import Enforcer, differences, mismatch, nullable, refuse_lacking
from deltanb.schema.types import DataType, StructField, StructType, to_arrow
from deltanb.sql import expressions as ex
from deltanb.sql import predicates
from deltanb.sql.syntax import identifiers, syntax


class Outcome:
    """The rows that a clause makes: its values, else the old ones, else NULL."""

    def __init__(self, names: Names, clause: Resolved, schema: StructType) -> None:
        self.arrow = to_arrow(nullable(schema))
        both = names.schema()
        self._target, self._is_matched = names.target_alias, clause.kind == MATCHED
        self.leaves = _leaves(both, schema, clause.tree, "", clause.evolves)
        self.generated = [
            (name, predicates.parse_value(sql, schema, schema.field(name).type))
            for name, sql in clause.generated.items()]

    def apply(self, rows: pa.Table, old: pa.RecordBatch | None) -> pa.RecordBatch:
        """The new rows, for rows of both sides and the target's rows in the new schema."""
        arrays = []
        for place, target in enumerate(self.arrow):
            before = pa.nulls(rows.num_rows, target.type) if old is None else old.column(place)
            leaf = self.leaves.get(target.name)
            arrays.append(before if leaf is None else _new(leaf, rows, before, target.name))
        made = pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
        for name, value in self.generated:
            place = made.schema.get_field_index(name)
            computed = value.evaluate(pa.Table.from_batches([made]), name)
            made = made.set_column(place, made.schema.field(place), computed)
        return made

    def changed(self, keys: Sequence[Key]) -> frozenset[str]:
        """The columns with a value of the clause, except those that have it already by ``keys``, which are
        equal on both sides."""
        same = dict(pair for key in keys for pair in _same(key)) if self._is_matched else {}
        return frozenset(name for name, leaf in self.leaves.items()
                         if not (isinstance(leaf, _Taken) and same.get(name) == leaf.path))

    def inputs(self, columns: Collection[str]) -> frozenset[str]:
        """The target's columns that the new ones are computed from."""
        return frozenset(path[1] for name in columns if name in self.leaves
                         for path in _paths(self.leaves[name]) if path[0] == self._target)

    def only(self, columns: Collection[str]) -> Outcome:
        """This outcome restricted to some columns."""
        outcome = copy(self)
        outcome.arrow = pa.schema([field for field in self.arrow if field.name in columns])
        outcome.leaves = {name: leaf for name, leaf in self.leaves.items() if name in columns}
        return outcome


def _same(key: Key) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The target's column and the source's if equal values have equal bytes, unlike -0.0 and 0.0."""
    target, source = key.target, key.source
    if (isinstance(target, ex.Column) and isinstance(source, ex.Column) and len(target.path) == 2
            and target.type.equals(source.type) and not t.is_floating(target.type)):
        yield target.path[1], source.path


def _paths(leaf: Any) -> Iterator[tuple[str, ...]]:
    """The columns of both sides that a value is computed from."""
    if isinstance(leaf, _Taken):
        yield leaf.path
    elif isinstance(leaf, _Parts):
        yield from [] if leaf.source is None else [leaf.source]
        for part in leaf.fields.values():
            yield from _paths(part)
    else:
        yield from leaf.column_paths


class _Taken:
    """A column of the source or target that is stored unchanged, of any type, also nested."""

    def __init__(self, path: tuple[str, ...], arrow_type: pa.DataType, field: StructField) -> None:
        self.path = path
        holder, struct = pa.schema([pa.field(field.name, arrow_type)]), StructType([field])
        lines = differences(holder, struct)
        if lines:
            raise mismatch(lines, "Change the type, or give a value with a CAST.")
        self.enforcer = Enforcer(holder, struct)

    def evaluate(self, rows: pa.Table) -> pa.Array:
        """The column's values in the target type."""
        array = inner(rows, self.path)
        batch = pa.RecordBatch.from_arrays([array], names=[self.enforcer.table.names[0]])
        return self.enforcer.apply(batch).column(0)


@dataclass(frozen=True)
class _Parts:
    """The new fields of a struct, by name; with ``source`` it stays NULL where that struct is, too."""

    fields: dict[str, Any]
    source: tuple[str, ...] | None


def _leaves(
    both: StructType, fields: StructType, tree: assigning.Tree, prefix: str, evolves: bool
) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, assigned in tree.items():
        field = fields.field(name)
        if isinstance(assigned, dict):
            assert isinstance(field.type, StructType)
            source = plain_column(both, assigned.source) if isinstance(assigned, Fields) else None
            inner = _leaves(both, field.type, assigned, f"{prefix}{name}.", evolves)
            leaves[field.name] = _Parts(inner, source)
            continue
        path = plain_column(both, assigned)
        if path is None:
            leaves[field.name] = predicates.parse_value(assigned, both, field.type)
            continue
        type_ = type_at(both, path)
        if not evolves:
            refuse_lacking(type_, field.type, prefix + field.name)
        arrow = to_arrow(nullable(StructType([StructField("x", type_)]))).field(0).type
        relaxed = nullable(StructType([StructField(prefix + field.name, field.type)])).fields[0]
        leaves[field.name] = _Taken(path, arrow, relaxed)
    return leaves


def plain_column(both: StructType, sql: str) -> tuple[str, ...] | None:
    """The path of the column if the SQL is one, over :meth:`Names.schema`; else None."""
    named = identifiers(syntax(sql))
    if named is None:
        return None
    path, current = [], both
    for part in named:
        field = current.get(part.name) if isinstance(current, StructType) else None
        if field is None:
            return None
        path.append(field.name)
        current = field.type  # type: ignore[assignment]
    return tuple(path)


def type_at(schema: StructType, path: Sequence[str]) -> DataType:
    """The type of a column or field."""
    current: Any = schema
    for name in path:
        current = current.field(name).type
    data_type: DataType = current
    return data_type


def _new(leaf: Any, rows: pa.Table, before: pa.Array, path: str) -> pa.Array:
    if isinstance(leaf, _Taken):
        return leaf.evaluate(rows)
    if not isinstance(leaf, _Parts):
        made = leaf.evaluate(rows, path)
        return made if made.type.equals(before.type) else made.cast(before.type)
    children = []
    for place, field in enumerate(before.type):
        child = pc.struct_field(before, [place])
        if field.name in leaf.fields:
            child = _new(leaf.fields[field.name], rows, child, f"{path}.{field.name}")
        children.append(child)
    nothing = None if leaf.source is None else pc.and_(
        before.is_null(), inner(rows, leaf.source).is_null())
    return pa.StructArray.from_arrays(children, fields=list(before.type), mask=nothing)
