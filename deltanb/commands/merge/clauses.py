"""The clauses of a MERGE, from what people write to SQL with unambiguous names.

What lives here: :class:`Clause`; :class:`Names`, which knows the two tables of a merge by their aliases and
qualifies every column of an expression; the columns that ``*`` stands for, and the schema of the table after
a merge with schema evolution.
What it does not know: rows, files, how a clause is executed (``in_process``, ``on_spark``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeGuard

from deltanb.commands.define import evolution
from deltanb.engines.arrow import assignments as assigning
from deltanb.errors import InvalidArgument, InvalidPredicate, SchemaMismatch
from deltanb.schema.columns import GENERATION, KEYS, START, STEP, Identity
from deltanb.schema.types import DataType, StructField, StructType, backticked
from deltanb.sql.backquotes import with_hint
from deltanb.sql.syntax import Parsed, columns, with_aliases
from deltanb.text.formatting import did_you_mean

MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE = "matched", "not matched", "not matched by source"
UPDATE, DELETE, INSERT = "update", "delete", "insert"
BOTH, TARGET, SOURCE = ("target", "source"), ("target",), ("source",)
VISIBLE = {MATCHED: BOTH, NOT_MATCHED: SOURCE, NOT_MATCHED_BY_SOURCE: TARGET}
"""Whose columns the expressions of a clause may name."""

Tree = assigning.Tree


class Fields(dict[str, Any]):
    """A node of a :data:`Tree`: the fields of a struct that come from a struct of the source; it keeps its
    other fields. If both structs are NULL, it stays NULL.

    ``source`` is the source's struct as SQL.
    """

    def __init__(self, source: str, fields: Tree) -> None:
        super().__init__(fields)
        self.source = source


@dataclass(frozen=True)
class Clause:
    """One WHEN clause: which rows it applies to, and its action.

    ``values`` are SQL or Python values by column; None is ``*``, every column but those of ``except_cols``.
    """

    kind: str
    action: str
    condition: str | None = None
    values: Mapping[str, Any] | None = None
    except_cols: tuple[str, ...] = ()

    @property
    def is_star(self) -> bool:
        """Whether all columns are taken from the source by name."""
        return self.action != DELETE and self.values is None

    @property
    def words(self) -> str:
        """The clause in words, for messages."""
        return f"WHEN {self.kind.upper()} THEN {self.action.upper()}"


@dataclass(frozen=True)
class Resolved:
    """A clause over known columns: its condition qualified, its values by columns of the new schema.

    ``generated`` is the SQL, over the new row, of those generated columns that the clause does not assign.
    With ``evolves``, fields missing from the structs of a value are NULL; else such a value is refused.
    """

    kind: str
    action: str
    condition: str | None
    tree: Tree
    generated: dict[str, str]
    evolves: bool = False


def check_order(clauses: Sequence[Clause], new: Clause) -> None:
    """Refuse a clause that could never be reached.

    Raises:
        InvalidArgument: an earlier clause of the kind has no condition.
    """
    last = next((c for c in reversed(clauses) if c.kind == new.kind), None)
    if last is not None and last.condition is None:
        raise InvalidArgument(
            f"{last.words} has no condition, so {new.words} after it would never be reached: only the "
            f"last {new.kind.upper()} clause can omit the condition. Give the earlier one a condition")


# --- names ----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Names:
    """The two tables of a merge: their schemas, and the aliases by which expressions name them.

    ``now`` is the time of the merge in milliseconds.

    >>> from deltanb.schema.types import PrimitiveType
    >>> long = PrimitiveType("long")
    >>> target = StructType([StructField("id", long), StructField("n", long)])
    >>> names = Names(target, StructType([StructField("id", long)]), "t", "s")
    >>> names.qualified("T.id = s.id AND n > 1")
    'T.id = s.id AND `t`.n > 1'
    """

    target: StructType
    source: StructType
    target_alias: str
    source_alias: str
    now: int = 0

    def __post_init__(self) -> None:
        for alias in (self.target_alias, self.source_alias):
            if not isinstance(alias, str) or not alias:
                raise InvalidArgument(f"an alias is a name, found {alias!r}")
        if self.target_alias.lower() == self.source_alias.lower():
            raise InvalidArgument(
                f"target_alias and source_alias are both {self.target_alias!r}; give each its own")

    def schema(self, sides: Sequence[str] = BOTH) -> StructType:
        """A struct for each side under its alias: the schema of qualified expressions."""
        return StructType(StructField(self._alias(side), self._of(side)) for side in sides)

    def column(self, side: str, *path: str) -> str:
        """SQL that names a column of a side."""
        return ".".join(backticked(name) for name in (self._alias(side), *path))

    def qualified(
        self, sql: str, sides: Sequence[str] = BOTH, place: str = "the ON condition",
        is_condition: bool = True,
    ) -> Parsed:
        """The SQL with an alias for every column, and its time :func:`settled`; it is parsed here.

        Raises:
            InvalidPredicate: syntax; a column that no side has, that both have, or that is not visible at
                ``place``.
        """
        def read(text: str) -> Parsed:
            return Parsed(settled(text, self.now, is_condition=is_condition))

        try:
            sql = parsed = read(sql)
        except InvalidPredicate as error:
            names = [name for side in sides for name in self._of(side).names]
            raise with_hint(sql, names, error, read) from None
        aliases = []
        for node in columns(parsed):
            side = self._side([part.name for part in node.parts], sides, sql, place)
            aliases.append((node, None if side is None else self._alias(side)))
        return with_aliases(parsed, aliases)

    def _side(
        self, parts: Sequence[str], sides: Sequence[str], sql: str, place: str
    ) -> str | None:
        """The side whose alias a column lacks; None if it has one."""
        if len(parts) > 1:
            for side in BOTH:
                if parts[0].lower() == self._alias(side).lower():
                    if side not in sides:
                        raise InvalidPredicate(
                            f"{'.'.join(parts)!r} in {sql!r}: {place} cannot see the columns of the "
                            f"{side}; use those of the {sides[0]} ({self._alias(sides[0])}.…)",
                            predicate=sql, column=".".join(parts))
                    if self._of(side).get(parts[1]) is None:
                        raise self._unknown(parts, (side,), sql, place)
                    return None
        candidates = [side for side in sides if self._of(side).get(parts[0]) is not None]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            both = " and ".join(f"{self._alias(side)}.{parts[0]}" for side in candidates)
            raise InvalidPredicate(
                f"column {parts[0]!r} in {sql!r} is ambiguous: {both} have that name; write one of them",
                predicate=sql, column=parts[0])
        raise self._unknown(parts, sides, sql, place)

    def _unknown(
        self, parts: Sequence[str], sides: Sequence[str], sql: str, place: str
    ) -> InvalidPredicate:
        names = [f"{self._alias(side)}.{name}" for side in sides for name in self._of(side).names]
        hint, _ = did_you_mean(parts[-1], names)
        return InvalidPredicate(f"no column {'.'.join(parts)!r} for {place}, in {sql!r}; {hint}",
                                predicate=sql, column=".".join(parts))

    def _of(self, side: str) -> StructType:
        return self.target if side == "target" else self.source

    def _alias(self, side: str) -> str:
        return self.target_alias if side == "target" else self.source_alias


def settled(sql: str, now: int, *, is_condition: bool) -> str:
    """The SQL with the time of the merge, in milliseconds, in place of ``current_timestamp()`` and its like.

    A merge evaluates expressions more than once; the results must be the same each time.

    Raises:
        InvalidPredicate: a condition with a nondeterministic function.

    >>> settled("t.at < now() AND s.day = current_date", 0, is_condition=True)
    "t.at < TIMESTAMP '1970-01-01 00:00:00.000Z' AND s.day = DATE '1970-01-01'"
    """
    import sqlglot
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import TokenType

    moment = datetime.fromtimestamp(now / 1000, timezone.utc)
    texts = {"date": f"DATE '{moment:%Y-%m-%d}'",
             "timestamp": f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}.{now % 1000:03d}Z'",
             "timestamp_ntz": f"TIMESTAMP_NTZ '{moment:%Y-%m-%d %H:%M:%S}.{now % 1000:03d}'"}
    try:
        tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(sql)
    except SqlglotError:  # whoever parses it says where it is wrong
        return sql
    made, done = [], 0
    for i, token in enumerate(tokens):
        name = token.text.lower()
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or (
                i and tokens[i - 1].token_type == TokenType.DOT):
            continue
        opened = [t.token_type for t in tokens[i + 1:i + 3]]
        if is_condition and name in _CHANGING and opened[:1] == [TokenType.L_PAREN]:
            raise InvalidPredicate(
                f"{name}() in the condition {sql!r} gives another value at every call, so which rows match "
                "would be left to chance; put such values into a column of the source first",
                predicate=sql)
        called = opened == [TokenType.L_PAREN, TokenType.R_PAREN]
        if name in _TIMES and (called or name.startswith("current_")):
            made += [sql[done:token.start], texts[_TIMES[name]]]
            done = tokens[i + 2 if called else i].end + 1
    return "".join([*made, sql[done:]])


_TIMES = {"current_timestamp": "timestamp", "now": "timestamp", "current_date": "date", "curdate": "date",
          "localtimestamp": "timestamp_ntz"}
_CHANGING = frozenset({
    "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name"})


# --- values ---------------------------------------------------------------------------------------

def evolved(names: Names, clauses: Sequence[Clause], *, widen: bool) -> StructType:
    """The schema with columns of the source that clauses use and the table lacks.

    ``*`` adds all columns of the source, assignments those that they name.
    """
    new_fields: dict[str, StructField] = {}
    for clause in clauses:
        if clause.kind == NOT_MATCHED_BY_SOURCE or clause.action == DELETE:
            continue
        left_out = {name.lower() for name in clause.except_cols}
        for field in names.source.fields:
            named = clause.values is not None and any(
                key.lower() == field.name.lower() or _unaliased(names, key).lower() == field.name.lower()
                for key in clause.values)
            if named or (clause.is_star and field.name.lower() not in left_out):
                new_fields[field.name] = field
    return evolution.merge(names.target, StructType(new_fields.values()), widen=widen)


def resolve(names: Names, clause: Clause, schema: StructType, *, evolves: bool) -> Resolved:
    """The clause over the columns of the new ``schema``.

    Raises:
        InvalidPredicate: names and syntax, as :meth:`Names.qualified`.
        InvalidArgument: nothing is assigned, or a column twice.
        SchemaMismatch: ``*`` over a source that lacks columns of the table, without schema evolution.
    """
    sides = VISIBLE[clause.kind]
    condition = None
    if clause.condition is not None:
        condition = names.qualified(clause.condition, sides, f"the condition of {clause.words}")
    if clause.action == DELETE:
        return Resolved(clause.kind, clause.action, condition, {}, {})
    if clause.is_star:
        tree = _star(names, clause, schema, evolves)
        generated = assigning.generated(schema, tree)
        return Resolved(clause.kind, clause.action, condition, tree, generated, evolves)
    assert clause.values is not None
    if clause.action == INSERT and not clause.values:
        raise InvalidArgument(f"{clause.words} has no values; give values={{column: SQL}}, or use "
                              "when_not_matched_insert_all()")
    tree = assigning.resolve(schema, {_unaliased(names, key): sql for key, sql in clause.values.items()})
    tree = _qualified_tree(names, tree, sides, f"a value of {clause.words}", schema)
    if clause.action == INSERT:
        nested = next((name for name, value in tree.items() if isinstance(value, dict)), None)
        if nested is not None:
            raise InvalidArgument(
                f"{clause.words} gives a value to a part of {nested!r}; an inserted row has no other parts, "
                "so give the whole struct: named_struct(…)", column=nested)
    generated = assigning.generated(schema, tree)
    return Resolved(clause.kind, clause.action, condition, tree, generated, evolves)


def _unaliased(names: Names, key: str) -> str:
    """``t.name`` as ``name``, unless the table has a column ``t``."""
    prefix = names.target_alias.lower() + "."
    if isinstance(key, str) and key.lower().startswith(prefix) and (
            names.target.get(names.target_alias) is None):
        return key[len(prefix):]
    return key


def _qualified_tree(
    names: Names, tree: Tree, sides: Sequence[str], place: str, schema: StructType
) -> Tree:
    made: Tree = {}
    for name, value in tree.items():
        struct = schema.field(name).type
        if isinstance(value, dict):
            assert isinstance(struct, StructType)
            made[name] = _qualified_tree(names, value, sides, place, struct)
            continue
        try:
            made[name] = names.qualified(value, sides, place, is_condition=False)
        except InvalidPredicate as error:
            raise assigning.perhaps_text(error, value, name, struct) from None
    return made


def _star(names: Names, clause: Clause, schema: StructType, evolves: bool) -> Tree:
    left_out = {name.lower() for name in clause.except_cols}
    unknown = [name for name in clause.except_cols
               if schema.get(name) is None and names.source.get(name) is None]
    if unknown:
        raise InvalidArgument(
            f"except_cols names {unknown[0]!r}, which neither the table nor the source has",
            column=unknown[0])
    tree: Tree = {}
    missing = []
    for field in schema.fields:
        if field.name.lower() in left_out:
            continue
        source = names.source.get(field.name)
        identity = Identity.of(field)
        if source is not None:
            if identity is not None and not (identity.explicit and clause.action == INSERT):
                raise SchemaMismatch(
                    f"{clause.words} *: column {field.name!r} is an identity column, whose values the table "
                    f"generates. Leave it out: except_cols=[{field.name!r}]", column=field.name,
                    differences=[f"~ {field.name}: an identity column, in the source"])
            tree[field.name] = _taken(names, field, source, (source.name,), clause.action)
        elif not evolves and not _has_table_value(field, clause.action):
            missing.append(field.name)
    if missing:
        raise SchemaMismatch(
            f"{clause.words} *: the source does not have {', '.join(map(repr, missing))}. Name the columns "
            "(set= or values=), leave them out (except_cols=), or let them be: with_schema_evolution(), "
            "or merge_schema=True of an upsert",
            differences=[f"- {name}: missing from the source" for name in missing])
    if not tree:
        raise SchemaMismatch(f"{clause.words} *: the source has no column of the table",
                             differences=["- all columns: missing from the source"])
    return tree


def _has_table_value(field: StructField, action: str) -> bool:
    """Whether the table computes a value for the column of a row that lacks it."""
    keys = (GENERATION, START, STEP) if action == UPDATE else KEYS
    return any(key in field.metadata for key in keys)


def _taken(
    names: Names, field: StructField, source: StructField, path: tuple[str, ...], action: str
) -> Any:
    """The source's column; for a struct, its fields one by one if an update must keep others."""
    column = names.column("source", *path)
    if action == UPDATE and isinstance(source.type, StructType) and _has_more(field.type, source.type):
        return Fields(column, {f.name: _taken(names, f, other, (*path, other.name), action)
                               for f in field.type.fields if (other := source.type.get(f.name)) is not None})
    return column


def _has_more(target: DataType, source: DataType) -> TypeGuard[StructType]:
    """Whether a struct, or one inside it, has fields that the source's lacks."""
    return isinstance(target, StructType) and isinstance(source, StructType) and any(
        (inner := source.get(field.name)) is None or _has_more(field.type, inner.type)
        for field in target.fields)
