"""Names of delta-spark and deltalake work where they mean the same, and else say what the name is here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument
from deltanb.text.spellings import TABLE
from tests.helpers import table_of


def test_aliases_are_the_methods_they_name(tmp_path: Path) -> None:
    path = str(tmp_path / "ducks")
    table = dn.create(path, {"id": [1, 2]})
    assert dn.DeltaTable.forPath(path).log is table.log is dn.DeltaTable.forPath("a session", path).log
    assert dn.DeltaTable.isDeltaTable("a session", path) and not dn.DeltaTable.isDeltaTable(path + "x")
    assert table.to_pyarrow_table(["id"]).num_rows == 2 == table.count()
    with pytest.raises(TypeError, match="a Spark session and a path"):
        dn.DeltaTable.forPath()


@pytest.mark.spark
def test_to_df_has_its_spelling_of_delta_spark(tmp_path: Path, spark: Any) -> None:
    assert dn.create(tmp_path / "ducks", {"id": [1, 2]}).toDF().count() == 2


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_name_of_another_library_says_the_name_here(name: str) -> None:
    table = table_of({"id": [1]})
    for holder in (table, dn.DeltaTable):
        assert not hasattr(holder, name)
        with pytest.raises(AttributeError, match=f"^DeltaTable has no {name}; here it is "):
            getattr(holder, name)


def test_what_is_named_is_there() -> None:
    """Every call that the answers begin with is one of the table, or of the module they say."""
    table = table_of({"id": [1]})
    for said in TABLE.values():
        call = re.match(r"(?:a )?([\w.]+)", said)
        assert call is not None
        words = call[1].split(".")
        if words[0] in ("catalog", "nothing", "SQL"):
            continue
        found: Any = table
        if words[0] in ("deltanb", "DeltaTable"):
            found, words = {"deltanb": dn, "DeltaTable": dn.DeltaTable}[words[0]], words[1:]
        for word in words:
            found = getattr(found, word)


def test_camel_case_is_found_by_its_words() -> None:
    table = table_of({"id": [1]})
    with pytest.raises(AttributeError, match="here it is add_columns"):
        _ = table.addColumns  # type: ignore[attr-defined]
    builder = table.merge({"id": [1]}, "target.id = source.id")
    with pytest.raises(AttributeError, match="MergeBuilder has no .*here it is when_matched_update_all"):
        _ = builder.whenMatchedUpdateAll  # type: ignore[attr-defined]


def test_other_names_are_answered_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of({"id": [1]})
    for holder in (table, dn.DeltaTable):
        with pytest.raises(AttributeError, match="no attribute 'quack'"):
            _ = holder.quack  # type: ignore[union-attr]
        assert not hasattr(holder, "_repr_latex_")

    def broken(self: Any) -> None:
        raise AttributeError("from within a property")

    monkeypatch.setattr(dn.DeltaTable, "name", property(broken))
    with pytest.raises(AttributeError, match="from within a property"):
        _ = table.name


def test_a_path_is_not_a_log() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("deltanb.open('ducks')")):
        dn.DeltaTable("ducks")  # type: ignore[arg-type]
