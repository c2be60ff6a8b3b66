"""The progress of a commit of several tables: a grid of tables by phases, updated after each step.

What lives here: :class:`GroupCommit`, the grid, and how each step and its reply change it. It holds words and
errors but no bodies or steps, so its size does not grow with lost races.
What it does not know: who takes the steps (``group``), how the grid is drawn.

>>> from deltanb.transaction.group import GroupCommitted, MemberStep, Ratified, Ratify, Stage
>>> from deltanb.transaction.steps import Prepared
>>> grid = begun("txn-1", {"shop.orders": "WRITE"})
>>> steps = [MemberStep("shop.orders", Prepared(3, "Serializable", False, 1, "WRITE")),
...          Stage("shop.orders", 4, b""), Ratify("txn-1", (("shop.orders", 4, "a file"),), ())]
>>> for step, before, reply in zip(steps, [None, *steps], [None, None, "a file"]):
...     grid = after(grid, step, before, reply)
>>> [str(cell) for cell in grid.rows[0].cells]
['✓ v3', '–', '✓ v4', '…', '']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltanb.actions import TransactionGroup
from deltanb.errors import DeltaError, TransactionAbandoned
from deltanb.text.display import Displayable
from deltanb.transaction.drive import GivenUp
from deltanb.transaction.group import (
    AskOutcome,
    GroupCommitted,
    Grouped,
    GroupFailed,
    MemberStep,
    Publish,
    Ratified,
    Ratify,
    Refused,
    Stage,
)
from deltanb.transaction.runs import WorkRun, running
from deltanb.transaction.steps import Checked, Failed, Lost, Prepared, ReadWinner, Rebased, Step

__all__ = ["PHASES", "Cell", "GroupAttempt", "GroupCommit", "GroupRow", "after", "begun"]

PHASES = ("read", "checked", "staged", "ratified", "published")
READ, CHECKED, STAGED, RATIFIED, PUBLISHED = range(len(PHASES))
MAX_MET = 20  # versions that a row remembers to have lost to: as many as a picture shows
DONE, FAILED, RUNNING, NONE, UNKNOWN = "✓", "✕", "…", "–", "?"


@dataclass(frozen=True)
class Cell:
    """A phase of a table: a sign (✓ done, ✕ failed, … under way, – nothing to do, ? unknown, or empty: not
    reached) and a few words."""

    sign: str = ""
    words: str = ""

    def __str__(self) -> str:
        return f"{self.sign} {self.words}".rstrip()


@dataclass(frozen=True)
class GroupRow:
    """A table in the commit; ``cells`` are in the order of :data:`PHASES`."""

    name: str
    operation: str = ""
    cells: tuple[Cell, ...] = (Cell(),) * len(PHASES)
    lost: int = 0
    """Races it lost so far."""
    met: tuple[int, ...] = ()
    """The versions it lost them to, the last ones of many."""
    error: BaseException | None = None
    """Why the commit failed, where this table was the reason."""
    has_versions: bool = True
    """False of an Iceberg table: a commit moves its pointer, and there is nothing to publish."""

    @property
    def conflict(self) -> Any:
        """The conflict, if the commit failed because of one."""
        return getattr(self.error, "conflict", None)


@dataclass(frozen=True, repr=False)
class GroupCommit(Displayable):
    """A commit of several tables after one of its steps: tables by phases.

    ``state`` is ``running``, ``committed``, ``failed``, ``abandoned`` (nothing was committed, either) or
    ``unknown``; ``seq`` is the number of the catalog's transaction once it is committed. ``ratifications``
    counts the attempts to ratify, ``step`` the steps so far.

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///group.db", warehouse="group")
    >>> catalog.create_namespace("shop")
    >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
    >>> txn = catalog.transaction()
    >>> _ = txn.table("shop.orders").append({"id": [3]})
    >>> _ = txn.commit()
    >>> txn.group.state, txn.group.seq, [row.name for row in txn.group.rows]
    ('committed', 2, ['shop.orders'])
    """

    txn_id: str
    rows: tuple[GroupRow, ...]
    state: str = "running"
    seq: int | None = None
    ratifications: int = 0
    step: int = 0
    culprit: str | None = None
    """The table that failed, where one did."""
    error: BaseException | None = None
    transaction_group: TransactionGroup | None = None
    """What the commits say of each other, where they do."""

    def row(self, name: str) -> GroupRow:
        """The row of a table.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///group_row.db", warehouse="group_row")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [3]})
        >>> _ = txn.commit()
        >>> txn.group.row("shop.orders").name
        'shop.orders'
        """
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True)
class GroupAttempt:
    """A finished commit of several tables, as its catalog object remembers it.

    ``grid`` has no errors, since these hold a table's files; ``reason`` is the code of the error it failed
    with, ``run`` the run of :func:`deltanb.retry` it was part of, if any.
    """

    grid: GroupCommit
    read_seq: int
    writer: str | None
    reason: str | None
    run: WorkRun | None = None

    @classmethod
    def of(cls, grid: GroupCommit, read_seq: int, writer: str | None) -> GroupAttempt:
        """The record of a commit."""
        light = replace(grid, error=None, rows=tuple(replace(row, error=None) for row in grid.rows))
        return cls(light, read_seq, writer, getattr(grid.error, "kind", None), running.get())


def begun(txn_id: str, operations: Mapping[str, str], pointed: Collection[str] = ()) -> GroupCommit:
    """The grid before the first step, from each table's operation; ``pointed`` are the Iceberg tables."""
    return GroupCommit(txn_id, tuple(
        GroupRow(name, what, has_versions=name not in pointed) for name, what in operations.items()))


def after(grid: GroupCommit, step: Step | None, before: Step | None = None, reply: Any = None) -> GroupCommit:
    """The grid after a step, None for the end; ``reply`` answered the step before it."""
    grid = _answered(grid, before, reply)
    if step is None:
        return grid
    grid = replace(grid, step=grid.step + 1)
    match step:
        case MemberStep():
            return _member(grid, step.name, step.step)
        case Grouped():
            return replace(grid, transaction_group=step.group)
        case Stage():
            grid = _begin(grid, step.name)
            return _set(grid, step.name, STAGED, _at(grid, step.name, RUNNING, step.version))
        case Ratify():
            grid = _all(grid, _asked(step), RATIFIED, lambda row: Cell(RUNNING))
            for name, _ in step.stands:
                grid = _set(_begin(grid, name), name, STAGED, Cell(NONE))
            return replace(grid, ratifications=grid.ratifications + 1)
        case GroupCommitted():
            grid = replace(grid, state="committed", seq=step.seq)
            grid = _all(grid, _names(grid), PUBLISHED, lambda row: Cell(
                "" if row.has_versions and row.name in step.versions else NONE))
            return _all(grid, _names(grid), RATIFIED, lambda row: _ratified(row, step.versions.get(row.name)))
        case Publish() if grid.row(step.name).has_versions:
            return _set(grid, step.name, PUBLISHED, Cell(RUNNING, f"v{step.version}"))
        case GroupFailed():
            return _failed(grid, step)
    return grid


def _answered(grid: GroupCommit, before: Step | None, reply: Any) -> GroupCommit:
    """The grid after a step's reply; an interrupt changes nothing."""
    if isinstance(reply, BaseException) and not isinstance(reply, Exception):
        return grid
    match before:
        case Stage():
            is_staged = reply is not None and not isinstance(reply, Exception)
            return _set(grid, before.name, STAGED,
                        _at(grid, before.name, DONE if is_staged else FAILED, before.version))
        case Ratify():
            return _verdict(grid, before, reply)
        case AskOutcome() if reply is False:
            return _all(grid, _names(grid), RATIFIED, lambda row: Cell(FAILED, "did not land"))
        case Publish() if grid.row(before.name).has_versions:
            sign = FAILED if reply is False else DONE
            return _set(grid, before.name, PUBLISHED, Cell(sign, f"v{before.version}"))
    return grid


def _verdict(grid: GroupCommit, step: Ratify, reply: Any) -> GroupCommit:
    names = _asked(step)
    if isinstance(reply, Ratified):
        versions = {name: version for name, version, *_ in step.proposals}
        return _all(grid, names, RATIFIED, lambda row: _ratified(row, versions.get(row.name)))
    if isinstance(reply, Refused):
        grid = _all(grid, names, RATIFIED, lambda row: Cell(NONE, "waits"))
        for name, version in reply.latest.items():
            reason = f"v{version} is there" if grid.row(name).has_versions else "moved meanwhile"
            grid = _set(grid, name, RATIFIED, Cell(FAILED, reason))
        return grid
    if not isinstance(reply, DeltaError):
        return _all(grid, names, RATIFIED, lambda row: Cell(UNKNOWN, "no answer"))
    culprit = reply.data.get("path")  # nothing was committed, because of a table or of something else
    if culprit not in names:
        return _all(grid, names, RATIFIED, lambda row: Cell(FAILED, "refused"))
    grid = _all(grid, names, RATIFIED, lambda row: Cell(NONE))
    return _change(_set(grid, culprit, RATIFIED, Cell(FAILED, "refused")), culprit, error=reply)


def _ratified(row: GroupRow, version: int | None) -> Cell:
    """The grid after ratification: written tables have a version, tables only read have not moved."""
    if version is None:
        return Cell(DONE, "unchanged")
    return Cell(DONE, f"v{version}" if row.has_versions else "")


def _at(grid: GroupCommit, name: str, sign: str, version: int) -> Cell:
    return Cell(sign, f"v{version}" if grid.row(name).has_versions else "metadata")


def _begin(grid: GroupCommit, name: str) -> GroupCommit:
    """The grid for a table that reached its put: it was read and, after a lost race, checked."""
    grid = _set(grid, name, READ, Cell(DONE), only_empty=True)
    return _set(grid, name, CHECKED, Cell(NONE), only_empty=True)


def _member(grid: GroupCommit, name: str, step: Step) -> GroupCommit:
    match step:
        case Prepared():
            grid = _change(grid, name, operation=grid.row(name).operation or step.operation)
            read = "new" if step.read_version < 0 else f"v{step.read_version}"
            return _set(grid, name, READ, Cell(DONE, read))
        case ReadWinner():
            return _set(grid, name, CHECKED, Cell(RUNNING, f"v{step.version}"))
        case Lost():
            row = grid.row(name)
            grid = _change(grid, name, lost=row.lost + 1, met=(*row.met, step.version)[-MAX_MET:])
            return _set(grid, name, CHECKED, Cell(RUNNING, f"v{step.version}"))
        case Checked():
            objected = any(check.state == "failed" for check in step.checks)
            return _set(grid, name, CHECKED, Cell(FAILED if objected else DONE, f"v{step.version}"))
        case Rebased():
            return _set(grid, name, CHECKED, Cell(DONE, f"v{step.next_version - 1}"))
        case Failed() if not isinstance(step.error, TransactionAbandoned | GivenUp):
            return _change(grid, name, error=step.error)
    return grid


def _failed(grid: GroupCommit, step: GroupFailed) -> GroupCommit:
    """The last grid of a failed commit: staged files are gone, unless it may have landed."""
    state = "unknown" if step.may_have_landed else "failed"
    if isinstance(step.error, GivenUp) and not step.may_have_landed:
        state = "abandoned"
    grid = replace(grid, state=state, culprit=step.name, error=step.error)
    if step.name is not None and state == "failed":
        grid = _change(grid, step.name, error=step.error)
    if step.may_have_landed:
        return _all(grid, _names(grid), RATIFIED, lambda row: Cell(UNKNOWN, "no answer"))
    rows = []
    for row in grid.rows:
        cells = [Cell(NONE, "given up") if cell.sign == RUNNING else cell for cell in row.cells]
        if cells[STAGED].sign == DONE:
            cells[STAGED] = Cell(NONE, "deleted")
        if cells[RATIFIED] == Cell(NONE, "waits") or not cells[RATIFIED].sign:
            cells[RATIFIED] = Cell(NONE)
        rows.append(replace(row, cells=tuple(cells)))
    grid = replace(grid, rows=tuple(rows))
    if step.name is not None and state == "failed":
        grid = _where(grid, step.name)
    return grid


def _where(grid: GroupCommit, name: str) -> GroupCommit:
    """The grid with a ✕ in the failed table's row, in its last phase."""
    row = grid.row(name)
    if any(cell.sign == FAILED for cell in row.cells):
        return grid
    at = max((phase for phase, cell in enumerate(row.cells) if cell.sign), default=READ)
    at = min(at, CHECKED) if row.conflict is not None else at
    return _set(grid, name, at, Cell(FAILED, row.cells[at].words))


def _asked(step: Ratify) -> list[str]:
    """The tables that the catalog is asked about."""
    return [str(name) for name, *_ in (*step.proposals, *step.stands)]


def _names(grid: GroupCommit) -> Sequence[str]:
    return [row.name for row in grid.rows]


def _set(grid: GroupCommit, name: str, phase: int, cell: Cell, only_empty: bool = False) -> GroupCommit:
    cells = list(grid.row(name).cells)
    if not only_empty or not cells[phase].sign:
        cells[phase] = cell
    return _change(grid, name, cells=tuple(cells))


def _all(
    grid: GroupCommit, names: Iterable[str], phase: int, cell: Callable[[GroupRow], Cell]
) -> GroupCommit:
    chosen = set(names)
    return replace(grid, rows=tuple(
        replace(row, cells=(*row.cells[:phase], cell(row), *row.cells[phase + 1:])) if row.name in chosen
        else row for row in grid.rows))


def _change(grid: GroupCommit, name: str, **changes: Any) -> GroupCommit:
    return replace(grid, rows=tuple(
        replace(row, **changes) if row.name == name else row for row in grid.rows))
