"""What columns whose values the table generates must fulfil: generated, identity and default ones.

What lives here: the check of their metadata and of the expressions in it, when a transaction proposes them.
What it does not know: what that metadata means for rows (``schema/columns.py``,
``engines/arrow/generated.py``).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from deltanb.actions import Metadata
from deltanb.errors import InvalidPredicate, InvalidSchema, InvalidTable, UnsupportedPredicate
from deltanb.schema.columns import DEFAULT, GENERATION, KEYS, START, STEP, Identity
from deltanb.schema.paths import walk
from deltanb.schema.types import StructField, StructType, arrow_type
from deltanb.sql.coercion import spark_name

if TYPE_CHECKING:
    from deltanb.sql.row_expressions import Inspected


def verify(metadata: Metadata, before: Metadata | None = None) -> None:
    """Check such columns.

    Delta Spark reads such metadata of whole columns only and gives that of nested fields no force, so a
    nested one would promise values that nobody computes. Those that ``before`` has stay as they are.

    Raises:
        InvalidSchema: such metadata on a field inside a struct, array or map; an expression that is not
            valid SQL, names a column which is not there or is generated itself, gives another type or is not
            decided by one row; an identity column that is not a ``long``, has step 0 or partitions.
    """
    schema = metadata.schema
    _no_nested(schema, StructType(()) if before is None else before.schema)
    for field in schema.fields:
        if not any(key in field.metadata for key in KEYS):
            continue
        if sum(key in field.metadata for key in (GENERATION, START, DEFAULT)) > 1:
            raise _invalid(field, "can be only one of: generated, identity, or with a default")
        if GENERATION in field.metadata:
            _verify_generated(field, schema)
        elif DEFAULT in field.metadata:
            _verify_default(field)
        elif START in field.metadata or STEP in field.metadata:
            _verify_identity(field, metadata)


def _no_nested(schema: StructType, before: StructType) -> None:
    before_keys = {(path[-1], key, repr(field.metadata[key]))
            for path, field in walk(before) if len(path) > 1 for key in KEYS if key in field.metadata}
    for path, field in walk(schema):
        key = next((k for k in KEYS if k in field.metadata), None)
        if len(path) < 2 or key is None or (path[-1], key, repr(field.metadata[key])) in before_keys:
            continue
        name = ".".join(path)
        raise InvalidSchema(
            f"column {name!r} has {key}, but only whole columns can be generated, identity columns or have "
            f"defaults. Remove it from the field, or make {path[-1]!r} a column of its own", column=name)


def _verify_identity(field: StructField, metadata: Metadata) -> None:
    if str(field.type) != "long":
        raise _invalid(field, f"is an identity column of type {field.type}; make it long (BIGINT)")
    if field.name in metadata.partition_columns:
        raise _invalid(field, "is an identity column and cannot partition the table. Partition by another")
    try:
        Identity.of(field)
    except InvalidTable as error:
        raise _invalid(field, f"is not a valid identity column: {error}") from None


def _verify_generated(field: StructField, schema: StructType) -> None:
    """An expression of one row, over columns that come with the data, of the column's own type."""
    from deltanb.sql.row_expressions import ROW_FUNCTIONS

    sql = field.metadata[GENERATION]
    expression = _inspected(field, sql, schema, ROW_FUNCTIONS)
    for name in sorted({path[0] for path in expression.columns}):
        if name == field.name or GENERATION in schema.field(name).metadata:
            raise _invalid(field, f"is generated as {sql!r} from {name!r}, which is generated too. Use "
                                  "columns that come with the data")
    column_type = arrow_type(field.type, field.name)
    if str(field.type) == "variant":
        raise _invalid(field, "is generated and of type variant, whose values cannot be compared")
    if expression.type is not None and expression.type != column_type:
        raise _invalid(field, f"is {spark_name(column_type)} and generated as {sql!r}, which is "
                              f"{spark_name(expression.type)}. Give both one type, with a CAST")


def _verify_default(field: StructField) -> None:
    """An expression over no column that can be stored in this one."""
    from deltanb.sql.predicates import parse_value

    sql = field.metadata[DEFAULT]
    if not isinstance(sql, str) or sql.strip().lower() != "null":
        _inspected(field, sql, StructType(()), None)
    with suppress(UnsupportedPredicate):  # Spark will say
        try:
            if sql.strip().lower() != "null":
                parse_value(sql, StructType(()), field.type)
        except InvalidPredicate as error:
            raise _invalid_sql(field, sql, error) from None


def _inspected(
    field: StructField, sql: object, schema: StructType, functions: frozenset[str] | None
) -> Inspected:
    from deltanb.sql.row_expressions import inspect  # late: it loads the SQL parser

    try:
        return inspect(sql, schema, functions)
    except InvalidPredicate as error:
        raise _invalid_sql(field, sql, error) from None


def _invalid_sql(field: StructField, sql: object, error: InvalidPredicate) -> InvalidSchema:
    what = "generation expression" if GENERATION in field.metadata else "default"
    return InvalidSchema(f"the {what} of column {field.name!r} ({sql}) is invalid: {error}",
                         column=field.name)


def _invalid(field: StructField, problem: str) -> InvalidSchema:
    return InvalidSchema(f"column {field.name!r} {problem}", column=field.name)
