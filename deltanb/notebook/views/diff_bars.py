"""A diff as bars: rows by what became of them, columns by their changed values, partitions by their rows.

What lives here: what is drawn of a ``TableDiff``, and in which words.
What it does not know: how bars are drawn (``drawing/signed_bars``), what text and HTML show (``views/diff``).
Nothing is read: the diff holds what it shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing import chart, signed_bars
from deltanb.notebook.drawing.altair_chart import altair
from deltanb.notebook.drawing.signed_bars import Bar, Panel
from deltanb.notebook.views.diff import same
from deltanb.text import formatting as units

MAX_PLACES = 20
"""Columns or partitions that have bars, those with most; the others are one more, together."""
MAX_COMPARED = 10_000
"""Changed rows whose values are compared for a picture; a diff may hold many more."""
WHOLE = "all files"
"""The name of the bars of a table without partitions."""
HOW = "scroll over bars to zoom, drag to move, click on the legend to choose"


@dataclass
class Tally:
    """Rows, bytes and files of a partition that came, or went."""

    rows: int = 0
    bytes: int = 0
    files: int = 0

    def add(self, rows: int, size: int) -> None:
        """Count a file."""
        self.rows += rows
        self.bytes += size
        self.files += 1


def panels_of(diff: Any) -> tuple[Panel, ...]:
    """What is drawn: rows, changed columns, files; none where the versions are the same in all of them."""
    panels = (_rows(diff.rows), _columns(diff.rows), _partitions(diff.files))
    return tuple(panel for panel in panels if panel is not None and panel.bars)


def _rows(rows: Any) -> Panel | None:
    if rows is None:
        return None
    counts = {"changed": rows.num_changed, "added": rows.num_added, "removed": rows.num_removed}
    bars = (Bar(kind, kind, n, units.count(n, "row")) for kind, n in counts.items() if n)
    note = f"matched by {', '.join(rows.key) or rows.matched_by}" if rows.matched_by != "nothing" else ""
    return Panel("Rows", note if rows.is_exact else f"at most; {rows.note}", tuple(bars))


def _columns(rows: Any) -> Panel | None:
    if rows is None or not rows.num_changed:
        return None
    old, new = (side.slice(0, MAX_COMPARED) for side in (rows.before, rows.after))
    changed = {name: _num_different(old[name], new[name]) for name in new.schema.names}
    order = sorted((name for name in changed if changed[name]), key=lambda name: -changed[name])
    bars = [Bar(name, "changed", changed[name], units.number(changed[name])) for name in order[:MAX_PLACES]]
    is_cut = len(rows.after) > MAX_COMPARED
    notes = [f"of the first {units.number(MAX_COMPARED)} changed rows"] if is_cut else []
    notes += [f"{MAX_PLACES} of {len(order)} columns"] if len(order) > MAX_PLACES else []
    return Panel("Changed values by column", "; ".join(notes), tuple(bars))


def _num_different(old: Any, new: Any) -> int:
    return sum(not same(a, b) for a, b in zip(old.to_pylist(), new.to_pylist(), strict=True))


# -- files ------------------------------------------------------------------------------------------------


def _partitions(files: Any) -> Panel | None:
    tallies: dict[str, dict[str, Tally]] = {}
    counted = all(rows is not None for *_, rows, _ in _changes(files))
    for name, kind, rows, size in _changes(files):
        sides = tallies.setdefault(name, {"added": Tally(), "removed": Tally()})
        sides[kind].add(rows or 0, size)
    if not tallies:
        return None
    unit = "rows" if counted else "bytes"

    def most(name: str) -> int:
        return sum(getattr(tally, unit) for tally in tallies[name].values())

    order = sorted(tallies, key=lambda name: (-most(name), name))
    shown, others = (order, []) if len(order) <= MAX_PLACES + 1 else (order[:MAX_PLACES], order[MAX_PLACES:])
    bars = [bar for name in shown for bar in _bars(name, tallies[name], unit)]
    if others:
        together = {kind: Tally(*(sum(getattr(tallies[name][kind], what) for name in others)
                                  for what in ("rows", "bytes", "files"))) for kind in ("added", "removed")}
        bars += _bars(f"{units.number(len(others))} more", together, unit)
    note = f"{units.count(len(order), 'partition')}, by {unit} of files that came and went"
    if list(tallies) == [WHOLE]:
        note = f"{unit} of files that came and went"
    return Panel("Files", note, tuple(bars))


def _changes(files: Any) -> Iterator[tuple[str, str, int | None, int]]:
    """For each file that differs its partition, whether it came or went, its rows and bytes; of one whose
    deletion vector differs, the rows that did."""
    for kind, table in (("added", files.added), ("removed", files.removed)):
        for row in table.select(["partition_values", "num_rows", "size"]).to_pylist():
            yield _name(row), kind, row["num_rows"], row["size"]
    for before, after in zip(files.remasked_before.select(["partition_values", "num_rows"]).to_pylist(),
                             files.remasked_after["num_rows"].to_pylist(), strict=True):
        known = before["num_rows"] is not None and after is not None
        change = after - before["num_rows"] if known else 0
        yield _name(before), "added" if change > 0 else "removed", abs(change) if known else None, 0


def _name(row: dict[str, Any]) -> str:
    return units.pairs(row["partition_values"]) if row["partition_values"] else WHOLE


def _bars(name: str, sides: dict[str, Tally], unit: str) -> Iterator[Bar]:
    for kind, tally in sides.items():
        if tally.files:
            size = units.size(tally.bytes)
            words = units.count(tally.rows, "row") if unit == "rows" else size
            yield Bar(name, kind, getattr(tally, unit), words,
                      units.count(tally.files, "file") + (f", {size}" if unit == "rows" else ""))


# -- pictures ---------------------------------------------------------------------------------------------


def sentence(diff: Any) -> str:
    """The picture in words."""
    start, end = (units.version_name(version, diff.staged_behind) for version in (diff.start, diff.end))
    words = f"{units.name_of(diff.table)} from {start} to {end}"
    panels = panels_of(diff)
    if not panels:
        return f"{words}: the same rows and files"
    first = panels[0]
    is_few = first.title == "Rows" or len(first.names) == 1
    counts = [f"{signed_bars.SIGNS[bar.kind]}{bar.words}{' changed' if bar.kind == 'changed' else ''}"
              for bar in first.bars] if is_few else [units.count(len(first.names), "partition")]
    return f"{words}: {', '.join(counts)}"


def _svg(diff: Any) -> str:
    return signed_bars.draw(panels_of(diff), sentence(diff))


def _specification(diff: Any) -> dict[str, Any]:
    panels = panels_of(diff)
    return signed_bars.specification(panels, sentence(diff), [HOW] if panels else [])


def _altair(diff: Any) -> Any:
    return altair(diff, _specification, "diff().chart", "What differs is")


DRAWINGS = {"spec": lambda diff: chart.offline(_specification(diff)), "svg": _svg, "chart": _altair}
