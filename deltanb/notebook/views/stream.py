"""A stream in words: whether it runs, how far behind its sources it is, and its newest batches.

What lives here: the views of ``StreamState`` and of ``TableStream``.
What it does not know: where the numbers come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltanb.notebook.views.model import Inline, Section, Table, View, muted, ok, warn
from deltanb.options import options
from deltanb.text import formatting as units

SOURCES = ("source", "read", "newest", "behind", "in time")
BATCHES = ("batch", "rows in", "rows out", "version", "took", "committed")


def stream(stream: Any) -> View:
    """The view of a :class:`~deltanb.engines.spark.streaming.TableStream`, as it stands now."""
    return view(stream.state)


def view(state: Any) -> View:
    """The view of a :class:`~deltanb.observe.stream_state.StreamState`."""
    marks: list[Inline] = [_status(state.status), f"into {state.table}"]
    sections = [_reads(state.sources)]
    if state.batches:
        sections.append(_batches(state.batches))
    return View("Stream", state.label, tuple(marks), tuple(_lines(state)), tuple(sections))


def _status(status: str) -> Inline:
    if status == "failed":
        return warn("✕ failed")
    return ok("✓ running") if status == "running" else status


def _lines(state: Any) -> list[Inline]:
    words = [f"{units.count(state.num_batches, 'batch')} in the table" if state.num_batches
             else "no batch in the table"]
    rows = [_counted(count, way, state.num_batches) for count, way in (
        ([each.rows_in for each in state.batches], "in"), ([each.rows_out for each in state.batches], "out"))]
    words += [", ".join(filter(None, rows))] if any(rows) else []
    lines: list[Inline] = ["  ".join(words)]
    if state.message:
        lines.append(warn(state.message) if state.status == "failed" else muted(state.message))
    return lines


def _counted(counts: Sequence[int | None], way: str, all_of_them: int) -> str:
    """Rows in or out; if not all batches have a count, how many do; empty if none has.

    >>> _counted([2, 2], "in", 2), _counted([2, None], "in", 2), _counted([None], "out", 2)
    ('4 rows in', '2 rows in (1 batch)', '')
    """
    known = [count for count in counts if count is not None]
    few = f" ({units.count(len(known), 'batch')})" if len(known) < all_of_them else ""
    return f"{units.count(sum(known), 'row')} {way}{few}" if known else ""


# -- sources -----------------------------------------------------------------------------------------

def _reads(sources: Sequence[Any]) -> Section:
    if not sources:
        return Section("Reads", muted("nothing reported yet"))
    rows = tuple((source.name, *_place(source)) for source in sources)
    table = Table(SOURCES, rows, len(rows), "source")
    one = sources[0]
    summary: list[Any] = [one.name]
    if one.behind is not None:
        summary += ["  ", _read(one), f" of v{one.newest}  ", _behind(one)]
    if len(sources) > 1:
        summary.append(muted(f"  and {units.count(len(sources) - 1, 'more source')}"))
    return Section("Reads", summary, table)


def _place(source: Any) -> tuple[Inline, ...]:
    if source.behind is None:
        return (muted("not a table's stream"), "", "", "")
    late = "?" if source.lag is None else units.duration(source.lag)
    return _read(source), f"v{source.newest}", units.count(source.behind, "version"), late


def _read(source: Any) -> str:
    if source.is_in_snapshot:
        return f"a part of v{source.read_version + 1}"
    return "nothing" if source.read_version < 0 else f"v{source.read_version}"


def _behind(source: Any) -> Inline:
    if not source.behind:
        return ok("✓ has everything")
    late = "" if source.lag is None else f", {units.duration(source.lag)}"
    return f"{units.count(source.behind, 'version')} behind{late}"


# -- batches -----------------------------------------------------------------------------------------

def _batches(batches: Sequence[Any]) -> Section:
    rows = tuple(_batch(each) for each in batches[: max(1, options.max_rows)])
    table = Table(BATCHES, rows, len(batches), "batch", cut_last=("committed",))
    last = next((each for each in batches if each.version is not None), None)
    summary = f"newest {batches[0].number}" if last is None else (
        f"newest {last.number}, committed as v{last.version} at {units.time(last.time)}")
    return Section("Batches", summary, table, is_open=True, text_rows=True)


def _batch(each: Any) -> tuple[Inline, ...]:
    took = "?" if each.duration is None else units.duration(each.duration)
    if each.version is None:
        return str(each.number), units.number(each.rows_in), "?", muted("not yet"), took, ""
    return (str(each.number), units.number(each.rows_in), units.number(each.rows_out), f"v{each.version}",
            took, units.time(each.time))
