"""Namespaces of a catalog: created, listed, described, dropped.

What lives here: when a namespace exists, by the rule of PyIceberg's and Java's catalogs: it has properties, a
table, or a nested namespace. A created one has the property ``exists``, as theirs do; it is the row on which
a drop and a new table conflict, and it is never shown.
What it does not know: tables, except the namespace of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deltanb.catalog.store.database import Database
from deltanb.catalog.store.names import MAX_PAGE, Page, check_size, joined, key_of, parts_of
from deltanb.catalog.store.tables import has_inserted, iceberg_tables, insert, namespace_properties, sa
from deltanb.errors import InvalidArgument, NamespaceAlreadyExists, NamespaceNotEmpty, NamespaceNotFound
from deltanb.text.safe_text import shown

__all__ = ["Namespaces", "hold_namespace", "require_namespace"]

EXISTS = "exists"
MAX_VALUE = 1000  # characters: what the column of the shared schema holds


class Namespaces:
    """The namespaces of one catalog in a database.

    >>> from deltanb.catalog.store.store import CatalogStore
    >>> with CatalogStore("sqlite:///catalog.db") as store:
    ...     store.namespaces.create("sales.eu", {"owner": "ada"})
    ...     store.namespaces.children().items, store.namespaces.children("sales").items
    ...     store.namespaces.properties("sales.eu")
    ((('sales',),), (('sales', 'eu'),))
    {'owner': 'ada'}
    """

    def __init__(self, database: Database, catalog: str) -> None:
        self._database, self._catalog = database, catalog

    def create(self, namespace: Any, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace, with missing parents.

        Raises:
            NamespaceAlreadyExists: it exists.
            InvalidArgument: a name or a property that is not allowed.
        """
        name = joined(parts_of(namespace))
        rows = {**_checked(properties or {}), EXISTS: "true"}

        def work(connection: sa.Connection) -> None:
            made = _insert_exists(connection, self._catalog, name)
            if not made or _has_more(connection, self._catalog, name):
                raise NamespaceAlreadyExists(f"the namespace {name} already exists", namespace=name)
            _put(connection, self._catalog, name, rows)

        self._database.write(work)

    def exists(self, namespace: Any) -> bool:
        """Whether a namespace exists."""
        name = joined(parts_of(namespace))
        return self._database.read(lambda connection: _exists(connection, self._catalog, name))

    def children(
        self, parent: Any = (), token: str | None = None, size: int = MAX_PAGE
    ) -> Page[tuple[str, ...]]:
        """A page of the namespaces directly inside a parent, or of the top-level ones.

        Raises:
            NamespaceNotFound: there is no such parent.
        """
        parts, after, size = parts_of(parent) if parent else (), key_of(token), check_size(size)
        prefix = f"{joined(parts)}." if parts else ""

        def work(connection: sa.Connection) -> list[str]:
            if parts:
                require_namespace(connection, self._catalog, prefix[:-1])
            every = every_namespace(self._catalog, prefix).subquery().c[0]
            rest = sa.func.substr(every, len(prefix) + 1)
            child = (sa.func.split_part(rest, ".", 1) if connection.dialect.name == "postgresql"
                     else sa.func.substr(rest, 1, sa.func.instr(rest.op("||")("."), ".") - 1))
            of = sa.select(child.label("child")).distinct().subquery().c.child
            query = sa.select(of).where(of > after).order_by(of).limit(size + 1)
            return list(connection.execute(query).scalars())

        names = self._database.read(work)
        return Page.of(names, [(*parts, name) for name in names], size)

    def properties(self, namespace: Any) -> dict[str, str]:
        """The properties of a namespace.

        Raises:
            NamespaceNotFound: it is not there.
        """
        name = joined(parts_of(namespace))
        table = namespace_properties.c

        def work(connection: sa.Connection) -> dict[str, str]:
            query = sa.select(table.property_key, table.property_value).where(*_rows(self._catalog, name))
            properties = dict(connection.execute(query.order_by(table.property_key)).tuples().all())
            if not properties:
                require_namespace(connection, self._catalog, name)
            properties.pop(EXISTS, None)
            return properties

        return self._database.read(work)

    def update(
        self, namespace: Any, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> list[str]:
        """Set and remove properties; returns those of ``removals`` that existed.

        Raises:
            NamespaceNotFound: it is not there.
            InvalidArgument: a property both set and removed, or one that none may have.
        """
        name, updates, removals = joined(parts_of(namespace)), _checked(updates or {}), sorted(set(removals))
        both = sorted(set(updates) & set(removals))
        if both or EXISTS in removals:
            raise InvalidArgument(f"the properties {both} are both set and removed" if both else _reserved())

        def work(connection: sa.Connection) -> list[str]:
            hold_namespace(connection, self._catalog, name, for_change=True)
            keys = namespace_properties.c.property_key
            here = _rows(self._catalog, name)
            rows = connection.execute(
                sa.select(keys).where(*here, keys.in_(removals)).order_by(keys)).scalars().all()
            connection.execute(
                namespace_properties.delete().where(*here, keys.in_([*removals, *updates])))
            if updates:
                _put(connection, self._catalog, name, updates)
            return list(rows)

        return self._database.write(work)

    def replace(
        self, namespace: Any, properties: Mapping[str, str], retained: Iterable[str] = ()
    ) -> None:
        """Set properties and remove all others but those of ``retained``.

        Raises:
            NamespaceNotFound: it is not there.
            InvalidArgument: a property that none may have.
        """
        name, properties = joined(parts_of(namespace)), _checked(properties)
        left = {EXISTS, *retained} - properties.keys()

        def work(connection: sa.Connection) -> None:
            hold_namespace(connection, self._catalog, name, for_change=True)
            connection.execute(namespace_properties.delete().where(
                *_rows(self._catalog, name), namespace_properties.c.property_key.not_in(sorted(left))))
            if properties:
                _put(connection, self._catalog, name, properties)

        self._database.write(work)

    def drop(self, namespace: Any) -> None:
        """Drop a namespace.

        Raises:
            NamespaceNotFound: it is not there.
            NamespaceNotEmpty: a table or a namespace is inside it.
        """
        name = joined(parts_of(namespace))

        def work(connection: sa.Connection) -> None:
            require_namespace(connection, self._catalog, name)
            connection.execute(namespace_properties.delete().where(*_rows(self._catalog, name)))
            # Looked at after the rows are gone: who puts a table here holds one of them until it ends.
            if _is_filled(connection, self._catalog, name):
                raise NamespaceNotEmpty(
                    f"the namespace {name} has tables or namespaces; drop these first", namespace=name)

        self._database.write(work)


def hold_namespace(connection: sa.Connection, catalog: str, name: str, for_change: bool = False) -> None:
    """Lock a namespace against drops, and with ``for_change`` against changes, until the transaction ends.

    Raises:
        NamespaceNotFound: it is not there.
    """
    row = sa.select(namespace_properties.c.property_key).where(
        *_rows(catalog, name), namespace_properties.c.property_key == EXISTS)
    for _ in range(2):
        if connection.execute(row.with_for_update(read=not for_change)).first():
            return
        require_namespace(connection, catalog, name)
        _insert_exists(connection, catalog, name)  # one that others made, or that is around another one


def _insert_exists(connection: sa.Connection, catalog: str, name: str) -> bool:
    row = {"catalog_name": catalog, "namespace": name, "property_key": EXISTS, "property_value": "true"}
    return has_inserted(
        connection, insert(connection, namespace_properties).values(row).on_conflict_do_nothing())


def _put(connection: sa.Connection, catalog: str, name: str, properties: Mapping[str, str]) -> None:
    rows = [{"catalog_name": catalog, "namespace": name, "property_key": key, "property_value": value}
            for key, value in properties.items()]
    connection.execute(insert(connection, namespace_properties).on_conflict_do_nothing(), rows)


def _rows(catalog: str, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return namespace_properties.c.catalog_name == catalog, namespace_properties.c.namespace == name


def every_namespace(catalog: str, prefix: str = "") -> sa.CompoundSelect[Any]:
    """The names of all namespaces that begin with a prefix: those with properties, and those of tables.

    Compared as text: LIKE takes no account of case in SQLite.
    """
    return sa.union(*(
        sa.select(column).where(
            column.table.c.catalog_name == catalog, sa.func.substr(column, 1, len(prefix)) == prefix)
        for column in (namespace_properties.c.namespace, iceberg_tables.c.table_namespace)))


def require_namespace(connection: sa.Connection, catalog: str, name: str) -> None:
    """Refuse a namespace that does not exist.

    Raises:
        NamespaceNotFound: there are no properties of it, and nothing is inside.
    """
    if not _exists(connection, catalog, name):
        raise NamespaceNotFound(f"there is no namespace {name}; create it first", namespace=name)


def _exists(connection: sa.Connection, catalog: str, name: str) -> bool:
    """Whether a namespace has properties, or anything inside."""
    here = sa.select(sa.literal(1)).where(*_rows(catalog, name)).limit(1)
    return connection.execute(here).first() is not None or _is_filled(connection, catalog, name)


def _is_filled(connection: sa.Connection, catalog: str, name: str) -> bool:
    """Whether a table or a namespace is inside."""
    tables = sa.select(sa.literal(1)).where(
        iceberg_tables.c.catalog_name == catalog, iceberg_tables.c.table_namespace == name).limit(1)
    if connection.execute(tables).first():
        return True
    return connection.execute(every_namespace(catalog, f"{name}.").limit(1)).first() is not None


def _has_more(connection: sa.Connection, catalog: str, name: str) -> bool:
    """Whether others made the namespace, without the row ``exists``, or something is inside it."""
    keys = sa.select(sa.literal(1)).where(
        *_rows(catalog, name), namespace_properties.c.property_key != EXISTS).limit(1)
    return connection.execute(keys).first() is not None or _is_filled(connection, catalog, name)


def _checked(properties: Mapping[str, str]) -> dict[str, str]:
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise InvalidArgument(f"a namespace's properties are text, found {shown(key)}: {shown(value)}")
        if key == EXISTS:
            raise InvalidArgument(_reserved())
        if len(key) > 255 or len(value) > MAX_VALUE or "\0" in key + value:
            raise InvalidArgument(
                f"the property {shown(key)} of a namespace is too long or has NUL: names have at most 255 "
                f"characters, values {MAX_VALUE}")
    return dict(properties)


def _reserved() -> str:
    return f"the property {EXISTS!r} of a namespace is the catalog's own; leave it out"
