"""A stream from a table into that table: its batches say that they have read the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.commands.read.stream import Offset, Position
from deltanb.engines.spark.stream_checkpoint import Checkpoint
from deltanb.sources.spark.stream import DeltaStreamWriter

pytest.importorskip("pyspark")


def noted(folder: Path, *offsets: dict[str, Any]) -> Checkpoint:
    """A checkpoint as Spark leaves it with its first batch."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "query"}))
    (folder / "offsets" / "0").write_text("\n".join(["v1", "{}", *map(json.dumps, offsets)]))
    return Checkpoint(folder)


@pytest.mark.parametrize("kind", ["ours", "Delta Spark's"])
@pytest.mark.parametrize("is_self", [True, False])
@pytest.mark.parametrize("app_id", [None, "mine"])
def test_a_batch_of_its_own_rows_has_read_the_table(
    app_id: str | None, is_self: bool, kind: str, tmp_path: Path
) -> None:
    table, other = dn.create(tmp_path / "t", "n long"), dn.create(tmp_path / "o", "n long")
    read = (table if is_self else other).metadata.id
    offset = {"reservoirId": read, "reservoirVersion": 3} if kind != "ours" else \
        Offset(read, Position(0, False, 0), Position(1, True, 2)).to_dict()
    checkpoint = noted(tmp_path / "checkpoint", {"rate": 1}, offset)
    writer = DeltaStreamWriter(None, None, "append", app_id, checkpoint)  # type: ignore[arg-type]
    assert writer._batch(table.log, 0, "query").reads_table is is_self
