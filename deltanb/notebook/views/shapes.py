"""Shapes of a table: the schema as a tree, the row of DESCRIBE DETAIL, the files of a scan.

What lives here: the views of ``StructType``, ``TableDetail`` and ``FileScan``.
What it does not know: how files are selected.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow.compute as pc

from deltanb.actions import AddFile
from deltanb.notebook.views import tables
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted
from deltanb.text import formatting as units

MAX_COLUMNS = 200  # lines of a tree at most; tree() has all of them
BLANK = "\N{NO-BREAK SPACE}"  # HTML would make one of several spaces


def schema(schema: Any) -> View:
    """The view of a :class:`~deltanb.schema.types.StructType`: a line for each column and nested field."""
    nodes = schema.nodes()
    rows: tuple[tuple[Inline, ...], ...] = tuple(
        (code(branch.replace(" ", BLANK) + name), code(kind), "yes" if nullable else "not null")
        for branch, name, kind, nullable in nodes[:MAX_COLUMNS])
    listed = Table(("column", "type", "null"), rows, len(nodes), "field", limit=MAX_COLUMNS)
    count = units.count(len(schema), "column")
    return View("Schema", "", (count,), (), (
        Section("Columns", muted("with their nested fields"), listed, is_open=True, text_rows=True),))


def detail(detail: Any) -> View:
    """The view of a :class:`~deltanb.commands.read.detail.TableDetail`: what is set, a line each."""
    some = {key: value for key, value in detail.items() if value is not None and value not in ("", [], {})}
    rows: tuple[tuple[Inline, ...], ...] = tuple((code(key), _value(key, some[key])) for key in some)
    left = len(detail) - len(some)
    unset = muted(f"{units.number(left)} not set" if left else "all set")
    name = detail.get("name") or units.name_of(detail.get("location"))
    return View("Detail", name, (), (), (
        Section("Fields", unset, Table(("field", "value"), rows, len(rows), "field", limit=len(rows)),
                is_open=True, text_rows=True),))


def _value(key: str, value: Any) -> Inline:
    if isinstance(value, dt.datetime):
        return units.time(round(value.timestamp() * 1000))
    if key == "sizeInBytes":
        return units.size(value)
    if key == "location":  # as in every picture: by its last part
        return code(units.name_of(value))
    if key == "numFiles":
        return units.number(value)
    if isinstance(value, dict):
        return code(units.pairs(value, ", "))
    return code(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def scan(scan: Any) -> View:
    """The view of a :class:`~deltanb.transaction.reads.FileScan`: how many files, and the largest."""
    total = len(scan)
    size = pc.sum(scan.table["size"]).as_py() or 0
    marks = (units.count(total, "file"), units.size(size)) if total else ("no files",)
    if total > tables.MAX_LISTED or not total:
        remark = muted("listed by .table" if total else "none can hold such rows")
        return View("Scan", "", marks, (), (Section("Files", remark),))
    shown = tables.largest(scan.table.select(tables.READ_COLUMNS))
    rows = tuple(tables.file_row(AddFile.from_row(row)) for row in shown)
    listed = Table(tables.FILE_COLUMNS, rows, total, "file")
    return View("Scan", "", marks, (), (
        Section("Files", muted("the largest first"), listed, is_open=True, text_rows=True),))
