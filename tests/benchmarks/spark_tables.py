"""Tables for the benchmarks of Spark: written by Arrow, described by a log of one commit.

What lives here: :func:`make`, of rows, and :func:`make_many`, of files that are only planned.
What it does not know: Spark, what is measured.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PARTITIONS = 100
SQL_TYPES = "id long, value double, name string, part int"


def rows_of(start: int, stop: int, part: int) -> Any:
    """Rows with these ids, all of one part."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = np.arange(start, stop, dtype=np.int64)
    names = pc.binary_join_element_wise("name", pa.array(ids % 1000).cast(pa.string()), " ")
    return pa.table({"id": ids, "value": ids * 0.5, "name": names, "part": np.full(len(ids), part, np.int32)})


def make(folder: Path, files: int, rows: int, deleted: int = 0) -> Path:
    """A table of that many files with ``rows`` rows in all, one of ``deleted`` rows of them deleted."""
    import pyarrow.parquet as pq

    folder.mkdir()
    each, named = rows // files, []
    for number in range(files):
        path = folder / f"{number}.parquet"
        pq.write_table(rows_of(number * each, (number + 1) * each, number % PARTITIONS), path)
        named.append(path.name)
    return _logged(folder, named, each, (), deleted)


def make_many(folder: Path, files: int, partitioned: bool = False, columns: int = 0) -> Path:
    """A table of that many files, for plans alone: they are one file by as many names.

    The log has statistics of ``columns`` more columns, ``c0`` and so on, whose values rise with the files.
    """
    import pyarrow.parquet as pq

    folder.mkdir()
    rows, one = rows_of(0, 1, 0), folder / "_one"
    pq.write_table(rows.drop_columns(["part"]) if partitioned else rows, one)
    named = []
    for number in range(files):
        name = f"part={number % PARTITIONS}/{number}.parquet" if partitioned else f"{number}.parquet"
        (folder / name).parent.mkdir(exist_ok=True)
        try:
            os.link(one, folder / name)
        except OSError:  # a file may have some ten thousand names
            shutil.copy(one, folder / "_next")
            os.replace(folder / "_next", one)
            os.link(one, folder / name)
        named.append(name)
    one.unlink()
    return _logged(folder, named, 1, ("part",) if partitioned else (), columns=columns)


def add_one(folder: Path) -> None:
    """A commit of one file, the first one of the table by another name."""
    from deltanb.store.local import LocalStore

    log = folder / "_delta_log"
    version = 1 + max(int(entry.name[:20]) for entry in log.glob("*.json") if entry.name[0] == "0")
    first = json.loads(next(line for line in (log / f"{0:020d}.json").open() if '"add"' in line))["add"]
    name = first["path"].replace("0.parquet", f"again-{version}.parquet")
    shutil.copy(folder / first["path"], folder / name)
    text = json.dumps({"add": {**first, "path": name}})
    LocalStore(folder).put_if_absent(f"_delta_log/{version:020d}.json", text.encode())


def _logged(
    folder: Path, files: Sequence[str], each: int, by: Sequence[str], deleted: int = 0, columns: int = 0
) -> Path:
    """One commit that names the files, ``each`` rows in every one of them."""
    import pyarrow as pa
    from pyroaring import BitMap64

    from deltanb.actions import AddFile, Metadata, Protocol
    from deltanb.engines.arrow import deletion_vectors
    from deltanb.schema.types import from_arrow
    from deltanb.store.local import LocalStore

    vectors = ("deletionVectors",) if deleted else ()
    more = [f"c{at}" for at in range(columns)]
    schema = from_arrow(pa.schema([*rows_of(0, 0, 0).schema, *(pa.field(name, pa.int64()) for name in more)]))
    actions: list[Any] = [Protocol(3, 7, vectors, vectors) if deleted else Protocol(1, 2),
                          Metadata("t", schema.to_json(), tuple(by))]
    vector = deletion_vectors.inline(BitMap64(range(0, each, deleted))) if deleted else None
    for number, name in enumerate(files):
        low, high = number * each, (number + 1) * each - 1
        bounds = {"minValues": low, "maxValues": high, "nullCount": 0}
        stats = {"numRecords": each,
                 **{kind: dict.fromkeys(("id", *more), at) for kind, at in bounds.items()},
                 **({"tightBounds": False} if deleted else {})}
        values = {"part": str(number % PARTITIONS)} if by else {}
        actions.append(AddFile(name, values, (folder / name).stat().st_size, 1, stats=json.dumps(stats),
                               deletion_vector=vector))
    text = "\n".join(action.to_json() for action in actions)
    LocalStore(folder).put_if_absent(f"_delta_log/{0:020d}.json", text.encode())
    return folder
