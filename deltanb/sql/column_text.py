"""Columns and their types as SQL writes them.

What lives here: a type, and what stands around it: name, NOT NULL, comment.
What it does not know: expressions of columns, tables.
"""

from __future__ import annotations

from deltanb.schema.paths import quoted
from deltanb.schema.types import CHAR_KEY, TYPES, ArrayType, DataType, MapType, StructField, StructType
from deltanb.sql.literals import text_literal

__all__ = ["comment_text", "named_text", "null_text", "type_text"]


def type_text(data_type: DataType) -> str:
    """A type as SQL writes it.

    >>> from deltanb.schema.ddl import parse_type
    >>> type_text(parse_type("array<struct<a: long NOT NULL, `b c`: map<string, int>>>"))
    'array<struct<a: bigint NOT NULL, `b c`: map<string, int>>>'
    """
    match data_type:
        case StructType():
            return f"struct<{', '.join(map(_nested, data_type.fields))}>"
        case ArrayType():
            return f"array<{type_text(data_type.element_type)}>"
        case MapType():
            return f"map<{type_text(data_type.key_type)}, {type_text(data_type.value_type)}>"
    names = TYPES.get(str(data_type))
    return str(data_type) if names is None or not names.sql else names.sql[0]


def _nested(field: StructField) -> str:
    return f"{named_text(field, ':')}{null_text(field)}{comment_text(field)}"


def named_text(field: StructField, colon: str = "") -> str:
    """A column's name and type; ``colon`` comes between those of a nested field."""
    data_type = field.metadata.get(CHAR_KEY) or type_text(field.type)
    return f"{quoted([field.name])}{colon} {data_type}"


def null_text(field: StructField) -> str:
    """What follows the type of a column that is never NULL."""
    return "" if field.nullable else " NOT NULL"


def comment_text(field: StructField) -> str:
    """What follows a column that has a comment."""
    comment = field.metadata.get("comment")
    return f" COMMENT {text_literal(comment)}" if isinstance(comment, str) else ""
