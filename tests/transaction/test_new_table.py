"""What a new table gets: the session's default properties, and what properties need before any row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.actions import Metadata
from deltanb.options import set_options
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.transaction import OptimisticTransaction

SCHEMA = StructType([StructField("id", PrimitiveType("long"))]).to_json()
DEFAULTS = {"delta.appendOnly": True, "delta.checkpointInterval": 7}


def test_a_session_has_default_properties() -> None:
    with set_options(default_table_properties=DEFAULTS):
        table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.checkpointinterval": 20})
    assert table.properties == {"delta.appendOnly": "true", "delta.checkpointinterval": "20"}
    assert dn.create(MemoryStore(), {"id": [1]}).properties == {}


def test_so_does_a_table_made_by_hand() -> None:
    for name in ("update_metadata", "update_metadata_for_new_table"):
        log = DeltaLog.for_table(MemoryStore())
        txn = log.start_transaction()
        with set_options(default_table_properties=DEFAULTS):
            getattr(txn, name)(Metadata("x", SCHEMA))
        assert txn.metadata.configuration == {"delta.appendOnly": "true", "delta.checkpointInterval": "7"}
        assert txn.commit([], "CREATE TABLE") == 0


def test_a_table_that_is_there_keeps_its_own() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    with set_options(default_table_properties=DEFAULTS):
        table.set_properties({"mine": "1"})
        table.append({"id": [2], "n": [1]}, merge_schema=True)
        assert table.properties == {"mine": "1"}
        copy = table.clone(MemoryStore())
        assert copy.properties == {"mine": "1"}, "a clone is what its source is"
        txn = table.start_transaction()
        txn.update_metadata(txn.metadata.replace(name="n"))
        assert txn.metadata.configuration == {"mine": "1"}
        made = dn.create(table.log.store, {"id": [1]}, mode="overwrite", properties={"mine": "2"})
    assert made.properties == {"delta.appendOnly": "true", "delta.checkpointInterval": "7", "mine": "2"}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_defaults_that_need_more_than_a_property(mode: str, tmp_path: Path) -> None:
    defaults = {"delta.columnMapping.mode": mode, "delta.enableRowTracking": True,
              "delta.enableDeletionVectors": True, "delta.enableInCommitTimestamps": True}
    with set_options(default_table_properties=defaults):
        table = dn.create(tmp_path / "t", {"id": [1, 2], "s": [{"x": 1}, {"x": 2}]})
        table.delete("id = 1")
        hand = DeltaLog.for_table(MemoryStore()).start_transaction()
        hand.update_metadata_for_new_table(Metadata("x", SCHEMA))
    assert table.to_arrow().to_pylist() == [{"id": 2, "s": {"x": 2}}]
    assert table.properties["delta.columnMapping.maxColumnId"] == "3"
    for name in ("columnMapping", "rowTracking", "deletionVectors", "inCommitTimestamp"):
        assert table.protocol.supports(name) and hand.protocol.supports(name), name
    assert "delta.rowTracking.materializedRowIdColumnName" in hand.metadata.configuration
    assert hand.metadata.schema.field("id").physical_name != "id"


def test_convert_takes_them_and_keeps_the_names_of_the_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    with set_options(default_table_properties={"delta.columnMapping.mode": "name", "mine": 3}):
        table = dn.DeltaTable.convert(tmp_path)
    assert table.properties["mine"] == "3" and table.to_arrow()["id"].to_pylist() == [1, 2]
    assert table.schema.field("id").physical_name == "id"


def test_create_and_convert_are_new_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, bool]] = []
    whole = OptimisticTransaction.update_metadata_for_new_table

    def watched(txn: OptimisticTransaction, metadata: Metadata, *, replaces: bool = False) -> None:
        seen.append((txn.read_version, replaces))
        whole(txn, metadata, replaces=replaces)

    monkeypatch.setattr(OptimisticTransaction, "update_metadata_for_new_table", watched)
    dn.create(tmp_path / "a", {"id": [1]})
    dn.create(tmp_path / "a", {"id": [1]}, mode="overwrite")
    (tmp_path / "b").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "b" / "a.parquet")
    dn.convert(tmp_path / "b")
    assert seen == [(-1, False), (0, True), (-1, False)]


@pytest.mark.parametrize("properties", [
    3, ["delta.appendOnly"], {"delta.appendOnly": "perhaps"}, {3: True}, {"": "x"},
    {"delta.checkpointInterval": None},
])
def test_defaults_are_properties(properties: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        set_options(default_table_properties=properties)
    with pytest.raises(errors.InvalidArgument):
        dn.create(MemoryStore(), {"id": [1]}, properties=properties
                  if isinstance(properties, dict) else {3: properties})


def test_a_default_that_nobody_knows_is_warned_of() -> None:
    unknown = {"delta.appendonlyy": "true"}
    with (pytest.warns(errors.UnknownPropertyWarning, match="did you mean delta.appendOnly"),
          set_options(default_table_properties=unknown)):
        pass


def test_the_option_is_a_copy() -> None:
    mine = {"mine": "1"}
    with set_options(default_table_properties=mine):
        mine["mine"] = "2"
        assert dn.create(MemoryStore(), "id long").properties == {"mine": "1"}


def test_names_of_partition_columns_may_be_let_through() -> None:
    def made() -> dn.DeltaTable:
        return dn.create(MemoryStore(), "id long, `a b` long", partition_by=["a b"])

    with pytest.raises(errors.InvalidSchema, match="invalid character"):
        made()
    with set_options(partition_column_check=False):
        table = made()
        table.append({"id": [1], "a b": [2]})
        assert table.to_arrow(where="`a b` = 2").num_rows == 1
        with pytest.raises(errors.InvalidSchema, match="invalid character"):
            dn.create(MemoryStore(), "id long, `a b` long")
