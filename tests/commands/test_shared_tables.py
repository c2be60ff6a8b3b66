"""Tables that other engines wrote take our rows: appended and overwritten, they read back the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.errors import UnsupportedProtocol
from tests.shared_tables import names, path_of

MAX_ROWS = 20_000  # larger tables test nothing more here


def as_text(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))  # NaN is not itself


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", names("rows", meets=lambda expected: expected["row_count"] <= MAX_ROWS))
def test_their_rows_can_be_written_again(tmp_path: Path, name: str) -> None:
    copied = tmp_path / "table"
    shutil.copytree(path_of(name), copied)
    table = dn.open(copied)
    rows, version = table.to_arrow(), table.version
    files = sorted(copied.rglob("*.parquet"))
    try:
        table.append(rows)
    except UnsupportedProtocol as refusal:
        assert refusal.features or "version" in refusal.message
        assert (table.version, sorted(copied.rglob("*.parquet"))) == (version, files)
        return
    if not rows.num_rows:  # nothing to write, so nothing is committed
        assert table.version == version
        return
    assert as_text(table.to_arrow().to_pylist()) == as_text(rows.to_pylist() * 2)
    written = [a for a in table.log.read_commit(version + 1) if isinstance(a, AddFile)]
    assert sum(file.num_records or 0 for file in written) == rows.num_rows
    table.overwrite(rows)
    assert as_text(table.to_arrow().to_pylist()) == as_text(rows.to_pylist())
    assert table.as_of(version).to_arrow().num_rows == rows.num_rows
