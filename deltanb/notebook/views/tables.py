"""Tables and snapshots: name, version, counts, schema, properties, features, the largest files.

What lives here: the views of ``DeltaTable``, ``Snapshot`` and ``DeltaLog``.
What it does not know: how a snapshot is made. It reads metadata, protocol and counts, and the list of files
only if it is short: a picture of a large table reads no checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deltanb.actions import AddFile
from deltanb.log.commit_times import known_time_of
from deltanb.notebook.drawing.layout import sparkline
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok, warn
from deltanb.options import options
from deltanb.text import formatting as units

MAX_SCHEMA_WORDS = 12  # columns named on the line; the table has all of them
MAX_SCHEMA = 200  # columns listed at most: a table of thousands stays quick to draw
MAX_LISTED = 10_000  # files; so many are read and sorted in some milliseconds
MAX_STATISTICS = 100_000  # files times columns; so many statistics are parsed for a number of rows in 20 ms
FILE_COLUMNS = ("file", "partition", "rows", "size")
READ_COLUMNS = ("path", "partition_values", "size", "stats", "deletion_vector")


def table(table: Any) -> View:
    """The view of a :class:`~deltanb.table.table.DeltaTable`, by the newest snapshot already known."""
    version = table._version
    known = newest_known(table.log) if version is None else table.log._versions.get(version)
    return _view("Table", known or table.snapshot, pinned=version is not None)


def snapshot(snapshot: Any) -> View:
    """The view of a :class:`~deltanb.log.snapshot.Snapshot`."""
    return _view("Snapshot", snapshot, pinned=False)


def log(log: Any) -> View:
    """The view of a :class:`~deltanb.transaction.delta_log.DeltaLog`."""
    name = units.name_of(log.path)
    newest = newest_known(log)
    if newest is None:
        return View("Log", name, ("not read yet",))
    if newest.version < 0:
        return View("Log", name, ("no commits yet",))
    return View("Log", name, (newest.version_name,), tuple(_lines(newest)))


def _view(kind: str, snapshot: Any, pinned: bool) -> View:
    name = units.name_of(snapshot.log.path)
    if snapshot.version < 0:
        hint = ["create it: ", code(f'deltanb.create("{name}", data)')]
        return View(kind, name, ("not created yet",), (hint,))
    log, name = snapshot.log, snapshot.metadata.name or name
    newest = newest_known(log)
    behind = 0 if newest is None else _committed(newest) - snapshot.version
    past = pinned or (kind == "Snapshot" and behind > 0)
    marks: list[Inline] = [f"as of version {snapshot.version}" if past else snapshot.version_name]
    if past and behind > 0:
        marks.append(f"{units.number(behind)} behind latest")
    marks.append(_isolation(snapshot.metadata))
    features = _features(snapshot.protocol, snapshot.schema)
    sections = [_schema(snapshot), _properties(snapshot.metadata), features]
    if kind == "Snapshot":
        sections.insert(1, _files(snapshot))
    sections += _recent(snapshot)
    return View(kind, name, tuple(marks), tuple(_lines(snapshot)), tuple(sections))


def _committed(snapshot: Any) -> int:
    """The version of a snapshot or, of what is staged, the one that it is staged behind."""
    behind = snapshot.log.staged_behind
    return int(snapshot.version if behind is None else min(snapshot.version, behind))


def newest_known(log: Any) -> Any:
    """The snapshot the log holds in memory; None if it has read none yet."""
    return None if log._held is None else log._held[0]


def _lines(snapshot: Any) -> Iterable[Inline]:
    files, size = _counts(snapshot)
    rows, hint = _rows(snapshot, files)
    about = "" if size is not None else "about "
    parts = ", ".join(snapshot.metadata.partition_columns)
    line = [about + units.count(files, "file"), *([] if size is None else [units.size(size)]),
            *([] if rows is None else [rows]),
            units.count(len(snapshot.metadata.schema.fields), "column"),
            f"partitioned by {parts}" if parts else "not partitioned"]
    yield "  ".join(line)
    if hint is not None:
        yield muted(hint)
    if info := snapshot.last_commit_info:
        yield last_commit(info, known_time_of(snapshot), is_staged=snapshot.is_staged)


def _rows(snapshot: Any, files: int | None) -> tuple[str | None, str | None]:
    """The number of rows, and a hint if that is not the whole answer; each may be None.

    Rows are counted if that is cheap, and shown if they have been counted before.
    """
    counted, ask = snapshot._rows, "table.count() counts them"
    if counted is None:
        columns = max(1, len(snapshot.metadata.schema.fields))
        if files is None or files > min(MAX_LISTED, MAX_STATISTICS // columns):
            return None, f"rows not counted yet; {ask}"
        counted = snapshot.row_count
    if counted.is_exact:
        return units.count(counted.known, "row"), None
    if counted.silent == files:
        return None, f"rows not recorded; {ask}"
    some = f"{units.number(counted.silent)} of {units.count(files, 'file')}"
    return f"at least {units.count(counted.known, 'row')}", f"rows not recorded for {some}; {ask}"


def _counts(snapshot: Any) -> tuple[int | None, int | None]:
    """Files and bytes; for a long list that has not been read, the checkpoint's count and None."""
    waiting = _unread_files(snapshot)
    if waiting is not None and waiting > MAX_LISTED:
        return waiting, None
    return snapshot.num_files, snapshot.size_in_bytes


def _unread_files(snapshot: Any) -> int | None:
    """Files in a checkpoint whose list has not been read yet; None if there is no such checkpoint."""
    at = snapshot._state.files
    while at is not None and at._parts is None:
        if at._checkpoint is not None:
            return int(getattr(at._checkpoint, "num_adds", 0))
        at = at._below
    return None


def _recent(snapshot: Any) -> Iterable[Section]:
    """How much the last commits changed, if they are in memory: a bar each, the newest on the right."""
    sizes = snapshot._state.recent
    if len(sizes) > 1:
        few, many = units.number(min(sizes)), units.number(max(sizes))
        words = f"{few} to {many} files" if few != many else units.count(max(sizes), "file")
        bars = [code(sparkline(sizes)), "  "] if few != many else []  # alike, they would be a black bar
        order = ", the newest at the right" if bars else ""
        last = f"  added and removed in each of the last {len(sizes)} commits{order}"
        yield Section("Recent", [*bars, words, muted(last)], is_detail=True)


def last_commit(info: Mapping[str, Any], moment: int | None, is_staged: bool = False) -> Inline:
    """A commitInfo object on one line, with the time of its commit in epoch milliseconds, or of its statement
    where that is staged.

    >>> last_commit({"operation": "DELETE", "userName": "analyst"}, 1767258870000)
    'last: DELETE 2026-01-01 09:14:30 UTC by analyst'
    """
    line = f"{'staged' if is_staged else 'last'}: {info.get('operation') or 'operation not recorded'}"
    if moment is not None:
        line += f" {units.time(moment)}"
    return f"{line} by {info['userName']}" if info.get("userName") else line


def _isolation(metadata: Any) -> str:
    return metadata.configuration.get("delta.isolationLevel", "Serializable")


def _schema(snapshot: Any) -> Section:
    schema, partitions = snapshot.metadata.schema, snapshot.metadata.partition_columns
    rows = tuple(_column(f, f.name in partitions) for f in schema.fields[:MAX_SCHEMA])
    total = len(schema.fields)
    short = ", ".join(f"{f.name} {_type_word(f.type)}" for f in schema.fields[:MAX_SCHEMA_WORDS])
    if total > MAX_SCHEMA_WORDS:
        short += f" and {units.number(total - MAX_SCHEMA_WORDS)} more"
    names = ("column", "type", "null", "notes")
    return Section("Schema", code(short), Table(names, rows, total, "column", limit=MAX_SCHEMA))


def _type_word(data_type: Any) -> str:
    """A nested type by its first word: the whole is in the table.

    >>> _type_word("array<long>"), _type_word("decimal(10,2)")
    ('array', 'decimal(10,2)')
    """
    return str(data_type).split("<", 1)[0]


def _column(f: Any, is_partition: bool) -> tuple[Inline, ...]:
    notes = ["partition column"] if is_partition else []
    notes += [str(f.metadata["comment"])] if f.metadata.get("comment") else []
    physical = f.metadata.get("delta.columnMapping.physicalName")
    notes += [f"stored as {physical}"] if physical else []
    return code(f.name), code(f.type), "yes" if f.nullable else "not null", "; ".join(notes)


def _properties(metadata: Any) -> Section:
    properties = dict(sorted(metadata.configuration.items()))
    if not properties:
        return Section("Properties", muted("none set"))
    rows = tuple((code(key), code(value)) for key, value in properties.items())
    listed = Table(("property", "value"), rows, len(rows), "property")
    return Section("Properties", code(units.pairs(properties, ", ")), listed)


def _features(protocol: Any, schema: Any = None) -> Section:
    """What the table requires of readers and writers, and whether deltanb supports it."""
    from deltanb.schema.features import FEATURES
    from deltanb.schema.protocol import features_of

    names = features_of(protocol)
    versions = f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
    rows, refused = [], []
    for name in names:
        feature = FEATURES.get(name)
        reads = feature is not None and feature.read
        writes = feature.write if feature is not None else "no"
        if not reads or writes == "no":
            refused.append(name)
        rows.append((code(name), _verdict("yes" if reads else "no"), _verdict(writes)))
    line: list[Any] = [versions]
    refused += [f"type {kind} of {path}" for path, kind in _unknown_types(schema)]
    if refused:
        line += [": ", warn("✕ not supported: " + ", ".join(refused))]
    elif names:
        line += [f", {units.count(len(names), 'feature')}: ", ok("✓ can read and write")]
    columns = ("feature", "deltanb can read", "deltanb can write")
    return Section("Features", line, Table(columns, tuple(rows), len(rows), "feature"))


def _unknown_types(schema: Any) -> list[tuple[str, Any]]:
    from deltanb.schema.types import StructType, unknown_types

    return list(unknown_types(schema)) if isinstance(schema, StructType) else []


def _verdict(word: str) -> Inline:
    return {"yes": ok("✓ yes"), "no": warn("✕ no")}.get(word, muted(f"– {word}"))


def _files(snapshot: Any) -> Section:
    """The number of files, and the largest if the list is short or in memory."""
    waiting = _unread_files(snapshot)
    if waiting is not None and waiting > MAX_LISTED:
        count = f"about {units.count(waiting, 'file')}"
        return Section("Files", [count, muted(", not read yet; listed by .files")])
    total = snapshot.num_files
    if total == 0:
        return Section("Files", muted("none"))
    if total > MAX_LISTED:
        return Section("Files", [units.count(total, "file"), muted(", listed by .files")])
    shown = largest(snapshot.select_files(READ_COLUMNS))
    rows = tuple(file_row(AddFile.from_row(row)) for row in shown)
    summary = f"largest {units.size(shown[0]['size'])}, {units.file_name(shown[0]['path'])}"
    return Section("Files", summary, Table(FILE_COLUMNS, rows, total, "file"))


def largest(files: Any) -> list[dict[str, Any]]:
    """As many files as are shown, the largest first."""
    import pyarrow.compute as pc

    order = pc.sort_indices(files, sort_keys=[("size", "descending"), ("path", "ascending")])
    rows: list[dict[str, Any]] = files.take(order.slice(0, options.max_rows)).to_pylist()
    return rows


def file_row(add: AddFile) -> tuple[Inline, ...]:
    """A file in the columns :data:`FILE_COLUMNS`."""
    rows = "?" if add.num_records is None else units.number(add.num_records)
    if add.deletion_vector is not None:
        rows += f" − {units.number(add.deletion_vector.cardinality)} deleted"
    partition = code(units.pairs(add.partition_values)) if add.partition_values else "–"
    return code(units.file_name(add.path)), partition, rows, units.size(add.size)
