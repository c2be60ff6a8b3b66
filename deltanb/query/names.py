"""What a name in a query stands for: a variable that holds a table, a table of a catalog, a path.

What lives here: :func:`resolve`.
What it does not know: SQL, engines, rows.

A variable comes first, whatever it is quoted in. A name that is none is a path: ``FROM 'lake/flights'``;
``delta.`lake/flights``` is one in any case. DuckDB may read other files by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from deltanb.errors import InvalidQuery, TableNotFound
from deltanb.query.statement import Reference
from deltanb.table.table import DeltaTable
from deltanb.text.formatting import did_you_mean


def resolve(reference: Reference, namespace: Mapping[str, Any], *, files: bool = False) -> Any:
    """What a query names: a table at its version, other rows with an Arrow stream, or None.

    None stands for a file that is there and no table: only where ``files``, for an engine that reads such.

    Raises:
        TableNotFound: it is nothing; the message has the closest names.
        InvalidQuery: time travel on what has no versions, or a variable that holds no rows.
        VersionNotFound, InvalidArgument: as of ``table.as_of``.
    """
    source = _look_up(reference, namespace, files)
    if not isinstance(source, DeltaTable):
        if reference.moment is not None:
            raise InvalidQuery(f"{reference.text} is no Delta table and has one version only: leave out the "
                               "words AS OF", name=reference.text)
        return source
    return source if reference.moment is None else source.as_of(reference.moment)


def _look_up(reference: Reference, namespace: Mapping[str, Any], files: bool) -> Any:
    parts = reference.parts
    if len(parts) == 2 and parts[0].lower() == "delta":
        return DeltaTable.for_path(parts[1])
    if len(parts) > 1:
        return _of_catalog(reference, namespace)
    name = parts[0]
    if name in namespace and not name.startswith("__"):
        return _rows(name, namespace[name])
    if DeltaTable.is_delta_table(name):
        return DeltaTable.for_path(name)
    if files and os.path.isfile(name):
        return None
    raise _not_found(reference.text, namespace)


def _of_catalog(reference: Reference, namespace: Mapping[str, Any]) -> Any:
    """A table by catalog, namespace and name, where the first of these is a variable."""
    kind = getattr(sys.modules.get("deltanb.catalog.catalog"), "Catalog", None)
    held = namespace.get(reference.parts[0])
    if kind is not None and isinstance(held, kind):
        return _rows(reference.text, held.table(".".join(reference.parts[1:])))
    raise _not_found(reference.text, namespace)


def _rows(name: str, value: Any) -> Any:
    if isinstance(value, DeltaTable) or hasattr(value, "__arrow_c_stream__"):
        return value
    if hasattr(value, "to_arrow"):
        return value.to_arrow()
    raise InvalidQuery(
        f"{name} is {_a(type(value).__name__)}, which has no rows: a query reads tables, data frames and "
        "Arrow tables", name=name)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"


def _not_found(name: str, namespace: Mapping[str, Any]) -> TableNotFound:
    tables = [known for known, value in namespace.items() if not known.startswith("_") and (
        isinstance(value, DeltaTable) or hasattr(type(value), "__arrow_c_stream__"))]
    hint, close = did_you_mean(name, tables, "variables with rows")
    return TableNotFound(
        f"no variable {name} holds a table, and there is no Delta table at this path; {hint}",
        path=name, suggestions=close)
