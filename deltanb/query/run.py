"""A query from its text to its result.

What lives here: :func:`run`: names are resolved, files left out, an engine asked, and told what it opened;
:func:`explain_query`, which asks no engine.
What it does not know: notebooks; how an engine runs (``duck``, ``on_spark``).

All tables of a query are read at the versions that stand when it begins. In an active transaction what is
read is recorded, as of ``table.to_arrow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from deltanb.errors import InvalidQuery
from deltanb.log.skipping.explain import Condition, ScanExplanation, explain
from deltanb.query.names import Scope, resolve, value_of
from deltanb.query.pushed import Pushed, pushed
from deltanb.query.result import QueryPlan, QueryResult, Read
from deltanb.query.statement import Reference, Statement
from deltanb.query.statements.text import path_of
from deltanb.table.table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate

PREFIX = "__deltanb_"
"""Begins the names by which engines know the tables of a query: no user's name begins so."""


@dataclass(frozen=True)
class Source:
    """Rows of a query: of a Delta table, the files that may hold what is asked for."""

    name: str
    """What the engine calls it."""
    rows: Any = None
    """Rows that are no Delta table's: anything with an Arrow stream."""
    snapshot: Snapshot | None = None
    files: pa.Table | None = None
    columns: tuple[str, ...] | None = None
    """Columns that are asked for; None for all."""
    where: Predicate | None = None
    """What every row that is asked for satisfies."""


@dataclass(frozen=True)
class Answer:
    """What an engine gives."""

    rows: pa.Table
    reads: Mapping[str, Read] = field(default_factory=dict)
    """How much it asked for of a source, by the source's name; of others all."""


@dataclass(frozen=True)
class Engine:
    """Who runs a query."""

    name: str
    dialect: str
    run: Callable[[str, list[Source], Mapping[str, Any]], Answer]
    reads_files: bool = False
    is_utc: Callable[[], bool] = lambda: True


def run(sql: str, namespace: Scope | Mapping[str, Any], engine: Engine) -> QueryResult:
    """Run a query over tables that are named by variables or paths.

    Args:
        sql: one query in the engine's SQL. ``$name`` (DuckDB) or ``:name`` (Spark) stands for the value of a
            variable.
        namespace: the variables, by name, or where names are looked up beside them.
        engine: who runs it.

    Raises:
        InvalidQuery: it is no query, or the engine refuses it.
        TableNotFound: a name stands for nothing.
        MissingDependency: the engine is not installed.
    """
    plan = _plan(sql, namespace, engine)
    answer = engine.run(plan.statement.with_names(plan.names), plan.sources, plan.values)
    reads = tuple(answer.reads.get(name, "whole") for name in plan.scans)
    return QueryResult(plan.statement.sql, answer.rows, tuple(plan.scans.values()), reads, engine.name)


def explain_query(
    sql: str, namespace: Scope | Mapping[str, Any], engine: Engine
) -> ScanExplanation | QueryPlan:
    """Which files a query would open, and why it would skip the others; no data file is opened.

    Returns:
        The explanation of its table, or a plan with those of all tables where there is not one.

    Raises:
        InvalidQuery, TableNotFound: as :func:`run`, but for what only the engine refuses.
    """
    plan = _plan(sql, namespace, engine)
    scans = tuple(plan.scans.values())
    return scans[0] if len(scans) == 1 else QueryPlan(plan.statement.sql, scans)


@dataclass(frozen=True)
class _Plan:
    statement: Statement
    names: dict[Reference, str]
    sources: list[Source]
    scans: dict[str, ScanExplanation]
    """By the name of the table's source."""
    values: dict[str, Any]


def _plan(sql: str, namespace: Scope | Mapping[str, Any], engine: Engine) -> _Plan:
    """What an engine is to be asked: names are resolved, and files left out."""
    statement, scope = Statement(sql, engine.dialect), Scope.of(namespace)
    resolved = {one: resolve(one, scope, files=engine.reads_files) for one in statement.references}
    values = _values(statement, scope.variables)
    tables = {one: rows for one, rows in resolved.items() if isinstance(rows, DeltaTable)}
    schemas = {one: table.snapshot.schema for one, table in tables.items()}
    conditions = pushed(statement, schemas, values, is_utc=engine.is_utc())
    used = statement.names_used()
    names = {one: f"{PREFIX}{at}" for at, one in enumerate(resolved) if resolved[one] is not None}
    sources, scans = [], {}
    for one, name in names.items():
        if one in tables:
            source = _source(name, tables[one], conditions.get(one, Pushed()), used)
            sources.append(source)
            scans[name] = _explanation_of(one, source, conditions.get(one, Pushed()))
        else:
            sources.append(Source(name, resolved[one]))
    return _Plan(statement, names, sources, scans, values)


def _source(name: str, table: Any, conditions: Pushed, used: set[str] | None) -> Source:
    snapshot, files = table._scan(conditions.where)
    columns = None
    if used is not None:
        columns = tuple(field.name for field in snapshot.schema.fields if field.name.lower() in used)
        if not columns:  # rows are counted: by what costs least to read
            columns = (*snapshot.partition_columns, *snapshot.schema.names)[:1]
    return Source(name, snapshot=snapshot, files=files, columns=columns, where=conditions.where)


def _explanation_of(one: Reference, source: Source, conditions: Pushed) -> ScanExplanation:
    """Which files are opened, in the words of the query."""
    assert source.snapshot is not None
    idle = [Condition(text, None, reason=reason) for text, reason in conditions.not_used]
    shown = explain(source.snapshot, source.where, name=path_of(one.parts) or one.text, not_used=idle)
    texts = {ours.sql: text for ours, text in conditions.conditions}
    return replace(
        shown, where=" AND ".join(texts.values()) or None,
        conditions=tuple(replace(c, sql=texts.get(c.sql, c.sql)) for c in shown.conditions),
        spared_files=tuple(replace(file, condition=texts.get(file.condition, file.condition))
                           for file in shown.spared_files))


def _values(statement: Statement, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the parameters that a query has."""
    values = {}
    for node in statement.tree.find_all(exp.Placeholder, exp.Parameter):
        name = node.name
        if not name.isidentifier():
            form = "$name" if statement.dialect == "duckdb" else ":name"
            raise InvalidQuery(f"a parameter has the name of a variable: write {form}", query=statement.sql)
        values[name] = value_of(name, namespace, "query", query=statement.sql)
    return values
