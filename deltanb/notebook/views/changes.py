"""The change data feed: inserted, deleted and updated rows, commit by commit, updates as before → after.

What lives here: the view of ``ChangeFeed``.
What it does not know: where changes are read, how the two images of a row are paired
(``commands/read/feed``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deltanb.notebook.views import diff
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted
from deltanb.options import options
from deltanb.text import formatting as units

UPDATED, INSERTED, DELETED = (
    Span("~ updated", "rewrite"), Span("+ inserted", "append"), Span("− deleted", "delete"))
BEFORE, AFTER = "update_preimage", "update_postimage"
KINDS = ((AFTER, UPDATED), ("insert", INSERTED), ("delete", DELETED))
HALVES = ((BEFORE, Span("~ before", "rewrite")), (AFTER, Span("~ after", "rewrite")))
"""Updated rows of which it is not known which two belong together."""
COMMIT_COLUMNS = ("version", "timestamp", "updated", "inserted", "deleted")
Row = tuple[int, Span, dict[str, Any] | None, dict[str, Any]]


def view(feed: Any) -> View:
    """The view of a :class:`~deltanb.commands.read.feed.ChangeFeed`."""
    commits, name = feed.commits, units.name_of(feed.table)
    if not commits:
        return View("Changes", name, ("no row changed",))
    first, last = (_version(feed, commits[at]["version"]) for at in (0, -1))
    marks = (first if first == last else f"{first} to {last}", units.count(len(commits), "commit"))
    return View("Changes", name, marks, (), (_rows(feed, commits), _commits(feed, commits)))


def _version(feed: Any, version: int) -> str:
    return units.version_name(version, feed.staged_behind)


def _rows(feed: Any, commits: Sequence[dict[str, Any]]) -> Section:
    rows, keys = _shown(feed, commits)
    totals = {kind: sum(_count(one, kind) for one in commits) for kind, _ in KINDS}
    summary: list[Inline] = []
    for kind, mark in KINDS:
        if totals[kind]:
            summary += [", "] if summary else []
            summary.append(Span(f"{mark.text[0]} {units.number(totals[kind])} {mark.text[2:]}", mark.tone))
    is_paired = any(old is not None for _, _, old, _ in rows)
    if keys or (is_paired and any(_count(one, AFTER) > 1 for one in commits)):
        summary.append(muted(f"; before and after matched by {', '.join(keys) or 'their order'}"))
    names = _first_columns(feed, rows, keys)[: diff.MAX_COLUMNS]
    head = ("change", "version", *names)
    cells = tuple((mark, _version(feed, version), *_cells(old, new, names))
                  for version, mark, old, new in rows)
    in_text = head[: diff.MAX_TEXT_COLUMNS + 1]
    table = diff.fitting(Table(head, cells, sum(totals.values()), "change", in_text))
    if hidden := len(feed.columns_of_table) + 2 - len(table.columns):
        summary.append(muted(f"; {units.count(hidden, 'column')} not shown"))
    return Section("Rows", summary, table if names else None, is_open=True, text_rows=True)


def _count(commit: dict[str, Any], kind: str) -> int:
    """Rows of a kind; an updated row is in the feed twice, unless its writer left out one image."""
    return max(commit.get(kind, 0), commit.get(BEFORE, 0) if kind == AFTER else 0)


def _cells(old: dict[str, Any] | None, new: dict[str, Any], names: Sequence[str]) -> Iterable[Inline]:
    if old is None:
        return (diff.shown(new[name]) for name in names)
    return (diff.cell(old[name], new[name]) for name in names)


def _shown(feed: Any, commits: Sequence[dict[str, Any]]) -> tuple[list[Row], list[str]]:
    """Some rows of each commit, updated ones first, and the columns by which images were paired.

    Text has room for few rows, so before → after comes first.
    """
    sizes = {str(one["version"]): sum(_count(one, kind) for kind, _ in KINDS)
             for one in commits[: options.max_rows]}
    rows: list[Row] = []
    keys: list[str] = []
    rooms = diff.shares(sizes, options.max_rows)
    for counts in commits[: options.max_rows]:
        version: int = counts["version"]
        taken = diff.shares({kind: _count(counts, kind) for kind, _ in KINDS}, rooms[str(version)])
        pairs = feed.updated(version) if taken[AFTER] else None
        if pairs is not None:
            keys += [pairs.key] if pairs.key and pairs.key not in keys else []
            both = (side.slice(0, taken[AFTER]).to_pylist() for side in (pairs.before, pairs.after))
            rows += [(version, UPDATED, old, new) for old, new in zip(*both, strict=True)]
        elif taken[AFTER]:
            for kind, mark in HALVES:
                some = feed.of(version, kind, (taken[AFTER] + 1) // 2).to_pylist()
                rows += [(version, mark, None, row) for row in some]
        for kind, mark in KINDS[1:]:
            rows += [(version, mark, None, row) for row in feed.of(version, kind, taken[kind]).to_pylist()]
    order = [UPDATED, *(mark for _, mark in HALVES), INSERTED, DELETED]
    return sorted(rows, key=lambda row: order.index(row[1])), keys


def _first_columns(feed: Any, rows: Sequence[Row], keys: Sequence[str]) -> list[str]:
    """Keys and columns that differ first, then the others."""
    differ = [name for name in feed.columns_of_table
              if any(old is not None and not diff.same(old[name], new[name]) for _, _, old, new in rows)]
    return list(dict.fromkeys([*keys, *differ, *feed.columns_of_table]))


def _commits(feed: Any, commits: Sequence[dict[str, Any]]) -> Section:
    """What each commit did, newest last, as the feed has it."""
    rows = tuple(
        (code(_version(feed, one["version"])), Span(_time(one["time"]), "fixed"),
         *(units.number(n) if (n := _count(one, kind)) else muted("–") for kind, _ in KINDS))
        for one in commits[: options.max_rows])
    words = [f"{_version(feed, one['version'])} " + " ".join(
        f"{mark.text[0]}{units.number(n)}" for kind, mark in KINDS if (n := _count(one, kind)))
        for one in commits[: diff.MAX_WORDS]]
    more = len(commits) - len(words)
    summary = ", ".join(words) + (f" and {units.number(more)} more" if more else "")
    table = Table(COMMIT_COLUMNS, rows, len(commits), "commit")
    return Section("Commits", summary, table, is_open=len(commits) > 1)


def _time(moment: Any) -> str:
    return "–" if moment is None else units.time(round(moment.timestamp() * 1000), zone=False)
