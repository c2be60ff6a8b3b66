"""Actions of the log as one line each, and unfolded.

What lives here: the view of every action, ``+ part-0131.parquet  day=1  120 rows  4.1 kB``.
What it does not know: tables and commits; an action is a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from deltanb.actions.data_files import STORAGE_TYPES
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, plain, spans
from deltanb.text import formatting as units

MAX_STATISTICS = 200  # columns of one file's statistics; more than Delta collects by default (32)

MAX_PARTICIPANTS = 4  # tables of a transaction group on its line; the JSON has all of them
MAX_TABLE_ID = 13  # characters of a table's id there

SIGNS = {"AddFile": ("+", "append"), "RemoveFile": ("−", "delete"), "AddCDCFile": ("Δ", "optimize")}


def line(action: Any) -> Inline:
    """The action on one line; the text and the first line of the HTML.

    >>> from deltanb.actions import AddFile
    >>> plain(line(AddFile("day=1/part-0131.parquet", {"day": "1"}, size=4100)))
    '+ part-0131.parquet  day=1  4.1 kB'
    """
    name = type(action).__name__
    if name in SIGNS:
        return _file(action, *SIGNS[name])
    if name in _OTHERS:
        return _OTHERS[name](action)
    key, value = next(iter(action.to_dict().items()))
    return [f"{key} ", code(units.value_of(value))]


def fields(action: Any) -> View:
    """Line, fields, statistics and JSON of an action."""
    value = action.to_dict()
    key, content = next(iter(value.items()))
    content = content if isinstance(content, dict) else {"value": content}
    return View(
        kind=plain(line(action)),
        title=line(action),
        sections=(
            _fields_section(key, content),
            *_statistics(content.get("stats")),
            Section("JSON", muted("as in the log"), is_detail=True,
                    source=json.dumps(value, indent=1, ensure_ascii=False, default=str)),
        ),
    )


def _fields_section(key: str, content: dict[str, Any]) -> Section:
    rows = tuple((code(name), code(units.value_of(value)))
                 for name, value in content.items() if name not in ("stats", "schemaString"))
    table = Table(("field", "value"), rows, len(rows), "field")
    return Section("Fields", muted(key), table, is_detail=True, is_open=True)


def _statistics(stats: Any) -> tuple[Section, ...]:
    """Statistics by column; text that is not JSON is shown unchanged."""
    if not stats:
        return ()
    parsed = units.parsed(stats)
    if not isinstance(parsed, dict):
        return (Section("Statistics", "not readable", source=str(stats), is_detail=True),)
    records = parsed.get("numRecords")
    summary = units.count(records, "row") if isinstance(records, int) else "rows not counted"
    return (Section("Statistics", muted(summary), statistics(stats), is_detail=True, is_open=True),)


def statistics(stats: Any, limit: int | None = None) -> Table:
    """Minimum, maximum and NULLs of each column of a file; no rows if the statistics are missing or not
    readable. Beyond ``limit`` columns, the last line says how many there are.

    >>> statistics('{"numRecords":3,"minValues":{"day":1},"maxValues":{"day":9}}').total
    1
    """
    parsed = units.parsed(stats)
    parsed = parsed if isinstance(parsed, dict) else {}
    kinds = ("minValues", "maxValues", "nullCount")
    by_column = {kind: _leaves(parsed.get(kind)) for kind in kinds}
    names = list(dict.fromkeys(name for leaves in by_column.values() for name in leaves))
    rows = tuple((code(name), *(_cell(by_column[kind], name) for kind in kinds))
                 for name in names[: limit or MAX_STATISTICS])
    if limit and len(names) > limit:
        rows += ((muted(f"… {units.number(len(names) - limit)} more"), "", "", ""),)
    return Table(("column", "min", "max", "nulls"), rows, len(names), "column", limit=limit and limit + 1)


def _leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {}
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            leaves.update(_leaves(value, f"{prefix}{name}."))
        else:
            leaves[prefix + name] = value
    return leaves


def _cell(leaves: dict[str, Any], name: str) -> Inline:
    return code(units.value_of(leaves[name])) if name in leaves else muted("–")


def _file(action: Any, sign: str, tone: str) -> Inline:
    parts: list[str | Span] = [Span(f"{sign} ", tone), code(units.file_name(action.path))]
    about = []
    if action.partition_values:
        about.append(units.pairs(action.partition_values))
    if action.num_records is not None:
        about.append(units.count(action.num_records, "row"))
    if action.size is not None:
        about.append(units.size(action.size))
    if action.deletion_vector is not None:
        about.append(f"{units.count(action.deletion_vector.cardinality, 'row')} deleted")
    if not action.data_change and type(action).__name__ != "AddCDCFile":
        about.append("data unchanged")
    return [*parts, muted("".join("  " + text for text in about))] if about else parts


def _metadata(action: Any) -> Inline:
    try:
        columns = units.count(len(action.schema.fields), "column")
    except Exception:
        columns = "schema not readable"
    about = [columns]
    if action.partition_columns:
        about.append("partitioned by " + ", ".join(action.partition_columns))
    if action.configuration:
        about.append(units.count(len(action.configuration), "property", "properties"))
    return ["metadata ", *spans("  ".join(about))]


def _protocol(action: Any) -> Inline:
    listed = dict.fromkeys([*(action.reader_features or ()), *(action.writer_features or ())])
    versions = f"protocol  reader {action.min_reader_version}  writer {action.min_writer_version}"
    return [versions, "  " + ", ".join(listed)] if listed else versions


def _transaction(action: Any) -> Inline:
    return ["transaction of ", code(action.app_id), f"  version {action.version}"]


def _domain(action: Any) -> Inline:
    if action.removed:
        return ["domain ", code(action.domain), "  removed"]
    return ["domain ", code(action.domain), "  ", code(action.configuration)]


def _group(action: Any) -> Inline:
    """A transaction of several tables: the version that it gave each of them, by their ids in the catalog."""
    words: list[str | Span] = ["group  ", units.count(len(action.participants), "table"), " in ",
                               code(action.coordinating_catalog)]
    for one in action.participants[:MAX_PARTICIPANTS]:
        words += ["  ", code(units.shortened(one.table_id, MAX_TABLE_ID)), f" v{one.proposed_version}"]
    left = len(action.participants) - MAX_PARTICIPANTS
    return [*words, f"  and {units.number(left)} more"] if left > 0 else words


def _commit_info(action: Any) -> Inline:
    parts = [str(action.operation or "not recorded")]
    if action.user_name:
        parts.append(f"by {action.user_name}")
    moment = action.in_commit_timestamp or action.timestamp
    if moment is not None:
        parts.append(units.time(moment))
    if action.read_version is not None:
        parts.append(f"read v{action.read_version}")
    return ["commit  ", "  ".join(parts)]


def _vector(action: Any) -> Inline:
    place = STORAGE_TYPES.get(action.storage_type, action.storage_type)
    rows = units.count(action.cardinality, "row")
    return f"deletion vector  {rows} deleted  {place}  {units.size(action.size_in_bytes)}"


def _sidecar(action: Any) -> Inline:
    return ["sidecar ", code(units.file_name(action.path)), f"  {units.size(action.size_in_bytes)}"]


_OTHERS: dict[str, Callable[[Any], Inline]] = {
    "Metadata": _metadata,
    "Protocol": _protocol,
    "SetTransaction": _transaction,
    "DomainMetadata": _domain,
    "CommitInfo": _commit_info,
    "DeletionVector": _vector,
    "TransactionGroup": _group,
    "Sidecar": _sidecar,
}
