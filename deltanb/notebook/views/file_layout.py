"""How a column's values lie in the files: bars, the stretch of a condition, what it opens.

What lives here: the view of ``FileLayout``, and the words of its bars.
What it does not know: how ranges are found (``observe/file_layout``), how bars are drawn
(``drawing/file_ranges``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing import chart, file_ranges, html
from deltanb.notebook.drawing.altair_chart import altair
from deltanb.notebook.drawing.file_ranges import Range, Ranges, track
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok, present, warn
from deltanb.options import options
from deltanb.text import formatting as units

TEXT_BARS = 6  # with the heading and the rest what stays in view
LETTERS = 40  # of a bar in text
VALUE = 24  # letters of a value in a line


@dataclass(frozen=True)
class Drawn(View):
    """A view with its bars, and what they show in a sentence."""

    ranges: Ranges | None = None
    sentence: str = ""


def view(layout: Any) -> View:
    """The view of a :class:`~deltanb.observe.file_layout.FileLayout`."""
    marks: list[Inline] = [code(f"{layout.column} {layout.type}"),
                           units.version_name(layout.version, layout.staged_behind),
                           units.count(layout.num_files, "file"), units.size(layout.size_in_bytes)]
    if layout.num_files > layout.num_unknown + layout.num_null:
        marks.append(f"depth {layout.depth:g}")
    ranges = ranges_of(layout)
    return Drawn("Layout", layout.table, tuple(marks), tuple(_lines(layout)),
                 present(_ranges(layout, len(ranges.bars)), _files(layout)),
                 ranges=ranges, sentence=sentence(layout))


def to_html(view: View, as_text: str) -> str:
    """The HTML form: the heading, the bars, the tables."""
    assert isinstance(view, Drawn) and view.ranges is not None
    return html.pictured(view, file_ranges.draw(view.ranges, view.sentence), as_text)


def _lines(layout: Any) -> Iterator[Inline]:
    if layout.where is not None:
        yield code(units.with_short_lists(layout.where))
        opens = f"opens {units.number(layout.opened)} of {units.count(layout.num_files, 'file')}"
        verdict = ok(f"✓ {opens}") if layout.opened < layout.num_files else warn(f"! {opens}")
        yield [verdict, f", {units.size(layout.opened_bytes)} of {units.size(layout.size_in_bytes)} to read"]
    if layout.left_out:
        yield muted(f"only Spark understands {' AND '.join(layout.left_out)}: no file is skipped by it")
    without = [f"{units.count(number, 'file')} {what}" for number, what in (
        (layout.num_unknown, "without bounds of it"), (layout.num_null, "with NULL alone")) if number]
    if without:
        yield muted("no range: " + ", ".join(without))


def _ranges(layout: Any, number: int) -> Section | None:
    bars = layout.bars(TEXT_BARS)
    if not bars:
        return None
    rows = tuple((_span(bar), track(_range(bar), layout.spans, LETTERS),
                  units.number(bar.files) if layout.where is None or bar.opened == bar.files
                  else f"{units.number(bar.opened)} of {units.number(bar.files)}") for bar in bars)
    table = Table(("values", "ranges", "files"), rows, len(bars), "bar", cut_last=("ranges", "files"))
    known = layout.num_files - layout.num_unknown - layout.num_null
    words = f"{units.count(known, 'file')} by least value"
    if number < known:
        words += f", as {units.number(number)} bars of neighbours"
    return Section("Ranges", muted(words + "; █ opened ░ spared"), table, text_rows=True)


def _files(layout: Any) -> Section | None:
    if not layout.num_files:
        return None
    shown = layout.files.slice(0, options.max_rows).to_pylist()
    rows = tuple((code(units.file_name(row["path"])), _word(row["min"]), _word(row["max"]),
                  units.number(row["rows"]), units.size(row["bytes"]),
                  ok("opened") if row["opened"] else muted("spared")) for row in shown)
    table = Table(("file", "min", "max", "rows", "size", "scan"), rows, layout.num_files, "file")
    return Section("Files", muted("in the order of their ranges"), table, is_detail=True)


def _span(bar: Any) -> str:
    least, greatest = _word(bar.least), _word(bar.greatest)
    return least if least == greatest else f"{least} to {greatest}"


def _word(value: Any) -> str:
    """A value in a line: a long one is cut off, times lose what is zero.

    >>> import datetime as dt
    >>> _word(dt.datetime(2026, 1, 2)), _word(None), _word(2.5)
    ('2026-01-02', '–', '2.5')
    """
    if value is None:
        return "–"
    text = str(value).removesuffix("+00:00").removesuffix(" 00:00:00")
    return units.fit(units.clean(text), VALUE)


# -- pictures ---------------------------------------------------------------------------------------------


def _range(bar: Any) -> Range:
    what = units.file_name(bar.path) if bar.files == 1 else units.count(bar.files, "file")
    opened = "opened" if bar.opened == bar.files else f"{units.number(bar.opened)} opened"
    return Range(bar.low, bar.high, f"{what}: {_span(bar)}, {units.size(bar.bytes)}, "
                 f"{opened if bar.opened else 'spared'}", bar.files, bar.opened)


def ranges_of(layout: Any) -> Ranges:
    """What is drawn of a layout."""
    bars = layout.bars()
    ends = (_word(bars[0].least), max(bars, key=lambda bar: bar.high).greatest) if bars else ("", "")
    without = layout.num_unknown + layout.num_null
    opened = int(sum(layout.files["opened"].slice(layout.num_files - without).to_pylist())) if without else 0
    words = f"no range: {units.number(layout.num_unknown)} unknown, {units.number(layout.num_null)} all NULL"
    others = (Range(0.0, 1.0, f"{words}, {units.number(opened)} opened", without, opened),) if without else ()
    return Ranges(tuple(map(_range, bars)), ends[0], _word(ends[1]) if bars else "", layout.spans,
                  layout.where or "", others)


def sentence(layout: Any) -> str:
    """The picture in words."""
    words = f"{units.clean(layout.table)}.{layout.column}: {units.count(layout.num_files, 'file')}"
    return words if layout.where is None else f"{words}, {units.number(layout.opened)} opened"


def _svg(layout: Any) -> str:
    return file_ranges.draw(ranges_of(layout), sentence(layout))


def _specification(layout: Any) -> dict[str, Any]:
    return file_ranges.specification(ranges_of(layout), sentence(layout))


def _altair(layout: Any) -> Any:
    return altair(layout, _specification, "layout().chart", "The bars themselves are")


DRAWINGS = {"spec": lambda layout: chart.offline(_specification(layout)), "svg": _svg, "chart": _altair}
