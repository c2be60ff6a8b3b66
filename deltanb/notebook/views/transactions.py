"""A transaction in words: open, committed or failed; what it read and what it writes.

What lives here: the views of ``OptimisticTransaction`` and of ``Operation``.
What it does not know: how a commit is made. The conflict of a failed one has its own view, at the end of the
transaction's HTML. The clock is not read: showing a transaction must not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing import conflict as conflict_forms
from deltanb.notebook.drawing import html
from deltanb.notebook.views import actions, conflict, tables
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, plain, spans, warn
from deltanb.observe import frames as stepper_frames
from deltanb.options import options
from deltanb.text import formatting as units

FAR_BEHIND = 10  # versions; a transaction this old has much to be checked against
STATES = {
    "open": "open",
    "committing": "committing",
    "abandoned": "abandoned, nothing written",
}


@dataclass(frozen=True)
class TransactionView(View):
    """The view of a transaction, with that of its conflict if it had one."""

    conflict: conflict.ConflictView | None = None


def transaction(txn: Any) -> TransactionView:
    """The view of an :class:`~deltanb.transaction.transaction.OptimisticTransaction`."""
    writes = _written(txn)
    sections = [_reads(txn), Section("Writes", *_listed(writes))]
    if txn.attempts:
        sections.append(_attempts(txn.attempts))
    met = None if txn.conflict is None else conflict.fields(txn.conflict)
    if met is not None:
        sections.append(Section("Conflict", [warn(f"✕ {met.kind}: "), *spans(met.lines[0])]))
    elif txn.error is not None:
        error = f"{type(txn.error).__name__}: {txn.error}".split("\n", 1)[0].removesuffix(": ")
        sections.append(Section("Error", warn(f"✕ {error}")))
    return TransactionView(
        "Transaction", txn.table, tuple(_marks(txn, writes)), tuple(_lines(txn)),
        tuple(sections), conflict=met,
    )


def to_html(view: TransactionView, as_text: str) -> str:
    """The HTML of a transaction, and of its conflict below."""
    return html.within_limit(lambda share: html.document(
        html.join(
            html.body(view, share),
            conflict_forms.body(view.conflict, share) if view.conflict else None,
        ),
        as_text,
    ))


def operation(operation: Any) -> View:
    """The view of an :class:`~deltanb.transaction.operations.Operation`."""
    parameters = dict(operation.parameters)
    sections = []
    if parameters:
        rows = tuple((code(key), code(units.value_of(value))) for key, value in parameters.items())
        table = Table(("parameter", "value"), rows, len(rows), "parameter")
        sections.append(Section("Parameters", code(units.pairs(parameters, ", ")), table))
    changes = "changes data" if operation.changes_data else "changes no data"
    return View("Operation", operation.name, (changes,), (), tuple(sections))


def _marks(txn: Any, writes: Sequence[Any]) -> list[Inline]:
    """The state in a line: ``open  read v17  2 reads  1 add, 1 remove``."""
    read = f"read v{txn.read_version}" if txn.read_version >= 0 else "no table before"
    if txn.status == "committed" and txn.committed is not None:
        tries = units.count(txn.committed.attempts, "attempt")
        return [Span(f"✓ committed v{txn.committed.version}", "ok"), tries, read]
    if txn.status == "failed":
        kind = type(txn.error).__name__.removesuffix("Exception")
        at = f" at v{txn.conflict.version}" if txn.conflict is not None else ""
        return [warn(f"✕ failed{at}"), kind, "nothing written"]
    if txn.status == "unknown":
        return [warn("? outcome unknown"), read]
    reads = len(txn.reads.scans) + len(txn.reads.app_ids)
    state = STATES.get(txn.status, txn.status)
    if txn.status == "committing" and txn.step is not None:
        state = f"{state}, {stepper_frames.state_in_words(txn.step)}"
    return [state, read, units.count(reads, "read"),
            conflict.counted(writes) if writes else "nothing to write yet"]


def _lines(txn: Any) -> list[Inline]:
    lines: list[Inline] = []
    prepared = txn.prepared
    if prepared is not None:
        words = [prepared.operation.name, prepared.isolation]
        words += ["blind append"] if prepared.is_blind_append else []
        lines.append("  ".join(words))
    if txn.status == "unknown":
        lines.append(["look whether a version carries txnId ", code(txn.txn_id)])
    newest = tables.newest_known(txn.log)
    behind = 0 if newest is None else newest.version - txn.read_version
    if txn.status == "open" and behind > 0:
        since = units.count(behind, "version")
        is_far = behind >= FAR_BEHIND
        lines.append([warn(f"far behind: {since} came since it began") if is_far else f"{since} since",
                      "; ", code("dn.explain_conflict(txn)"), " says whether that matters"])
    return lines


def _reads(txn: Any) -> Section:
    """Scans and application ids, each with what winners are checked against."""
    reads = txn.reads
    rows: list[tuple[Inline, ...]] = []
    for scan in reads.scans:
        whole = scan.partition_text == "TRUE"
        rows.append((code(scan.text), "any file" if whole else code(scan.partition_text)))
    rows += [(["version of application ", code(app)], "any version it writes")
             for app in sorted(reads.app_ids)]
    if not rows:
        return Section("Reads", muted("nothing"))
    files = sum(table.num_rows for table in reads.files)
    words = ", ".join(plain(row[0]) for row in rows)
    table = Table(("read", "in conflict with"), tuple(rows), len(rows), "read")
    return Section("Reads", [code(words), muted(f"  {units.count(files, 'file')}")], table)


def _written(txn: Any) -> Sequence[Any]:
    if txn.prepared is not None:
        actions: Sequence[Any] = txn.prepared.actions
        return actions
    new = (txn._new_protocol, txn._new_metadata)
    return [*(action for action in new if action is not None), *txn.written]


def _listed(written: Sequence[Any]) -> tuple[Inline, Table | None]:
    """The actions as a count and a table of the first of them."""
    if not written:
        return muted("nothing yet"), None
    rows = tuple((actions.line(action),) for action in written[: options.max_rows])
    return conflict.counted(written), Table(("action",), rows, len(written), "action")


def _attempts(attempts: Sequence[Any]) -> Section:
    """The races lost on the way: who had the version first."""
    rows = tuple((f"v{lost.version}", lost.winner.operation) for lost in attempts)
    words = ", ".join(f"v{lost.version} to {lost.winner.operation}" for lost in attempts[:3])
    more = f" and {len(attempts) - 3} more" if len(attempts) > 3 else ""
    table = Table(("version", "won by"), rows, len(rows), "race")
    return Section("Lost races", words + more, table)
