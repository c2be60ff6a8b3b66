"""Several tables, one commit: how far each is, and why it failed, if it did.

What lives here: the views of ``GroupCommit``, a grid of tables by phases, and of ``CatalogTransaction``: what
it read and did while it is open, the grid of its commit afterwards.
What it does not know: how a grid is made (``catalog/progress``) and drawn (``drawing/group``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltanb.catalog.progress import PHASES, Cell, GroupCommit, GroupRow
from deltanb.notebook.views import conflict, iceberg
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, spans, warn
from deltanb.options import options
from deltanb.text import formatting as units

COLUMNS = ("table", "did", *PHASES)
TONES = {"✓": "ok", "✕": "warn", "?": "warn"}
MAX_ERROR = 300  # characters of an error that is no conflict: a conflict has a picture of its own


@dataclass(frozen=True)
class GroupView(View):
    """The view of a commit of several tables; ``met`` is the conflict of the row ``culprit``."""

    culprit: int | None = None
    """The row that failed, which unfolds to why."""
    met: conflict.ConflictView | None = None
    why: Inline = ""
    """Why it failed, in a sentence."""
    unmet: Table | None = None
    """The requirements of an Iceberg table that were not met, and what the table has instead."""


def group(grid: GroupCommit) -> GroupView:
    """The view of a :class:`~deltanb.catalog.progress.GroupCommit`."""
    return _with_grid("Group commit", "", _state(grid), grid)


def transaction(txn: Any) -> GroupView:
    """The view of a :class:`~deltanb.catalog.transaction.CatalogTransaction`."""
    name = txn.catalog.name
    begun: Inline = f"read after transaction {txn.read_seq}"
    if txn.group is not None:
        return _with_grid("Catalog transaction", name, _state(txn.group), txn.group, (begun,), _id(txn))
    marks: list[Inline] = [_ended(txn), begun]
    sections = [_tables(txn), *_id(txn)]
    if txn.error is not None:
        sections.insert(1, Section("Error", _error(txn.error)))
    return GroupView("Catalog transaction", name, tuple(marks), (), tuple(sections))


def _with_grid(
    kind: str, name: str, marks: list[Inline], grid: GroupCommit, lines: tuple[Inline, ...] = (),
    more: tuple[Section, ...] = (),
) -> GroupView:
    culprit = next((at for at, row in enumerate(grid.rows) if row.error is not None), None)
    error = grid.error if culprit is None else grid.rows[culprit].error
    met_conflict = getattr(error, "conflict", None)
    met = None if met_conflict is None else conflict.fields(met_conflict)
    sections = [_grid(grid, culprit)]
    why: Inline = ""
    if met is not None:
        why = [warn(f"✕ {met.kind}: "), *spans(met.lines[0])]
        sections.append(Section("Conflict", why))
    elif error is not None and grid.state != "abandoned":
        why = _error(error)
        sections.append(Section("Error", why))
    return GroupView(kind, name, tuple(marks), lines, (*sections, *more), culprit=culprit, met=met, why=why,
                     unmet=None if met is not None else _unmet(error))


def _unmet(error: BaseException | None) -> Table | None:
    """The failed requirements of an error, if it has some."""
    requirements = list(getattr(error, "failed_requirements", None) or ())
    if not requirements:
        return None
    rows = tuple((code(each.get("requirement", {}).get("type", "?")), _pairs(each.get("requirement", {})),
                  _pairs(each.get("actual"))) for each in requirements[:options.max_rows])
    return Table(("requirement", "asks for", "the table has"), rows, len(requirements), "requirement")


def _pairs(value: Any) -> Inline:
    if not isinstance(value, Mapping):
        return muted("–") if value is None else code(units.value_of(value))
    return code(units.pairs({key: one for key, one in value.items() if key != "type"}) or "–")


def _state(grid: GroupCommit) -> list[Inline]:
    """The outcome in words: all of the tables, or none."""
    tables = units.count(len(grid.rows), "table")
    if grid.state == "committed":
        return [ok(f"✓ committed as transaction {grid.seq}"), f"all of {tables}"]
    if grid.state == "failed":
        at = f" at {grid.culprit}" if grid.culprit else ""
        return [warn(f"✕ failed{at}"), f"none of {tables} committed"]
    if grid.state == "abandoned":
        return ["given up", f"none of {tables} committed"]
    if grid.state == "unknown":
        return [warn("? outcome unknown"), f"all of {tables}, or none"]
    step = f"step {grid.step}" if grid.step else "not begun"
    return ["committing", step, tables]


def _ended(txn: Any) -> Inline:
    if txn.status == "failed":
        return warn("✕ failed, nothing written")
    if txn.status == "abandoned":
        written = any(table.operations for table in txn.tables.values())
        return "given up, nothing written" if written else "ended without a change"
    return "open" if txn.status == "open" else str(txn.status)


def _error(error: BaseException) -> Inline:
    words = f"{type(error).__name__}: {error}".split("\n", 1)[0].removesuffix(": ")
    return warn(f"✕ {words if len(words) <= MAX_ERROR else words[:MAX_ERROR] + '…'}")


def _id(txn: Any) -> tuple[Section, ...]:
    """The id that all commits of the transaction carry; the catalog knows the outcome by it."""
    is_open = txn.group is not None and txn.group.state == "unknown"
    row: tuple[Inline, ...] = (code(txn.txn_id),)
    return (Section("txnId", code(txn.txn_id) if is_open else muted("in every commit"),
                    Table(("txnId",), (row,), 1, "id"), is_detail=not is_open),)


# -- what it has done so far -----------------------------------------------------------------------


def _tables(txn: Any) -> Section:
    """The tables of a transaction whose commit has not begun."""
    tables = txn.tables
    if not tables:
        return Section("Tables", [muted("none yet; "), code('txn.table("namespace.table")')])
    rows = tuple(_table_row(name, table) for name, table in list(tables.items())[:options.max_rows])
    table = Table(("table", "version", "read", "done"), rows, len(tables), "table")
    return Section("Tables", units.count(len(tables), "table"), table, is_open=True, text_rows=True)


def _table_row(name: str, table: Any) -> tuple[Inline, ...]:
    done = ", ".join(dict.fromkeys(table.operations))
    if len(table.operations) > len(set(table.operations)):
        done += f" ({units.count(len(table.operations), 'statement')})"
    reads = [conflict.WHOLE if text == "TRUE" else text for text in table.reads]
    read: Inline = muted("–") if not reads else code(", ".join(reads[:3]) + (" …" if len(reads) > 3 else ""))
    staged = getattr(table, "staged", None)
    at = iceberg.pointer(table.base.metadata_location) if staged is None else f"v{staged.base.version}"
    return code(name), at, read, done or muted("nothing")


# -- the grid ----------------------------------------------------------------------------------------


def _grid(grid: GroupCommit, culprit: int | None) -> Section:
    rows = tuple((code(row.name), *_row(row)) for row in grid.rows)
    order = list(range(len(rows)))
    if culprit is not None and culprit >= options.max_rows:  # the row that matters is among those shown
        order.insert(0, order.pop(culprit))
    summary = units.count(len(rows), "table")
    if grid.transaction_group is not None:
        joined = len(grid.transaction_group.participants)
        summary += ", whose commits name each other" if joined == len(rows) else \
            f", {units.number(joined)} of which name each other in their commits"
    if grid.ratifications > 1:
        summary += f", {units.count(grid.ratifications, 'ratification')} tried"
    table = Table(COLUMNS, tuple(rows[at] for at in order), len(rows), "table",
                  marked=frozenset() if culprit is None else frozenset({order.index(culprit)}))
    return Section("Tables", summary, table, is_open=True, text_rows=True)


def _row(row: GroupRow) -> tuple[Inline, ...]:
    did = muted("only read") if row.operation == "READ" else row.operation or muted("–")
    return (did, *(_cell(cell) for cell in row.cells))


def _cell(cell: Cell) -> Inline:
    return Span(str(cell), TONES.get(cell.sign, "muted"))
