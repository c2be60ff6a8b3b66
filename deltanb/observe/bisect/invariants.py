"""A statement about data that holds or does not: a function, or SQL.

What lives here: :func:`invariant_of`, and :class:`Watch`, which notices what a statement writes.
What it does not know: where it is asked, and in which order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltanb.catalog.snapshot import CatalogSnapshot
from deltanb.errors import DeltaError, InvalidArgument, InvalidQuery, InvalidTable, UnsupportedPredicate
from deltanb.sql.conditions import text_of
from deltanb.store.base import is_remote
from deltanb.table.table import DeltaTable
from deltanb.text import formatting as units
from deltanb.text.safe_text import shown
from deltanb.transaction.journal import journal_of

if TYPE_CHECKING:
    from deltanb.observe.bisect.places import Places
    from deltanb.sql.conditions import Where

MAX_TEXT = 120  # characters of a statement in a picture

_QUERY = re.compile(r"\s*(SELECT|WITH|FROM|VALUES)\b", re.IGNORECASE)
"""How a query begins; other SQL is a condition on each row."""


@dataclass(frozen=True)
class Invariant:
    """A statement, and how it is asked.

    ``ask`` takes a table at a version, several by name, or a catalog's snapshot, and returns what the
    statement returns; ``text`` is the statement in words.
    """

    text: str
    ask: Callable[[Any], Any]


def invariant_of(invariant: Callable[[Any], Any] | Where, is_one: bool) -> Invariant:
    """A statement as people give it; ``is_one`` says whether it is about one table.

    Raises:
        InvalidArgument: neither a function nor SQL, or a condition on rows of several tables.
        InvalidQuery: a query that cannot be read.
    """
    if isinstance(invariant, str) and _QUERY.match(invariant):
        return _query(invariant.strip())
    if isinstance(invariant, str) or not callable(invariant):
        if not is_one:
            raise InvalidArgument(
                f"invariant={shown(invariant)}: a condition is about the rows of one table; for several, "
                "give a function of them, or a query: 'SELECT count(*) = 0 FROM …'")
        return _condition(invariant)
    name = getattr(invariant, "__name__", type(invariant).__name__)
    return Invariant("a function" if name == "<lambda>" else f"{name}()", invariant)


def truth(answer: Any) -> bool:
    """What an answer means.

    Raises:
        InvalidArgument: it is neither true nor false.

    >>> import pyarrow as pa
    >>> truth(1), truth(pa.scalar(False))
    (True, False)
    """
    value = answer.as_py() if hasattr(answer, "as_py") else answer
    if value is None or hasattr(value, "__len__") or isinstance(value, DeltaTable):
        what = "None" if value is None else f"a {type(value).__name__}"
        way_out = "return one of them"
        if value is None and answer is not None:  # of a query
            what, way_out = "NULL", "coalesce(…, false) decides it"
        raise InvalidArgument(f"the invariant returned {what}, which is neither true nor false; {way_out}")
    return bool(value)


def _condition(condition: Where) -> Invariant:
    """That every row satisfies a condition, as a CHECK constraint means it: one that is NULL does not."""

    def ask(table: DeltaTable) -> bool:
        sql = text_of(condition, lambda: table.schema)
        try:
            broken = table.to_arrow(table.schema.names[:1], where=f"({sql}) IS NOT TRUE", limit=1)
        except UnsupportedPredicate as error:
            from deltanb.sql.row_expressions import has_aggregate  # late: it loads the SQL parser

            if not has_aggregate(sql):
                raise
            raise InvalidArgument(
                f"invariant={shown(sql)}: a condition is about each row; what is about all of them is a "
                f"query: invariant={shown(f'SELECT {sql} FROM {table.name}')}") from error
        return broken.num_rows == 0

    text = condition if isinstance(condition, str) else str(condition)
    return Invariant(units.fit(units.clean(text), MAX_TEXT), ask)


def _query(sql: str) -> Invariant:
    """That the one value of a query's one row is true."""
    from deltanb.query.duck import DUCKDB
    from deltanb.query.run import run
    from deltanb.query.statement import Statement

    Statement(sql, DUCKDB.dialect)  # what is no query is refused at once

    def ask(view: Any) -> Any:
        statement = Statement(sql, DUCKDB.dialect)
        tables = {f"t{at}": _table(view, one.text) for at, one in enumerate(statement.references)}
        aliased = statement.with_names({one: f"t{at}" for at, one in enumerate(statement.references)})
        rows = run(aliased, tables, DUCKDB).rows
        if rows.num_rows != 1 or rows.num_columns != 1:
            size = f"{units.count(rows.num_rows, 'row')} of {units.count(rows.num_columns, 'column')}"
            raise InvalidQuery(
                f"the query returned {size}; it must return a single truth value: SELECT count(*) = 0 FROM "
                "…", query=sql)
        return rows.column(0)[0]

    return Invariant(units.fit(units.clean(sql), MAX_TEXT), ask)


def _table(view: Any, name: str) -> Any:
    """The table that a query names, where it is asked."""
    if isinstance(view, DeltaTable):
        return view
    if isinstance(view, CatalogSnapshot):
        table = view.table(name)
    elif name in view:
        table = view[name]
    else:
        raise InvalidQuery(f"the query names {name}; the tables are {', '.join(view)}", name=name)
    return table if isinstance(table, DeltaTable) else table.to_arrow()


class Watch:
    """What is written to tables and the catalog while statements are asked, by this process."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.written: dict[str, None] = {}
        """What this process wrote, in words; an ordered set."""
        self._others: dict[str, int] = {}
        logs = places.logs.values()
        self._is_costly = any(is_remote(log.store) for log in logs) and all(map(_opens, logs))
        self._newest = self._state()

    def look(self, place: Any) -> None:
        """Note what came since the last look; ``place`` is where the statement was asked."""
        newest = self._state()
        for name, version in newest.items():
            before = self._newest.get(name)
            if before is None or version == before:
                continue
            what = self._own(name, before, version)
            if what:
                self.written[f"asked at {place}, the invariant wrote {what}; it may only read"] = None
            else:
                self._others[name] = version
        self._newest = newest

    def notes(self) -> list[str]:
        """What was written meanwhile: by the invariant, or by somebody who is not known here."""
        others = [
            f"{name} went on to {'v' if name in self.places.logs else 'transaction '}{newest} while it was "
            "asked: by other writers, or by the invariant through another program"
            for name, newest in self._others.items()]
        return [*self.written, *others]

    def _state(self) -> dict[str, int]:
        state = {name: _newest(log, self._is_costly) for name, log in self.places.logs.items()}
        if self.places.catalog is not None:
            state[f"catalog {self.places.catalog.name}"] = self.places.catalog.store.instant()
        return state

    def _own(self, name: str, before: int, after: int) -> str:
        """What this process wrote behind a version; others may have committed meanwhile."""
        log = self.places.logs.get(name)
        if log is None:
            return self._own_of_catalog(before)
        ours = [attempt for attempt in journal_of(log)
                if attempt.outcome == "committed" and before < attempt.version <= after]
        return ", ".join(f"v{attempt.version} of {name} ({attempt.operation})" for attempt in ours)

    def _own_of_catalog(self, before: int) -> str:
        catalog = self.places.catalog
        assert catalog is not None
        ours = {attempt.grid.txn_id for attempt in catalog.attempts}
        entries = [entry for entry in catalog.store.history(before) if entry.seq > before]
        names = catalog.names_of(table_id for entry in entries for table_id in entry.changes)
        made = []
        for entry in entries:
            is_ours = entry.txn_id in ours or any(
                attempt.txn_id == entry.txn_id for name in names.values() for attempt in self._journal(name))
            if is_ours:
                tables = ", ".join(names.get(table_id, table_id) for table_id in entry.changes)
                made.append(f"transaction {entry.seq} of the catalog ({tables})")
        return ", ".join(made)

    def _journal(self, name: str) -> Any:
        catalog = self.places.catalog
        assert catalog is not None
        try:
            table = catalog.table(name)
        except DeltaError:
            return ()
        return journal_of(table.log) if isinstance(table, DeltaTable) else ()


def _opens(log: Any) -> bool:
    """Whether the newest version can be read."""
    try:
        return log.snapshot is not None
    except InvalidTable:
        return False


def _newest(log: Any, is_costly: bool) -> int:
    """The newest version; in a bucket, of what this process has seen, which its own commits are."""
    return int(log.snapshot.version if is_costly else log.commits.newest())
