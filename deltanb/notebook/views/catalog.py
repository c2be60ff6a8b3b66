"""Catalogs: their tables, their transactions, and their tables at one instant.

What lives here: the views of ``Catalog``, ``CatalogSnapshot`` and ``CatalogHistory``.
What it does not know: the database. A catalog answers with its first rows and its counts, in a few
statements; a snapshot and a history hold what they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltanb.log.commit_times import known_time_of
from deltanb.notebook.views import iceberg, tables
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, warn
from deltanb.options import options
from deltanb.text import formatting as units

MAX_LISTED = 20  # tables and transactions asked for: more is a list, and no picture
MAX_NAMED = 3  # namespaces named on their line, tables on the line of a transaction
KEEP_ID = 8  # characters of a txnId, and of the id of a table that has no name any more
HISTORY = ("seq", "time", "who", "tables", "operations", "txnId")


def catalog(catalog: Any) -> View:
    """The view of a :class:`~deltanb.catalog.catalog.Catalog`."""
    overview = catalog.overview(MAX_LISTED)
    marks = (units.count(overview.num_tables, "table"), units.count(overview.num_transactions, "transaction"))
    where = place_of(catalog.store.place)
    place = ["server " if where.startswith("http") else "database ", code(where),
             "  warehouse ", code(units.name_of(catalog.warehouse.uri))]
    if not overview.num_namespaces:
        begin = ["empty; begin with ", code('catalog.create_namespace("shop")')]
        return View("Catalog", catalog.name, marks, (place, begin))
    rows = tuple(map(catalog.delta.as_known, overview.tables))
    return View("Catalog", catalog.name, marks, (place,), (
        _namespaces(overview), _tables(rows, overview.num_tables), _last(overview)))


def unity(catalog: Any) -> View:
    """The view of a :class:`~deltanb.catalog.unity.client.catalog.UnityCatalog`: what a few requests list."""
    overview = catalog.overview(MAX_LISTED)
    place = ["server ", code(place_of(catalog.store.connection.url))]
    if not overview.schemas:
        begin = ["empty; begin with ", code('catalog.create_namespace("shop")')]
        return View("Unity Catalog", catalog.name, (), (place, begin))
    more = "more than " if overview.has_more_schemas else ""
    at_least = "" if overview.is_whole else "at least "
    marks = (more + units.count(len(overview.schemas), "schema"),
             at_least + units.count(overview.num_tables, "table"))
    names = ", ".join(overview.schemas[:MAX_NAMED])
    others = len(overview.schemas) - MAX_NAMED
    beside = f" and {units.number(others)} more" if others > 0 else ""
    rows = tuple((code(name),) for name in overview.schemas)
    schemas = Section("Schemas", [code(names), muted(beside)], Table(
        ("schema",), rows, len(rows), "schema", limit=MAX_LISTED) if beside else None)
    return View("Unity Catalog", catalog.name, marks, (place, *_left_out(overview)),
                (schemas, _unity_tables(overview)))


def _left_out(overview: Any) -> list[list[Inline]]:
    """What was not listed, and what lists it."""
    lines: list[list[Inline]] = []
    if overview.has_more_schemas:
        lines.append(["further schemas are left out; ", code("catalog.list_namespaces()"), " lists all"])
    some = [*overview.partly_listed, *overview.unlisted]
    if some:
        what = code(some[0]) if len(some) == 1 else units.count(len(some), "schema")
        lines.append(["tables of ", what, " are left out; ",
                      code(f'catalog.list_tables("{some[0]}")'), " lists them"])
    lines += [["tables of ", code(name), warn(f" cannot be listed: {why}")]
              for name, why in overview.refused.items()]
    return lines


def _unity_tables(overview: Any) -> Section:
    if not overview.tables:
        return Section("Tables", muted("none yet" if overview.is_whole else "none listed"))
    cells = tuple((code(row.name), row.kind.lower() or muted("–")) for row in overview.tables)
    return Section("Tables", units.count(len(cells), "table"),
                   Table(("table", "kind"), cells, len(cells), "table", limit=MAX_LISTED),
                   is_open=True, text_rows=True)


def place_of(url: str) -> str:
    """The place of a database: a file by its name, a server by its address; never with a password.

    >>> place_of("sqlite:////lake/shop.db"), place_of("postgresql+psycopg://ada:***@db.example/lake")
    ('sqlite shop.db', 'postgresql ada@db.example/lake')
    """
    kind, _, rest = url.partition("://")
    kind = kind.partition("+")[0]
    if kind == "sqlite":
        return f"{kind} {units.name_of(rest)}"
    rest = rest.partition("?")[0]
    user, at, host = rest.rpartition("@")
    between = "://" if kind.startswith("http") else " "
    return f"{kind}{between}{user.partition(':')[0]}{at}{host}"


def _namespaces(overview: Any) -> Section:
    named = ", ".join(overview.namespaces[:MAX_NAMED])
    more = overview.num_namespaces - min(MAX_NAMED, len(overview.namespaces))
    rows = tuple((code(name),) for name in overview.namespaces)
    table = Table(("namespace",), rows, overview.num_namespaces, "namespace", limit=MAX_LISTED)
    return Section("Namespaces", [code(named), muted(f" and {units.number(more)} more") if more else ""],
                   table if more else None)


def _tables(rows: Sequence[Any], total: int) -> Section:
    if not total:
        return Section("Tables", muted("none yet"))
    columns = ("table", "format", "version", "published")
    cells = tuple((code(row.name), row.format, *_versions(row)) for row in rows)
    return Section("Tables", units.count(total, "table"), Table(columns, cells, total, "table"),
                   is_open=True, text_rows=True)


def _versions(row: Any) -> tuple[Inline, Inline]:
    """The newest version, and whether readers of the folder see it, too; the catalog hears that of the last
    commit with the next one."""
    if row.delta is None:
        return iceberg.pointer(row.metadata_location), muted("–")
    behind = row.delta.latest - row.delta.published
    published: Inline = Span("✓ yes", "ok")
    if behind:
        words = "1 not reported" if behind == 1 else f"{units.number(behind)} unpublished"
        published = (muted if behind == 1 else warn)(f"up to v{row.delta.published}, {words}")
    return f"v{row.delta.latest}", published


def _last(overview: Any) -> Section:
    if not overview.last:
        return Section("Transactions", muted("none yet"))
    newest = overview.last[0]
    line = [f"last {newest.seq}  {units.time(newest.time)}", *_by(newest), "  ",
            *moved(newest.changes, overview.names)]
    rows = tuple(_row(entry, overview.names) for entry in overview.last)
    return Section("Transactions", line, Table(HISTORY, rows, overview.num_transactions, "transaction"))


def _by(entry: Any) -> list[Inline]:
    return [f" by {entry.principal}"] if entry.principal else []


# -- history -------------------------------------------------------------------------------------


def history(history: Any) -> View:
    """The view of a :class:`~deltanb.catalog.store.history.CatalogHistory`: one line a transaction."""
    if not history:
        return View("Catalog history", history.catalog, ("no transactions yet",))
    rows = tuple(_row(entry, history.names) for entry in history[: options.max_rows])
    table = Table(HISTORY, rows, max(history.total, len(history)), "transaction", HISTORY[:-1])
    summary = [units.count(history.total, "transaction"), muted(", newest first")]
    section = Section("Transactions", summary, table, is_open=True, text_rows=True)
    return View("Catalog history", history.catalog, sections=(section,))


def _row(entry: Any, names: Mapping[str, str]) -> tuple[Inline, ...]:
    words = ", ".join(dict.fromkeys(entry.operations.values())) or entry.summary or "–"
    time = Span(units.time(entry.time, zone=False), "fixed")
    return (str(entry.seq), time, entry.principal or muted("–"), moved(entry.changes, names), words,
            code(units.fit(entry.txn_id, KEEP_ID + 1)))


def moved(changes: Mapping[str, Any], names: Mapping[str, str]) -> list[Inline]:
    """What a transaction moved: each table by its current name, from one version to another.

    >>> from deltanb.notebook.views.model import plain
    >>> plain(moved({"a": ("3", "4"), "b": (None, "0"), "0123456789": ("7", None)}, {"a": "shop.orders"}))
    'table 01234567… v7→dropped, table b… new v0, shop.orders v3→v4'
    """
    line: list[Inline] = []
    in_order = sorted(changes.items(), key=lambda item: names.get(item[0], item[0]))
    for table_id, (before, after) in in_order[:MAX_NAMED]:
        name = code(names[table_id]) if table_id in names else f"table {table_id[:KEEP_ID]}…"
        to = "dropped" if after is None else iceberg.pointer(after)
        way = f" new {to}" if before is None else f" {iceberg.pointer(before)}→{to}"
        line += [", " if line else "", name, Span(way, "fixed")]
    more = len(changes) - MAX_NAMED
    return [*line, muted(f" and {units.count(more, 'more table')}")] if more > 0 else line or [muted("–")]


# -- snapshots -----------------------------------------------------------------------------------


def snapshot(snapshot: Any) -> View:
    """The view of a :class:`~deltanb.catalog.snapshot.CatalogSnapshot`: the tables loaded so far."""
    loaded = snapshot.loaded
    marks = (f"after transaction {snapshot.seq}", units.count(len(loaded), "table"))
    if not loaded:
        ask = ["no table was asked for; ", code('snapshot["namespace.table"]')]
        return View("Catalog snapshot", snapshot.catalog.name, marks, (ask,))
    columns = ("table", "version", "files", "size", "last commit")
    rows = tuple(_table_row(name, table) for name, table in list(loaded.items())[:options.max_rows])
    section = Section("Tables", muted("all as they were at one instant"),
                      Table(columns, rows, len(loaded), "table"), is_open=True, text_rows=True)
    return View("Catalog snapshot", snapshot.catalog.name, marks, (), (section,))


def _table_row(name: str, table: Any) -> tuple[Inline, ...]:
    if not hasattr(table, "snapshot"):
        return iceberg.table_row(name, table)
    snapshot = table.snapshot
    files, size = tables._counts(snapshot)
    info = snapshot.last_commit_info
    line = str(tables.last_commit(info, known_time_of(snapshot))) if info else ""
    last = line.removeprefix("last: ") or muted("–")
    return (code(name), f"v{snapshot.version}", units.number(files),
            muted("not read yet") if size is None else units.size(size), last)
