"""One commit: its actions in groups, files with their statistics, the lines of the log to unfold.

What lives here: the view of a commit of the history.
What it does not know: where commits are read. For a commit that was not read, its commitInfo is shown and how
to see the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deltanb.actions import FileAction
from deltanb.log.commit_content import CommitContent, FileSum, live_rows
from deltanb.notebook.views import actions, history
from deltanb.notebook.views.metrics import in_words
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted
from deltanb.options import options
from deltanb.text import formatting as units

FILE_COLUMNS = ("file", "partition", "rows", "size", "statistics")
TEXT_COLUMNS = FILE_COLUMNS[:-1]
MASKED_COLUMNS = ("file", "partition", "rows", "deleted in it", "statistics")
MAX_STATISTICS = 150  # lines of statistics that all files of a picture have together: some 20 kB
MAX_RAW = 17_000  # characters of the log's lines that unfold, all together
HEADINGS = {"metaData": "Metadata", "protocol": "Protocol", "txn": "Transactions",
            "domainMetadata": "Domains", "checkpointMetadata": "Checkpoint", "sidecar": "Sidecars",
            "transactionGroup": "Group"}
MAX_WORDS = 3  # actions of one kind told on the line; the log's lines have all of them


def view(commit: Any) -> View:
    """The view of a :class:`~deltanb.log.history.HistoryEntry`."""
    marks: list[Inline] = [units.time(commit.timestamp), str(commit.operation or "operation not recorded")]
    marks += [f"by {commit.user_name}"] if commit.user_name else []
    marks += [did] if (did := in_words(commit.operation_metrics)) else []
    content = commit.known_content
    details = Section("Fields", muted("of commitInfo"), history.fields(commit), is_detail=True,
                      is_open=content is None)
    if content is None:
        way = [muted("not read: "), code(f"table.commit({commit.version})")]
        hint = Section("Actions", way, is_detail=True)
        return View("Commit", f"v{commit.version}", tuple(marks), sections=(hint, details))
    return View("Commit", f"v{commit.version}", tuple(marks), sections=(
        _counted(content), *_files(content), *_others(content), details, _lines(content)))


def _counted(content: CommitContent) -> Section:
    """Which actions there are, by their names in the log."""
    words = [name if n == 1 else f"{units.number(n)} {name}" for name, n in content.counts.items()]
    return Section("Actions", code(", ".join(words)))


# -- files ---------------------------------------------------------------------------------------


def _files(content: CommitContent) -> Iterable[Section]:
    groups: tuple[tuple[str, str, str, Sequence[FileAction], str], ...] = (
        ("Added", "+", "append", content.added, "added"),
        ("Removed", "−", "delete", content.removed, "removed"),
        ("Change data", "Δ", "optimize", content.change_data, "change data"))
    shown = sum(min(len(files), options.max_rows) for *_, files, _ in groups) + len(content.masked)
    share = max(1, MAX_STATISTICS // max(1, shown))
    if content.masked:
        yield _masked(content, share)
    for heading, sign, tone, files, kind in groups:
        if files:
            rows = tuple(_file(file) for file in files[: options.max_rows])
            inner = tuple(actions.statistics(getattr(file, "stats", None), share)
                          for file in files[: options.max_rows])
            table = Table(FILE_COLUMNS, rows, len(files), "file", TEXT_COLUMNS, unfolded=inner)
            is_open = kind != "change data" and files is (content.added or content.removed)
            summary = _summed(sign, tone, content.sums[kind])
            if kind != "change data" and not any(file.data_change for file in files):
                summary.append(muted("  data unchanged"))
            yield Section(heading, summary, table, is_open=is_open, text_rows=kind != "change data")


def _summed(sign: str, tone: str, total: FileSum) -> list[Span | str]:
    about = [] if total.rows is None else [units.count(total.rows, "row")]
    about += [] if total.size is None else [units.size(total.size)]
    return [Span(f"{sign} {units.count(total.files, 'file')}", tone), "".join(f"  {part}" for part in about)]


def _file(file: FileAction) -> tuple[Inline, ...]:
    known = actions.statistics(getattr(file, "stats", None), 1).total
    return (code(units.file_name(file.path)), _partition(file), units.number(live_rows(file)),
            "–" if file.size is None else units.size(file.size),
            units.count(known, "column") if known else muted("–"))


def _partition(file: FileAction) -> Inline:
    return code(units.pairs(file.partition_values)) if file.partition_values else "–"


def _masked(content: CommitContent, share: int) -> Section:
    """Files whose deletion vectors changed."""
    shown = content.masked[: options.max_rows]
    rows = tuple((*_file(now)[:2], _rows(was, now), _deleted(now), *_file(now)[-1:]) for was, now in shown)
    table = Table(MASKED_COLUMNS, rows, len(content.masked), "file", MASKED_COLUMNS[:-1],
                  unfolded=tuple(actions.statistics(now.stats, share) for _, now in shown))
    words = Span(f"~ {units.count(len(content.masked), 'file')}", "rewrite")
    return Section("In place", [words, "  deletion vector updated"], table, is_open=True, text_rows=True)


def _rows(was: FileAction, now: FileAction) -> Inline:
    """How many rows there were and are; a removal may lack the number of rows in its file."""
    after, gone = live_rows(now), 0 if was.deletion_vector is None else was.deletion_vector.cardinality
    if now.num_records is None:
        return units.number(after)
    return Span(f"{units.number(now.num_records - gone)} → {units.number(after)}", "changed")


def _deleted(file: FileAction) -> str:
    return "none" if file.deletion_vector is None else units.count(file.deletion_vector.cardinality, "row")


# -- all else ------------------------------------------------------------------------------------


def _others(content: CommitContent) -> Iterable[Section]:
    """Metadata, protocol and the like, a line for each kind; metadata unfolds into its columns."""
    by_kind: dict[str, list[Any]] = {}
    for action in content.others:
        by_kind.setdefault(action.key, []).append(action)
    for key, group in by_kind.items():
        line: list[Any] = []
        for action in group[:MAX_WORDS]:
            line += ["; "] if line else []
            words = actions.line(action)
            spans = [words] if isinstance(words, (str, Span)) else list(words)
            line += _unnamed(spans, HEADINGS.get(key, ""))
        more = [f" and {units.number(len(group) - MAX_WORDS)} more"] if len(group) > MAX_WORDS else []
        columns = _columns(group[-1]) if key == "metaData" else None
        yield Section(HEADINGS.get(key, key), [*line, *more], columns)


def _unnamed(line: list[Any], heading: str) -> list[Any]:
    """The line without its first word if the heading has it already."""
    first, *rest = line
    if isinstance(first, str) and first.lower().startswith(heading.lower()):
        return [first[len(heading):].lstrip(), *rest]
    return line


def _columns(metadata: Any) -> Table | None:
    try:
        fields = metadata.schema.fields
    except Exception:  # the line already says that the schema cannot be read
        return None
    rows = tuple((code(f.name), code(f.type), "yes" if f.nullable else "not null") for f in fields)
    return Table(("column", "type", "null"), rows, len(rows), "column")


def _lines(content: CommitContent) -> Section:
    """The lines of the commit as they are in the log, each to unfold."""
    shown = content.lines[: options.max_rows]
    texts = [line.decode("utf-8", "replace") for line in shown]
    room = room_of(list(map(len, texts)), MAX_RAW)
    rows = tuple((str(at + 1), Span(action.key, "fixed", code=True), units.size(len(line)))
                 for at, (action, line) in enumerate(zip(content.actions, shown, strict=False)))
    total = len(content.lines)
    table = Table(("line", "action", "JSON"), rows, total, "line",
                  sources=tuple(text if len(text) <= room else text[:room] + "…" for text in texts))
    return Section("JSON", muted(f"{units.count(total, 'line')}, as in the log"), table, is_detail=True)


def room_of(lengths: Sequence[int], most: int) -> int:
    """The length to cut texts to so that together they are no longer than ``most``.

    >>> room_of([10, 200, 300], 210), room_of([10, 20], 100)
    (100, 20)
    """
    left, room = most, 0
    for at, length in enumerate(sorted(lengths)):
        room = min(length, left // (len(lengths) - at))
        left -= room
    return room
