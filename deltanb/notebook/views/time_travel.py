"""Time travel: the views of a version in a table's history, and of the versions that can be read.

What lives here: the views of ``TimeTravel``, ``TimeFrame`` and ``Versions``.
What it does not know: how to move (``observe/time_travel.py``), the slider (``widgets/time_travel.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltanb.notebook.views import diff, first_columns
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, warn
from deltanb.observe.availability import spans
from deltanb.text import formatting as units

MAX_GAPS = 2  # told on the line; the table has all of them
FATES = {"changes": ("~", "changed", "rewrite"), "goes": ("−", "deleted", "delete")}
"""What the next version does to a row: its sign, the word, the tone."""


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
    """The versions that can be read, on one line."""
    gaps = versions.gaps
    if not gaps:
        return Section("Versions", f"all {units.number(versions.last + 1)} have data" if versions.last
                       else "one, v0")
    words: list[Inline] = [f"{units.number(len(versions))} of {units.number(versions.last + 1)} have data; "]
    named = "; ".join(map(str, gaps[:MAX_GAPS]))
    more = f" and {units.count(len(gaps) - MAX_GAPS, 'more gap')}" if len(gaps) > MAX_GAPS else ""
    return Section("Versions", [*words, warn(named + more)], _gaps(versions).table)


def _rows(frame: Any) -> Section:
    rows = frame.preview
    if frame.note:
        return Section("Rows", warn(frame.note))
    if not rows.num_rows:
        return Section("Rows", muted("none"))
    first = _first_columns(frame)
    step = frame.next_step
    fates = () if step is None or not step.num_marked else step.fates
    lead = (f"in v{step.version}",) if fates else ()
    cells = tuple((*(_fate(fate) for fate in fates[at : at + 1]), *(diff.shown(row[name]) for name in first))
                  for at, row in enumerate(rows.select(first).to_pylist()))
    summary: list[Inline] = [f"the first {units.number(len(cells))}", *_becomes(step)]
    in_text = (*lead, *first[: diff.MAX_TEXT_COLUMNS])
    table = Table((*lead, *first), cells, len(cells), "row", in_text,
                  marked=frozenset(at for at, fate in enumerate(fates) if fate))
    table = table if frame.columns is not None else diff.fitting(table)
    hidden = len(rows.schema.names) + len(lead) - len(table.columns)
    if hidden and frame.columns is None:
        summary.append(muted(f", {units.count(hidden, 'column')} not shown"))
    return Section("Rows", summary, table, is_open=True, text_rows=True)


def _first_columns(frame: Any) -> list[str]:
    """The columns asked for; else keys, columns that the next step changes, those in conditions."""
    names = list(frame.preview.schema.names)
    if frame.columns is not None:
        return names
    step = frame.next_step
    groups = [frame.keys, () if step is None else step.columns, first_columns.named(frame.parameters, names),
              () if step is None else first_columns.named(step.parameters, names)]
    return first_columns.ordered(names, *groups)[: diff.MAX_COLUMNS]


def _fate(fate: str) -> Inline:
    if fate not in FATES:
        return ""
    sign, word, tone = FATES[fate]
    return Span(f"{sign} {word}", tone)


def _becomes(step: Any) -> Iterator[Inline]:
    """What the next version does to the rows, in words."""
    if step is None:
        return
    name = f"v{step.version}" + (f" {step.operation}" if step.operation else "")
    if step.note:
        yield muted(f"; next {name}: {step.note}")
    elif not step.num_marked:
        yield muted(f"; none of them changes in {name}")
    else:
        words = [f"{units.number(n)} {'is' if n == 1 else 'are'} {word}"
                 for fate, (_, word, _) in FATES.items() if (n := step.fates.count(fate))]
        yield Span(f"; {', '.join(words)} in {name}", "rewrite")
