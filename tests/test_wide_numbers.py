"""Numbers past 2**31 come out as they are, also where NumPy's have 32 bits (``tests/test_limits.py``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import deltanb as dn
from deltanb.commands.merge.matching import SourceKeys
from deltanb.commands.read.diff_rows import combined
from deltanb.testing import MemoryStore, TableBuilder, add

WIDE = 3_000_000_000
FILES = 4


def listed() -> dn.DeltaTable:
    """A table whose log lists files of so many bytes and rows, none of which is there."""
    builder = TableBuilder(MemoryStore()).create("n long")
    stats = [f'{{"numRecords":{WIDE},"minValues":{{"n":{n * WIDE}}},"maxValues":{{"n":{(n + 1) * WIDE}}}}}'
             for n in range(FILES)]
    builder.commit(*(add(f"f{n}", size=WIDE, stats=text) for n, text in enumerate(stats)))
    return dn.open(builder.store)


def test_sizes_and_rows_of_files_are_added_up() -> None:
    table = listed()
    assert table.count() == FILES * WIDE
    assert table.snapshot.size_in_bytes == FILES * WIDE
    assert len(table.snapshot.files_for_scan(f"n > {FILES * WIDE - 5}")) == 1
    assert "12.0 GB" in repr(table.layout("n"))
    assert "3.0 GB" in str(table.explain("n < 5"))


def test_row_ids_go_on_where_they_were() -> None:
    table = dn.create(MemoryStore(), {"n": [0]}, properties={"delta.enableRowTracking": "true"})
    mark = dn.actions.DomainMetadata("delta.rowTracking", f'{{"rowIdHighWaterMark":{WIDE}}}')
    table.log.start_transaction().commit([mark], "Manual Update")
    table.append({"n": [1, 2]})
    table.update({"n": "n + 10"}, "n = 2")
    table.optimize()
    table.append({"n": [5]})
    assert max(table.snapshot.files["base_row_id"].to_pylist()) >= WIDE + 3
    blame = table.blame()
    assert blame.method == "row ids"
    assert sorted(blame.to_arrow().select(["n", "_version"]).to_pylist(), key=lambda row: row["n"]) == [
        {"n": 0, "_version": 0}, {"n": 1, "_version": 2}, {"n": 5, "_version": 5}, {"n": 12, "_version": 3}]


def test_keys_of_several_columns_are_told_apart() -> None:
    count = 70_000  # the square of which is past 2**32
    numbers = np.arange(count, dtype=np.int64)
    one, two = pa.array(numbers), pa.array(numbers[::-1].copy())
    keys = SourceKeys([one, two])
    target, source = keys.pairs([one, two])
    assert target.tolist() == source.tolist() == list(range(count))
    assert keys.pairs([one, one])[0].tolist() == []
    assert len(set(combined([numbers, numbers[::-1]], count).tolist())) == count
