"""A query as text: which tables it names, at which version, and the same text with other names for them.

What lives here: :class:`Statement`. The text is cut by sqlglot, and only names of tables and what stands for
time travel are ever changed in it: everything else reaches the engine as it was written.
What it does not know: what a name stands for (``names``), what conditions mean (``pushed``), any engine.

``FROM flights VERSION AS OF 3``, ``flights@v3`` and ``TIMESTAMP AS OF '2026-03-01'`` are Spark's, and no
engine is asked about them: the clause is read here and cut out. So is ``table_changes('flights', 2, 5)``,
which stands for the table's change data feed, and ``table_changes_by_path('lake/flights', 2, 5)``. A
parameter may be written ``:name`` or ``$name``, whoever runs the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from deltanb.errors import InvalidQuery
from deltanb.query.statements.text import Cursor, is_parameter, words_of

_CHANGES = "__changes_"
"""Begins the names that stand for calls of ``table_changes`` while a query is parsed."""


class _DuckDB(DuckDB):
    """DuckDB's SQL with names in backticks besides, as Delta's users write paths."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012  # as sqlglot wants it


DIALECTS: dict[str, Any] = {"duckdb": _DuckDB, "spark": sqlglot.Dialect.get_or_raise("spark")}


@dataclass(frozen=True, eq=False)
class Reference:
    """A place where a query names a table."""

    node: exp.Table
    parts: tuple[str, ...]
    """The name, part by part."""
    start: int
    end: int
    """Where it stands in the text, time travel included; both are within."""
    moment: int | str | None = None
    """The version or time it is to be read at."""
    changes: tuple[int | str, int | str | None] | None = None
    """The first version, or time, whose changes are meant, and the last one; None for the newest."""

    @property
    def text(self) -> str:
        """The name as a person says it."""
        return ".".join(self.parts)

    @property
    def alias(self) -> str:
        """What columns of it are qualified by."""
        return str(self.node.alias or self.parts[-1])


class Statement:
    """One query, understood as far as its tables.

    >>> sql = "SELECT * FROM flights VERSION AS OF 3 f JOIN delta.`lake/planes` USING (id)"
    >>> found = Statement(sql, "duckdb")
    >>> [(one.parts, one.alias, one.moment) for one in found.references]
    [(('flights',), 'f', 3), (('delta', 'lake/planes'), 'lake/planes', None)]
    >>> found.with_names({found.references[0]: "t0", found.references[1]: "t1"})
    'SELECT * FROM "t0" f JOIN "t1" AS "lake/planes" USING (id)'

    Raises:
        InvalidQuery: no SQL, several statements, or one that is no query.
    """

    def __init__(self, sql: str, dialect: str) -> None:
        self.sql = sql.strip().rstrip(";").rstrip()
        self.dialect = dialect
        self._parser = DIALECTS[dialect]() if isinstance(DIALECTS[dialect], type) else DIALECTS[dialect]
        if self.sql[:7].upper() == "EXPLAIN":
            raise InvalidQuery("the plan of a query is not shown; its card says which files it opens, and "
                               "table.explain(where) says it of a condition", query=self.sql)
        self.tokens = self._tokens(self.sql)
        self._words = list(words_of(self.sql, self.tokens))
        travels = list(_travels(Cursor(self.sql, self._words)))
        self._changes = list(_calls(Cursor(self.sql, self._words)))
        self.tree = self._tree(travels)
        self.references = tuple(self._references(travels))

    def _tokens(self, sql: str) -> list[Token]:
        try:
            return list(self._parser.tokenize(sql))
        except SqlglotError as error:
            raise _refused(sql, error) from None

    def _tree(self, travels: Sequence[_Travel]) -> exp.Expression:
        text = self.sql
        for travel in travels:  # blanks in its place: all else keeps its position
            text = text[:travel.start] + " " * (travel.end + 1 - travel.start) + text[travel.end + 1:]
        for at, call in enumerate(self._changes):
            name = f"{_CHANGES}{at}".ljust(call.end + 1 - call.start)
            text = text[:call.start] + name + text[call.end + 1:]
        try:
            parsed = self._parser.parser().parse(self._tokens(text), text)
        except (SqlglotError, RecursionError) as error:
            raise _refused(self.sql, error) from None
        trees = [tree for tree in parsed if tree is not None]
        if len(trees) != 1:
            what = "there is no query" if not trees else f"these are {len(trees)} statements"
            raise InvalidQuery(f"{what}; write one SELECT", query=self.sql)
        _check_kind(trees[0], self.sql)
        return trees[0]

    def _references(self, travels: Sequence[_Travel]) -> Iterator[Reference]:
        left = list(travels)
        for node in self.tree.find_all(exp.Table):
            if not isinstance(node.this, exp.Identifier) or _is_of_with(node):
                continue  # a function, such as range(3), or a name that the query gives itself
            if node.args.get("version") is not None:
                raise InvalidQuery(
                    f"{node.name}: VERSION AS OF takes a number and TIMESTAMP AS OF a string, such as "
                    "'2026-03-01 12:00:00'", query=self.sql)
            if node.name.startswith(_CHANGES):
                call = self._changes[int(node.name.removeprefix(_CHANGES))]
                yield Reference(node, call.parts, call.start, call.end, None, call.moments)
                continue
            spans = [part.meta for part in node.parts]
            start, end = min(one["start"] for one in spans), max(one["end"] for one in spans)
            behind = (one for one in left if one.start > end and not self.sql[end + 1:one.start].strip())
            travel = next(behind, None)
            if travel is not None:
                left.remove(travel)
            yield Reference(node, tuple(part.name for part in node.parts), start,
                            end if travel is None else travel.end, None if travel is None else travel.moment)
        if left:
            raise InvalidQuery(
                f"{self.sql[left[0].start:left[0].end + 1]} stands directly after the name of a table, "
                "before its alias", query=self.sql)

    def with_names(self, names: dict[Reference, str]) -> str:
        """The text with other names for its tables; columns can be qualified as before."""
        edits = [(one.start, one.end, self._named(one, name)) for one, name in names.items()]
        taken = [(start, end) for start, end, _ in edits]
        edits += self._parameters()
        if self.dialect == "duckdb":
            edits += [(token.start, token.end, _quoted(token.text, '"')) for token in self.tokens
                      if token.token_type == TokenType.IDENTIFIER and self.sql[token.start] == "`"
                      and not any(start <= token.start <= end for start, end in taken)]
        text = self.sql
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end + 1:]
        return text

    def _parameters(self) -> list[tuple[int, int, str]]:
        """Parameters that have another dialect's sign, with that of their engine."""
        theirs, ours = (":", "$") if self.dialect == "duckdb" else ("$", ":")
        if theirs not in self.sql or self.tree.find(exp.Placeholder, exp.Parameter) is None:
            return []
        words = [None, *self._words]
        return [(sign.start, sign.start, ours) for before, sign, name in zip(
                    words, words[1:], words[2:], strict=False)
                if sign is not None and name is not None and sign.text == theirs
                and is_parameter(before, sign, name)]

    def _named(self, one: Reference, name: str) -> str:
        quote = '"' if self.dialect == "duckdb" else "`"
        stands_alone = not isinstance(one.node.parent, (exp.From, exp.Join))  # as in SUMMARIZE flights
        alias = "" if one.node.alias or stands_alone else f" AS {_quoted(one.alias, quote)}"
        return _quoted(name, quote) + alias

    def names_used(self) -> set[str] | None:
        """Every name in the text, in lower case: no other column is asked for. None if all columns may be."""
        for node in self.tree.walk():
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
                return None
            if isinstance(node, (exp.Pivot, exp.Describe)) or type(node).__name__ in ("Columns", "Summarize"):
                return None
            if isinstance(node, exp.Join) and str(node.args.get("method") or "").upper() == "NATURAL":
                return None
        aliases = {one.alias.lower() for one in self.references}
        columns = {node.name.lower() for node in self.tree.find_all(exp.Column)}
        if aliases & columns:  # SELECT t FROM t: the whole row
            return None
        return {node.name.lower() for node in self.tree.find_all(exp.Identifier)}


@dataclass(frozen=True)
class _Travel:
    start: int
    end: int
    moment: int | str


def _travels(cursor: Cursor) -> Iterator[_Travel]:
    """``VERSION AS OF 3`` and its like, wherever they are. Without a literal the words are none: an alias may
    be ``of``."""
    while not cursor.is_at_end:
        start, moment = cursor.start, cursor.travel(or_fail=False)
        if moment is None:
            cursor.at += 1
        else:
            yield _Travel(start, cursor.words[cursor.at - 1].end - 1, moment)


@dataclass(frozen=True)
class _Call:
    """``table_changes('flights', 2, 5)``."""

    start: int
    end: int
    parts: tuple[str, ...]
    moments: tuple[int | str, int | str | None]


def _calls(cursor: Cursor) -> Iterator[_Call]:
    """The calls of ``table_changes`` and ``table_changes_by_path``, wherever they stand."""
    while not cursor.is_at_end:
        start = cursor.start
        called = cursor.take_any("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH").lower()
        if not (called and cursor.take_sign("(")):
            cursor.at += not called
            continue
        by_path = called.endswith("path")
        parts = ("delta", cursor.string("a path in quotes")) if by_path else _table_of(cursor)
        moments: list[int | str] = []
        while cursor.take_sign(","):
            moments.append(cursor.string() if cursor.sees_text else
                           int(cursor.number("a version or a time in quotes")))
        if len(moments) not in (1, 2):
            raise cursor.refused(
                f"{called} takes a {'path' if by_path else 'table'}, the first version or time, and perhaps "
                "the last one", start)
        cursor.expect_sign(")")
        first, last = moments[0], moments[1] if moments[1:] else None
        yield _Call(start, cursor.words[cursor.at - 1].end - 1, parts, (first, last))


def _table_of(cursor: Cursor) -> tuple[str, ...]:
    """The table of ``table_changes``, as a name or as a text that is one."""
    name = cursor.table()
    is_name = name.is_quoted and _NAMES.fullmatch(name.text)
    return Cursor.over(name.text).table().parts if is_name else name.parts


_NAMES = re.compile(r"[^\W\d]\w*(\.([^\W\d]\w*|`[^`]+`))*")


def _check_kind(tree: exp.Expression, sql: str) -> None:
    inner = tree
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    if isinstance(inner, (exp.Query, exp.Values, exp.Describe, exp.Pivot)) or (
            type(inner).__name__ == "Summarize"):
        return
    raise InvalidQuery(
        f"{inner.key.upper()} is not a query, and only queries can be run here: write SELECT, and change "
        "tables with their methods (table.append(…), table.update(…), table.delete(…), table.merge(…)) or by "
        "dn.sql(…), without WITH before the statement", query=sql)


def _is_of_with(node: exp.Table) -> bool:
    """Whether the name is one that WITH gives in a query around it."""
    name = node.name.lower()
    if len(node.parts) > 1:
        return False
    child: Any = node
    parent: Any = node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            expressions = parent.expressions
            if not parent.args.get("recursive"):  # a part of WITH sees those before it
                expressions = expressions[:next(at for at, one in enumerate(expressions) if one is child)]
            if name in _aliases(expressions):
                return True
            child, parent = parent.parent, parent.parent.parent
            continue
        within = parent.args.get("with_") or parent.args.get("with")
        if within is not None and within is not child and name in _aliases(within.expressions):
            return True
        child, parent = parent, parent.parent
    return False


def _aliases(expressions: Sequence[Any]) -> set[str]:
    return {one.alias.lower() for one in expressions}


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _refused(sql: str, error: Exception) -> InvalidQuery:
    details: dict[str, Any] = next(iter(getattr(error, "errors", None) or []), {})
    if not details:
        first = (str(error) or type(error).__name__).splitlines()[0]
        return InvalidQuery(f"the query is not valid SQL: {first}", query=sql)
    near = f", near {details['highlight']!r}" if details.get("highlight") else ""
    description = str(details.get("description", "syntax error")).rstrip(".")
    if description.startswith("Required keyword"):
        description = "a part of it is missing"
    return InvalidQuery(
        f"the query is not valid SQL: {description} at line {details.get('line')}, column "
        f"{details.get('col')}{near}", query=sql, line=details.get("line"), position=details.get("col"))
