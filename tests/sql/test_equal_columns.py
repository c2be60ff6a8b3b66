"""Equal columns: what is read without the SQL parser is what the parser would say, or is left to it."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import event, given
from hypothesis import strategies as st

from deltanb.schema.types import StructField, StructType
from deltanb.sql import equal_columns
from deltanb.sql.syntax import split, syntax
from tests.examples import many
from tests.sql.test_plain import SCHEMA, parsed

BOTH = StructType([StructField("t", SCHEMA), StructField("s", SCHEMA)])
PATHS = ["t.i", "s.i", "s.l", "T.`a b`", "`s`.d", "t.s", "s.day", "t.dec", "t.date", "s.n.x", "t.n", "t.b",
         "t.missing", "t.select", "current_date", "t .i", "t.1", "i", "t.é", "1", "'a'", "now()", "t.i + 1"]


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([" = ", "=", " <=> ", "==", "<", "\n=\t"]),
                          st.sampled_from(PATHS)), min_size=1, max_size=3),
       st.sampled_from([" AND ", " and\n", " OR ", "AND", " AND NOT "]),
       st.sampled_from(["", " ", "x", "--"]))
@many
def test_equal_columns_are_read_as_the_parser_reads_them(
    terms: list[tuple[str, str, str]], junction: str, end: str
) -> None:
    sql = junction.join("".join(term) for term in terms) + end
    found, listed = equal_columns.read(sql, BOTH), equal_columns.names(sql)
    if found is not None:
        assert found == parsed(sql, BOTH)
        assert equal_columns.pieces(sql) == split(sql)
    if listed is not None:
        columns = list(syntax(sql).find_all(sqlglot.exp.Column))
        assert sorted(listed) == sorted(
            ([part.name for part in column.parts], column.parts[0].meta["start"]) for column in columns)
    event("plain" if found is not None else "left to the parser")


@pytest.mark.parametrize(("sql", "is_plain"), [
    ("t.i = s.i", True), (" t.i=s.l AND `t`.`a b` <=> s.i\n", True), ("t.i = s.i OR t.l = s.l", False),
    ("t.i = s.i AND t.l > 1", False), ("t.d = s.f", True), ("t.day = s.i", False), ("t.nothing = s.i", False),
])
def test_which_equalities_need_no_parser(sql: str, is_plain: bool) -> None:
    assert (equal_columns.read(sql, BOTH) is not None) is is_plain


@pytest.mark.parametrize("sql", ["s.i", " `s`.`a b` ", "s.n.x", "order", "s.order", "s. i", "s.i.", "s.i + 1",
                                 "", "`a``b`", "now()", "current_date", "1", "TRUE", "\ud800"])
def test_a_name_is_one_to_the_parser_too(sql: str) -> None:
    found = equal_columns.name(sql)
    if found is None:
        return
    tree = syntax(sql)
    assert isinstance(tree, sqlglot.exp.Column) and [part.name for part in tree.parts] == found
