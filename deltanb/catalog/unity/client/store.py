"""A Unity Catalog with the interface of a catalog's store, as far as it has the notion.

What lives here: :class:`UnityStore`, which asks and answers for one catalog of a server: its schemas, its
tables by name, their commits.
What it does not know: HTTP (``connection``), a table's files, how a commit goes through (``commit``).

Tables go by name there, and by id here: the names under which tables were loaded are remembered, and an
answer about another table of the same name is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

from deltanb.catalog.iceberg.metadata.fields import Json, plain
from deltanb.catalog.rest.endpoint import Endpoint
from deltanb.catalog.rest.forms import nothing
from deltanb.catalog.store.names import MAX_PAGE, Page, TableName, all_rows, check_size, parts_of
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.rows import DeltaState, TableRow
from deltanb.catalog.store.store import Tail
from deltanb.catalog.unity.client import answers
from deltanb.catalog.unity.client.answers import Credential, Loaded, Staging
from deltanb.catalog.unity.client.connection import UnityConnection, UnityRefusal
from deltanb.catalog.unity.client.overview import UnityOverview, overview_of
from deltanb.catalog.unity.client.updates import published
from deltanb.catalog.unity.server.endpoints import ENDPOINTS as DELTA
from deltanb.catalog.unity.server.listing import ENDPOINTS as OLDER
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaError,
    InvalidArgument,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    StorageError,
    TableAlreadyExists,
    TableNotFound,
    TableReplaced,
    VersionNotFound,
)
from deltanb.text.safe_text import shown

__all__ = ["UnityRow", "UnityStore"]

T = TypeVar("T")

VERSIONS = "1.0"
_DELTA: Mapping[str, Endpoint] = {each.name: each for each in DELTA}
_OLDER: Mapping[str, Endpoint] = {each.name: each for each in OLDER}


@dataclass(frozen=True)
class UnityRow(TableRow):
    """A table as Unity Catalog has it."""

    loaded: Loaded | None = None
    kind: str = ""
    """As a list has it: ``MANAGED`` or ``EXTERNAL``; empty where it does not say."""
    location: str = ""
    """As a list has it; empty where it does not say."""


class _Published(NamedTuple):
    """What is in a table's folder, up to a version; ``file_name`` is the staged file it was ratified by."""

    version: int
    file_name: str | None

    def is_of(self, tail: Tail) -> bool:
        """Whether the catalog still has the commit and does not know that it is published.

        It may have been set back since, and have another commit of the version by now. The server believes a
        report and forgets the commits: of those that are in no folder nobody would know any more.
        """
        return any(each.version == self.version and each.file_name == self.file_name for each in tail.commits)


class UnityStore:
    """The catalog ``name`` of the server that a connection leads to.

    Raises:
        InvalidArgument: there is no Unity Catalog, or one without its Delta API.
        NamespaceNotFound: the server has no such catalog.
        StorageError: nothing answers there.
        Unauthorized: the server wants another token.
    """

    def __init__(self, connection: UnityConnection, name: str, allow_maintenance: bool = False) -> None:
        self.connection, self.name, self.allow_maintenance = connection, name, allow_maintenance
        self.namespaces, self.tables = UnitySchemas(self), UnityTables(self)
        self._names: dict[str, TableName] = {}
        self._loaded: dict[str, Loaded] = {}
        self._published: dict[str, _Published] = {}  # by us, and not reported yet
        self._lock = threading.Lock()
        try:
            self.ask("get_config", {"catalog": name, "protocol-versions": VERSIONS}, answers.CONFIG)
        except InvalidArgument as error:
            raise InvalidArgument(
                f"{connection.url} serves no Unity Catalog with an API for Delta tables, which its releases "
                f"have since 0.5.0 ({error})") from None

    @property
    def place(self) -> str:
        """The catalog's address."""
        return f"{self.connection.url}/{self.name}"

    @property
    def place_of_ids(self) -> None:
        """None: it is unknown here who else commits to it."""

    def __repr__(self) -> str:
        return f"UnityStore({self.connection.url!r}, {self.name!r})"

    def __enter__(self) -> UnityStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.connection.close()

    # -- requests ------------------------------------------------------------------------------------

    def ask(self, endpoint: str, values: Mapping[str, Any], answer: Callable[..., Any]) -> Any:
        """The answer of an endpoint that changes nothing."""
        row = _DELTA.get(endpoint) or _OLDER[endpoint]
        return self.connection.question(row, values, answer)

    def change(
        self, endpoint: str, values: Mapping[str, Any], answer: Callable[..., Any] = nothing,
        body: Any = None, done: Callable[[], T] | None = None,
    ) -> Any:
        """The answer of an endpoint that changes something.

        Args:
            done: says, where the answer is lost, what it was; raises where nothing was done.

        Raises:
            DeltaError: the server refuses it; nothing was changed.
            CommitOutcomeUnknown: it does not say whether it has done it.
        """
        row = _DELTA.get(endpoint) or _OLDER[endpoint]
        try:
            return self.connection.request(row, values, answer, body)
        except UnityRefusal as refusal:
            raise refusal.error from None
        except CommitOutcomeUnknown as error:
            if done is None:
                raise
            try:
                return done()
            except DeltaError as now:
                raise error from now

    def path_of(self, name: TableName) -> dict[str, Any]:
        """The parts of a table's path."""
        return {"catalog": self.name, "schema": schema_of(name), "table": name.name}

    # -- a table -------------------------------------------------------------------------------------

    def load(self, name: TableName) -> Loaded:
        """A table as it is now, in one request.

        Raises:
            TableNotFound: there is none of the name.
            UnsupportedProtocol: it is no Delta table.
        """
        try:
            loaded: Loaded = self.ask("load_table", self.path_of(name), answers.LOADED)
        except (TableNotFound, NamespaceNotFound):
            raise TableNotFound(
                f"there is no table {self.name}.{name} in the catalog at {self.connection.url}",
                path=str(name)) from None
        return self.remembered(name, loaded)

    def remembered(self, name: TableName, loaded: Loaded) -> Loaded:
        """A table as the catalog has just answered, which is known by its id from here on."""
        table_id = loaded.table_id
        with self._lock:
            self._names[table_id], self._loaded[table_id] = name, loaded
            report = self._published.get(table_id)
            if report is not None and not report.is_of(loaded.tail):
                del self._published[table_id]
        return loaded

    def load_same(self, name: TableName, table_id: str) -> Loaded:
        """A table as it is now, which still is the one with an id.

        Raises:
            TableNotFound: there is none of the name.
            TableReplaced: there is another one.
        """
        loaded = self.load(name)
        if loaded.table_id != table_id:
            raise TableReplaced(
                f"the table {self.name}.{name} was replaced by another one (its id was {table_id} and is "
                f"{loaded.table_id}); nothing was done to it. catalog.table({str(name)!r}) opens the new one",
                path=str(name), table_id=loaded.table_id)
        return loaded

    def has_uniform(self, table_id: str) -> bool:
        """Whether a table's commits are converted to Iceberg, as it was loaded last."""
        return self._loaded[table_id].has_uniform

    def maintenance_refused(self, table_id: str, operation: str) -> str | None:
        """Why a table's catalog does not allow an operation that is no commit of rows; None where it does."""
        allowed = self._loaded[table_id].maintenance
        if allowed is None and not self.allow_maintenance:
            return ("the server does not say what its clients may do to its tables; where its owner does, "
                    "deltanb.connect(…, allow_maintenance=True) allows it")
        if allowed is not None and operation not in allowed:
            some = ", ".join(allowed) or "nothing"
            return f"the catalog allows {some} beside committing rows, and not {operation}"
        return None

    def tails(self, table_ids: Iterable[str]) -> dict[str, Tail]:
        """Tables that were loaded before, with their commits that are not published; a request each.

        Raises:
            TableNotFound: there is none of a table's name any more.
            TableReplaced: another table has its name.
        """
        tails = {}
        for table_id in table_ids:
            name = self._names.get(table_id)
            if name is None:
                raise TableNotFound(f"no table with the id {table_id} was loaded from {self.place}",
                                    path=table_id)
            tails[table_id] = self.load_same(name, table_id).tail
        return tails

    def content(self, table_id: str, version: int) -> NoReturn:
        """The content of a commit that the catalog keeps itself.

        Raises:
            VersionNotFound: always, since every commit is a file.
        """
        raise VersionNotFound(f"the commits of table {table_id} are files", version=version)

    def update(self, name: TableName, table_id: str, updates: Sequence[Json]) -> None:
        """Update a table, and report with it what was published before.

        Raises:
            UnityRefusal: nothing was changed.
            StorageError: the server cannot be reached; nothing was changed.
            CommitOutcomeUnknown: it does not say whether it has done it.
        """
        report = self._published.get(table_id)
        reports = [] if report is None else [published(report.version)]
        self.connection.request(
            _DELTA["update_table"], self.path_of(name), plain,
            {"requirements": [{"type": "assert-table-uuid", "uuid": table_id}],
             "updates": [*updates, *reports]})
        with self._lock:
            if self._published.get(table_id) == report:
                self._published.pop(table_id, None)

    def report(self, name: TableName, table_id: str) -> None:
        """Report what was published, without a commit.

        Raises:
            DeltaError: the report is refused, or not answered; it may be sent again.
        """
        if table_id in self._published:
            try:
                self.update(name, table_id, ())
            except UnityRefusal as refusal:
                raise refusal.error from None

    def set_published(self, table_id: str, version: int, file_name: str | None = None) -> None:
        """Remember what is published, up to a version and its staged file: it is reported with the next
        commit, which saves a request."""
        with self._lock:
            before = self._published.get(table_id)
            if before is None or before.version <= version:
                self._published[table_id] = _Published(version, file_name)

    def published_of(self, table_id: str) -> int | None:
        """Up to which version a table's commits are in the folder, where the next request is to say so."""
        report = self._published.get(table_id)
        return None if report is None else report.version

    def overview(self, most: int) -> UnityOverview:
        """At most ``most`` schemas and tables, in a handful of requests."""
        return overview_of(self, most)

    # -- access --------------------------------------------------------------------------------------

    def credentials(self, name: TableName, operation: str) -> list[Credential]:
        """Keys to a table's files, to ``READ`` or to ``READ_WRITE``."""
        asked: list[Credential] = self.ask(
            "table_credentials", {**self.path_of(name), "operation": operation}, answers.CREDENTIALS)
        return asked

    def staging_credentials(self, table_id: str) -> list[Credential]:
        """The same of a table that is to be made."""
        asked: list[Credential] = self.ask(
            "staging_credentials", {"table_id": table_id}, answers.CREDENTIALS)
        return asked

    def stage_table(self, name: TableName) -> Staging:
        """Have an id and a folder for a table that is to be made.

        Raises:
            TableAlreadyExists: there is a table of the name.
            NamespaceNotFound: there is no such schema.
            StorageError: the catalog does not answer; no table was made.
        """
        def asked(done: Callable[[], Staging] | None = None) -> Staging:
            staging: Staging = self.change(
                "staging_table", self.path_of(name), answers.STAGING, {"name": name.name}, done)
            return staging

        try:
            return asked(asked)  # of two that the catalog may have made one is used
        except CommitOutcomeUnknown as error:
            raise StorageError(f"the table {name} was not made: {error.message}", path=self.place) from error

    def create_table(self, name: TableName, body: Json, table_id: str) -> Loaded:
        """Have a table made of a staging table.

        Raises:
            CommitOutcomeUnknown: nobody says whether it was.
            DeltaError: it was not.
        """
        def asked(done: Callable[[], Loaded] | None = None) -> Loaded:
            made: Loaded = self.change("create_table", self.path_of(name), answers.LOADED, body, done)
            return made

        def looked_for() -> Loaded:
            try:
                return self.load_same(name, table_id)
            except TableReplaced:
                raise
            except TableNotFound:  # the same once more: whichever of the two comes first, it is one table
                return asked(lambda: self.load_same(name, table_id))

        return self.remembered(name, asked(looked_for))

    def create_external_table(self, name: TableName, body: Json, location: str) -> Loaded:
        """Have a folder be a table.

        Raises:
            CommitOutcomeUnknown: nobody says whether it is.
            DeltaError: it is not.
        """
        def looked_for() -> Loaded:
            loaded = self.load(name)
            if loaded.location != location:
                raise InvalidArgument(f"{name} is another table")
            return loaded

        made: Loaded = self.change("create_external_table", {}, answers.REGISTERED, body, looked_for)
        return self.remembered(name, made)


def schema_of(name: TableName) -> str:
    """The schema of a table's name.

    Raises:
        InvalidArgument: it has not one part.
    """
    return single(name.namespace)


def single(namespace: Any) -> str:
    """The only part of a schema's name.

    >>> single("shop")
    'shop'

    Raises:
        InvalidArgument: it has several.
    """
    parts = parts_of(namespace)
    if len(parts) != 1:
        raise InvalidArgument(
            f"{shown('.'.join(parts))} has {len(parts)} parts; a schema of Unity Catalog has one, and a "
            "table is catalog.schema.table: the catalog is the one that is connected to")
    return parts[0]


class UnitySchemas:
    """The schemas of a Unity Catalog, as :class:`~deltanb.catalog.store.namespaces.Namespaces`."""

    def __init__(self, store: UnityStore) -> None:
        self.store = store

    def create(self, namespace: Any, properties: Mapping[str, str] | None = None) -> None:
        """Make a schema."""
        name = single(namespace)
        values = dict(properties or {})
        comment = values.pop("comment", None)
        body = {"name": name, "catalog_name": self.store.name, "properties": values}
        if comment is not None:
            body["comment"] = comment
        try:
            self.store.change("create_schema", {}, plain, body)
        except TableAlreadyExists as error:
            raise NamespaceAlreadyExists(error.message, namespace=name) from None

    def exists(self, namespace: Any) -> bool:
        """Whether a schema exists."""
        try:
            self.properties(namespace)
        except NamespaceNotFound:
            return False
        return True

    def children(
        self, parent: Any = (), token: str | None = None, size: int = MAX_PAGE
    ) -> Page[tuple[str, ...]]:
        """A page of the schemas; none has schemas inside it."""
        if parent:
            self.properties(parent)
            return Page((), None)
        rows, after = self.store.ask("list_schemas", {
            "catalog_name": self.store.name, "page_token": token, "max_results": min(check_size(size), 1000)},
            answers.listed("schemas", answers.SCHEMA))
        return Page(tuple((each["name"],) for each in rows), after)

    def properties(self, namespace: Any) -> dict[str, str]:
        """The properties of a schema, its comment among them.

        Raises:
            NamespaceNotFound: there is none.
        """
        schema = self._about(namespace, lambda path: self.store.ask("get_schema", path, answers.SCHEMA))
        comment = {"comment": schema["comment"]} if "comment" in schema else {}
        return {**schema.get("properties", {}), **comment}

    def update(
        self, namespace: Any, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> list[str]:
        """Set and remove properties; returns those of ``removals`` that were there.

        Raises:
            NamespaceNotFound: there is no such schema.
            InvalidArgument: the server keeps a property, since it would be the last one to go.
        """
        before, removals = self.properties(namespace), sorted(set(removals))
        after = {**{name: each for name, each in before.items() if name not in removals}, **(updates or {})}
        comment = after.pop("comment", None)
        body = {"properties": after, "comment": comment or ""}
        self._about(namespace, lambda path: self.store.change("update_schema", path, plain, body))
        if not after and (left := [name for name in removals if name in self.properties(namespace)]):
            raise InvalidArgument(
                f"the server keeps {', '.join(left)} of schema {single(namespace)}: it replaces properties "
                "by others, and not by none. Set another property in the same call")
        return [name for name in removals if name in before]

    def drop(self, namespace: Any) -> None:
        """Drop a schema that is empty.

        Raises:
            NamespaceNotFound: there is none.
            NamespaceNotEmpty: it has tables.
        """
        if self.store.tables.page(namespace, None, 1).items:
            raise NamespaceNotEmpty(
                f"schema {single(namespace)} has tables; drop them before it", namespace=single(namespace))
        self._about(namespace, lambda path: self.store.change("delete_schema", path))

    def _about(self, namespace: Any, asks: Callable[[dict[str, str]], T]) -> T:
        name = single(namespace)
        try:
            return asks({"full_name": f"{self.store.name}.{name}"})
        except TableNotFound:
            raise no_schema(self.store, name) from None


def no_schema(store: UnityStore, name: str) -> NamespaceNotFound:
    """The error for a schema that the catalog does not have."""
    return NamespaceNotFound(f"there is no schema {name} in the catalog {store.place}", namespace=name)


_LISTED = answers.listed("tables", answers.TABLE)


class UnityTables:
    """The tables of a Unity Catalog, as :class:`~deltanb.catalog.store.registry.Registry`."""

    def __init__(self, store: UnityStore) -> None:
        self.store = store

    load_many = Registry.load_many

    def load(self, name: Any) -> TableRow:
        """A table by its name.

        Raises:
            TableNotFound: there is none.
        """
        return row_of(TableName.of(name), self.store.load(TableName.of(name)))

    def find_many(self, names: Iterable[Any]) -> dict[TableName, TableRow]:
        """Those of some names that there are; a request each."""
        rows = {}
        for name in {TableName.of(each): None for each in names}:
            try:
                rows[name] = self.load(name)
            except TableNotFound:
                continue
        return rows

    def page(self, namespace: Any, token: str | None = None, size: int = MAX_PAGE) -> Page[UnityRow]:
        """A page of a schema's Delta tables."""
        name = single(namespace)
        try:
            rows, after = self.store.ask("list_tables", {
                "catalog_name": self.store.name, "schema_name": name, "page_token": token,
                "max_results": min(check_size(size), 1000)}, _LISTED)
        except (TableNotFound, NamespaceNotFound):
            raise no_schema(self.store, name) from None
        return Page(tuple(
            UnityRow(TableName((name,), each["name"]), each.get("table_id"), "delta",
                     kind=each.get("table_type", ""), location=each.get("storage_location", ""))
            for each in rows if each.get("data_source_format", "DELTA") == "DELTA"), after)

    def names_at(self, location: str) -> list[TableName]:
        """The Delta tables whose folder is a place: a request for each page of schemas, and of tables."""
        schemas = all_rows(partial(self.store.namespaces.children, ()))
        return [row.name for schema in schemas for row in all_rows(partial(self.page, schema))
                if row.location.rstrip("/") == location.rstrip("/")]

    def rename(self, old: Any, new: Any) -> None:
        """Rename a table within its schema.

        Raises:
            InvalidArgument: into another schema.
            TableNotFound, TableAlreadyExists: as names are.
        """
        old, new = TableName.of(old), TableName.of(new)
        if schema_of(old) != schema_of(new):
            raise InvalidArgument(
                f"{old} stays in its schema: Unity Catalog renames no table into another one, {new}")
        before = self.store.load(old)
        self.store.change("rename_table", self.store.path_of(old), nothing, {"new-name": new.name},
                          lambda: self.store.load_same(new, before.table_id))
        with self.store._lock:
            self.store._names[before.table_id] = new

    def drop(self, name: Any) -> None:
        """Take a table out of the catalog, which deletes the files of a managed one as it sees fit."""
        name = TableName.of(name)
        full_name = f"{self.store.name}.{schema_of(name)}.{name.name}"  # the older API: all releases have it
        try:
            self.store.change("remove_table", {"full_name": full_name}, nothing, None,
                              lambda: self._is_gone(name))
        except NamespaceNotFound as error:
            raise TableNotFound(error.message, path=str(name)) from None

    def _is_gone(self, name: TableName) -> None:
        try:
            self.store.load(name)
        except TableNotFound:
            return
        raise InvalidArgument(f"{name} is still there")


def row_of(name: TableName, loaded: Loaded) -> TableRow:
    """A table's row as it was loaded."""
    return UnityRow(name, loaded.table_id, "delta", delta=DeltaState(
        loaded.location, loaded.tail.latest, loaded.tail.published, etag=loaded.etag), loaded=loaded,
        kind="MANAGED" if loaded.is_managed else "EXTERNAL")
