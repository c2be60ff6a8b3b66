"""Enforcement and constraints as part of a query: rows are checked while Spark writes them.

What lives here: the query that turns a frame into the table's columns and stops at the first row
that does not fit (:func:`checked`), and the way back from Spark's error to ours
(:func:`translated`). What it does not know: files. Which types fit, and which constraints there
are, is decided in ``engines/arrow/``.

A violating row calls ``raise_error`` with a JSON text that describes the violation. The call is in a
filter that Spark takes for nondeterministic, so the optimizer leaves it above every join, limit and
filter of the query: it sees exactly the rows that are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from deltanb.actions import Metadata
from deltanb.engines.arrow import enforce
from deltanb.engines.arrow.constraints import (
    MAX_SHOWN_CHARACTERS,
    MAX_SHOWN_VALUES,
    Check,
    Constraint,
    NotNull,
    constraints_of,
)
from deltanb.engines.arrow.generated import Plan
from deltanb.engines.spark.columns import column, converted, loses, spark_type
from deltanb.engines.spark.fill import computed
from deltanb.engines.spark.refusals import MARK, refusals
from deltanb.errors import (
    ConstraintViolation,
    DeltaError,
    InvalidSchema,
    SchemaMismatch,
    UnsupportedProtocol,
)
from deltanb.schema.types import ArrayType, DataType, MapType, StructField, StructType, to_arrow
from deltanb.sql import predicates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_UNFIT = "__deltanb_unfit"  # a column beside the table's: what of the row does not fit, as JSON


def checked(
    frame: DataFrame, metadata: Metadata, partition_columns: Sequence[str],
    checks: Sequence[Check] = (), plan: Plan | None = None, hidden: Sequence[StructField] = (),
) -> DataFrame:
    """The rows of ``frame`` in the table's columns, order and types; running it checks every row.

    ``plan`` says which columns the frame may lack; generated ones are computed here. ``hidden`` columns
    follow the table's unchanged.

    Void columns that do not partition are left out, since no file holds them. An empty text in a
    partition column is NULL (PROTOCOL.md, "Partition Value Serialization"). Run the result under
    :func:`translated`.

    Raises:
        SchemaMismatch: the columns do not fit; every difference is named.
        InvalidPredicate: a constraint that Spark cannot evaluate.
    """
    schema = metadata.schema
    schema_in = schema_of(frame)
    lacks = Plan(schema) if plan is None else plan
    lines = enforce.differences(
        _arrow_of(schema_in), StructType([*lacks.relaxed.fields, *hidden]), lacks.demanded(partition_columns))
    if lines:
        raise enforce.mismatch(lines)
    blank = {schema.field(name).name for name in partition_columns}
    fields = [field for field in schema.fields
              if str(field.type) not in ("void", "null") or field.name in blank]
    shaped = [_shaped(schema_in, field, field.name in blank).alias(field.name)
              for field in (*fields, *hidden)]
    unfit = _unfit(schema_in, fields)
    rows = frame.select(*shaped) if unfit is None else frame.select(*shaped, unfit.alias(_UNFIT))
    rows = computed(rows, lacks)
    guard = None if unfit is None else _raising(column(_UNFIT).isNotNull(), column(_UNFIT))
    names = "; ".join(c.sentence() for c in [*checks, *constraints_of(schema, metadata)]
                      if isinstance(c, Check))
    with refusals(f"evaluate a constraint of the table ({names})", names,
                  ". Correct the constraint, nothing was written"):
        return _guarded(rows, guard, [field.name for field in (*fields, *hidden)],
                        [*checks, *constraints_of(schema, metadata)], schema)


def _guarded(
    rows: DataFrame, guard: Column | None, names: Sequence[str], constraints: Sequence[Constraint],
    schema: StructType,
) -> DataFrame:
    """The named columns; a row that violates a constraint, or ``guard``, stops the query."""
    held = [name for name in names if name in schema.names]
    for number, constraint in enumerate(constraints):
        text = _text([F.lit(number).alias("constraint"), _row(held)])
        guard = _raising(_fails(constraint, schema), text, guard)
    if guard is None:
        return rows
    # Never false; that it is nondeterministic is what keeps the filter in its place.
    rows = rows.filter(guard.otherwise(F.monotonically_increasing_id() >= 0))
    return rows.select(*map(column, names))


def schema_of(frame: DataFrame) -> StructType:
    """The Delta schema of a frame.

    Raises:
        InvalidSchema: a column of a type that Delta does not have.
    """
    try:
        return StructType.from_json(frame.schema.json())
    except DeltaError as error:
        raise InvalidSchema(
            f"the frame has a column of a type that Delta does not know ({error}); cast it first"
        ) from None


def _arrow_of(actual: StructType) -> Any:
    try:
        return to_arrow(actual)
    except UnsupportedProtocol as error:
        name = error.column
        raise InvalidSchema(
            f"column {name!r} of the frame has type {error.features[0]}, which Delta has no type "
            "for; cast the column before writing it", column=name) from None


# --- conversion -----------------------------------------------------------------------------------

def _shaped(actual: StructType, field: StructField, blank_is_null: bool) -> Column:
    source = actual.get(field.name)
    if source is None:
        return F.lit(None).cast(spark_type(field.type))
    made = converted(column(source.name), source.type, field.type)
    if blank_is_null and str(spark_type(field.type).typeName()) in ("string", "binary"):
        return F.when(F.length(made) > 0, made)
    return made


def _unfit(actual: StructType, fields: Sequence[StructField]) -> Column | None:
    """NULL for a valid row, else a text with the column and the value."""
    result = None
    for field in fields:
        source = actual.get(field.name)
        lost = None if source is None else loses(column(source.name), source.type, field.type)
        if source is None or lost is None:
            continue
        text = _text([F.lit(field.name).alias("column"), F.lit(str(field.type)).alias("type"),
                      column(source.name).alias("value")])
        result = F.when(lost, text) if result is None else result.when(lost, text)
    return result


def refused(lost: Column, path: str, target: DataType, value: Column) -> Column:
    """An expression that stops the query for an unfit value; add ``otherwise`` for fitting ones."""
    text = _text([F.lit(path).alias("column"), F.lit(str(target)).alias("type"), value.alias("value")])
    return F.when(lost, F.raise_error(text).cast(spark_type(target)))


# --- constraints ----------------------------------------------------------------------------------

def _fails(constraint: Constraint, schema: StructType) -> Column:
    if isinstance(constraint, Check):
        return ~F.coalesce(F.expr(constraint.expression).cast("boolean"), F.lit(False))
    source, type_ = column(constraint.path[0]), schema.field(constraint.path[0]).type
    for name in constraint.path[1:]:
        if isinstance(type_, ArrayType):
            return F.coalesce(F.exists(source, F.isnull), F.lit(False))
        if isinstance(type_, MapType):
            return F.coalesce(F.exists(F.map_values(source), F.isnull), F.lit(False))
        assert isinstance(type_, StructType)
        source, type_ = source.getField(name), type_.field(name).type
    return source.isNull()


def _row(names: Sequence[str]) -> Column:
    return F.struct(*(column(name) for name in names)).alias("row")


def _text(parts: Sequence[Column]) -> Column:
    return F.concat(F.lit(MARK), F.to_json(F.struct(*parts), {"ignoreNullFields": "false"}))


def _raising(failed: Column, text: Column, before: Column | None = None) -> Column:
    stop = F.raise_error(text).cast("boolean")
    return F.when(failed, stop) if before is None else before.when(failed, stop)


# --- errors ---------------------------------------------------------------------------------------

@contextmanager
def translated(
    schema: StructType, metadata: Metadata, checks: Sequence[Check] = ()
) -> Iterator[None]:
    """Turn what a checked query raises into the errors of this library.

    Raises:
        ConstraintViolation: ``.constraint``, and ``.row`` with values as JSON has them. Spark's rows
            have no number, so ``.row_number`` is None.
        SchemaMismatch: a value does not fit (``.column``, ``.value``).
    """
    try:
        yield
    except Exception as error:
        marked = _marked(error)
        if marked is None:
            raise
        if "constraint" in marked:
            constraint = [*checks, *constraints_of(schema, metadata)][marked["constraint"]]
            raise _violation(constraint, schema, marked["row"]) from None
        raise _does_not_fit(marked) from None


def _marked(error: Exception) -> dict[str, Any] | None:
    """The text of our own ``raise_error``, wherever Spark put it."""
    texts = [str(error)]
    if isinstance(error, PySparkException):
        texts.insert(0, (error.getMessageParameters() or {}).get("errorMessage", ""))
    for text in texts:
        start = text.find(MARK + "{")
        if start >= 0:
            try:
                decoded = json.JSONDecoder().raw_decode(text, start + len(MARK))[0]
            except ValueError:
                continue
            return decoded if isinstance(decoded, dict) else None
    return None


def _violation(
    constraint: Constraint, schema: StructType, row: dict[str, Any]
) -> ConstraintViolation:
    if isinstance(constraint, NotNull):
        says = f"NOT NULL constraint on column {constraint.column!r} is violated by a row:"
        shown = list(dict.fromkeys([constraint.path[0], *row]))
    else:
        says = f"{constraint.sentence()} is not TRUE for a row:"
        shown = _mentioned(constraint.expression, schema) or list(row)
    lines = [f" - {name} : {_short(row.get(name))}" for name in shown[:MAX_SHOWN_VALUES]]
    if len(shown) > MAX_SHOWN_VALUES:
        lines.append(f" - … {len(shown) - MAX_SHOWN_VALUES} more columns")
    return ConstraintViolation(
        "\n".join([says, *lines, "nothing was written"]),
        constraint=constraint.name, row=row, row_number=None,
        expression=getattr(constraint, "expression", None),
        column=getattr(constraint, "column", None))


def _mentioned(expression: str, schema: StructType) -> list[str]:
    """The columns of a condition, if this library can parse it."""
    try:
        return sorted({path[0] for path in predicates.parse(expression, schema).column_paths})
    except DeltaError:
        return []


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def _does_not_fit(details: dict[str, Any]) -> SchemaMismatch:
    name, target, value = details["column"], details["type"], details.get("value")
    return SchemaMismatch(
        f"the data does not fit the table: column {name!r} is {target}, and the value {value!r} "
        "does not fit; nothing was written. Change the value, or give the column a wider type",
        differences=[f"~ {name}: value {value!r} does not fit {target}"],
        column=name, value=value, row=None)
