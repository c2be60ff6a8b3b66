"""Bisections of a catalog: transactions of several tables are seen whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[dn.Catalog]:
    """Money moves between two tables, in one transaction each; the sixth loses one."""
    with dn.Catalog(f"sqlite:///{tmp_path}/bank.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("bank")
        catalog.create_table("bank.notes", {"text": ["opened"]})
        for name in ("ours", "theirs"):
            catalog.create_table(f"bank.{name}", {"n": [100]})
        for move in range(1, 11):
            catalog.table("bank.notes").append({"text": [f"move {move}"]})
            with catalog.transaction() as txn:
                txn.table("bank.ours").update({"n": "n - 1"})
                txn.table("bank.theirs").update({"n": "n + 1" if move != 6 else "n"})
        yield catalog


def total(tables: Any) -> int:
    return sum(tables[f"bank.{name}"].to_arrow()["n"][0].as_py() for name in ("ours", "theirs"))


def test_a_catalog_is_seen_after_its_transactions(bank: dn.Catalog) -> None:
    bisection = dn.bisect(bank, lambda tables: total(tables) == 200)
    assert bisection.verdict == "stopped" and bisection.tables == ("catalog default",)
    assert bisection.meetings == {}
    assert set(bisection.commits) == {"bank.ours", "bank.theirs"}, "a commit of both is seen whole"
    assert {commit.version for commit in bisection.commits.values()} == {6}
    assert bisection.first_bad.transaction == bisection.last_good.transaction + 1
    assert bisection.skipped and "was made later" in bisection.skipped[0].reason
    some = dn.bisect(bank, lambda tables: total(tables) == 200, end=bisection.last_good.transaction)
    assert some.verdict == "holds" and some.last_good == bisection.last_good


def test_of_some_of_its_tables_only_their_transactions_count(bank: dn.Catalog) -> None:
    tables = [bank.table("bank.ours"), bank.table("bank.theirs")]
    bisection = dn.bisect(tables, lambda tables: total(tables) == 200)
    assert bisection.first_bad.versions == {"bank.ours": 6, "bank.theirs": 6}
    assert bisection.num_places == 11
    never = dn.bisect(tables, lambda tables: False)
    assert never.verdict == "broken from the start" and never.commits
    late = dn.bisect(tables, lambda tables: False, start=bisection.first_bad.transaction)
    assert late.verdict == "broken at or before" and not late.commits
    one = dn.bisect(bank.table("bank.ours"), "n > 95")
    assert (one.first_bad, one.last_good) == (5, 4)


def test_a_query_names_tables_of_the_catalog(bank: dn.Catalog) -> None:
    pytest.importorskip("duckdb")
    sql = "SELECT o.n + t.n = 200 FROM bank.ours o, bank.theirs t"
    assert set(dn.bisect(bank, sql).commits) == {"bank.ours", "bank.theirs"}
    named = dn.bisect({"o": bank.table("bank.ours"), "t": bank.table("bank.theirs")},
                      "SELECT o.n + t.n = 200 FROM o, t")
    assert named.first_bad.versions == {"o": 6, "t": 6}
    wrong = dn.bisect(bank, "SELECT count(*) > 0 FROM bank.others")
    assert wrong.verdict == "unknown" and "bank.others" in wrong.skipped[0].reason


@pytest.mark.parametrize("joint", [False, True])
def test_what_it_writes_to_the_catalog_is_noted(bank: dn.Catalog, joint: bool) -> None:
    written: list[int] = []

    def writes(tables: Any) -> bool:
        if not written:
            written.append(1)
            if joint:
                with bank.transaction() as txn:
                    txn.table("bank.notes").append({"text": ["oops"]})
            else:
                bank.table("bank.notes").append({"text": ["oops"]})
        return total(tables) == 200

    notes = [note for note in dn.bisect(bank, writes).notes if "wrote" in note]
    assert len(notes) == 1 and "the invariant wrote transaction" in notes[0] and "bank.notes" in notes[0]


def test_an_iceberg_table_is_bisected_with_its_catalog(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    with dn.Catalog(f"sqlite:///{tmp_path}/ice.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.events", {"n": [0]}, format="iceberg")
        for n in range(1, 6):
            table.append({"n": [n]})
        with pytest.raises(errors.InvalidArgument, match="is bisected with its catalog"):
            dn.bisect(table, lambda past: True)
        bisection = dn.bisect(catalog, lambda past: past["shop.events"].to_arrow().num_rows < 4)
        assert list(bisection.commits) == ["shop.events"]
        assert bisection.commit.version == bisection.first_bad.transaction


def test_a_table_that_was_registered_has_a_past_that_the_catalog_did_not_see(
    bank: dn.Catalog, tmp_path: Path
) -> None:
    old = dn.create(tmp_path / "lake" / "old", {"n": [1]})
    old.append({"n": [2]})
    bank.register_table("bank.old", old.path)
    tables = [bank.table("bank.old"), bank.table("bank.ours")]
    bisection = dn.bisect(tables, lambda tables: tables["bank.old"].count() < 2)
    assert (bisection.verdict, bisection.commits) == ("broken at or before", {})
