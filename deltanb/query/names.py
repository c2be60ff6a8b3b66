"""What a name in a statement stands for: a variable that holds a table, a table of a catalog, a path.

What lives here: :class:`Scope`, in which names mean something; :func:`handle`, the table of a name;
:func:`resolve`, what a query reads by it; :func:`place_of`, where a new table of a name goes, and
:func:`place_of_handle`, where a table is; :func:`catalog_of`, the catalog that a name with a namespace is in;
:func:`value_of`, what a parameter stands for.
What it does not know: SQL, engines, rows.

A catalog that is asked itself (``catalog.sql``) comes first, for names with a namespace. Otherwise, a
variable comes first, whatever it is quoted in. A name that is none is a path: ``FROM 'lake/flights'``;
``delta.`lake/flights``` is one in any case. DuckDB may read other files by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from deltanb.errors import InvalidQuery, NamespaceNotFound, TableNotFound
from deltanb.query.statements.text import Name, path_of, split_moment
from deltanb.table.contract import Askable
from deltanb.table.table import DeltaTable
from deltanb.text.formatting import did_you_mean

if TYPE_CHECKING:
    from deltanb.query.statement import Reference

Named: TypeAlias = "Name | Reference"
"""What a statement calls a table, or a query: parts, text, moment and changes."""
_OF_TABLE = 2  # parts of a table's name in a catalog: a namespace and its own


@dataclass
class Scope:
    """Where the names of a statement are looked up."""

    variables: Mapping[str, Any]
    catalog: Any = None
    """The catalog whose tables come first."""
    created: dict[str, Any] = field(default_factory=dict)
    """Tables that earlier statements made, by the name that they gave them."""
    staged: Callable[[Any], Any] = lambda table: table
    """A table as the open transaction has it; without one the table itself."""

    @classmethod
    def of(cls, names: Scope | Mapping[str, Any]) -> Scope:
        """A scope of variables, or the scope itself."""
        return names if isinstance(names, Scope) else cls(names)

    def has(self, name: str) -> bool:
        """Whether a variable, or an earlier statement, has the name."""
        return name in self.created or (name in self.variables and not name.startswith("__"))

    def __getitem__(self, name: str) -> Any:
        return self.created[name] if name in self.created else self.variables[name]


class Place(NamedTuple):
    """Where a table is or goes: a path or store, or a name in a catalog; neither for a name alone."""

    path: Any = None
    catalog: Any = None
    name: str = ""


def resolve(reference: Named, names: Scope | Mapping[str, Any], *, files: bool = False) -> Any:
    """What a query names: a table at its version, other rows with an Arrow stream, or None.

    None stands for a file that is there and no table: only where ``files``, for an engine that reads such.

    Raises:
        TableNotFound: it is nothing; the message has the closest names.
        InvalidQuery: time travel on what has no versions, or a variable that holds no rows.
        VersionNotFound, InvalidArgument: as of ``table.as_of``.
    """
    source = _look_up(reference, Scope.of(names), files)
    if reference.changes is not None:
        if not isinstance(source, DeltaTable):
            raise InvalidQuery(f"{reference.text} is not a Delta table, and only Delta tables have a change "
                               "data feed",
                               name=reference.text)
        return source.changes(*reference.changes).to_arrow()
    if source is None or isinstance(source, DeltaTable):
        return source
    return _rows(reference.text, source)


def handle(name: Named, scope: Scope) -> Any:
    """The table that a statement is about, at its version.

    Raises:
        TableNotFound: there is none of the name.
        InvalidQuery: the name is a variable's that holds other rows, which no statement changes.
    """
    table = _look_up(name, scope, False)
    if isinstance(table, Askable):
        return table
    raise InvalidQuery(
        f"{name.text} is {_a(type(table).__name__)} and no Delta table: a statement that changes or "
        "describes a table takes a DeltaTable, a name in a catalog or a path", name=name.text)


def place_of(name: Name, scope: Scope) -> Place:
    """Where a table of a name that may not exist would be."""
    if name.path is not None:
        return Place(name.path)
    if len(name.parts) > 1:
        catalog, name_there = catalog_of(name.parts, scope, _OF_TABLE)
        if catalog is not None:
            return Place(None, catalog, name_there)
        raise InvalidQuery(
            f"{name.text} would be a table of a catalog, and {name.parts[0]} is not a variable that holds "
            "one; run the statement by catalog.sql(…), or name a path: delta.`lake/flights`", name=name.text)
    return Place(name.text) if "/" in name.text else Place(None, None, name.text)


def catalog_of(parts: Sequence[str], scope: Scope, least: int) -> tuple[Any, str]:
    """The catalog that a name is in, or None, and the name in it.

    The catalog that is asked itself comes before one in a variable that the first part names; not where it
    lacks the namespace that the name would be in there, and the other parts are a name.

    Args:
        least: how many parts a name in a catalog has.
    """
    catalogs = sys.modules.get("deltanb.catalog.catalog")  # a caller with a catalog has loaded it
    variable = scope.variables.get(parts[0])
    if catalogs is not None and isinstance(variable, catalogs.Catalog) and (
            scope.catalog is None
            or (len(parts) > least and not _has_namespace(scope.catalog, ".".join(parts[:-1])))):
        return variable, ".".join(parts[1:])
    return scope.catalog, ".".join(parts)


def _has_namespace(catalog: Any, name: str) -> bool:
    try:
        catalog.namespace_properties(name)
    except NamespaceNotFound:
        return False
    return True


def place_of_handle(table: Any) -> Place:
    """Where a table is: its catalog and its name there, or the store of its folder."""
    log = getattr(table, "log", None)
    if log is None:  # an Iceberg table
        return Place(None, table.tables.owner, table.name)
    return Place(log.store) if log.catalog is None else Place(None, log.catalog, log.name)


def value_of(parameter: str, variables: Mapping[str, Any], what: str, **data: Any) -> Any:
    """The value of a parameter, which has the name of a variable.

    Raises:
        InvalidQuery: there is none of the name; ``what`` asks for it, and ``data`` is the error's.
    """
    if parameter in variables:
        return variables[parameter]
    hint, _ = did_you_mean(parameter, _offered(variables), "variables")
    raise InvalidQuery(f"there is no variable {parameter}, which the {what} asks for; {hint}", **data)


def _offered(variables: Mapping[str, Any]) -> list[str]:
    """The variables that a parameter may mean: neither functions, nor what IPython keeps."""
    return [name for name, value in variables.items()
            if not name.startswith("_") and name not in ("In", "Out") and not callable(value)
            and not isinstance(value, ModuleType)]


def _look_up(reference: Named, scope: Scope, files: bool) -> Any:
    source, moment = _with_moment(reference, scope, files)
    if moment is None:
        return scope.staged(source) if isinstance(source, Askable) else source
    if isinstance(source, DeltaTable):
        return source.as_of(moment)
    raise InvalidQuery(f"{reference.text} is not a Delta table and has only one version: leave out the words "
                       "AS OF", name=reference.text)


def _with_moment(reference: Named, scope: Scope, files: bool) -> tuple[Any, int | str | None]:
    """What a name stands for, and the version or time behind it, or at the end of its path."""
    path = path_of(reference.parts)
    if path is None and len(reference.parts) == 1 and not scope.has(reference.parts[0]):
        path = reference.parts[0]
    if path is not None:
        shorter, moment = split_moment(path)
        if moment is not None and not DeltaTable.is_delta_table(path):
            if reference.moment is not None:
                raise InvalidQuery(f"{path} says the version already: leave out the words AS OF, or what is "
                                   "behind @", name=reference.text)
            return DeltaTable.for_path(shorter), moment
    return _at_any_version(reference, scope, files), reference.moment


def _at_any_version(reference: Named, scope: Scope, files: bool) -> Any:
    path = path_of(reference.parts)
    if path is not None:
        return DeltaTable.for_path(path)
    if len(reference.parts) > 1:
        return _of_catalog(reference, scope)
    (name,) = reference.parts
    if scope.has(name):
        return scope[name]
    if DeltaTable.is_delta_table(name):
        return DeltaTable.for_path(name)
    if files and os.path.isfile(name):
        return None
    raise _not_found(reference.text, scope.variables)


def _of_catalog(reference: Named, scope: Scope) -> Any:
    """A table by namespace and name, in the scope's catalog or in one that the first part is a variable
    of."""
    missing: TableNotFound | NamespaceNotFound | None = None
    if scope.catalog is not None:
        try:
            return scope.catalog.table(reference.text)
        except (TableNotFound, NamespaceNotFound) as error:
            missing = error
    catalog, name = catalog_of(reference.parts, scope, _OF_TABLE)
    if name != reference.text:
        return catalog.table(name)
    raise missing or _not_found(reference.text, scope.variables)


def _rows(name: str, value: Any) -> Any:
    if hasattr(value, "__arrow_c_stream__"):
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
    if name.upper() == "TABLE":
        hint = "leave out the word TABLE before the table's name"
    return TableNotFound(
        f"no variable {name} holds a table, and there is no Delta table at this path; {hint}",
        path=name, suggestions=close)
