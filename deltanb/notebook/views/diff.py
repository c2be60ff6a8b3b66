"""How two versions of a table differ: rows first, then files, schema, properties, protocol, commits.

What lives here: the view of ``TableDiff``, and how a changed row is written: ``before → after`` in the cells
that changed.
What it does not know: how versions are compared. Nothing is read: the diff holds the rows it shows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from deltanb.notebook.drawing.text import places
from deltanb.notebook.views import first_columns
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, plain, warn
from deltanb.options import options
from deltanb.text import formatting as units

MAX_COLUMNS = 12  # columns of rows that are looked at: of more, no screen has room
MAX_TEXT_COLUMNS = 5  # in 88 characters
MAX_WIDTH = 88  # characters of a row: as in text; a cell in a notebook beside an open sidebar has them
GAP_WIDTH = 3  # characters between two columns: the padding in style.css
MAX_CELL_WIDTH = 40  # characters after which a cell is folded: max-width in style.css
MAX_VALUE = 60  # characters of a value; a cell of a row, not a document
MAX_WORDS = 3  # changes told on the line; the table has all of them
CHANGE_COLUMNS = ("change", "what", "before", "after")
FILE_COLUMNS = ("change", "file", "partition", "rows", "size")
COMMIT_COLUMNS = ("version", "timestamp", "operation", "user")
ADDED, REMOVED, CHANGED = Span("+ added", "append"), Span("− removed", "delete"), Span("~ changed", "rewrite")


def view(diff: Any) -> View:
    """The view of a :class:`~deltanb.log.diff.TableDiff`."""
    start, end = (units.version_name(version, diff.staged_behind) for version in (diff.start, diff.end))
    marks: list[Inline] = [f"{start} → {end}"]
    if diff.start > diff.end:
        marks.append("backwards")
    if diff.start == diff.end:
        marks.append("the same version")
    sections = [_rows(diff), _files(diff.files)]
    for heading, changes in (
            ("Schema", diff.schema), ("Properties", diff.properties), ("Protocol", diff.protocol)):
        sections.append(_changes(heading, changes))
    sections.append(_commits(diff))
    return View("Diff", units.name_of(diff.table), tuple(marks), (), tuple(sections))


# -- rows ----------------------------------------------------------------------------------------


def _rows(diff: Any) -> Section:
    rows = diff.rows
    if rows is None:
        return Section("Rows", _by_log(diff.files))
    summary = list(_counts(rows))
    if not rows.is_exact:
        return Section("Rows", [warn("not compared: "), *summary, f"; {rows.note}"])
    if not (rows.num_added or rows.num_removed or rows.num_changed):
        words = "the same" if diff.files.is_empty else "the same, in other files"
        return Section("Rows", [ok("✓ "), words, *_silent(rows)])
    summary += _how(rows)
    total = rows.num_added + rows.num_removed + rows.num_changed
    names = _first_columns(diff)
    in_text = ("change", *_text_columns(rows, names))
    table = Table(("change", *names), tuple(row_cells(rows, names)), total, "row", in_text)
    table = fitting(table) if diff.columns is None else table
    cells = table.rows
    if (hidden := len(rows.after.schema) + 1 - len(table.columns)) and diff.columns is None:
        summary.append(muted(f"; {units.count(hidden, 'column')} not shown"))
    return Section("Rows", summary, table if cells else None, is_open=True, text_rows=True)


def _by_log(files: Any) -> Inline:
    change = files.row_change
    if files.is_empty:
        return "the same: no file differs"
    if change is None:
        return "not known: files do not say how many rows they have"
    sign = "no more and no fewer" if change == 0 else f"{units.number(abs(change))} " + (
        "more" if change > 0 else "fewer")
    return [f"{sign} according to the log", muted("; table.diff(…) compares them")]


def _counts(rows: Any) -> Iterable[Span | str]:
    """The count of each kind, in words with signs."""
    if not rows.is_exact:
        come, gone = (units.number(n) for n in (rows.num_added, rows.num_removed))
        yield f"at most {come} added, {gone} removed"
        return
    parts = [Span(f"{kind.text[0]} {units.number(n)} {kind.text[2:]}", kind.tone)
             for kind, n in ((CHANGED, rows.num_changed), (ADDED, rows.num_added),
                             (REMOVED, rows.num_removed)) if n]
    for at, part in enumerate(parts):
        if at:
            yield ", "
        yield part


def _how(rows: Any) -> Iterable[Span]:
    """How rows were matched, and what was left out of the comparison."""
    words = ", ".join(rows.key)
    if rows.matched_by == "keys":
        yield muted(f"; matched by {words}")
    elif rows.matched_by == "row ids":
        also = f" and {words} (unique in rows read)" if words else ""
        yield muted(f"; matched by row id{also}")
    elif rows.matched_by == "inferred":
        yield muted(f"; matched by {words} (unique in rows read)")
    elif rows.num_added and rows.num_removed:
        yield muted("; no key found, name one: keys=[…]")
    if rows.note:
        yield muted(f"; {rows.note}")
    yield from _silent(rows)


def _silent(rows: Any) -> Iterable[Span]:
    if rows.not_compared:
        yield warn(f"; not compared, of another type: {', '.join(rows.not_compared)}")


def changed_columns(rows: Any, limit: int) -> list[str]:
    """Columns in which one of the first changed rows differs."""
    old, new = (side.slice(0, limit).to_pydict() for side in (rows.before, rows.after))
    return [name for name in rows.after.schema.names
            if any(not same(a, b) for a, b in zip(old[name], new[name], strict=True))]


def same(one: Any, two: Any) -> bool:
    """Whether two values are equal; NaN equals NaN, as in the comparison."""
    return one == two or (one != one and two != two)


def _first_columns(diff: Any) -> list[str]:
    """The columns asked for; else keys, columns that differ, columns in commits' conditions, the others."""
    rows = diff.rows
    if diff.columns is not None:
        return list(diff.columns)
    names = rows.after.schema.names
    conditioned = [name for commit in diff.commits
            for name in first_columns.named(commit.operation_parameters, names)]
    return first_columns.ordered(
        names, rows.key, changed_columns(rows, options.max_rows), conditioned)[:MAX_COLUMNS]


def fitting(table: Table) -> Table:
    """The table with the columns that fit into ``MAX_WIDTH``; those of the text form always stay.

    >>> row = ("1", "x" * 60, "y" * 60, "2")
    >>> fitting(Table(("identity", "a", "b", "c"), (row,), 1, text_columns=("identity", "c"))).columns
    ('identity', 'a', 'c')
    """
    widths = [min(MAX_CELL_WIDTH, max(map(units.width, (name, *(plain(row[at]) for row in table.rows)))))
              for at, name in enumerate(table.columns)]
    chosen = set(places(table))
    room = MAX_WIDTH + GAP_WIDTH - sum(widths[at] + GAP_WIDTH for at in chosen)
    for at, width in enumerate(widths):
        if at in chosen:
            continue
        room -= width + GAP_WIDTH
        if room < 0:
            break
        chosen.add(at)
    at_last = sorted(chosen)
    return replace(table, columns=tuple(table.columns[at] for at in at_last),
                   rows=tuple(tuple(row[at] for at in at_last) for row in table.rows))


def _text_columns(rows: Any, names: Sequence[str]) -> list[str]:
    """The shown columns that fit into text; a changed one is always among them, however long the key."""
    first = names[:MAX_TEXT_COLUMNS]
    changed = [name for name in changed_columns(rows, options.max_rows) if name in names]
    if not changed or not {*first}.isdisjoint(changed):
        return list(first)
    return [*first[:-1], changed[0]]


def row_cells(rows: Any, names: Sequence[str]) -> Iterable[tuple[Inline, ...]]:
    """The rows that are shown: some of each kind, the changed ones first."""
    tables = {"changed": rows.after, "added": rows.added, "removed": rows.removed}
    taken = shares({kind: table.num_rows for kind, table in tables.items()}, options.max_rows)
    old = rows.before.slice(0, taken["changed"]).to_pylist()
    new = rows.after.slice(0, taken["changed"]).to_pylist()
    for one, two in zip(old, new, strict=True):
        yield (CHANGED, *(cell(one[name], two[name]) for name in names))
    for mark, table in ((ADDED, rows.added), (REMOVED, rows.removed)):
        for row in table.slice(0, taken[mark.text[2:]]).to_pylist():
            yield (mark, *(shown(row[name]) for name in names))


def shares(counts: dict[str, int], limit: int) -> dict[str, int]:
    """How many of each kind fit into a limit; what one kind does not need goes to the others.

    >>> shares({"changed": 50, "added": 2, "removed": 0}, 20)
    {'changed': 18, 'added': 2, 'removed': 0}
    """
    taken = dict.fromkeys(counts, 0)
    left = limit
    while left and any(taken[kind] < counts[kind] for kind in counts):
        for kind in counts:
            if left and taken[kind] < counts[kind]:
                taken[kind] += 1
                left -= 1
    return taken


def cell(before: Any, after: Any) -> Inline:
    """A value that may have changed: before → after."""
    if same(before, after):
        return shown(after)
    return Span(f"{shown(before).text} → {shown(after).text}", "changed")


def shown(value: Any) -> Span:
    """A value of a row on one line.

    >>> shown(None).text, shown("").text, shown(1.5).text, shown(b"ab").text
    ('null', '""', '1.5', '0x6162')
    """
    if value is None:
        return muted("null")
    if value == "":
        return muted('""')
    if isinstance(value, bytes):
        text = f"0x{value.hex()}"
    elif isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(" ") + (" UTC" if value.tzinfo else "")
    elif isinstance(value, float):
        text = repr(value)
    else:
        text = units.value_of(value)
    return Span(text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…")


# -- files ---------------------------------------------------------------------------------------


def _files(files: Any) -> Section:
    same_files = f"{units.count(files.num_same, 'file') if files.num_same else 'none'} unchanged"
    if files.is_empty:
        return Section("Files", [ok("✓ "), same_files])
    from deltanb.log.diff import num_rows  # late: it loads Arrow, which other views do without

    parts: list[Any] = []
    for kind, table in ((ADDED, files.added), (REMOVED, files.removed)):
        if table.num_rows:
            text = (f"{kind.text[0]} {units.count(table.num_rows, 'file')} "
                    f"({units.count(num_rows(table), 'row')}, {units.size(_bytes(table))})")
            parts += [Span(text, kind.tone), ", "]
    if files.remasked_after.num_rows:
        text = f"~ {units.count(files.remasked_after.num_rows, 'deletion vector')} updated"
        parts += [Span(text, "rewrite"), ", "]
    total = files.added.num_rows + files.removed.num_rows + files.remasked_after.num_rows
    table = Table(FILE_COLUMNS, tuple(_file_rows(files)), total, "file")
    return Section("Files", [*parts, same_files], table)


def _bytes(table: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(table["size"]).as_py() or 0


def _file_rows(files: Any) -> Iterable[tuple[Inline, ...]]:
    tables = {"added": files.added, "removed": files.removed, "changed": files.remasked_after}
    taken = shares({kind: table.num_rows for kind, table in tables.items()}, options.max_rows)
    before = files.remasked_before["num_rows"].slice(0, taken["changed"]).to_pylist()
    for mark in (ADDED, REMOVED, CHANGED):
        kind = mark.text[2:]
        for at, row in enumerate(tables[kind].slice(0, taken[kind]).to_pylist()):
            count: Inline = units.number(row["num_rows"])
            if mark is CHANGED:
                count = Span(f"{units.number(before[at])} → {units.number(row['num_rows'])}", "changed")
            partition = code(units.pairs(row["partition_values"])) if row["partition_values"] else "–"
            yield mark, code(units.file_name(row["path"])), partition, count, units.size(row["size"])


# -- schema, properties, protocol, commits ---------------------------------------------------------


def _changes(heading: str, changes: Sequence[Any]) -> Section:
    if not changes:
        return Section(heading, [ok("✓ "), "the same"])
    parts: list[Any] = []
    for change in changes[:MAX_WORDS]:
        parts += [", "] if parts else []
        parts += _in_words(change)
    if len(changes) > MAX_WORDS:
        parts.append(f" and {units.number(len(changes) - MAX_WORDS)} more")
    rows = tuple((_kind(change), code(change.name), _side(change.before), _side(change.after))
                 for change in changes)
    return Section(heading, parts, Table(CHANGE_COLUMNS, rows, len(rows), "change", limit=len(rows)))


def _in_words(change: Any) -> list[Any]:
    if change.kind == "added":
        return [Span("+ ", "append"), code(change.name), f" {_cut(change.after)}"]
    if change.kind == "removed":
        return [Span("− ", "delete"), code(change.name)]
    if change.kind == "renamed":
        return [Span("~ ", "rewrite"), code(change.before), " renamed to ", code(change.after)]
    if change.kind == "order":
        return [Span("~ ", "rewrite"), change.name]
    what = f" {change.kind}" if change.kind == "comment" else ""
    return [Span("~ ", "rewrite"), code(change.name),
            f"{what} {_cut(change.before)} → {_cut(change.after)}"]


def _cut(text: str | None) -> str:
    return "none" if text is None else units.fit(text, MAX_VALUE)


def _kind(change: Any) -> Span:
    if change.kind in ("added", "removed"):
        return ADDED if change.kind == "added" else REMOVED
    return Span(f"~ {change.kind}", "rewrite")


def _side(text: str | None) -> Inline:
    return muted("–") if text is None else code(text)


def _commits(diff: Any) -> Section:
    if not diff.num_commits:
        return Section("Commits", "none between")
    def name(commit: Any) -> str:
        return units.version_name(commit.version, diff.staged_behind)

    words = [f"{name(c)} {c.operation or 'operation not recorded'}" for c in diff.commits[:MAX_WORDS]]
    more = diff.num_commits - len(words)
    text = ", ".join(words) + (f" and {units.number(more)} more" if words and more else "")
    summary: list[Any] = [f"{units.number(diff.num_commits)} between", f": {text}" if words else ""]
    if not words:
        summary.append(muted(", which the log no longer has"))
    rows = tuple((code(name(c)), Span(units.time(c.timestamp, zone=False), "fixed"),
                  str(c.operation or "–"), str(c.user_name or "–"))
                 for c in diff.commits[: options.max_rows])
    return Section("Commits", summary, Table(COMMIT_COLUMNS, rows, diff.num_commits, "commit"))
