"""The view of each class: one list of fields, read by the text, the HTML and the tests.

What lives here: the registry from class names to views.
What it does not know: how a view is drawn. Classes are looked up by name, so that the core need not know its
views and showing one object does not load all others.

Rules for every view: it reads only what is in memory or what a snapshot counts anyway. Lists show their first
items and the number of all, paths their last part, times UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltanb.notebook.drawing import conflict as conflict_forms
from deltanb.notebook.drawing import group as group_forms
from deltanb.notebook.drawing import html, lesson, lock_scopes, text
from deltanb.notebook.drawing import scan as scan_forms
from deltanb.notebook.drawing import stepper as stepper_forms
from deltanb.notebook.views import (
    actions,
    bisection,
    blame,
    catalog,
    changes,
    checksum,
    checkup,
    commit,
    conflict,
    conflict_map,
    diff,
    diff_bars,
    exploration,
    file_layout,
    group,
    history,
    iceberg,
    lock_graph,
    lock_timeline,
    locks,
    merge,
    post_mortem,
    query,
    results,
    scan,
    shapes,
    stream,
    tables,
    transactions,
    vacuum,
    verification,
    what_if,
)
from deltanb.notebook.views import (
    time_travel as time_travel_view,
)
from deltanb.notebook.views import (
    timeline as timeline_view,
)
from deltanb.notebook.views.model import View


@dataclass(frozen=True)
class Entry:
    """How objects of a class are shown."""

    fields: Callable[[Any], Any]
    text: Callable[[Any], str] = text.render
    html: Callable[[Any, str], str] = html.render
    drawings: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Pictures beside text and HTML, by name: what draws them."""
    sentence: Callable[[Any], str] | None = None
    """What stands beside the picture as text where it is shown for an error: no times, no file names."""
    page: Callable[[Any, str], str] | None = None
    """Makes the file in which it is saved as HTML, of the object and its text; None: of its HTML alone."""
    widget: str = ""
    """The module whose ``Panel`` has the object's buttons; without ipywidgets the picture stands alone."""


def register(name: str, entry: Entry) -> None:
    """Register how objects of the class with this name are shown."""
    _ENTRIES[name] = entry


def entry_of(obj: Any) -> Entry:
    """The entry of the object's class or its nearest base.

    Raises:
        LookupError: nothing is known of the class.
    """
    for cls in type(obj).__mro__:
        if cls.__name__ in _ENTRIES:
            return _ENTRIES[cls.__name__]
    raise LookupError(f"there is no view of {type(obj).__name__}")


def names() -> tuple[str, ...]:
    """The names of the classes that have a view."""
    return tuple(_ENTRIES)


def is_known(cls: type) -> bool:
    """Whether objects of the class have a view."""
    return any(base.__name__ in _ENTRIES for base in cls.__mro__)


def fields(obj: Any) -> View:
    """The view of an object."""
    view: View = entry_of(obj).fields(obj)
    return view


def text_of(obj: Any) -> str:
    """The plain text of an object."""
    entry = entry_of(obj)
    return entry.text(entry.fields(obj))


def html_of(obj: Any, as_text: str) -> str:
    """The HTML of an object; ``as_text`` is what an untrusted notebook shows instead."""
    entry = entry_of(obj)
    return entry.html(entry.fields(obj), as_text)


_ENTRIES: dict[str, Entry] = {
    "DeltaTable": Entry(tables.table),
    "DeltaLog": Entry(tables.log),
    "Snapshot": Entry(tables.snapshot),
    "StructType": Entry(shapes.schema),
    "TableDetail": Entry(shapes.detail),
    "FileScan": Entry(shapes.scan),
    "OptimisticTransaction": Entry(transactions.transaction, text.render, transactions.to_html),
    "Operation": Entry(transactions.operation),
    "Conflict": Entry(conflict.fields, conflict_forms.to_text, conflict_forms.to_html,
                      sentence=conflict.sentence),
    "Action": Entry(actions.fields),
    "History": Entry(history.view),
    "HistoryEntry": Entry(commit.view),
    "Stepper": Entry(stepper_forms.stepper, stepper_forms.to_text, stepper_forms.to_html,
                     widget="deltanb.notebook.widgets.stepper"),
    "StepFrame": Entry(stepper_forms.frame, stepper_forms.to_text, stepper_forms.to_html),
    "CommitTimeline": Entry(timeline_view.view, html=timeline_view.to_html, drawings=timeline_view.DRAWINGS),
    "CatalogTimeline": Entry(timeline_view.catalog, html=timeline_view.to_html,
                             drawings=timeline_view.CATALOG_DRAWINGS),
    "StreamState": Entry(stream.view),
    "TableStream": Entry(stream.stream),
    "VacuumResult": Entry(vacuum.view),
    "Checkup": Entry(checkup.view),
    "FileLayout": Entry(file_layout.view, html=file_layout.to_html, drawings=file_layout.DRAWINGS),
    "Verification": Entry(verification.view, html=verification.to_html),
    "Bisection": Entry(bisection.view),
    "Exploration": Entry(exploration.view, html=exploration.to_html, page=lesson.page),
    "LevelComparison": Entry(exploration.comparison),
    "Moment": Entry(exploration.moment, exploration.to_text, exploration.to_html),
    "Play": Entry(exploration.play, exploration.to_text, exploration.to_html,
                  widget="deltanb.notebook.widgets.play"),
    "ConflictMap": Entry(conflict_map.view, html=conflict_map.to_html, drawings=conflict_map.DRAWINGS),
    "PostMortem": Entry(post_mortem.view, post_mortem.to_text),
    "Blame": Entry(blame.view),
    "Replay": Entry(what_if.replay),
    "Explanation": Entry(what_if.explanation),
    "QueryPlan": Entry(query.plan_view, html=scan_forms.to_html),
    "QueryResult": Entry(query.view, html=scan_forms.to_html),
    "ScanExplanation": Entry(scan.view, html=scan_forms.to_html),
    "ChangeFeed": Entry(changes.view),
    "TableDiff": Entry(diff.view, drawings=diff_bars.DRAWINGS),
    "TimeFrame": Entry(time_travel_view.frame),
    "TimeTravel": Entry(time_travel_view.travel, widget="deltanb.notebook.widgets.time_travel"),
    "Versions": Entry(time_travel_view.versions),
    "CommandResult": Entry(results.view),
    "StatementResult": Entry(results.of_statement),
    "MergeBuilder": Entry(merge.view),
    "ChecksumVerification": Entry(checksum.view),
    "LockManager": Entry(locks.manager),
    "Transaction": Entry(locks.transaction, lock_scopes.to_text, lock_scopes.to_html),
    "Cycle": Entry(lock_graph.cycle, text.render, lock_graph.to_html, lock_graph.DRAWINGS,
                   sentence=lock_graph.sentence),
    "LockGraph": Entry(lock_graph.graph, text.render, lock_graph.to_html, lock_graph.DRAWINGS),
    "LockTimeline": Entry(lock_timeline.view, text.render, lock_timeline.to_html, lock_timeline.DRAWINGS),
    "Catalog": Entry(catalog.catalog),
    "UnityCatalog": Entry(catalog.unity),
    "IcebergTable": Entry(iceberg.table),
    "CatalogHistory": Entry(catalog.history),
    "CatalogSnapshot": Entry(catalog.snapshot),
    "CatalogTransaction": Entry(group.transaction, group_forms.to_text, group_forms.to_html),
    "GroupCommit": Entry(group.group, group_forms.to_text, group_forms.to_html),
}
