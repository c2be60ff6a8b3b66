"""Merging by equal columns: the condition that their names stand for, and keys that repeat.

What lives here: :func:`condition_of`, which turns names into SQL; :func:`check`, which refuses names that a
side does not have; :func:`repeated`, which finds a key that several rows of a source share.
What it does not know: clauses, files, Spark.

Keys are equal as ``=`` says: NULL equals nothing, so a source row with NULL in a key never matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.errors import InvalidArgument, MultipleSourceRowsMatched
from deltanb.schema.column_names import column_names, quoted_name, spelled
from deltanb.schema.types import backticked
from deltanb.sql.arrow_conditions import name_of
from deltanb.text.safe_text import shown

VALUES = ("true", "false", "null")
"""Words that are values in SQL, so that as a text they are conditions."""


def condition_of(on: Any, target_alias: str, source_alias: str) -> tuple[str, tuple[str, ...]]:
    """The condition as SQL, and the columns that it was given by, if it was.

    Raises:
        InvalidArgument: neither SQL nor names of columns.

    >>> condition_of(["id", "the day"], "target", "source")
    ('target.id = source.id AND target.`the day` = source.`the day`', ('id', 'the day'))
    >>> condition_of("`the day`", "t", "s")
    ('t.`the day` = s.`the day`', ('the day',))
    >>> condition_of("t.id = s.id", "t", "s")
    ('t.id = s.id', ())
    """
    if isinstance(on, str):
        if on.lower() in VALUES:
            return on, ()
        if quoted_name(on) is None and not on.strip().isidentifier():
            return on, ()
        on = on.strip()
    keys = _names(on)
    equalities = (f"{_sql(target_alias)}.{_sql(key)} = {_sql(source_alias)}.{_sql(key)}" for key in keys)
    return " AND ".join(equalities), keys


def _names(on: Any) -> tuple[str, ...]:
    try:
        return column_names(on, "on")
    except InvalidArgument:
        raise InvalidArgument(
            "the condition of a merge is SQL text, such as 'target.id = source.id', or columns that both "
            f"sides have, such as on=\"id\" or on=[\"id\", \"day\"]; found {shown(on)}") from None


def _sql(name: Any) -> str:
    name = str(name)
    return name_of(name) if name.isascii() else backticked(name)


def check(keys: Sequence[str], table: str, columns: Iterable[str], source: Iterable[str]) -> list[str]:
    """The keys as the source spells them, once both sides have them; names may differ in case.

    Raises:
        InvalidArgument: which column of ``on`` is missing where.

    >>> check(["ID"], "ducks", ["id", "name"], ["Id"])
    ['Id']
    """
    _spelt(keys, columns, f"table {table}")
    return _spelt(keys, source, "source")


def _spelt(keys: Sequence[str], columns: Iterable[str], side: str) -> list[str]:
    return spelled(keys, columns, f"on: the {side}", "Columns whose names differ are compared in SQL: "
                   'merge(…, on="target.id = source.key")')


def columns_of(on: Any, what: str) -> tuple[str, ...]:
    """The columns of ``on`` where it may not be SQL.

    Raises:
        InvalidArgument: it is a condition, or no name.
    """
    _, keys = condition_of(on, "target", "source")
    if not keys:
        raise InvalidArgument(
            f"{what}: on={shown(on)} is a condition; name the columns that tell rows apart, such as "
            "on=\"id\" or on=[\"id\", \"day\"], or use merge(source, on) with its clauses")
    return keys


def repeated(keys: Sequence[str], rows: pa.Table) -> tuple[dict[str, Any], int] | None:
    """A key without NULL that several rows have, and how many; None if keys are unique.

    >>> repeated(["id"], pa.table({"id": [None, 7, None, 7]}))
    ({'id': 7}, 2)
    """
    columns = [f"k{place}" for place in range(len(keys))]
    table = pa.table([rows[key] for key in keys], names=columns).drop_null()
    counts = table.group_by(columns, use_threads=False).aggregate([([], "count_all")])
    some = counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist()
    return ({key: some[0][column] for key, column in zip(keys, columns, strict=True)},
            some[0]["count_all"]) if some else None


def refusal(table: str, key: Mapping[str, Any], count: int) -> MultipleSourceRowsMatched:
    """The error for a key that several rows of a source have."""
    key_text = ", ".join(f"{name}={value!r}" for name, value in key.items())
    return MultipleSourceRowsMatched(
        f"the source has {count} rows with {key_text}, so what the row of table {table} becomes is "
        "ambiguous. Keep one row for each key, or name all columns that tell rows apart; nothing was written",
        table=table)
