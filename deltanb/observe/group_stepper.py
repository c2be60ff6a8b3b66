"""The stepper of a transaction of several tables: its commit, step by step, on the real catalog.

What lives here: :class:`GroupStepper`, which takes the steps of a ``GroupDrive`` one at a time, lets other
writers win in between, and keeps a frame of each moment.
What it does not know: what a step does (``catalog/group``), what a frame says (``group_frames``), how it is
drawn, the buttons.

Between two steps nothing is held: no transaction of the database is open, no lock is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.observe import group_frames, rivals
from deltanb.observe.stepped import StepLine, Stepped, printed
from deltanb.options import set_options
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.transaction.drive import GivenUp
from deltanb.transaction.group import GroupFailed

if TYPE_CHECKING:
    from deltanb.catalog.transaction import CatalogTransaction

__all__ = ["GroupStepper"]


class GroupStepper(Displayable, Stepped):
    """The commit of several tables, advanced step by step, on the real catalog.

    A step's reading or writing is done when the step is left, so that whatever happens before that, a
    :meth:`rival` say, happens to it. A commit that fails does not raise: the last frame shows why, and
    :attr:`error` has the exception that ``commit()`` would have raised.

    Raises:
        IllegalStateError: the transaction has ended, or there is nothing to commit.

    >>> import deltanb as dn
    >>> from itertools import count
    >>> numbers = count(1)  # tables are taken in the order of their ids
    >>> _ = dn.set_options(new_id=lambda: f"{next(numbers):08x}-0000-4000-8000-000000000000")
    >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    >>> catalog.create_namespace("shop")
    >>> for name in ("orders", "totals"):
    ...     _ = catalog.create_table(f"shop.{name}", {"id": [1, 2]})
    >>> txn = catalog.transaction()
    >>> for name in ("orders", "totals"):
    ...     _ = txn.table(f"shop.{name}").append({"id": [3]})
    >>> stepper = txn.stepper()
    >>> line = stepper.step()
    1 prepare shop.orders: 1 action, read v0
    >>> line = stepper.rival("append here", "shop.orders", "ben")
    ben: appended 2 rows where you write, shop.orders v1
    >>> line = stepper.run()
    2 stage shop.orders: v1, not visible yet
    3 prepare shop.totals: 1 action, read v0
    4 stage shop.totals: v1, not visible yet
    5 ratify: 2 tables, all or none
    6 refused: shop.orders has v1 already, who wrote it?
    7 lost shop.orders: v1 exists (ben WRITE)
    8 check shop.orders: no conflict with v1
    9 next shop.orders: is v2 taken too?
    10 again shop.orders: it is based on v1 now, it alone is staged again
    11 stage shop.orders: v2, not visible yet
    12 ratify once more: 2 tables, all or none
    13 tell shop.totals: v1 is its newest version
    14 tell shop.orders: v2 is its newest version
    15 committed as transaction 4: all of 2 tables, at once
    16 publish shop.orders: v2 into its folder
    17 publish shop.totals: v1 into its folder
    18 done: every version is in its folder
    """

    def __init__(self, txn: CatalogTransaction) -> None:
        self.txn = txn
        """The transaction whose commit this is."""
        if txn.status == "open" and all(table.is_read_only for table in txn.tables.values()):
            raise IllegalStateError(
                f"stepper: nothing was done in the transaction {txn.txn_id} of the catalog, so there is no "
                "commit to step through; change a table first")
        drive = txn.begin()
        assert drive is not None
        self._drive = drive
        super().__init__(group_frames.opened(drive.progress, txn.read_seq))

    @property
    def seq(self) -> int | None:
        """The catalog's transaction that was committed; None until then."""
        return None if self._drive.committed is None else self._drive.committed.seq

    @property
    def versions(self) -> dict[str, int]:
        """The versions that were committed, by table; empty until then."""
        done = self._drive.committed
        return {} if done is None else dict(done.versions)

    @property
    def tables(self) -> list[str]:
        """The tables of the commit."""
        return [row.name for row in self._drive.progress.rows]

    # -- the commit goes on ----------------------------------------------------------------------

    def rival(
        self, kind: str | Callable[[Any], Any], table: str | None = None, writer: str = rivals.WRITER
    ) -> StepLine:
        """Commit to one of the tables as another writer, between two steps, and print what that commit did.

        Args:
            kind: ``"append here"`` (where the transaction reads), ``"append elsewhere"``, ``"delete"``
                (a file it read), ``"metadata"``; or a function that is given the table and commits to it.
            table: which table of the transaction; the first one unless given.
            writer: the user name the commit is recorded under.

        Raises:
            InvalidArgument: there is no such rival, or no such table in the transaction.
            IllegalStateError: the commit has ended, or a rival of this kind has nothing to do here.
        """
        return printed(self.let_win(kind, table, writer))

    def close(self) -> None:
        """Give the commit up at its present step; what is ratified by then stays."""
        if not self.is_done:
            self._drive.give_up()
            self._given_up("closed", GivenUp())

    def advance(self) -> str:
        """As :meth:`step`, but the line is returned and not printed."""
        if self.is_done:
            self.move(len(self._frames) - 1)
            return f"nothing left to do: {self.in_short()}"
        drive = self._drive
        try:
            step = drive.advance()
            if step is None:
                self.txn.ended()
                frame = group_frames.done(self._frames[-1], drive.progress)
            else:
                frame = group_frames.after(self._frames[-1], drive.progress, step, drive.reply)
                if isinstance(step, GroupFailed):
                    self._fail()
        except BaseException as error:
            self.error = error
            drive.give_up(error)
            self._given_up(type(error).__name__, error)
            raise
        self._show(frame)
        return frame.line

    def let_win(
        self, kind: str | Callable[[Any], Any], table: str | None = None, writer: str = rivals.WRITER
    ) -> str:
        """As :meth:`rival`, but the line is returned and not printed."""
        if self.is_done:
            raise IllegalStateError(f"no rival can win any more: {self.in_short()}")
        if not writer or not isinstance(writer, str):
            raise InvalidArgument(f"a rival's name is a text, found {writer!r}")
        name, catalog = self._table(table), self.txn.catalog
        reason = None if callable(kind) else self.refusal(kind, name)
        if reason is not None:
            raise IllegalStateError(f"table {name}: no rival {kind!r} here: {reason}")
        before, did = catalog.store.instant(), ""
        if callable(kind):
            with set_options(user_name=writer):
                kind(catalog.table(name))
        else:
            txn = self.txn.transaction_of(name)
            assert txn is not None  # else it was refused
            did = rivals.commit_rival(txn, kind, writer).did
        moved = catalog.store.history(before)
        if not moved:
            return f"{units.clean(writer)}: committed nothing"
        words = ", ".join(dict.fromkeys(what for entry in moved for what in entry.operations.values()))
        pointer = catalog.store.tables.load(name).pointer
        where = f"{name} v{pointer}" if isinstance(pointer, int) else name
        self._show(group_frames.rival(self._frames[-1], writer, did or words or "committed", where))
        return str(self._frames[-1].line)

    def refusal(self, kind: str, table: str | None = None) -> str | None:
        """Why a rival of this kind has nothing to do on a table; None if it has."""
        name = self._table(table)
        txn = self.txn.transaction_of(name)
        if txn is None:
            return "an Iceberg table's rows are PyIceberg's; give a function of the table"
        return rivals.refusal(txn, kind)

    def in_short(self) -> str:
        """How the commit ended."""
        if self._drive.committed is not None:
            return f"transaction {self._drive.committed.seq} is committed and stays"
        return str(self._frames[-1].line).split(" ", 1)[1].split(":", 1)[0]

    # -- inside ----------------------------------------------------------------------------------

    def _table(self, table: str | None) -> str:
        name = self.tables[0] if table is None else table
        if name not in self.tables:
            raise InvalidArgument(
                f"{name!r} is no table of this transaction; its tables are {', '.join(self.tables)}")
        return name

    def _fail(self) -> None:
        """Let the steps end with the error that they announced."""
        try:
            self._drive.advance()
        except Exception as error:
            self.error = error
            self.txn.ended(error)

    def _given_up(self, why: str, error: BaseException) -> None:
        self.txn.ended(error)
        self._show(group_frames.abandoned(self._frames[-1], self._drive.progress, why))
