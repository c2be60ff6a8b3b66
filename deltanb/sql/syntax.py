"""SQL as text: one expression cut and parsed by sqlglot, as Spark reads it.

What lives here: :func:`syntax`, the tree of an expression or an error that says where it is wrong;
:class:`Parsed`, a text that has its tree with it; and :func:`split`, the texts that AND joins.
What it does not know: names, types, what a node of the tree means (``resolver``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from deltanb.errors import InvalidPredicate, UnsupportedPredicate
from deltanb.schema.types import backticked
from deltanb.text.safe_text import with_cut

MAX_QUOTED = 60  # characters of a predicate in an error that is about its length
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.S)
_LETTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Parsed(str):
    """The SQL of one expression with its tree: whoever is handed the text need not parse it again.

    The tree is read by several and changed by nobody.

    >>> syntax(Parsed("a = 1")) is syntax(Parsed("a = 1"))
    False
    >>> text = Parsed("a = 1")
    >>> syntax(text) is syntax(text), text == "a = 1"
    (True, True)

    Raises:
        InvalidPredicate: as :func:`syntax`.
    """

    __slots__ = ("tree",)
    tree: exp.Expression

    def __new__(cls, sql: str, tree: exp.Expression | None = None) -> Parsed:
        text = super().__new__(cls, sql)
        text.tree = syntax(sql) if tree is None else tree
        return text

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def syntax(sql: str) -> sqlglot.Expression:
    """The syntax tree of one expression in Spark's SQL.

    Raises:
        InvalidPredicate: no SQL, nothing, or several statements.
    """
    if isinstance(sql, Parsed):
        return sql.tree
    _refuse_halves(sql, sql)
    dialect = sqlglot.Dialect.get_or_raise("spark")
    try:
        tokens = spark_tokens(sql, dialect.tokenize(sql))
        trees = [tree for tree in dialect.parser().parse(tokens, sql) if tree is not None]
    except SqlglotError as error:
        raise _syntax_error(sql, error) from None
    except RecursionError:
        raise too_deep(sql) from None
    except InvalidPredicate:
        raise
    except Exception as error:  # its parser stumbles over some SQL that is none: map('a')
        raise InvalidPredicate(f"the predicate {sql!r} is not valid SQL: {error}", predicate=sql) from None
    if len(trees) != 1:
        what = "is empty" if not trees else "holds several statements"
        raise InvalidPredicate(f"the predicate {sql!r} {what}; write one condition",
                               predicate=sql)
    tree = trees[0]
    if isinstance(tree, sqlglot.exp.Alias):
        place = tree.args["alias"]
        raise InvalidPredicate(
            f"unexpected {place.name!r} after {_text(tree.this)!r} in the predicate {sql!r}; join "
            "conditions with AND or OR",
            predicate=sql,
        )
    if isinstance(tree, _STATEMENTS):
        raise _no_condition(sql, tree)
    return tree


_STATEMENTS = (exp.Select, exp.Delete, exp.Update, exp.Insert, exp.Merge)


def _no_condition(sql: str, statement: sqlglot.Expression) -> InvalidPredicate:
    """The error of a whole statement, with the condition that is in it."""
    where = statement.args.get("where")
    alone = f", such as {where.this.sql('spark')!r}" if where is not None else ""
    return InvalidPredicate(f"{sql!r} is a statement, {statement.key.upper()}, and an expression is "
                            f"expected: write only the condition or the value{alone}", predicate=sql)


_NO_CALLS = frozenset({
    "and", "or", "not", "in", "is", "as", "case", "when", "then", "else", "like", "ilike", "rlike", "regexp",
    "between", "cast", "try_cast", "interval", "div", "on", "from", "select", "where", "over", "values",
    "varchar", "dec", "numeric", "distinct"})
"""Words before a bracket that call nothing."""


def function_names(sql: str) -> list[str]:
    """The functions that an expression calls by name, in lower case and in their order.

    >>> function_names("CAST(upper(a) AS DECIMAL(3, 1)) IN (1, `my f`(b)) AND c LIKE ANY ('x')")
    ['upper', 'decimal', 'my f']

    Raises:
        InvalidPredicate: no SQL.
    """
    try:
        tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(sql)
    except SqlglotError as error:
        raise _syntax_error(sql, error) from None
    names = []
    for place, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        if tokens[place + 1].token_type != TokenType.L_PAREN or token.token_type == TokenType.STRING:
            continue
        is_name = token.token_type == TokenType.IDENTIFIER or (
            re.fullmatch(r"[a-z_]\w*", name) is not None and name not in _NO_CALLS)
        if is_name and not (name in ("any", "all", "some") and place and tokens[place - 1].token_type in (
                TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.EQ)):
            names.append(name)
    return names


def anonymous_functions(sql: str) -> list[str]:
    """The functions that an expression calls and the parser does not know, in lower case.

    >>> anonymous_functions("CAST(upper(a) AS VARCHAR(3)) = soundexx(a)")
    ['soundexx']

    Raises:
        InvalidPredicate: no SQL.
    """
    return [node.name.lower() for node in syntax(sql).find_all(sqlglot.exp.Anonymous)]


def has_query(sql: str) -> bool:
    """Whether an expression has a query within it.

    >>> has_query("id IN (SELECT id FROM other)"), has_query("id IN (1, 2)")
    (True, False)

    Raises:
        InvalidPredicate: no SQL.
    """
    return syntax(sql).find(sqlglot.exp.Query) is not None


def spark_tokens(sql: str, tokens: list[Token]) -> list[Token]:
    """The tokens as Spark means them, whichever version of sqlglot cut them.

    Texts are read from what stands in the SQL: versions know different escapes. Adjacent texts in one
    kind of quotes are one with such a quote between: ``'it''s'``. ``1.5BD`` becomes a cast of its digits
    to ``DECIMAL(2, 1)``: most versions leave out the size.
    """
    made: list[Token] = []
    for token in tokens:
        last = made[-1] if made else None
        if token.token_type == TokenType.STRING and sql[token.start] in "'\"":
            text, start = _unescaped(sql, sql[token.start + 1:token.end]), token.start
            if last is not None and last.token_type == TokenType.STRING and last.end + 1 == start \
                    and sql[last.end] == sql[start]:
                made.pop()
                text, start = last.text + sql[last.end] + text, last.start
            made.append(_token(token, TokenType.STRING, text, start))
        elif token.token_type == TokenType.DECIMAL and token.text.lower() == "bd" and len(made) > 1:
            try:
                number = Decimal(made[-2].text).as_tuple()
            except InvalidOperation:  # an exponent of twenty digits
                raise InvalidPredicate(f"a number in the predicate {sql!r} has more than 38 digits",
                                       predicate=sql) from None
            scale = max(-int(number.exponent), 0)
            precision = max(len(number.digits) + max(int(number.exponent), 0), scale)
            made[-2:] = [_token(token, kind, text, token.start) for kind, text in (
                (TokenType.STRING, made[-2].text), (TokenType.DCOLON, "::"), (TokenType.DECIMAL, "DECIMAL"),
                (TokenType.L_PAREN, "("), (TokenType.NUMBER, str(precision)), (TokenType.COMMA, ","),
                (TokenType.NUMBER, str(scale)), (TokenType.R_PAREN, ")"))]
        else:
            made.append(token)
    return made


def _token(like: Token, kind: TokenType, text: str, start: int) -> Token:
    return Token(kind, text, like.line, like.col, start, like.end, like.comments)


def _unescaped(sql: str, text: str) -> str:
    """What stands between two quotes, with its escapes read; a backslash stays before ``%`` and ``_``."""
    if "\\" not in text:
        return text
    try:
        plain = _ESCAPE.sub(_character, text)
    except (ValueError, OverflowError):
        raise InvalidPredicate(f"\\U in the predicate {sql!r} names no character; the last one is "
                               "\\U0010FFFF", predicate=sql) from None
    plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    _refuse_halves(sql, plain)
    return plain


def _character(match: re.Match[str]) -> str:
    code, octal, letter = match[1] or match[2], match[3], match[4]
    if code:
        return chr(int(code, 16))
    if octal:
        return chr(int(octal, 8))
    return _LETTERS.get(letter, letter)


def _refuse_halves(sql: str, text: str) -> None:
    """Refuse a surrogate without its other half, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPredicate(
            f"the predicate {sql!r} contains an unpaired surrogate, \\u{ord(text[error.start]):04X}, "
            "which no column can hold; write the whole character", predicate=sql) from None


def too_deep(sql: str) -> UnsupportedPredicate:
    """The error for SQL that is nested more deeply than it can be walked."""
    return UnsupportedPredicate(
        f"the SQL {sql[:MAX_QUOTED]!r}…, {len(sql):,} characters long, is nested too deeply; write an "
        "IN list, or terms joined by AND or OR without brackets around each: of these there may be thousands",
        predicate=sql)


def _syntax_error(sql: str, error: SqlglotError) -> InvalidPredicate:
    details: dict[str, Any] = next(iter(getattr(error, "errors", None) or []), {})
    if not details:
        first = str(error).splitlines()[0]
        return InvalidPredicate(f"the predicate {sql!r} is not valid SQL: {first}", predicate=sql)
    near = details.get("highlight") or ""
    description = str(details.get("description", "syntax error")).rstrip(".")
    if description.startswith("Required keyword"):
        description = "an operand is missing"
    if re.match(r"\s*where\s", sql, re.I):
        description = "the word WHERE is not part of a condition; leave it out"
    where = f"line {details.get('line')}, column {details.get('col')}"
    return InvalidPredicate(
        f"the predicate {sql!r} is not valid SQL: {description} at {where}"
        + (f", near {near!r}" if near else ""),
        predicate=sql, line=details.get("line"), position=details.get("col"),
    )


def split(sql: str) -> list[str]:
    """The texts that AND joins at the top, as they were written."""
    tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(sql)
    depths = _depths(tokens)
    inside = tokens
    if tokens[0].token_type == TokenType.L_PAREN and min(depths[:-1]) == 1 and depths[-1] == 0:
        inside, depths = tokens[1:-1], [depth - 1 for depth in depths[1:-1]]
    pieces: list[list[Token]] = [[]]
    between = False  # the next AND belongs to a BETWEEN
    for token, depth in zip(inside, depths, strict=True):
        if depth == 0 and token.token_type == TokenType.OR:
            return [sql]
        if depth == 0 and token.token_type == TokenType.AND and not between:
            pieces.append([])
            continue
        if depth == 0 and token.token_type in (TokenType.BETWEEN, TokenType.AND):
            between = not between
        pieces[-1].append(token)
    if len(pieces) == 1:
        return [sql]
    texts = [sql[piece[0].start:piece[-1].end + 1] for piece in pieces if piece]
    return [part for text in texts for part in split(text)]


def conjuncts(tree: exp.Expression) -> list[exp.Expression]:
    """The nodes that AND joins at the top; brackets around them count for nothing."""
    parts: list[exp.Expression] = []
    left = [tree]
    while left:
        node = left.pop()
        inside = node.unnest()
        if isinstance(inside, exp.And):
            left += [inside.expression, inside.this]
        else:
            parts.append(node)
    return parts


def _depths(tokens: list[Token]) -> list[int]:
    """How many brackets or CASEs are open after each token."""
    opening = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
    closing = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
    depths, depth = [], 0
    for token in tokens:
        depth += (token.token_type in opening) - (token.token_type in closing)
        depths.append(depth)
    return depths


def _text(tree: sqlglot.Expression) -> str:
    return tree.sql(dialect="spark")


def identifiers(node: exp.Expression) -> list[exp.Identifier] | None:
    """The parts of a name; None for anything else."""
    if isinstance(node, exp.Column):
        parts = list(node.parts)
        return parts if all(isinstance(p, exp.Identifier) for p in parts) else None
    if isinstance(node, exp.Dot):
        left = identifiers(node.this)
        if left is not None and isinstance(node.expression, exp.Identifier):
            return [*left, node.expression]
    return None


def columns(sql: str) -> Iterator[exp.Column]:
    """The nodes of an expression that name columns; fields beyond a fourth name are nodes around them.

    >>> [node.name for node in columns("t.a = transform(`b c`, x -> x + d)")]
    ['a', 'b c', 'd']
    """
    return syntax(sql).find_all(exp.Column)


def place_of(column: exp.Column) -> int | None:
    """Where a column's first name stands in the text that was parsed."""
    start: int | None = column.parts[0].meta.get("start")
    return start


def with_aliases(sql: Parsed, aliases: Iterable[tuple[exp.Column, str | None]]) -> Parsed:
    """The text and its tree with an alias before each of its columns; None leaves one as it is.

    >>> text = Parsed("a + s.b > `a`")
    >>> with_aliases(text, [(node, "t" if node.name == "a" else None) for node in columns(text)])
    '`t`.a + s.b > `t`.`a`'
    """
    tree, pieces, done, moved = sql.tree, [], 0, 0
    placed = [(place, *each) for each in aliases if (place := place_of(each[0])) is not None]
    for place, node, alias in sorted(placed, key=itemgetter(0)):
        node.parts[0].meta["start"] = place + moved
        if alias is None:
            continue
        text = backticked(alias) + "."
        pieces += [sql[done:place], text]
        done, moved = place, moved + len(text)
        outer = _with_outermost(node, alias)
        tree = outer if node is tree else tree
    return Parsed("".join([*pieces, sql[done:]]), tree)


def _with_outermost(column: exp.Column, name: str) -> exp.Expression:
    """The column with one more name before its others, as the parser makes it: four at most are one node."""
    outermost = exp.to_identifier(name, quoted=True)
    outermost.meta.update(column.parts[0].meta)
    names = [*reversed(column.parts), outermost]
    whole: exp.Expression = column
    if len(names) > len(_LEVELS):
        last, *names = names
        whole = column.replace(exp.Dot(this=exp.Column(), expression=last))
        column = whole.this
    for level, part in zip(_LEVELS, names, strict=False):
        column.set(level, part)
    return whole


_LEVELS = ("this", "table", "db", "catalog")
"""The arguments of a column that are its names, from the last one."""


def sql_of(node: exp.Expression) -> str:
    """The SQL of a node, for messages."""
    text = node.sql(dialect="spark")
    return with_cut(text, text)
