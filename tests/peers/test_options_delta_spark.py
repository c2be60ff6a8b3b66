"""Each option of ``format("deltanb")`` beside Delta Spark's: the same data, the same rows, the same refusals.

Our side runs without a JVM: what Spark asks of a data source is asked here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")

import deltanb as dn
from deltanb.errors import DeltaError
from deltanb.sources.spark.option_table import OPTIONS, STREAM_READ
from deltanb.sources.spark.source import DeltaDataSource
from tests.examples import every
from tests.peers.delta_spark import DeltaSpark, PeerError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FEED = {"delta.enableChangeDataFeed": "true"}
SELF = ("path", "checkpointLocation", "queryName")
"""Options by which every case runs."""


# --- streams that are read --------------------------------------------------------------------------

def appended(path: Path) -> dn.DeltaTable:
    """A table of three commits that only add, each with a file in two partitions."""
    table = dn.create(path, {"id": [0, 1], "p": ["a", "b"]}, "p", properties=FEED)
    for first in (10, 20):
        table.append({"id": [first, first + 1], "p": ["a", "b"]})
    return table


def deleted(path: Path) -> dn.DeltaTable:
    """As :func:`appended`, and then a commit that removes a whole partition, and one that adds."""
    table = appended(path)
    table.delete("p = 'a'")
    table.append({"id": [30], "p": ["a"]})
    return table


def rewritten(path: Path) -> dn.DeltaTable:
    """As :func:`deleted`, with an update of one of two rows of a file."""
    table = deleted(path)
    table.append({"id": [40, 41], "p": ["c", "c"]})
    table.update({"id": "id + 100"}, where="id = 40")
    table.append({"id": [50], "p": ["a"]})
    return table


def marked(path: Path) -> dn.DeltaTable:
    """As :func:`rewritten`, with deletion vectors."""
    table = rewritten(path)
    table.set_properties({"delta.enableDeletionVectors": True})
    table.append({"id": [60, 61, 62], "p": ["a", "a", "a"]})
    table.delete("id = 61")
    return table


def gone(path: Path) -> dn.DeltaTable:
    """As :func:`appended`, without its first two commits."""
    table = appended(path)
    table.append({"id": [30], "p": ["a"]})
    table.log.checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    return dn.open(path)


@dataclass(frozen=True)
class Streamed:
    """One stream: of a table, with options. ``columns`` are those compared, and the batch is one of them
    where ``by_batch``."""

    table: Callable[[Path], dn.DeltaTable]
    options: dict[str, str] = field(default_factory=dict)
    by_batch: bool = False

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.table.__name__}-{options or 'none'}"


STREAMED = [
    Streamed(rewritten),
    *(Streamed(appended, {"startingVersion": start}) for start in ("0", "1", "3", "latest", "7", "x")),
    *(Streamed(deleted, {"startingVersion": "0", **more}) for more in (
        {}, {"ignoreDeletes": "true"}, {"ignoreDeletes": "maybe"})),
    *(Streamed(rewritten, {"startingVersion": "0", name: "true"}) for name in (
        "ignoreDeletes", "ignoreChanges", "ignoreFileDeletion", "skipChangeCommits", "readChangeFeed",
        "readChangeData")),
    *(Streamed(marked, {"startingVersion": "0", name: "true"}) for name in (
        "ignoreChanges", "skipChangeCommits", "readChangeFeed")),
    Streamed(rewritten, {"readChangeFeed": "true"}),
    *(Streamed(appended, {"startingTimestamp": moment}) for moment in ("2000-01-01", "2999-01-01")),
    *(Streamed(appended, {"startingVersion": "0", "maxFilesPerTrigger": count}, by_batch=True)
      for count in ("1", "2", "3", "0")),
    *(Streamed(appended, {"startingVersion": "0", "maxBytesPerTrigger": size}, by_batch=True)
      for size in ("1", "10k", "0", "x")),
    *(Streamed(gone, {"startingVersion": start, "failOnDataLoss": fail}) for fail in ("true", "false")
      for start in ("0", "2")),
    *(Streamed(appended, {**start, "excludeRegex": pattern}) for pattern in ("p=a", "^part", "[")
      for start in ({}, {"startingVersion": "1"})),
    Streamed(rewritten, {"startingVersion": "0", "readChangeFeed": "true", "excludeRegex": "p=c"}),
]


def streamed(path: Path, options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a stream by our data source over all that the table has, with the batch of each."""
    source = DeltaDataSource({"path": str(path), **options})
    reader = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    rows, start, number = [], reader.initialOffset(), 0
    make, arguments = reader.__reduce__()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        for task in reader.partitions(start, end):
            for batch in make(*arguments).read(task):
                rows += [{**row, "_batch": number} for row in batch.to_pylist()]
        start, number = end, number + 1
    return rows


def outcome(run: Callable[[], list[dict[str, Any]]], by_batch: bool) -> list[str] | str:
    try:
        rows = run()
    except (DeltaError, PeerError):
        return "refused"
    left_out = {"_commit_timestamp", *(() if by_batch else ("_batch",))}
    return sorted(repr(sorted((name, value) for name, value in row.items() if name not in left_out))
                  for row in rows)


@pytest.mark.parametrize("case", every(4, STREAMED), ids=str)
def test_a_stream_reads_what_delta_spark_s_reads(
    case: Streamed, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    case.table(path)
    ours = outcome(lambda: streamed(path, case.options), case.by_batch)

    def peer() -> list[dict[str, Any]]:
        rows = delta_spark.ask("read_stream", path=str(path), options=case.options)
        return [] if rows is None else rows.to_pylist()

    assert ours == outcome(peer, case.by_batch)
    shutil.rmtree(path)


def test_every_option_has_a_case() -> None:
    """By its name and all others: the matrix grows with the table of options."""
    cases = {STREAM_READ: {name.lower() for case in STREAMED for name in case.options}}
    for use, names in cases.items():
        lacking = [spelling for option in OPTIONS.values() if use in option.uses
                   and not option.is_ours and option.name not in SELF
                   for spelling in (option.name, *option.aliases) if spelling.lower() not in names]
        assert lacking == [], use
