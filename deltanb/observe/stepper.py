"""The stepper: a commit advanced step by step, whose earlier steps can be looked at again.

What lives here: :class:`CommitStepper`, which drives the real steps of a transaction's commit against the
real table, lets other writers win in between, and keeps a frame of each moment.
What it does not know: what a step does (``transaction/drive.py``), what a frame says (``frames.py``), how the
trace is looked at (``stepped.py``), how it is drawn (``notebook/drawing/stepper.py``), the buttons
(``notebook/widgets/stepper.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.observe import frames as stepper_frames
from deltanb.observe import rivals
from deltanb.observe.stepped import StepLine, Stepped, printed
from deltanb.options import set_options
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.transaction.drive import Drive
from deltanb.transaction.failed import leave_report
from deltanb.transaction.operations import as_operation
from deltanb.transaction.steps import Committed, Failed, Winner

if TYPE_CHECKING:
    from deltanb.actions import Action
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.transaction import OptimisticTransaction


class CommitStepper(Displayable, Stepped):
    """A commit that is advanced step by step, on the real table.

    A step's reading or writing is done when the step is left, so that whatever happens before that, a
    :meth:`rival` say, happens to it. A commit that fails does not raise: the last frame shows why, and
    :attr:`error` has the exception that ``commit()`` would have raised.

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

    def __init__(
        self, txn: OptimisticTransaction, actions: Iterable[Action] = (),
        operation: Operation | str | None = None,
    ) -> None:
        self.txn = txn
        """The transaction whose commit this is."""
        self._drive = Drive(txn.commit_steps(actions, operation), txn.committer, txn._commit_lock())
        super().__init__(stepper_frames.opened(txn.table, as_operation(operation).name, txn.read_version))

    @property
    def version(self) -> int | None:
        """The version that was committed; None until then."""
        return None if self.txn.committed is None else self.txn.committed.version

    # -- the commit goes on ----------------------------------------------------------------------

    def rival(
        self, kind: str | Callable[[Any], Any], writer: str = rivals.WRITER
    ) -> StepLine:
        """Commit to the table as another writer, between two steps, and print what that commit did.

        Args:
            kind: ``"append here"`` (where the transaction reads), ``"append elsewhere"``, ``"delete"``
                (a file it read), ``"metadata"``; or a function that is given the table and commits to it.
            writer: the user name the commit is recorded under.

        Raises:
            InvalidArgument: there is no such rival, or its name is not text.
            IllegalStateError: the commit has ended, or a rival of this kind has nothing to do here.
        """
        return printed(self.let_win(kind, writer))

    def close(self) -> None:
        """Give the commit up at its present step; its transaction is then abandoned.

        Where a put is unanswered the log is asked first: its version may be there, and stays.
        """
        if not self.is_done:
            self._drive.give_up()
            self._given_up("closed")

    def advance(self) -> str:
        """As :meth:`step`, but the line is returned and not printed."""
        if self.is_done:
            self.move(len(self._frames) - 1)
            return f"nothing left to do: {self.in_short()}"
        if self._drive.step is None:
            self.txn._must_be_open()
        try:
            step = self._drive.advance()
            assert step is not None  # the end is driven through at Committed
            frame = stepper_frames.after(self._frames[-1], step, self._drive.reply)
            if isinstance(step, Committed):
                self._drive.advance()
            elif isinstance(step, Failed):
                self._fail()
        except BaseException as error:
            self.error = error
            self._drive.give_up(error)
            self._given_up(type(error).__name__)
            raise
        self._show(frame)
        if self._drive.committed is not None:
            self.txn.run_post_commit_hooks()
        return str(frame.line)

    def let_win(self, kind: str | Callable[[Any], Any], writer: str = rivals.WRITER) -> str:
        """As :meth:`rival`, but the line is returned and not printed."""
        if self.is_done:
            raise IllegalStateError(
                f"table {self.txn.table}: no rival can win any more: {self.in_short()}")
        if not writer or not isinstance(writer, str):
            raise InvalidArgument(f"a rival's name is a text, found {writer!r}")
        log = self.txn.log
        before = log.update().version
        if callable(kind):
            from deltanb.table.table import DeltaTable

            with set_options(user_name=writer):
                kind(DeltaTable(log))
            did = ""
        else:
            did = rivals.commit_rival(self.txn, kind, writer).did
        found = [Winner(v, tuple(log.read_commit(v)))
                 for v in range(before + 1, log.update().version + 1)]
        if not found:
            return f"{units.clean(writer)}: committed nothing"
        did = did or ", ".join(dict.fromkeys(winner.operation for winner in found))
        commits = [(w.version, str(w.commit_info.user_name or w.operation)) for w in found]
        self._show(stepper_frames.rival(self._frames[-1], writer, did, commits))
        return str(self._frames[-1].line)

    def in_short(self) -> str:
        """How the commit ended."""
        frame = self._frames[-1]
        if frame.state == "committed":
            return f"v{max(box.version for box in frame.boxes)} is committed and stays"
        return str(frame.line).split(" ", 1)[1].split(":", 1)[0]

    # -- inside ----------------------------------------------------------------------------------

    def _fail(self) -> None:
        """Let the steps end with the error that they announced."""
        try:
            self._drive.advance()
        except Exception as error:
            self.error = error
            leave_report(self.txn)

    def _given_up(self, why: str) -> None:
        """The last frame of a commit that did not go to its end, by what its transaction knows."""
        last, landed = self._frames[-1], self.txn.committed
        if landed is not None:
            self._show(stepper_frames.after(last, landed))
            return
        version = int(getattr(self._drive.step, "version", self.txn.read_version + 1))
        is_open = self.txn.may_have_landed
        outcome = f"look whether v{version} is there" if is_open else "nothing was written"
        self._show(stepper_frames.abandoned(last, f"{why}, {outcome}"))
