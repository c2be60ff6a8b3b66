"""The stepper: a commit advanced step by step, with its earlier steps to look back at.

What lives here: :class:`Stepper`, which drives the real steps of a commit, lets other writers win in between,
and keeps a frame of each moment; :class:`CommitStepper` for one table, :class:`GroupStepper` for several
tables of a catalog.
What it does not know: what a step does (``transaction/drive.py``, ``catalog/group.py``), what a frame says
(``frames.py``), how it is drawn (``notebook/drawing/stepper.py``), the buttons
(``notebook/widgets/stepper.py``).

Between two steps nothing is held: no lock, no transaction of a database. Going back shows an older frame and
undoes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.observe import frames, rivals
from deltanb.observe.frames import StepFrame
from deltanb.options import set_options
from deltanb.text import formatting as units
from deltanb.text.display import Interactive
from deltanb.text.safe_text import safe
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.drive import Drive, GivenUp
from deltanb.transaction.failed import leave_report
from deltanb.transaction.group import GroupFailed
from deltanb.transaction.operations import as_operation
from deltanb.transaction.steps import Committed, Failed, PublishCommits, Step, Winner

if TYPE_CHECKING:
    from deltanb.actions import Action
    from deltanb.catalog.transaction import CatalogTransaction
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.transaction import OptimisticTransaction

Rival = str | Callable[[Any], Any]
"""What another writer does: a key of :data:`rivals.KINDS`, or a function that is given the table."""


class StepLine(str):
    """A line that was printed already; as the last expression of a cell it is not shown again."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        """Show nothing, since the line was printed."""


@dataclass(frozen=True)
class Moved:
    """Another writer's commit: what it did in words, the name of its result, and the versions of the log."""

    did: str
    where: str
    commits: tuple[tuple[int, str], ...] = ()


@answer_wrong_arguments()
class Stepper(Interactive):
    """A commit that is advanced step by step, and the trace of its frames, which only grows.

    A step reads or writes when it is left, so a rival that commits before that is seen by it. A commit that
    fails does not raise: the last frame shows why.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore("memory:///ducks"), {"id": [1]})
    >>> stepper = table.start_transaction().stepper()
    >>> isinstance(stepper, Stepper), stepper.tables
    (True, ['ducks'])
    """

    txn: Any
    """The transaction whose commit this is."""
    tables: list[str]
    """The tables of the commit."""
    _of = ""
    """Whose commit it is, before what is refused."""

    def __init__(self, drive: Any, first: StepFrame) -> None:
        super().__init__()
        self._drive = drive
        self._frames = [first]
        self._at = 0
        self.error: BaseException | None = None
        """Why the commit failed."""

    # -- what there is to see --------------------------------------------------------------------

    @property
    def frames(self) -> tuple[StepFrame, ...]:
        """All frames so far: the one before the first step, then one per step or rival.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> while not stepper.is_done:
        ...     _ = stepper.advance()
        >>> len(stepper.frames)
        4
        """
        return tuple(self._frames)

    @property
    def position(self) -> int:
        """The index in :attr:`frames` of the one that is shown.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> stepper.position, stepper.advance(), stepper.position
        (0, '1 prepare: 0 actions, SnapshotIsolation', 1)
        """
        return self._at

    @property
    def frame(self) -> StepFrame:
        """The current frame; an older one also says how the commit ended, if it has.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance()
        >>> stepper.frame.place, stepper.frames[0].place
        ('prepare', 'read')
        """
        shown, newest = self._frames[self._at], self._frames[-1]
        is_newest = shown is newest
        ended = newest.state != "running"
        return replace(
            shown, total=newest.number if ended or not is_newest else None,
            ending=newest.line.split(" ", 1)[1] if ended and not is_newest else "")

    @property
    def is_done(self) -> bool:
        """Whether the commit has ended, one way or the other.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> while not stepper.is_done:
        ...     _ = stepper.advance()
        >>> stepper.version
        1
        """
        return self._frames[-1].state != "running"

    @property
    def conflict(self) -> Any:
        """The conflict that made the commit fail; None if it has not failed or failed for another reason.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> txn = dn.create(MemoryStore(), {"id": [1]}).start_transaction()
        >>> stepper = txn.stepper([file.remove() for file in txn.filter_files()], "DELETE")
        >>> _ = stepper.let_win("delete")
        >>> while not stepper.is_done:
        ...     _ = stepper.advance()
        >>> stepper.conflict.rule
        'delete / read'
        """
        return getattr(self.error, "conflict", None)

    def in_short(self) -> str:
        """How the commit ended.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> stepper.close()
        >>> stepper.in_short()
        'abandoned'
        """
        return self._frames[-1].line.split(" ", 1)[1].split(":", 1)[0]

    # -- to be defined by each kind of commit ---------------------------------------------------------

    def _after(self, step: Step | None) -> StepFrame:
        """The frame after a step; None means the end."""
        raise NotImplementedError

    def _newest(self) -> int:
        """The newest commit, by anybody."""
        raise NotImplementedError

    def _moved(self, before: int, name: str | None) -> Moved | None:
        """What was committed since; None if nothing was."""
        raise NotImplementedError

    def _meet(self, kind: Rival, name: str | None) -> tuple[OptimisticTransaction | None, Any]:
        """The transaction that a rival of this kind competes with, and the table it commits to."""
        raise NotImplementedError

    def _failed(self, error: Exception) -> None:
        """Clean up after a failed commit."""
        raise NotImplementedError

    def _abandoned(self, why: str, error: BaseException) -> StepFrame:
        """The last frame of a commit that was stopped before its end."""
        raise NotImplementedError

    # -- the commit goes on ------------------------------------------------------------------------

    def close(self) -> None:
        """Give the commit up at its present step; its transaction is then abandoned.

        What is committed by then stays. If the outcome of a step is unknown, it is looked up first.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> txn = dn.create(MemoryStore(), {"id": [1]}).start_transaction()
        >>> stepper = txn.stepper()
        >>> _ = stepper.advance()
        >>> stepper.close()
        >>> txn.status
        'abandoned'
        """
        if not self.is_done:
            self._drive.give_up()
            self._show(self._abandoned("closed", GivenUp()))

    def advance(self) -> str:
        """As :meth:`step`, but the line is returned and not printed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> stepper.advance()
        '1 prepare: 0 actions, SnapshotIsolation'
        """
        if self.is_done:
            self.move(len(self._frames) - 1)
            return f"nothing left to do: {self.in_short()}"
        try:
            step = self._drive.advance()
            frame = self._after(step)
            if isinstance(step, Failed | GroupFailed):
                self._fail()
        except BaseException as error:
            self.error = error
            self._drive.give_up(error)
            self._show(self._abandoned(type(error).__name__, error))
            raise
        self._show(frame)
        return frame.line

    def _fail(self) -> None:
        """Let the steps end with the error they announced."""
        try:
            self._drive.advance()
        except Exception as error:
            self.error = error
            self._failed(error)

    def _let_win(self, kind: Rival, writer: str, name: str | None = None) -> str:
        if self.is_done:
            raise IllegalStateError(f"{self._of}no rival can win any more: {self.in_short()}")
        if not writer or not isinstance(writer, str):
            raise InvalidArgument(f"a rival's name is a string, found {writer!r}")
        before, did = self._newest(), ""
        txn, table = self._meet(kind, name)
        if callable(kind):
            with set_options(user_name=writer):
                kind(table)
        else:
            assert txn is not None  # else it was refused
            did = rivals.commit_rival(txn, kind, writer).did
        moved = self._moved(before, name)
        if moved is None:
            return f"{units.clean(writer)}: committed nothing"
        self._show(frames.rival(self._frames[-1], writer, did or moved.did, moved.where, moved.commits))
        return self._frames[-1].line

    def step(self) -> StepLine:
        """Advance by one step, and print what happened as one line.

        After the end of the commit nothing more happens, and the line says so. A keyboard interrupt ends the
        commit and is raised, once it is known whether the interrupted step has landed.

        A notebook shows the line once. Python's prompt shows the value again, and IPython's an empty ``Out``,
        unless it is assigned: ``_ = stepper.step()``.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.step()
        1 prepare: 0 actions, SnapshotIsolation
        """
        return printed(self.advance())

    def run(self) -> StepLine:
        """Run the remaining steps; each one prints its line.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.run()
        1 prepare: 0 actions, SnapshotIsolation
        2 put: v1 if it is absent
        3 committed v1 after 1 attempt
        """
        line = self.step()
        while not self.is_done:
            line = self.step()
        return line

    # -- the trace -------------------------------------------------------------------------------

    def back(self) -> StepLine:
        """Show the frame before this one; nothing is undone.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance()
        >>> _ = stepper.back()
        0 you read v0
        >>> stepper.position, len(stepper.frames)
        (0, 2)
        """
        return printed(self.move(self._at - 1))

    def first(self) -> StepLine:
        """Show the first frame.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance(), stepper.advance(), stepper.first()
        0 you read v0
        >>> stepper.position
        0
        """
        return printed(self.move(0))

    def last(self) -> StepLine:
        """Show the newest frame.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance(), stepper.advance(), stepper.first(), stepper.last()
        0 you read v0
        2 put: v1 if it is absent
        >>> stepper.position
        2
        """
        return printed(self.move(len(self._frames) - 1))

    def next(self) -> StepLine:
        """Show the frame after this one; at the newest frame this is :meth:`step`.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance(), stepper.first(), stepper.next()
        0 you read v0
        1 prepare: 0 actions, SnapshotIsolation
        >>> stepper.position
        1
        """
        if self._at == len(self._frames) - 1:
            return self.step()
        return printed(self.move(self._at + 1))

    def move(self, position: int) -> str:
        """Show the frame at an index, or the nearest one, and return its line.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance(), stepper.advance(), stepper.move(1)
        >>> stepper.position
        1
        """
        self._at = min(max(0, position), len(self._frames) - 1)
        self._call_listeners()
        frame = self.frame
        line = frame.line
        if not frame.ending:
            return line
        note = f" (looking back: {self.in_short()})"
        return units.fit(line, units.MAX_COLUMNS - len(note)) + note

    # -- inside ----------------------------------------------------------------------------------

    def _show(self, frame: StepFrame) -> None:
        self._frames.append(frame)
        self._at = len(self._frames) - 1
        self._call_listeners()


@answer_wrong_arguments()
class CommitStepper(Stepper):
    """A commit to one table that is advanced step by step, on the real table.

    A step reads or writes when it is left, so a :meth:`rival` that commits before that is seen by it. A
    commit that fails does not raise: the last frame shows why, and :attr:`error` has the exception that
    ``commit()`` would have raised.

    Raises:
        InvalidTransaction: as :meth:`OptimisticTransaction.commit`.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"]})
    >>> txn = table.start_transaction()
    >>> stepper = txn.stepper(txn.write_files({"name": ["Scrooge"]}), "WRITE")
    >>> line = stepper.step()
    1 prepare: 1 action, Serializable
    >>> line = stepper.rival("append here", "Gladstone")
    Gladstone: appended 2 rows where you write, v1
    >>> line = stepper.run()
    2 put: v1 if it is absent
    3 taken: v1 exists, read who has it
    4 lost: v1 exists (Gladstone WRITE)
    5 check: no conflict with v1
    6 next: is v2 taken too?
    7 again: you build on v1 now, try v2
    8 put: v2 if it is absent
    9 committed v2 after 2 attempts
    >>> stepper.version, len(stepper.frames)
    (2, 11)
    """

    txn: OptimisticTransaction

    def __init__(
        self, txn: OptimisticTransaction, actions: Iterable[Action] = (),
        operation: Operation | str | None = None,
    ) -> None:
        self.txn, self.tables, self._of = txn, [txn.table], f"table {txn.table}: "
        drive = Drive(txn.commit_steps(actions, operation), txn.committer, txn._commit_lock(), by_parts=True)
        self._is_managed = hasattr(txn.committer, "putting")  # a catalog ratifies it; then it is published
        super().__init__(drive, frames.opened(txn.table, as_operation(operation).name, txn.read_version,
                                              self._is_managed))

    @property
    def version(self) -> int | None:
        """The version that was committed; None until then.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> stepper.version is None
        True
        """
        return None if self.txn.committed is None else self.txn.committed.version

    def rival(self, kind: Rival, writer: str = rivals.WRITER) -> StepLine:
        """Commit to the table as another writer, between two steps, and print what that commit did.

        Args:
            kind: ``"append here"`` (where the transaction reads), ``"append elsewhere"``, ``"delete"``
                (a file it read), ``"metadata"``; or a function that takes the table and commits to it.
            writer: the user name the commit is recorded under.

        Raises:
            InvalidArgument: an unknown rival, or a name that is not text.
            IllegalStateError: the commit has ended, or a rival of this kind has nothing to do here.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.rival("metadata", "Gladstone")
        Gladstone: set the property deltanb.rival = 1, v1
        """
        return printed(self.let_win(kind, writer))

    def let_win(self, kind: Rival, writer: str = rivals.WRITER) -> str:
        """As :meth:`rival`, but the line is returned and not printed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> stepper.let_win("metadata", "Gladstone")
        'Gladstone: set the property deltanb.rival = 1, v1'
        """
        return self._let_win(kind, writer)

    def refusal(self, kind: str) -> str | None:
        """Why a rival of this kind has nothing to do; None if it has.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> stepper.refusal("delete")
        'no file was read'
        """
        return rivals.refusal(self.txn, kind)

    def advance(self) -> str:
        """As :meth:`step`, but the line is returned and not printed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance(), stepper.advance()
        >>> stepper.advance()
        '3 committed v1 after 1 attempt'
        """
        if not self.is_done and self._drive.committed is not None:
            return self._publish()
        if not self.is_done and self._drive.step is None:
            self.txn._must_be_open()
        is_new = self._drive.committed is None
        line = super().advance()
        if is_new and self._drive.committed is not None and not self._is_managed:
            self.txn.run_post_commit_hooks()
        return line

    def _publish(self) -> str:
        """What follows a commit to a table that a catalog manages: first it is said, then it is done."""
        assert self.version is not None
        last = self._frames[-1]
        if last.place != "publish":
            self._show(frames.after(last, PublishCommits(self.version)))
        else:
            self._show(self._published(self.version))
        return self._frames[-1].line

    def _published(self, version: int) -> StepFrame:
        """The last frame of such a commit, after what follows it."""
        self.txn.run_post_commit_hooks()
        committer: Any = self.txn.committer
        is_there = committer.is_published(version)
        return frames.published(self._frames[-1], version, is_there, committer.unreported() is None)

    def in_short(self) -> str:
        """How the commit ended.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> _ = stepper.advance(), stepper.advance(), stepper.advance()
        >>> stepper.in_short()
        'v1 is committed and stays'
        """
        frame = self._frames[-1]
        if frame.state == "committed":
            return f"v{max(box.version for box in frame.boxes)} is committed and stays"
        return super().in_short()

    def _after(self, step: Step | None) -> StepFrame:
        assert step is not None  # the end is driven through at Committed
        frame = frames.after(self._frames[-1], step, self._drive.reply)
        if isinstance(step, Committed):
            self._drive.advance()
        return frame

    def _failed(self, error: Exception) -> None:
        leave_report(self.txn)

    def _abandoned(self, why: str, error: BaseException) -> StepFrame:
        landed, last = self.txn.committed, self._frames[-1]
        if landed is not None:
            return self._published(landed.version) if self._is_managed else frames.after(last, landed)
        version = int(getattr(self._drive.step, "version", self.txn.read_version + 1))
        return frames.abandoned(last, why, f"look whether v{version} is there" if self.txn.may_have_landed
                                else "nothing was written")

    def _newest(self) -> int:
        return self.txn.log.update().version

    def _moved(self, before: int, name: str | None) -> Moved | None:
        log = self.txn.log
        won = [Winner(v, tuple(log.read_commit(v))) for v in range(before + 1, log.update().version + 1)]
        if not won:
            return None
        first, last = won[0].version, won[-1].version
        return Moved(", ".join(dict.fromkeys(winner.operation for winner in won)),
                     f"v{first}" if first == last else f"v{first}–v{last}",
                     tuple((w.version, str(w.commit_info.user_name or w.operation)) for w in won))

    def _meet(self, kind: Rival, name: str | None) -> tuple[OptimisticTransaction | None, Any]:
        from deltanb.table.table import DeltaTable

        return self.txn, DeltaTable(self.txn.log)


@answer_wrong_arguments()
class GroupStepper(Stepper):
    """The commit of several tables, advanced step by step, on the real catalog.

    It works like :class:`CommitStepper`; what is ratified before it is closed stays.

    Raises:
        IllegalStateError: the transaction has ended, or there is nothing to commit.

    >>> import deltanb as dn
    >>> from itertools import count
    >>> numbers = count(1)  # tables are taken in the order of their ids
    >>> changed = dn.set_options(new_id=lambda: f"{next(numbers):08x}-0000-4000-8000-000000000000")
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
    10 again shop.orders: it is based on v1 now, only this table is restaged
    11 stage shop.orders: v2, not visible yet
    12 ratify once more: 2 tables, all or none
    13 tell shop.totals: v1 is its newest version
    14 tell shop.orders: v2 is its newest version
    15 committed as transaction 4: all of 2 tables, at once
    16 publish shop.orders: v2 into its folder
    17 publish shop.totals: v1 into its folder
    18 done: every version is in its folder
    >>> changed.undo()
    """

    txn: CatalogTransaction

    def __init__(self, txn: CatalogTransaction) -> None:
        self.txn = txn
        if txn.status == "open" and all(table.is_read_only for table in txn.tables.values()):
            raise IllegalStateError(
                f"stepper: nothing was done in the transaction {txn.txn_id} of the catalog, so there is no "
                "commit to step through; change a table first")
        drive = txn.begin()
        assert drive is not None
        self.tables = [row.name for row in drive.progress.rows]
        super().__init__(drive, frames.opened_group(drive.progress, txn.read_seq))

    @property
    def seq(self) -> int | None:
        """The number of the committed transaction of the catalog; None until then.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///seq.db", warehouse="seq")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [2]})
        >>> stepper = txn.stepper()
        >>> while not stepper.is_done:
        ...     _ = stepper.advance()
        >>> stepper.seq
        2
        """
        return None if self._drive.committed is None else self._drive.committed.seq

    @property
    def versions(self) -> dict[str, int]:
        """The committed versions by table; empty until then.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///committed.db", warehouse="committed")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [2]})
        >>> stepper = txn.stepper()
        >>> while not stepper.is_done:
        ...     _ = stepper.advance()
        >>> stepper.versions
        {'shop.orders': 1}
        """
        done = self._drive.committed
        return {} if done is None else dict(done.versions)

    def rival(self, kind: Rival, table: str | None = None, writer: str = rivals.WRITER) -> StepLine:
        """Commit to one of the tables as another writer, between two steps, and print what that commit did.

        Args:
            kind: as in :meth:`CommitStepper.rival`.
            table: a table of the transaction, by default the first.
            writer: the user name the commit is recorded under.

        Raises:
            InvalidArgument: an unknown rival, or a table that is not in the transaction.
            IllegalStateError: the commit has ended, or a rival of this kind has nothing to do here.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///rival.db", warehouse="rival")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [2]})
        >>> stepper = txn.stepper()
        >>> _ = stepper.rival("metadata", "shop.orders", "ben")
        ben: set the property deltanb.rival = 1, shop.orders v1
        """
        return printed(self.let_win(kind, table, writer))

    def let_win(self, kind: Rival, table: str | None = None, writer: str = rivals.WRITER) -> str:
        """As :meth:`rival`, but the line is returned and not printed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///winner.db", warehouse="winner")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [2]})
        >>> stepper = txn.stepper()
        >>> stepper.let_win("metadata", "shop.orders", "ben")
        'ben: set the property deltanb.rival = 1, shop.orders v1'
        """
        return self._let_win(kind, writer, table)

    def refusal(self, kind: str, table: str | None = None) -> str | None:
        """Why a rival of this kind has nothing to do on a table; None if it has.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///refusal.db", warehouse="refusal")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [2]})
        >>> stepper = txn.stepper()
        >>> stepper.refusal("delete", "shop.orders")
        'no file was read'
        """
        txn = self.txn.transaction_of(self._named(table))
        if txn is None:
            return "an Iceberg table's rows are PyIceberg's; give a function of the table"
        return rivals.refusal(txn, kind)

    def in_short(self) -> str:
        """How the commit ended.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///in_short.db", warehouse="in_short")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [2]})
        >>> stepper = txn.stepper()
        >>> _ = stepper.advance()
        >>> stepper.close()
        >>> stepper.in_short()
        'abandoned'
        """
        if self._drive.committed is not None:
            return f"transaction {self._drive.committed.seq} is committed and stays"
        return super().in_short()

    def _after(self, step: Step | None) -> StepFrame:
        last, drive = self._frames[-1], self._drive
        if step is not None:
            return frames.after(last, step, drive.reply, drive.progress)
        self.txn.ended()
        return frames.done(last, drive.progress)

    def _failed(self, error: Exception) -> None:
        self.txn.ended(error)

    def _abandoned(self, why: str, error: BaseException) -> StepFrame:
        self.txn.ended(error)
        return frames.abandoned(
            self._frames[-1], why, "nothing of any table was written", self._drive.progress)

    def _named(self, table: str | None) -> str:
        name = self.tables[0] if table is None else table
        if name not in self.tables:
            raise InvalidArgument(
                f"{name!r} is not a table of this transaction; its tables are {', '.join(self.tables)}")
        return name

    def _newest(self) -> int:
        return self.txn.catalog.store.instant()

    def _moved(self, before: int, name: str | None) -> Moved | None:
        store, name = self.txn.catalog.store, self._named(name)
        entries = store.history(before)
        if not entries:
            return None
        did = ", ".join(dict.fromkeys(what for entry in entries for what in entry.operations.values()))
        pointer = store.tables.load(name).pointer
        return Moved(did or "committed", f"{name} v{pointer}" if isinstance(pointer, int) else name)

    def _meet(self, kind: Rival, name: str | None) -> tuple[OptimisticTransaction | None, Any]:
        name = self._named(name)
        reason = None if callable(kind) else self.refusal(kind, name)
        if reason is not None:
            raise IllegalStateError(f"table {name}: no rival {kind!r} here: {reason}")
        return self.txn.transaction_of(name), self.txn.catalog.table(name)


def printed(line: str) -> StepLine:
    """Print a line, and return it as a :class:`StepLine`."""
    line = safe(line)
    print(line)  # noqa: T201  what a step did is a cell's output
    return StepLine(line)
