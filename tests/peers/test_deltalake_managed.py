"""deltalake on a table that a catalog manages: by path it may neither read nor write it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import deltanb as dn

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")


def test_deltalake_refuses_it_by_path(tmp_path: Path) -> None:
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", {"id": [1]})
        with pytest.raises(Exception, match=r"(?i)catalog-?managed"):
            deltalake.DeltaTable(table.path).to_pyarrow_table()
        with pytest.raises(Exception, match=r"(?i)catalog-?managed"):
            deltalake.write_deltalake(table.path, pa.table({"id": [2]}), mode="append")
        assert table.version == 0 and table.append({"id": [2]}) == 1
