"""A commit that meets a renamed column is told so: in the message, in the text and in the picture."""

from __future__ import annotations

import re
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import Metadata
from deltanb.errors import MetadataChangedException
from deltanb.notebook.bundle import HTML, mimebundle
from deltanb.options import set_options
from deltanb.schema.ddl import parse_type
from deltanb.schema.types import StructType
from deltanb.testing import MemoryStore
from deltanb.transaction.conflicts import FieldChange

MAPPED = {"delta.columnMapping.mode": "name"}


def lost(columns: str, work: Any, partition_by: Any = (), commit: Any = None) -> MetadataChangedException:
    """The error of an UPDATE, or another commit, which somebody's ALTER TABLE came before."""
    table = dn.create(MemoryStore("memory:///flights"), columns, partition_by=partition_by, properties=MAPPED)
    txn = table.start_transaction()
    txn.read_whole_table()
    with set_options(user_name="ann"):
        work(table)
    with pytest.raises(MetadataChangedException) as caught:
        commit(txn) if commit is not None else txn.commit([], dn.Operation("UPDATE", changes_data=True))
    return caught.value


def test_message_text_and_picture_say_renamed() -> None:
    error = lost("id long, carrier string", lambda t: t.rename_column("carrier", "airline"))
    assert str(error).splitlines()[1] == (
        "Conflicting commit: version 1, RENAME COLUMN by ann: column carrier was renamed to airline")
    text = str(error.conflict)
    assert ("version 1 by ann renamed column carrier to airline, which your UPDATE on flights builds on. "
            "Nothing was written.") in " ".join(text.split())
    assert "Differences  column carrier: renamed to airline  ✕ cannot adopt it" in text
    words = re.sub(r"<[^>]+>", "", mimebundle(error.conflict)[HTML].rpartition("dnb-rich")[2])
    assert ("version 1 by ann renamed column carrier to airline, which your UPDATE on flights builds on. "
            "Nothing was written.") in words
    assert "the metadata was changed (column carrier renamed)" in words and "renamed to airline" in words
    assert error.conflict.changes == (
        FieldChange("column carrier", "carrier", "airline", renamed=True),)


def test_neither_json_nor_the_name_of_the_class_is_in_the_message() -> None:
    error = lost("id long, carrier string", lambda t: t.rename_column("carrier", "airline"))
    assert str(error).startswith("The metadata of the Delta table ")
    assert "{" not in str(error) and "Exception" not in str(error)


def test_a_renamed_partition_column_is_one_change() -> None:
    error = lost("id long, day string", lambda t: t.rename_column("day", "date"), "day")
    assert [(c.field, c.after) for c in error.conflict.changes] == [("column day", "date")]


def test_a_field_inside_is_told_by_its_path() -> None:
    error = lost("id long, at struct<city: string, l: array<struct<u: long>>>",
                 lambda t: t.rename_column("at.city", "town"))
    assert error.conflict.changes == (FieldChange("column at.city", "at.city", "at.town", renamed=True),)


def test_who_renames_too_is_told_so() -> None:
    def rename(txn: Any) -> None:
        txn.update_metadata(txn.metadata.replace(description="mine"))
        txn.commit([], "CHANGE")

    error = lost("id long, carrier string", lambda t: t.rename_column("carrier", "airline"), commit=rename)
    assert [change.field for change in error.conflict.changes] == ["column carrier"]  # not the description
    assert ("your CHANGE on flights changes the table's metadata, and version 1 by ann renamed column "
            "carrier to airline.") in " ".join(str(error.conflict).split())


def test_other_changes_beside_it_are_not_hidden() -> None:
    def rename_and_comment(table: dn.DeltaTable) -> None:
        txn = table.start_transaction()
        schema = txn.metadata.schema
        fields = [field.replace(name="airline") if field.name == "carrier" else field for field in schema]
        fields[0] = fields[0].replace(type=parse_type("string"))
        txn.update_metadata(txn.metadata.replace(schema_string=StructType(fields).to_json()))
        txn.commit([], "ALTER")

    error = lost("id long, carrier string", rename_and_comment)
    assert [(c.field, c.before, c.after, c.renamed) for c in error.conflict.changes] == [
        ("column id", "long", "string", False), ("column carrier", "carrier", "airline", True)]
    assert "(column id, column carrier renamed to airline)" in " ".join(str(error.conflict).split())


def test_many_new_names_are_cut() -> None:
    def rename_all(table: dn.DeltaTable) -> None:
        txn = table.start_transaction()
        fields = [field.replace(name=f"{field.name}_new") for field in txn.metadata.schema]
        txn.update_metadata(txn.metadata.replace(schema_string=StructType(fields).to_json()))
        txn.commit([], "ALTER")

    error = lost("a long, b long, c long, d long, e long", rename_all)
    assert "column c was renamed to c_new and 2 more\n" in str(error)
    assert "renamed columns a to a_new, b to b_new, c to c_new and 2 more, which" in (
        " ".join(str(error.conflict).split()))


def test_a_column_that_was_dropped_is_no_rename() -> None:
    error = lost("id long, carrier string", lambda t: t.drop_columns("carrier"))
    assert error.conflict.changes == (FieldChange("column carrier", "string", None),)


def test_names_that_were_swapped_are_two_renames() -> None:
    def swap(table: dn.DeltaTable) -> None:
        txn = table.start_transaction()
        one, two = txn.metadata.schema
        fields = [one.replace(name=two.name), two.replace(name=one.name)]
        metadata: Metadata = txn.metadata.replace(schema_string=StructType(fields).to_json())
        txn.update_metadata(metadata)
        txn.commit([], "ALTER")

    error = lost("a long, b long", swap)
    assert [(c.before, c.after) for c in error.conflict.changes] == [("a", "b"), ("b", "a")]
