"""Time travel: the views of a place in a table's history, and of the versions that can be read.

What lives here: the views of ``TimeTravel``, ``TimeFrame`` and ``Versions``.
What it does not know: how one moves (``observe/time_travel.py``), the slider (``widgets/time_travel.py``).
"""

from __future__ import annotations

from typing import Any

from deltanb import formatting as units
from deltanb.notebook.views import diff
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, warn
from deltanb.observe.availability import spans

MAX_GAPS = 2  # told on the line; the table has all of them


def travel(travel: Any) -> View:
    """The view of a :class:`TimeTravel`: its frame."""
    return frame(travel.frame)


def frame(frame: Any) -> View:
    """The view of a :class:`TimeFrame`."""
    name, last = units.name_of(frame.table), frame.versions.last
    if frame.diff is not None:
        shown = diff.view(frame.diff)
        sections = (_versions(frame.versions), *shown.sections)
        return View("Time travel", name, shown.marks, (), sections)
    behind = last - frame.version
    marks = [f"v{frame.version}", "the newest" if behind == 0 else f"{units.number(behind)} behind v{last}"]
    line = f"{frame.commit}  {units.time(frame.timestamp)}"
    restore = Section("Restore", code(f"table.restore({frame.version})") if behind else muted(
        "this is the newest version"))
    return View("Time travel", name, tuple(marks), (line,),
                (_versions(frame.versions), Section("State", frame.state), _rows(frame), restore))


def versions(versions: Any) -> View:
    """The view of a :class:`~deltanb.observe.availability.Versions`."""
    return View("Versions", units.name_of(versions.table), (f"v0 to v{versions.last}",), (),
                (_readable(versions), _gaps(versions)))


def _readable(versions: Any) -> Section:
    count = f"{units.number(len(versions))} of {units.number(versions.last + 1)}"
    return Section("Readable", [count, f": {spans(versions.runs)}"])


def _gaps(versions: Any) -> Section:
    rows = tuple((code(str(gap).split(": ", 1)[0]), gap.reason,
                  ", ".join(units.file_name(name) for name in gap.files[:MAX_GAPS])
                  + (f" and {units.number(gap.num_files - MAX_GAPS)} more" if gap.num_files > MAX_GAPS
                     else "")) for gap in versions.gaps)
    if not rows:
        return Section("Gaps", "none")
    table = Table(("versions", "why", "files"), rows, len(rows), "gap", ("versions", "why"))
    return Section("Gaps", units.count(len(rows), "gap"), table, is_open=True, text_rows=True)


def _versions(versions: Any) -> Section:
    """Which versions can be travelled to, on a line."""
    gaps = versions.gaps
    if not gaps:
        return Section("Versions", f"all {units.number(versions.last + 1)} have data" if versions.last
                       else "one, v0")
    words: list[Inline] = [f"{units.number(len(versions))} of {units.number(versions.last + 1)} have data; "]
    told = "; ".join(map(str, gaps[:MAX_GAPS]))
    more = f" and {units.count(len(gaps) - MAX_GAPS, 'more gap')}" if len(gaps) > MAX_GAPS else ""
    return Section("Versions", [*words, warn(told + more)], _gaps(versions).table)


def _rows(frame: Any) -> Section:
    rows = frame.preview
    if frame.note:
        return Section("Rows", warn(frame.note))
    if not rows.num_rows:
        return Section("Rows", muted("none"))
    names = rows.schema.names
    first = names[: diff.MAX_COLUMNS]
    cells = tuple(tuple(diff.shown(row[name]) for name in first)
                  for row in rows.select(first).to_pylist())
    summary: list[Inline] = [f"the first {units.number(len(cells))}"]
    table = diff.fitting(
        Table(tuple(first), cells, len(cells), "row", tuple(first[: diff.MAX_TEXT_COLUMNS])))
    if hidden := len(names) - len(table.columns):
        summary.append(muted(f", {units.count(hidden, 'column')} not shown"))
    return Section("Rows", summary, table, is_open=True, text_rows=True)
