"""What a commit costs on Iceberg metadata, beside PyIceberg.

    python tests/benchmarks/iceberg.py [SNAPSHOTS]

One commit (a snapshot, and main moved to it) on metadata of so many snapshots (500): processor time, the
least of many runs. PyIceberg works on metadata it has parsed before: its parsing is not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deltanb.catalog.iceberg.metadata.document import apply
from deltanb.catalog.iceberg.metadata.requirements import check
from tests.catalog.iceberg_tables import NOW, UUID, add, point, with_snapshots


def least(call: Callable[[], object], rounds: int) -> float:
    """Milliseconds of processor time of the quickest run."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1000 * min(times)


def main(count: int) -> None:
    """Print one line for each."""
    base = with_snapshots(count)
    updates = [add(count + 1, count, count + 1), point(count + 1)]
    requirements = [{"type": "assert-table-uuid", "uuid": UUID},
                    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": count}]
    print(f"deltanb, check {least(lambda: check(requirements, base), 200):.3f} ms")
    print(f"deltanb, apply {least(lambda: apply(updates, base, NOW), 200):.3f} ms")
    try:
        from pydantic import TypeAdapter
        from pyiceberg.table.metadata import TableMetadataUtil
        from pyiceberg.table.update import TableUpdate, update_table_metadata
    except ImportError:
        return
    theirs = TableMetadataUtil.parse_obj(base)
    parsed = tuple(TypeAdapter(list[TableUpdate]).validate_python(updates))  # type: ignore[valid-type]
    print(f"PyIceberg, apply {least(lambda: update_table_metadata(theirs, parsed), 20):.3f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
