"""Slips of the first hour: what a wrong call is told names the thing, the place and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, InvalidPredicate, InvalidSchema, TableNotFound, VersionNotFound
from deltanb.query.sql import run_sql


@pytest.fixture
def flights(tmp_path: Path) -> dn.DeltaTable:
    rows = {"month": [1, 1, 2], "carrier": ["UA", "AA", "UA"], "delay": [2, 74, -1]}
    return dn.create(tmp_path / "flights", rows, partition_by="month")


def test_a_text_without_quotes_is_told_how_to_quote_it(flights: dn.DeltaTable) -> None:
    with pytest.raises(InvalidPredicate, match=r"no column 'UA' at position 11 .* a string is quoted: 'UA'$"):
        flights.delete("carrier = UA")
    with pytest.raises(InvalidPredicate, match=r"did you mean delay\?$"):
        flights.delete("dely = 3")


def test_a_path_inside_a_table_names_the_table(flights: dn.DeltaTable, tmp_path: Path) -> None:
    for inside in ("month=1", "_delta_log"):
        with pytest.raises(TableNotFound) as caught:
            dn.open(tmp_path / "flights" / inside)
        assert f"it lies inside the table at {tmp_path / 'flights'}, which can" in caught.value.message


def test_a_file_and_an_empty_path_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b")
    with pytest.raises(TableNotFound, match=r"rows\.csv; it is a file, and a table is a folder$"):
        dn.open(tmp_path / "rows.csv")
    with pytest.raises(InvalidArgument, match="path is empty"):
        dn.open("")
    with pytest.raises(TableNotFound, match="create one with"):
        dn.open(tmp_path / "none")


def test_a_commit_beyond_a_history_is_told_how_many_there_are(flights: dn.DeltaTable) -> None:
    with pytest.raises(IndexError, match=r"flights has 1 commit, the newest first: there is no \[5\]"):
        flights.history()[5]
    assert [entry.version for entry in flights.history()] == [0]


def test_a_version_that_is_not_there_names_the_table(flights: dn.DeltaTable, tmp_path: Path) -> None:
    with pytest.raises(VersionNotFound) as caught:
        flights.as_of(7)
    assert f"version 7 of {tmp_path / 'flights'} cannot be read" in caught.value.message
    assert caught.value.path == str(tmp_path / "flights")


def test_a_column_of_none_alone_is_told_to_have_a_type(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchema, match=r"nothing but None is void: give it a type"):
        dn.create(tmp_path / "nothing", {"a": [None]})
    assert not (tmp_path / "nothing" / "_delta_log").exists()


def test_changes_without_a_feed_say_how_to_switch_it_on(flights: dn.DeltaTable) -> None:
    switch = r'set_properties\({"delta.enableChangeDataFeed": "true"}\)'
    with pytest.raises(dn.errors.MissingChangeData, match=switch):
        flights.changes()


def test_a_parameter_is_offered_variables_that_are_the_readers(flights: dn.DeltaTable) -> None:
    namespace = {"In": [], "Out": {}, "exit": exit, "dn": dn, "flights": flights, "least": 5}
    for sql in ("SELECT * FROM flights WHERE delay > $zz", "DELETE FROM flights WHERE delay > :zz"):
        with pytest.raises(dn.errors.InvalidQuery, match=r"the variables are flights, least$"):
            run_sql(sql, namespace)


def test_a_conflict_with_a_change_says_why_weaker_isolation_would_not_help(flights: dn.DeltaTable) -> None:
    lost = dn.race(flights, {
        "ann": lambda table: table.update({"delay": 0}, where="carrier = 'UA'"),
        "ben": lambda table: table.delete("month = 2")}).outcomes["ben"]
    advice = " ".join(str(line) for line in lost.conflict.advice)
    assert "it lets only blind appends pass, and version 1 is not one (its operation is UPDATE)" in advice


def test_a_retention_that_is_too_short_says_what_to_pass(flights: dn.DeltaTable) -> None:
    with pytest.raises(InvalidArgument, match="pass check=False"):
        flights.vacuum(0)
    assert "0 files would be deleted" in str(flights.vacuum(dry_run=True))


@pytest.mark.parametrize(("sql", "pattern"), [
    ("DELETE FROM t WHERE delay > 3", r"is a statement, DELETE, .* or the value, such as 'delay > 3'$"),
    ("SELECT * FROM t", r"is a statement, SELECT, .* or the value$"),
    ("WHERE delay > 3", "the word WHERE is not part of a condition; leave it out"),
    ("delay IN ()", "names no value"),
])
def test_what_is_no_condition_is_told_without_spark(flights: dn.DeltaTable, sql: str, pattern: str) -> None:
    with pytest.raises(InvalidPredicate, match=pattern):
        flights.delete(sql)
    assert flights.version == 0


def test_properties_are_a_dict(flights: dn.DeltaTable) -> None:
    slips: tuple[Any, ...] = (["delta.appendOnly"], "delta.appendOnly", {})
    for slip in slips:
        with pytest.raises(InvalidArgument, match="set_properties takes a dict with one property at least"):
            flights.set_properties(slip)


def test_a_function_of_another_library_says_its_name_here() -> None:
    with pytest.raises(AttributeError, match=r"has no write_deltalake; here it is create\(path, data\)"):
        dn.write_deltalake  # noqa: B018
    with pytest.raises(AttributeError, match="^module 'deltanb' has no attribute 'opne'$"):
        dn.opne  # noqa: B018
