"""What a vacuum deleted, or would delete: counts, and the largest files as a table.

What lives here: the view of ``VacuumResult``.
What it does not know: which files may go.
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook import units
from deltanb.notebook.model import Inline, Section, Table, View, code, muted, ok, warn
from deltanb.options import options

COLUMNS = ("file", "size", "last modified")


def view(result: Any) -> View:
    """The view of a :class:`~deltanb.commands.vacuum.VacuumResult`."""
    mark: Inline = warn("dry run: nothing was deleted")
    if not result.is_dry_run:
        mark = ok(f"✓ done in v{result.version}")
    verb = "would go" if result.is_dry_run else "deleted"
    line: list[Any] = [f"{units.count(result.num_files, 'file')} {verb}",
                       f", {units.size(result.size_in_bytes)}"]
    if result.num_folders:
        line.append(f", {units.count(result.num_folders, 'empty folder')} removed")
    kept = muted(f"versions since {units.time(result.cutoff)} can be read")
    sections = (_files(result),) if result.num_files else ()
    return View("Vacuum", units.name_of(result.table), (mark,), (line, kept), sections)


def _files(result: Any) -> Section:
    shown = result.files.sort_by([("size", "descending"), ("path", "ascending")])
    rows = tuple((code(row["path"]), units.size(row["size"]), units.time(row["modification_time"]))
                 for row in shown.slice(0, options.max_rows).to_pylist())
    table = Table(COLUMNS, rows, result.num_files, "file", COLUMNS[:2])
    return Section("Files", f"largest {rows[0][1]}", table, is_open=True, text_rows=True)
