"""The history of a table: one line per commit, the newest first; the other fields unfold.

What lives here: the view of commits: when, who, which operation and its outcome in words, and the fields of
one commit as ``DESCRIBE HISTORY`` names them.
What it does not know: where commits are read, what a commit contains (``commit``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltanb.notebook.views.metrics import in_words
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, muted, plain
from deltanb.observe.tracks import engine_of
from deltanb.options import options
from deltanb.text import formatting as units

COLUMNS = ("version", "timestamp", "who", "operation", "what it did")
CUT_LAST = ("timestamp", "who", "what it did")
FIELDS = {
    "version": "version", "timestamp": "timestamp", "userName": "user_name", "userId": "user_id",
    "operation": "operation", "operationParameters": "operation_parameters", "readVersion": "read_version",
    "isolationLevel": "isolation_level", "isBlindAppend": "is_blind_append",
    "operationMetrics": "operation_metrics", "userMetadata": "user_metadata", "engineInfo": "engine_info",
    "txnId": "txn_id", "clusterId": "cluster_id", "job": "job", "notebook": "notebook", "tags": "tags",
}  # fmt: skip
"""The fields of one commit, in the order in which they unfold, and what the entry calls them."""
MAX_UNBROKEN = 40
"""Characters of a parameter or metric that stay on one line: else a narrow column has one of each."""
MAX_WHO = 20  # characters of a user's name in the list; the field has all of it
MAX_OPERATION = 20  # the same of an operation, so that a commit has room for what it did on its line


def view(commits: Any) -> View:
    """The view of a :class:`~deltanb.log.history.History`."""
    name, total = units.name_of(commits.table), max(commits.total, len(commits))
    if not commits:
        return View("History", name, ("no commits yet",))
    shown = commits[: options.max_rows]
    table = Table(COLUMNS, tuple(map(row, shown)), total, "commit", cut_last=CUT_LAST,
                  unfolded=tuple(map(fields, shown)))
    summary = [units.count(total, "commit"), muted(", newest first")]
    section = Section("Commits", summary, table, is_open=True, text_rows=True)
    return View("History", name, sections=(section,))


def row(commit: Any) -> tuple[Inline, ...]:
    """One commit's cells, in the order of ``COLUMNS``."""
    return (
        str(commit.version), Span(units.time(commit.timestamp, zone=False), "fixed"), _who(commit),
        _operation(commit.operation), _done(commit) or muted("–"))


def fields(commit: Any) -> Table:
    """Everything in a commit's commitInfo, as a table of fields and values."""
    known = {name: getattr(commit, ours) for name, ours in FIELDS.items()}
    known |= {name: value for name, value in commit.extra.items() if name not in known}
    rows: tuple[tuple[Inline, ...], ...] = tuple(
        (Span(name, "fixed", code=True), _value(name, value)) for name, value in known.items()
        if value is not None and value not in ({}, ()))
    return Table(("field", "value"), rows, len(rows), "field", limit=len(rows))


def _done(commit: Any) -> str:
    """What a commit did: by its metrics, else by its files if they were counted."""
    added, removed = commit.known_files
    return in_words(commit.operation_metrics) or in_words(
        {"numAddedFiles": added, "numRemovedFiles": removed})


def _who(commit: Any) -> Inline:
    """The user, or the engine if the writer names no user."""
    if commit.user_name:
        return units.fit_writer(units.clean(commit.user_name), MAX_WHO)
    return muted(units.fit(engine_of(commit.engine_info), MAX_WHO) or "–")


def _operation(value: Any) -> Inline:
    return muted("–") if value is None else Span(units.fit(units.clean(value), MAX_OPERATION), "fixed")


def _value(name: str, value: Any) -> Inline:
    if name == "timestamp":
        return Span(units.time(value), "fixed")
    if not isinstance(value, Mapping):
        return units.value_of(value)
    runs: list[Inline] = []
    for key, text in value.items():
        if text is not None:
            pair = units.pairs([(key, units.parsed(text))])
            runs += [" ", Span(pair, "fixed" if len(plain(pair)) <= MAX_UNBROKEN else "", code=True)]
    return runs[1:]
