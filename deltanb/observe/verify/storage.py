"""The files that a table's newest version names, checked against what is in the store.

What lives here: existence and sizes from one listing, vectors, footers, and with ``all`` the values:
statistics, constraints and generated columns against rows.
What it does not know: the log (``state`` has what it says).
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.actions.data_files import decode_path, statistics_of
from deltanb.commands.rows.change_files import CHANGE_FOLDER
from deltanb.commands.upkeep.listing import hidden_from_vacuum, is_of_another, outside_logs
from deltanb.engines.arrow import data_file, generated, statistics
from deltanb.engines.arrow.constraints import Checker
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.errors import (
    ConstraintViolation,
    DataFileNotFound,
    DeltaError,
    InvalidTable,
)
from deltanb.observe.verify import kinds
from deltanb.observe.verify.report import Finding
from deltanb.observe.verify.state import LogState
from deltanb.options import options
from deltanb.schema.column_mapping import mode_of
from deltanb.schema.properties import DAY_MS
from deltanb.store.paths import Inside, place_of
from deltanb.text import formatting as units
from deltanb.text.damage import what_is_wrong
from deltanb.text.progress import progress

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

SAMPLE = 20
"""Data files whose footers are read for ``sample``: the largest, and others spread over the rest."""


def check_listing(snapshot: Snapshot, state: LogState) -> Iterator[Finding]:
    """Files that are gone, of another size, or named by no version."""
    store, inside = snapshot.log.store, Inside(snapshot.log.store)
    tables: set[str] = set()
    sizes = {inside.key(status.name): (status.size, status.modification_time, status.name)
             for status in outside_logs(store.list_all(""), tables)}
    version = state.version
    named: set[str] = set()
    for key, file in state.live.items():
        path = key.partition("\0")[0]
        keys = inside.keys_of(path)
        named.update(keys)
        listed = next((sizes[each] for each in keys if each in sizes), None)
        if listed is None:
            listed = _elsewhere(store, path)
        if listed is None:
            yield kinds.FILE_MISSING(f"{path}, which version {file.version} added, is gone", version, path)
        elif listed[0] != file.size:
            yield kinds.FILE_SIZE(f"{path} has {listed[0]} bytes, and the log says {file.size}", version,
                                  path)
    for key in state.removed:
        named.update(inside.keys_of(key.partition("\0")[0]))
    for name in state.vectors:
        named.update(inside.keys_of(name, is_encoded=False))
    for path, at in state.named.items():
        named.update(inside.keys_of(path))
        if path.startswith(CHANGE_FOLDER) and at > state.vacuumed \
                and not any(each in sizes for each in inside.keys_of(path)):
            yield kinds.CHANGE_FILE_MISSING(f"{path}, which version {at} added, is gone", at, path)
    hidden = hidden_from_vacuum(snapshot, inside)
    for each, (size, modified, name) in sizes.items():
        if each in named or hidden(name) or is_of_another(name, tables):
            continue
        days = max(0, options.clock() - modified) // DAY_MS
        yield kinds.ORPHAN(f"{name} ({units.size(size)}, {units.count(days, 'day')} old) is named by no "
                           "version that the log still has", version, name)


def _elsewhere(store: Any, path: str) -> tuple[int, int, str] | None:
    """A file outside of the table's folder, as a shallow clone has them."""
    try:
        place, name = place_of(store, path).opened()
        status = place.status(name)
    except (DeltaError, OSError):
        return None
    return None if status is None else (status.size, status.modification_time, status.name)


def check_files(snapshot: Snapshot, state: LogState, everything: bool) -> Iterator[Finding]:
    """Footers and vectors of a sample of the files, or of all of them with their values."""
    columns = ["path", "partition_values", "size", "stats", "deletion_vector", "base_row_id",
               "default_row_commit_version"]
    files = snapshot.select_files(columns)
    chosen = range(files.num_rows) if everything else _sample(files)
    values = _Values(snapshot) if everything else None
    vectors = VectorFiles() if values is None else values.scan.vectors
    with progress("verify: data files read", len(chosen)) as seen:
        for at in chosen:
            row = files.slice(at, 1).to_pylist()[0]
            yield from _check_file(snapshot, row, values, vectors)
            seen()


def _sample(files: pa.Table) -> Sequence[int]:
    if files.num_rows <= SAMPLE:
        return range(files.num_rows)
    sizes = files.column("size").to_pylist()
    largest = sorted(range(len(sizes)), key=lambda at: -(sizes[at] or 0))[:SAMPLE // 2]
    step = max(1, files.num_rows // (SAMPLE - len(largest)))
    return sorted({*largest, *range(0, files.num_rows, step)})[:SAMPLE]


def _check_file(
    snapshot: Snapshot, row: Mapping[str, Any], values: _Values | None, vectors: VectorFiles
) -> Iterator[Finding]:
    version, path = snapshot.version, row["path"]
    vector, store = row["deletion_vector"], snapshot.log.store
    if vector is not None:
        try:
            vectors.load(store, vector, data_file=path)
        except DataFileNotFound as error:
            yield kinds.VECTOR_MISSING(str(error), version, path)
            return
        except (DeltaError, OSError) as error:
            is_count = "rows where the log says" in str(error)
            yield (kinds.VECTOR_CARDINALITY if is_count else kinds.VECTOR_MISSING)(str(error), version, path)
            if not is_count:
                return
    try:
        with data_file.opened(store, decode_path(path), snapshot.log.path, version) as parquet:
            rows = parquet.metadata.num_rows
    except DataFileNotFound:
        return  # the listing says so
    except (DeltaError, OSError) as error:
        yield kinds.FILE_UNREADABLE(f"{path} cannot be read: {what_is_wrong(error)}", version, path)
        return
    stats = statistics_of(row["stats"])
    counted = stats.get("numRecords")
    if isinstance(counted, int) and counted != rows:
        yield kinds.STATS_ROWS(f"{path} has {units.count(rows, 'row')}, and its statistics say {counted}",
                               version, path)
    if vector is not None and vector["cardinality"] > rows:
        yield kinds.VECTOR_BEYOND(f"{path} has {units.count(rows, 'row')}, and its vector deletes "
                                  f"{vector['cardinality']}", version, path)
    if values is not None:
        yield from values.check(row, stats)


class _Values:
    """The rows of files, checked against statistics and constraints."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        metadata, protocol = snapshot.metadata, snapshot.protocol
        self.scan = data_file.plan(snapshot)
        self.mode = mode_of(metadata, protocol)
        self.checkers: list[tuple[Any, Checker]] = []
        self.unchecked: list[str] = []
        try:
            self.checkers.append((kinds.CHECK_BROKEN, Checker(snapshot.schema, metadata)))
        except DeltaError as error:
            self.unchecked.append(str(error))
        try:
            checks = generated.checks_of(metadata, protocol)
            if checks:
                bare = metadata.replace(configuration={})
                self.checkers.append((kinds.GENERATED_BROKEN, Checker(snapshot.schema, bare, checks)))
        except DeltaError as error:
            self.unchecked.append(str(error))

    def check(self, row: Mapping[str, Any], stats: Mapping[str, Any]) -> Iterator[Finding]:
        """One file, all its live rows."""
        version, path = self.snapshot.version, row["path"]
        first, broken = 0, set[str]()
        try:
            batches = []
            for batch in data_file.read_data_file(self.scan, row):
                for kind, checker in self.checkers:
                    if kind.code in broken:
                        continue
                    try:
                        checker.check(batch, first)
                    except ConstraintViolation as error:
                        broken.add(kind.code)
                        broken_kind = kinds.NULLS if "NOT NULL" in str(error) else kind
                        yield broken_kind(f"{path}: {error}", version, path)
                first += batch.num_rows
                batches.append(batch)
        except InvalidTable as error:
            yield kinds.FILE_UNREADABLE(f"{path} cannot be read as this table's: {error}", version, path)
            return
        except (DeltaError, OSError) as error:
            yield kinds.FILE_UNREADABLE(f"{path} cannot be read: {error}", version, path)
            return
        table = pa.Table.from_batches(batches, self.scan.schema)
        yield from self._bounds(row, stats, table)

    def _bounds(self, row: Mapping[str, Any], stats: Mapping[str, Any], table: pa.Table) -> Iterator[Finding]:
        metadata, version, path = self.snapshot.metadata, self.snapshot.version, row["path"]
        names = {f.name: f.physical_name for f in self.snapshot.schema.fields}
        physical = table.rename_columns([names[name] for name in table.schema.names]) \
            if self.mode != "none" else table
        text = statistics.from_table(physical, self.snapshot.schema, metadata)
        actual = json.loads(text, parse_float=Decimal)
        recorded = json.loads(row["stats"], parse_float=Decimal) if stats else {}
        for side, is_outside in (("minValues", _is_above), ("maxValues", _is_below)):
            for name, value in (actual.get(side) or {}).items():
                bound = (recorded.get(side) or {}).get(name)
                if bound is not None and is_outside(bound, value):
                    yield kinds.STATS_VALUES(
                        f"{path} has {name} = {value}, and its statistics say {side[:3]} {bound}", version,
                        path)
        nulls = recorded.get("nullCount") or {}
        for name, count in (actual.get("nullCount") or {}).items():
            counted = nulls.get(name)
            if row["deletion_vector"] is None and isinstance(counted, int) and isinstance(count, int) \
                    and counted != count:
                yield kinds.STATS_COUNT(f"{path} has {units.count(count, 'NULL')} in {name}, and its "
                                        f"statistics say {counted}", version, path)


def _is_above(bound: Any, value: Any) -> bool:
    return _order(bound, value) > 0


def _is_below(bound: Any, value: Any) -> bool:
    return _order(bound, value) < 0


def _order(one: Any, other: Any) -> int:
    """How two values of statistics compare; 0 where that is not sure."""
    if isinstance(one, str) and isinstance(other, str):
        if one.startswith(other) or other.startswith(one):
            return 0  # one of them may be cut off
        times = _time(one), _time(other)
        if times[0] is not None and times[1] is not None:
            off = (times[0] - times[1]).total_seconds()
            return 0 if abs(off) <= 0.001 else (1 if off > 0 else -1)  # bounds are cut to milliseconds
        return (one.encode() > other.encode()) - (one.encode() < other.encode())
    if isinstance(one, int | Decimal) and isinstance(other, int | Decimal) and not isinstance(one, bool):
        first, second = Decimal(one), Decimal(other)
        if abs(first - second) <= abs(second) * Decimal("1e-6"):
            return 0  # floats of 32 bits are written in more than one way
        return (first > second) - (first < second)
    return 0


def _time(text: str) -> dt.datetime | None:
    try:
        parsed = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=dt.timezone.utc)
