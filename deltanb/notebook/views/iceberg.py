"""Iceberg tables: columns, snapshots and properties, as their metadata has them.

What lives here: the view of ``IcebergTable``, and its line among other tables.
What it does not know: rows and data files, which PyIceberg reads; counts come from the snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted
from deltanb.options import options
from deltanb.text import formatting as units

MAX_COLUMNS = 200  # columns listed at most
MAX_SCHEMA_WORDS = 12  # columns named on the line


def table(table: Any) -> View:
    """The view of an :class:`~deltanb.catalog.iceberg.table.IcebergTable`."""
    loaded = table.known
    metadata = loaded.metadata
    marks = (pointer(loaded.metadata_location), f"format {metadata.get('format-version', '?')}")
    newest = _current(metadata)
    counts = _counts(newest)
    columns = _columns(metadata)
    word = "file" if counts[0] == "1" else "files"
    line = [counts[0] and f"{counts[0]} {word}  ", counts[1] and f"{counts[1]}  ",
            units.count(len(columns), "column")]
    lines: list[Inline] = ["".join(part for part in line if part)]
    lines.append(_last(newest) if newest else "no snapshot yet: no rows")
    return View("Iceberg table", table.name, marks, tuple(lines),
                (_schema(columns), _properties(metadata), _snapshots(metadata)))


def table_row(name: str, table: Any) -> tuple[Inline, ...]:
    """Its line among the tables of a catalog: name, pointer, files, size, last snapshot."""
    loaded = table.known
    newest = _current(loaded.metadata)
    files, size = _counts(newest)
    last: Inline = str(_last(newest)).removeprefix("last: ") if newest else muted("no snapshot")
    return code(name), pointer(loaded.metadata_location), files or "–", size or "–", last


def pointer(where: str | None) -> str:
    """The state of a table: a version, or the number of its metadata file.

    >>> pointer("4"), pointer("file:///lake/t/metadata/00003-5ec0a000.metadata.json"), pointer("s3://b/m.json")
    ('v4', 'm3', 'm.json')
    """
    where = where or ""
    if where.isdigit():
        return f"v{where}"
    name = units.name_of(where)
    number = name.partition("-")[0]
    return f"m{int(number)}" if number.isdigit() and name != number else units.shortened(name)


def _current(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    current_id = metadata.get("current-snapshot-id")
    snapshots = reversed(metadata.get("snapshots") or ())
    return next((s for s in snapshots if s["snapshot-id"] == current_id), None)


def _counts(snapshot: Mapping[str, Any] | None) -> tuple[str, str]:
    """Files and bytes from a snapshot's summary; empty if it has none."""
    summary = (snapshot or {}).get("summary") or {}
    files, size = str(summary.get("total-data-files")), str(summary.get("total-files-size"))
    return (units.number(int(files)) if files.isdigit() else "",
            units.size(int(size)) if size.isdigit() else "")


def _last(snapshot: Mapping[str, Any]) -> str:
    operation = (snapshot.get("summary") or {}).get("operation", "operation not recorded")
    return f"last: {operation} {units.time(snapshot.get('timestamp-ms'))}"


def _columns(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    current_id = metadata.get("current-schema-id")
    schemas = metadata.get("schemas") or ()
    return list(next((s["fields"] for s in schemas if s.get("schema-id") == current_id), ()))


def _schema(columns: list[Mapping[str, Any]]) -> Section:
    rows = tuple((code(str(f["id"])), code(f["name"]), code(_type(f["type"])),
                  "required" if f.get("required") else "optional") for f in columns[:MAX_COLUMNS])
    short = ", ".join(f"{f['name']} {_type(f['type'])}" for f in columns[:MAX_SCHEMA_WORDS])
    if len(columns) > MAX_SCHEMA_WORDS:
        short += f" and {units.number(len(columns) - MAX_SCHEMA_WORDS)} more"
    listed = Table(("id", "column", "type", "null"), rows, len(columns), "column", limit=MAX_COLUMNS)
    return Section("Schema", code(short), listed)


def _type(value: Any) -> str:
    """A type, by its first word if it is nested."""
    return str(value.get("type", "?")) if isinstance(value, Mapping) else str(value)


def _properties(metadata: Mapping[str, Any]) -> Section:
    properties = dict(sorted((metadata.get("properties") or {}).items()))
    if not properties:
        return Section("Properties", muted("none set"))
    rows = tuple((code(key), code(value)) for key, value in properties.items())
    return Section("Properties", code(units.pairs(properties, ", ")),
                   Table(("property", "value"), rows, len(rows), "property"))


def _snapshots(metadata: Mapping[str, Any]) -> Section:
    snapshots = list(metadata.get("snapshots") or ())[::-1]
    if not snapshots:
        return Section("Snapshots", muted("none yet"))
    rows = tuple(map(_snapshot, snapshots[:options.max_rows]))
    return Section("Snapshots", [units.count(len(snapshots), "snapshot"), muted(", newest first")],
                   Table(("time", "operation", "files", "size", "id"), rows, len(snapshots), "snapshot"))


def _snapshot(snapshot: Mapping[str, Any]) -> tuple[Inline, ...]:
    files, size = _counts(snapshot)
    operation = str((snapshot.get("summary") or {}).get("operation", "–"))
    return (Span(units.time(snapshot.get("timestamp-ms"), zone=False), "fixed"), operation, files or "–",
            size or "–", code(snapshot["snapshot-id"]))
