"""The conflict, seen from both sides: who won, which check failed, and where the two overlap.

What lives here: the fields of a conflict, in the order in which both forms show them: a sentence, two sides
with the same rows, the checks, the overlap, what you can do.
What it does not know: the rules (``transaction.conflict_rules``), since a conflict brings its checks; how a
conflict is drawn (``drawing/conflict.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from deltanb.notebook.drawing.text import MAX_LINES
from deltanb.notebook.views import actions
from deltanb.notebook.views.model import Inline, Span, View, code, muted, ok, plain, spans, warn
from deltanb.observe.tracks import conditions_of, engine_of, stated_condition
from deltanb.options import options
from deltanb.text import formatting as units

MAX_WHO = 30  # characters of the winner's name and the table's in the sentence
MAX_FILES_READ = 60  # characters of the values that a MERGE read by: they stay on a line of a traceback
MAX_RENAMED = 3  # columns whose new names the sentence says
MAX_LOOK = 2_000  # actions of one commit looked at; the counts are of all of them
SIGNS = {"passed": "✓", "failed": "✕", "not reached": "–", "does not apply": "–"}
ADVICE = "What you can do"
WHOLE = "the whole table"
STATE_TONES = {"passed": "ok", "failed": "warn"}


@dataclass(frozen=True)
class Side:
    """One side: its name, its outcome, and the same rows as the other side."""

    name: str
    note: Inline
    facts: tuple[tuple[str, Inline], ...]


@dataclass(frozen=True)
class Row:
    """A row of the overlap: its cells, whether the two sides meet in it, and its text form."""

    cells: tuple[Inline, ...]
    is_met: bool
    line: Inline


@dataclass(frozen=True)
class ConflictView(View):
    """A :class:`View` with two sides, checks and an overlap in place of sections."""

    sides: tuple[Side, ...] = ()
    checks: tuple[tuple[str, Inline], ...] = ()
    """State and line of every check, in the order in which they are made."""
    overlap: str = "Overlap"
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    total: int = 0
    """Rows there are; ``rows`` holds the first of them, as many as are shown."""
    met: int = 0
    """Rows in which the two sides meet."""
    advice: tuple[Inline, ...] = ()

    @property
    def headings(self) -> tuple[str, ...]:
        parts = {"Checks": self.checks, self.overlap: self.rows, ADVICE: self.advice}
        shown = [heading for heading, content in parts.items() if content]
        return (self.kind, *(side.name for side in self.sides), *shown)


def fields(conflict: Any) -> ConflictView:
    """The parts of the picture, from a :class:`~deltanb.transaction.conflicts.Conflict`."""
    if conflict.changes:
        overlap = "Differences"
        columns: tuple[str, ...] = ("field", *_before_and_after(conflict), "your transaction")
        arrow = " → " if columns[1] == "before" else " against "
        rows = [_change(change, arrow) for change in conflict.changes]
        total, met = len(rows), sum(row.is_met for row in rows)
    else:
        overlap = "Overlap"
        columns = ("what you read / wrote", "overlap", f"what version {conflict.version} changed")
        rows, total, met = _rows(conflict, max(options.max_rows, MAX_LINES))
    return ConflictView(
        kind=exception_name(conflict),
        lines=(_sentence(conflict),),
        sides=(_yours(conflict), _theirs(conflict)),
        checks=tuple((check.state, _check(check)) for check in conflict.checks),
        overlap=overlap,
        columns=columns,
        rows=tuple(rows),
        total=total,
        met=met,
        advice=tuple(marked_up(line) for line in conflict.advice),
    )


def exception_name(conflict: Any) -> str:
    """``ConcurrentAppend``: the exception's name without its last word."""
    exception = conflict.exception
    name = exception if isinstance(exception, str) else exception.__name__
    return name.rsplit(".", 1)[-1].removesuffix("Exception")


def marked_up(line: str) -> Inline:
    """A sentence in which backticks set code.

    >>> plain(marked_up("use `WriteSerializable`"))
    'use WriteSerializable'
    """
    pieces = line.split("`")
    return [code(piece) if at % 2 else piece for at, piece in enumerate(pieces) if piece]


def _sentence(conflict: Any) -> Inline:
    return [*what_happened(conflict), " ", muted("Nothing was written.")]


def what_happened(conflict: Any, names_table: bool = True) -> list[str | Span]:
    """The conflict in one sentence, whether it happened or is predicted; where only one table can be meant,
    it need not be named."""
    kind, n = exception_name(conflict), len(conflict.files)
    you = f"your {_operation(conflict)}{_on_table(conflict) if names_table else ''}"
    winner = _winner(conflict)
    files = units.count(n, "file")
    if kind == "ConcurrentAppend":
        place = " there" if conflict.partition else ""
        return [f"{you} read ", *_what_was_read(conflict), f", and {winner} added {files}{place}."]
    if kind == "ConcurrentDeleteRead":
        return [f"{you} read {files} that {winner} removed."]
    if kind == "ConcurrentDeleteDelete":
        return [f"{you} removes {files} that {winner} removed already."]
    if kind in ("MetadataChanged", "ProtocolChanged"):
        thing = "metadata" if kind == "MetadataChanged" else "protocol"
        blocked = [change for change in conflict.changes if not change.allowed]
        if blocked and all(change.renamed for change in blocked):
            return _what_was_renamed(blocked, conflict, you, winner)
        names = [f"{change.field} renamed to {change.after}" if change.renamed else change.field
                 for change in blocked]
        named = [" (", *_codes(names), ")"] if names else []
        if any(ACTION_WORDS.get(type(action).__name__) == thing for action in conflict.your_actions):
            return [f"{you} changes the table's {thing}, and {winner} changed it", *named, "."]
        return [f"{winner} changed the table's {thing}", *named, f", which {you} builds on."]
    if kind == "ConcurrentTransaction":
        return [f"{winner} wrote ", *_what_was_written(conflict, you)]
    target = conflict.wanted_version
    return [f"{you} must be version {target or conflict.version}, and that version is taken."]


def _on_table(conflict: Any) -> str:
    """Where the transaction met the winner: a transaction of a catalog is of several tables."""
    return f" on {units.fit(units.name_of(conflict.table), MAX_WHO)}" if conflict.table else ""


def _winner(conflict: Any) -> str:
    user = getattr(conflict.winner, "user_name", None)
    who = f" by {units.fit_writer(units.clean(user), MAX_WHO)}" if user else ""
    return f"version {conflict.version}{who}"


def _what_was_renamed(
    changes: Sequence[Any], conflict: Any, you: str, winner: str
) -> list[str | Span]:
    line: list[str | Span] = []
    for change in changes[:MAX_RENAMED]:
        line += [", " if line else "", code(change.before), " to ", code(change.after)]
    more = f" and {len(changes) - MAX_RENAMED} more" if len(changes) > MAX_RENAMED else ""
    did = [f"{winner} renamed {'column' if len(changes) == 1 else 'columns'} ", *line, more]
    if any(type(action).__name__ == "Metadata" for action in conflict.your_actions):
        return [f"{you} changes the table's metadata, and ", *did, "."]
    return [*did, f", which {you} builds on."]


def _what_was_read(conflict: Any) -> list[str | Span]:
    if stated := stated_condition(conflict.operation):
        return ["files for ", _condition(stated)]
    if not _is_whole(conflict.predicate):
        return ["files where ", _condition(conflict.predicate)]
    return [WHOLE]


def _what_was_written(conflict: Any, you: str) -> list[str | Span]:
    if conflict.changes:
        domains = [change.field.removeprefix("domain ") for change in conflict.changes]
        return ["the metadata domain ", *_codes(domains), f", which {you} writes too."]
    apps = [action.app_id for action in _transactions(conflict)]
    return ["the transaction of application ", *_codes(apps), f", which {you} depends on."]


def _transactions(conflict: Any) -> list[Any]:
    """The winner's conflicting transaction ids: those that the failed check names, or all."""
    transactions = [a for a in conflict.winner_actions if type(a).__name__ == "SetTransaction"]
    note = next((check.note for check in conflict.checks if check.state == "failed"), "")
    named = [action for action in transactions if note.endswith(action.app_id)]
    return named or transactions


def _before_and_after(conflict: Any) -> tuple[str, str]:
    if exception_name(conflict) == "ConcurrentTransaction":
        return "what you wrote", f"what version {conflict.version} wrote"
    return "before", f"since version {conflict.version}"


def _codes(names: Sequence[str], limit: int = 3) -> list[str | Span]:
    line: list[str | Span] = []
    for name in names[:limit]:
        line += [", " if line else "", code(name)]
    return [*line, f" and {len(names) - limit} more"] if len(names) > limit else line


def _operation(conflict: Any) -> str:
    operation = conflict.operation
    return str(getattr(operation, "name", operation) or "transaction")


def _yours(conflict: Any) -> Side:
    target = conflict.wanted_version
    predicates = [WHOLE if _is_whole(p) else p for p in _conditions(conflict)]
    return Side(
        "Your transaction",
        "not committed",
        (
            ("operation", _operation(conflict)),
            ("predicate", WHOLE if WHOLE in predicates else _either(" OR ".join(predicates))),
            *_files_read(conflict),
            ("read version", _versions(conflict.read_version, target)),
            ("isolation", str(getattr(conflict.isolation, "value", conflict.isolation) or "–")),
            ("actions", counted(conflict.your_actions)),
        ),
    )


def _theirs(conflict: Any) -> Side:
    winner = conflict.winner
    read = getattr(winner, "read_version", None)
    user, engine = getattr(winner, "user_name", None), getattr(winner, "engine_info", None)
    operation: list[str | Span] = [str(getattr(winner, "operation", None) or "not recorded")]
    if user or engine_of(engine):
        operation += [" by " if user else " with ", code(user or engine)]
    moment = conflict.committed_at or winner.in_commit_timestamp or winner.timestamp
    return Side(
        f"Version {conflict.version}",
        f"committed {units.time(moment)}" if moment is not None else "committed first",
        (
            ("operation", operation),
            ("predicate", _either(_predicate_of(winner))),
            *((label, "–") for label, _ in _files_read(conflict)),
            ("read version", _versions(read, None)),
            ("isolation", str(getattr(winner, "isolation_level", None) or "not recorded")),
            ("actions", counted(conflict.winner_actions)),
        ),
    )


def _versions(read: int | None, target: int | None) -> str:
    if read is None:
        return "not recorded"
    return f"{read} → wanted {target}" if target is not None else str(read)


def _predicate_of(info: Any) -> str:
    """The predicate of a commit's parameters; empty if there is none."""
    return " AND ".join(conditions_of(getattr(info, "operation_parameters", None)))


def _conditions(conflict: Any) -> list[str]:
    """What a person asked to read: of a MERGE its own condition, not the values of its source."""
    stated = stated_condition(conflict.operation)
    return [stated] if stated else list(dict.fromkeys(conflict.predicates))


def _files_read(conflict: Any) -> list[tuple[str, Inline]]:
    """By what a MERGE read files, the values of its source, where they are few: with these a post-mortem of
    the text alone knows which rows were meant."""
    if _operation(conflict) != "MERGE" or not stated_condition(conflict.operation):
        return []
    read = " OR ".join(dict.fromkeys(conflict.predicates))
    is_short = 0 < len(read) <= MAX_FILES_READ and units.clean(read) == read
    return [("files read", WHOLE if _is_whole(read) else code(read))] if is_short else []


def _either(predicate: str) -> Inline:
    return _condition(predicate) if predicate else "–"


def _condition(sql: str) -> Span:
    """A condition, cut: that of a MERGE can list all values of its source."""
    return code(units.with_short_lists(sql))


ACTION_WORDS = {
    "AddFile": "add", "RemoveFile": "remove", "Metadata": "metadata", "Protocol": "protocol",
    "SetTransaction": "txn", "DomainMetadata": "domain", "AddCDCFile": "cdc",
}  # fmt: skip


def counted(actions: Iterable[Any]) -> str:
    """How many actions there are of each kind, under the protocol's names.

    >>> counted([])
    'none'
    """
    counts: dict[str, int] = {}
    for action in actions:
        word = ACTION_WORDS.get(type(action).__name__)
        if word:
            counts[word] = counts.get(word, 0) + 1
    listed = [f"{units.number(counts[w])} {w}" for w in ACTION_WORDS.values() if w in counts]
    return ", ".join(listed) or "none"


def check_line(check: Any) -> Span:
    """A check of the list: its sign and its title, in the tone of its state."""
    return Span(f"{SIGNS[check.state]} {check.title}", STATE_TONES.get(check.state, "muted"))


def _check(check: Any) -> Inline:
    line = check_line(check)
    about = [] if check.state in STATE_TONES else [check.state]
    about += [check.note] if check.note else []
    return [line, muted(f" ({': '.join(about)})")] if about else line


def _change(change: Any, arrow: str) -> Row:
    verdict = ok("✓ can adopt it") if change.allowed else warn("✕ cannot adopt it")
    before, after = _value(change.before), _value(change.after)
    if change.renamed:
        after = ["renamed to ", *spans(after)]
    difference = after if change.renamed else [*spans(before), arrow, *spans(after)]
    line = [f"{change.field}: ", *spans(difference), "  ", verdict]
    return Row((code(change.field), before, after, verdict), not change.allowed, line)


def _value(value: Any) -> Inline:
    return muted("not set") if value is None else code(units.value_of(value))


def _rows(conflict: Any, limit: int) -> tuple[list[Row], int, int]:
    """The overlap, then the rest of both sides: ``limit`` rows, the number of all, how many overlap."""
    met = _met_actions(conflict)[:MAX_LOOK]
    met_keys = {_key(action) for action in met}
    met_files = {path for name, path in met_keys if name == "RemoveFile"}
    mine = conflict.your_actions[:MAX_LOOK]
    removed = {action.path for action in mine if type(action).__name__ == "RemoveFile"}
    read = dict.fromkeys(conflict.read_files[:MAX_LOOK])
    shown_keys = {("RemoveFile", path) for path in (*read, *met_files)}
    predicates = [] if exception_name(conflict) == "ConcurrentAppend" else _conditions(conflict)
    yours: list[tuple[Callable[[Any], Inline], Any]] = [
        *((lambda p: ["read ", _condition(p)], p) for p in predicates if not _is_whole(p)),
        *((lambda path: _your_file(path, True, path in removed), path)
          for path in read if path not in met_files),
        *((action_line, action) for action in mine if _is_shown(action) and _key(action) not in shown_keys),
    ]
    theirs = [action for action in conflict.winner_actions[:MAX_LOOK]
              if _is_shown(action) and _key(action) not in met_keys]
    rows = _once([_met(conflict, action, read, removed) for action in met[:limit]])
    rest = limit - len(rows)
    for mine_too, action in zip_longest(yours[:rest], theirs[:rest]):
        left = mine_too[0](mine_too[1]) if mine_too is not None else ""
        right = action_line(action) if action is not None else ""
        rows.append(Row((left, "", right), False, right or left))
    total = len(met) + max(len(yours), len(theirs)) + _not_looked_at(conflict)
    return rows, total, len(met) + max(0, len(conflict.files) - MAX_LOOK)


def _met_actions(conflict: Any) -> Sequence[Any]:
    """The winner's actions that the rule found: files, or transaction ids."""
    if exception_name(conflict) == "ConcurrentTransaction":
        return _transactions(conflict)
    files: Sequence[Any] = conflict.files
    return files


def _once(rows: list[Row]) -> list[Row]:
    """The rows, with each predicate only in its first row."""
    previous, cleared = "", []
    for row in rows:
        yours = plain(row.cells[0])
        cleared.append(replace(row, cells=("", *row.cells[1:])) if yours == previous else row)
        previous = yours
    return cleared


def _met(conflict: Any, action: Any, read: Collection[str], removed: Collection[str]) -> Row:
    path, relation = _path(action), "← written meanwhile"
    yours: Inline = ["depends on ", code(_identity(action) or "it")]
    if type(action).__name__ == "AddFile" and _is_whole(conflict.predicate):
        yours, relation = f"read {WHOLE}", "← added to what you read"
    elif type(action).__name__ == "AddFile":
        yours = ["read ", _condition(stated_condition(conflict.operation) or conflict.predicate)]
        decides = _names_partition(conflict.predicate, conflict.partition)
        relation = "← matches your predicate" if decides else "← may match your predicate"
    elif type(action).__name__ == "RemoveFile":
        both_remove = exception_name(conflict) == "ConcurrentDeleteDelete"
        relation = "← removed what you remove" if both_remove else "← removed what you read"
        yours = _your_file(path, path in read or not both_remove, path in removed)
        if conflict.whole_table and path not in read and path not in removed:
            yours = f"read {WHOLE}"
    theirs = action_line(action)
    line = [*spans(theirs), f" {relation}"]
    return Row((yours, warn(relation), theirs), True, line)


def _names_partition(predicate: str, partition: str | None) -> bool:
    """Whether the predicate names a partition column: only these decide whether it covers a file.

    >>> _names_partition("day = 1 AND x < 0", "[day=1]"), _names_partition("x < 0", "[day=1]")
    (True, False)
    """
    columns = re.findall(r"(?:^\[|, )([^=]+)=", partition or "")
    return any(re.search(rf"\b{re.escape(name)}\b", predicate, re.I) for name in columns)


def _is_whole(predicate: str | None) -> bool:
    return not predicate or predicate.strip().upper() == "TRUE"


def _your_file(path: str, is_read: bool, is_removed: bool) -> Inline:
    done = ", ".join(["read"] * is_read + ["removed"] * is_removed)
    return [code(units.file_name(path)), " ", muted(done)]


def _is_shown(action: Any) -> bool:
    return type(action).__name__ in ACTION_WORDS


def _path(action: Any) -> str:
    return getattr(action, "path", None) or f"{type(action).__name__} {_identity(action)}"


def _key(action: Any) -> tuple[str, str]:
    return type(action).__name__, _path(action)


def _identity(action: Any) -> str:
    return getattr(action, "app_id", None) or getattr(action, "domain", None) or ""


def _not_looked_at(conflict: Any) -> int:
    sizes = (conflict.files, conflict.your_actions, conflict.read_files, conflict.winner_actions)
    return max(0, *(len(size) - MAX_LOOK for size in sizes))


def action_line(action: Any) -> Inline:
    """What an action did, as the overlap shows it: sign, file and partition."""
    name = type(action).__name__
    if name not in actions.SIGNS:
        return actions.line(action)
    sign, tone = actions.SIGNS[name]
    where = [muted("  " + units.pairs(action.partition_values))] if action.partition_values else []
    return [Span(sign, tone), " ", code(units.file_name(action.path)), *where]


def sentence(view: ConflictView) -> str:
    """What happened, on one line, without times or file names."""
    return f"✕ {view.kind}: {plain(view.lines[0])}"
