"""What a vacuum deleted, or would delete: counts, and the largest files as a table.

What lives here: the view of ``VacuumResult``.
What it does not know: which files may go.
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok, warn
from deltanb.options import options
from deltanb.text import formatting as units

COLUMNS = ("file", "size", "last modified")
MAX_SORTED = 10_000  # files of one size that are ordered by name, in some milliseconds


def view(result: Any) -> View:
    """The view of a :class:`~deltanb.commands.upkeep.vacuum.VacuumResult`."""
    mark: Inline = warn("dry run: nothing was deleted")
    if not result.is_dry_run:
        mark = ok(f"✓ done in v{result.version}")
    verb = "would be deleted" if result.is_dry_run else "deleted"
    line: list[Any] = [f"{units.count(result.num_files, 'file')} {verb}",
                       f", {units.size(result.size_in_bytes)}"]
    if unnamed := result.unnamed.num_rows:
        verb = "is" if unnamed == 1 else "are"
        line.append(f", of which {units.count(unnamed, 'file')} {verb} in no version")
    if result.num_folders:
        line.append(f", {units.count(result.num_folders, 'empty folder')} removed")
    retention = muted(f"versions since {units.time(result.cutoff)} can be read")
    sections = (_files(result),) if result.num_files else ()
    return View("Vacuum", units.name_of(result.table), (mark,), (line, retention), sections)


def _files(result: Any) -> Section:
    few = min(result.num_files, max(1, options.max_rows))
    order = [("size", "descending"), ("path", "ascending")]
    shown = result.files.take(_largest(result.files["size"].to_numpy(), few)).sort_by(order)
    rows = tuple((code(_path(row["path"])), units.size(row["size"]), units.time(row["modification_time"]))
                 for row in shown.slice(0, few).to_pylist())
    table = Table(COLUMNS, rows, result.num_files, "file", COLUMNS[:2])
    return Section("Files", f"largest {rows[0][1]}", table, is_open=True, text_rows=True)


def _path(path: str) -> str:
    """A path below the table, with the file's name cut in the middle so that names stay distinct.

    >>> _path("day=1/part-00000-5ec0a000-0000-4000-8000-000000000000-c000.zstd.parquet")
    'day=1/part-00000-5ec0a0…000.zstd.parquet'
    """
    folder, slash, name = path.rpartition("/")
    return folder + slash + units.shortened(name)


def _largest(sizes: Any, few: int) -> Any:
    """Indices of the largest ``few``, and of others as large as the last; sorting all would take too long.

    >>> import numpy
    >>> _largest(numpy.array([3, 9, 4, 9, 4]), 3).tolist()
    [1, 3, 2, 4]
    """
    import numpy

    least = numpy.partition(sizes, len(sizes) - few)[len(sizes) - few]
    more, same = numpy.flatnonzero(sizes > least), numpy.flatnonzero(sizes == least)
    return numpy.concatenate([more, same[:MAX_SORTED]])
