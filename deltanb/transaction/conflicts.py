"""A conflict as data: which rule, your predicate, the winner's files that met it, what you can do.

What lives here: the values that the conflict rules produce and that the exception, its message, the
text and the picture all read. What it does not know: how a rule decides (``conflict_rules.py``), how a
conflict is drawn (``deltanb.notebook``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from deltanb.actions import Action, AddFile, CommitInfo, RemoveFile
from deltanb.errors import DeltaConcurrentModificationException
from deltanb.log.commit_times import time_of
from deltanb.text.display import Displayable
from deltanb.text.safe_text import safe
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.operations import Operation
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader

MAX_RENAMED = 3  # columns whose new names a message says
MAX_READ_FILES = 100  # paths a conflict keeps of what was read; more help nobody and cost memory
DOCS = "https://docs.delta.io/latest/concurrency-control.html"

CheckState = Literal["passed", "failed", "not reached", "does not apply"]


@dataclass(frozen=True)
class Check:
    """One line of the checklist: a rule that was checked against a winner."""

    name: str
    title: str
    state: CheckState
    note: str = ""


@dataclass(frozen=True)
class FieldChange:
    """A field of the metadata or protocol that the winner changed.

    ``before`` and ``after`` are None where the field was absent; ``allowed`` tells whether this change
    alone could have been adopted. A column that was ``renamed`` has its names there, each with its path.
    """

    field: str
    before: Any
    after: Any
    allowed: bool = False
    renamed: bool = False


@dataclass(frozen=True)
class Finding:
    """What a rule found: the raw material of a :class:`Conflict`."""

    files: tuple[AddFile | RemoveFile, ...] = ()
    predicate: str | None = None
    partition: str | None = None
    changes: tuple[FieldChange, ...] = ()
    domain: str | None = None
    note: str = ""
    advice: tuple[str, ...] = ()


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False)
class Conflict(Displayable):
    """Why a commit could not go on: everything a person needs to see who caused it.

    ``read_version`` is what the transaction read, ``wanted_version`` the first version it tried,
    ``version`` the winner's. ``predicates`` are the scans made, ``predicate`` the one the winner's
    ``files`` met. ``partition`` is Delta's hint, e.g. ``[part=1]``. ``checks`` are all rules in order.

    >>> import deltanb as dn
    >>> from deltanb.testing import Lose, MemoryStore, ScriptedStore, remove
    >>> store = MemoryStore()
    >>> file = dn.create(store, {"id": [1]}).snapshot.files["path"][0].as_py()
    >>> table = dn.open(ScriptedStore(store, [Lose((remove(file),))]))
    >>> try:
    ...     table.delete("id = 1")
    ... except dn.errors.DeltaConcurrentModificationException as error:
    ...     conflict = error.conflict
    >>> conflict.kind, conflict.rule, conflict.version
    ('CONCURRENT_DELETE_READ', 'delete / read', 1)
    """

    rule: str
    kind: str
    exception: type[DeltaConcurrentModificationException]
    error_class: str
    message: str
    table: str
    read_version: int
    wanted_version: int
    version: int
    isolation: str
    operation: Operation
    predicates: tuple[str, ...]
    predicate: str | None
    winner: CommitInfo
    winner_actions: tuple[Action, ...]
    your_actions: tuple[Action, ...]
    commit_info: CommitInfo
    read_files: tuple[str, ...]
    files: tuple[AddFile | RemoveFile, ...]
    partition: str | None
    checks: tuple[Check, ...]
    changes: tuple[FieldChange, ...]
    advice: tuple[str, ...]
    whole_table: bool = False
    committed_at: int | None = None
    """When the winner was committed, in epoch milliseconds, as the table's history has it."""

    @property
    def winner_operation(self) -> str:
        """The winner's operation, ``TRANSACTION`` where it does not say.

        >>> from deltanb.testing import MemoryStore, TableBuilder, remove, add
        >>> builder = TableBuilder(MemoryStore()).create("id long").commit(add("a"))
        >>> txn = builder.log.start_transaction()
        >>> [file] = txn.filter_files()
        >>> _ = builder.commit(remove("a"))
        >>> conflict = None
        >>> try:
        ...     txn.commit([file.remove()], "DELETE")
        ... except Exception as error:
        ...     conflict = error.conflict
        >>> conflict.winner_operation
        'TRANSACTION'
        """
        return str(self.winner.operation or "TRANSACTION")

    def dated(self, log: LogReader) -> Conflict:
        """The same with the winner's time, which the log knows: rules ask no store.

        >>> from deltanb.testing import MemoryStore, TableBuilder, remove, add
        >>> builder = TableBuilder(MemoryStore()).create("id long").commit(add("a"))
        >>> txn = builder.log.start_transaction()
        >>> [file] = txn.filter_files()
        >>> _ = builder.commit(remove("a"))
        >>> try:
        ...     txn.commit([file.remove()], "DELETE")
        ... except Exception as error:
        ...     conflict = error.conflict
        >>> conflict.dated(builder.log).committed_at > 0
        True
        """
        return replace(self, committed_at=time_of(log, self.version, self.winner.to_value()))

    def error(self) -> DeltaConcurrentModificationException:
        """The exception that carries this conflict.

        >>> from deltanb.testing import MemoryStore, TableBuilder, remove, add
        >>> builder = TableBuilder(MemoryStore()).create("id long").commit(add("a"))
        >>> txn = builder.log.start_transaction()
        >>> [file] = txn.filter_files()
        >>> _ = builder.commit(remove("a"))
        >>> try:
        ...     txn.commit([file.remove()], "DELETE")
        ... except Exception as error:
        ...     conflict = error.conflict
        >>> type(conflict.error()).__name__
        'ConcurrentDeleteReadException'
        """
        return self.exception(
            self.message, conflict=self, version=self.version, error_class=self.error_class
        )


def build_conflict(
    current: CurrentTransaction,
    winner: Winner,
    rule: str,
    exception: type[DeltaConcurrentModificationException],
    finding: Finding,
    checks: Sequence[Check],
) -> Conflict:
    """The conflict that a finding amounts to, with Delta's message and error class."""
    message, error_class = message_of(exception, current, winner, finding)
    return Conflict(
        rule=rule,
        kind=exception.kind,
        exception=exception,
        error_class=error_class,
        message=safe(message),
        table=current.table,
        read_version=current.read_version,
        wanted_version=current.read_version + 1,
        version=winner.version,
        isolation=current.isolation,
        operation=current.operation,
        predicates=tuple(s.text for s in current.reads.scans),
        predicate=finding.predicate,
        winner=winner.commit_info,
        winner_actions=winner.actions,
        your_actions=current.actions,
        commit_info=current.commit_info,
        read_files=current.reads.paths(MAX_READ_FILES),
        files=finding.files,
        partition=finding.partition,
        checks=tuple(checks),
        changes=finding.changes,
        advice=finding.advice,
        whole_table=current.reads.whole_table,
    )


def unchecked_conflict(current: CurrentTransaction, winner: Winner) -> Conflict:
    """The conflict of a commit that is not checked against winners."""
    from deltanb.errors import ConcurrentWriteException

    return build_conflict(
        current, winner, "version taken", ConcurrentWriteException,
        Finding(advice=(
            "Run the operation again: it commits without conflict checks, so it needs a moment "
            "without other writers.",)),
        [Check("version taken", f"version {winner.version} was taken", "failed")],
    )


# ---------------------------------------------------------------------------- messages


def message_of(
    exception: type[DeltaConcurrentModificationException],
    current: CurrentTransaction,
    winner: Winner,
    finding: Finding,
) -> tuple[str, str]:
    """Delta's message and error class (delta-error-classes of Delta Spark 4)."""
    error_class = exception.error_class
    if error_class in _FILE_MESSAGES:
        hint = finding.partition is not None
        head, tail = _FILE_MESSAGES[error_class]
        where = f" in the partition {finding.partition}" if hint else ""
        text = (head + " " + tail).format(
            operation=winner.operation, table=current.table, version=winner.version,
            where=where, doc=DOCS,
        )
        return text, f"{error_class}.{'WITH_PARTITION_HINT' if hint else 'WITHOUT_HINT'}"
    if finding.domain is not None:
        return f"A conflicting metadata domain {finding.domain} is added.", error_class
    text = _OTHER_MESSAGES[error_class].format(
        table=current.table,
        empty=_EMPTY_DIRECTORY if winner.version == 0 else "",
    )
    commit = f"Conflicting commit: {_in_short(winner, finding)}"
    return f"{text.rstrip()}\n{commit}\nRefer to {DOCS} for more details.", error_class


def _in_short(winner: Winner, finding: Finding) -> str:
    """The winner where Delta's message has its commitInfo as JSON, and which columns it has renamed."""
    user = winner.commit_info.user_name
    renamed = [f"column {change.before} was renamed to {change.after}" for change in finding.changes
               if change.renamed]
    more = f" and {len(renamed) - MAX_RENAMED} more" if len(renamed) > MAX_RENAMED else ""
    which = f": {', '.join(renamed[:MAX_RENAMED])}{more}" if renamed else ""
    return f"version {winner.version}, {winner.operation}{f' by {user}' if user else ''}{which}"


_FILE_MESSAGES = {
    "DELTA_CONCURRENT_APPEND": (
        "Transaction conflict detected. A concurrent {operation} added data to table {table} "
        "committed at version {version}.",
        "The concurrent operation modified data{where} that should have been read by this "
        "operation. Please retry the operation. Refer to {doc} for more information.",
    ),
    "DELTA_CONCURRENT_DELETE_READ": (
        "Transaction conflict detected, a concurrent {operation} deleted data from table {table} "
        "(committed at version {version}) that this transaction read.",
        "The concurrent operation deleted data{where} that was read by this operation. Please retry "
        "the operation. Refer to {doc} for more information.",
    ),
    "DELTA_CONCURRENT_DELETE_DELETE": (
        "Transaction conflict detected, a concurrent {operation} deleted data from table {table} "
        "(committed at version {version}) that this transaction attempted to delete.",
        "The concurrent operation deleted data{where} that was read by this operation. Please retry "
        "the operation. Refer to {doc} for more information.",
    ),
}

_EMPTY_DIRECTORY = (
    "This happens when multiple writers are writing to an empty directory. Creating the table "
    "ahead of time will avoid this conflict. "
)
_OTHER_MESSAGES = {
    "DELTA_CONCURRENT_WRITE": (
        "A concurrent transaction has written new data since the current transaction read the "
        "table. Please try the operation again."
    ),
    "DELTA_METADATA_CHANGED": (
        "The metadata of the Delta table {table} has been changed by a concurrent update. Please "
        "try the operation again."
    ),
    "DELTA_PROTOCOL_CHANGED": (
        "The protocol version of the Delta table has been changed by a concurrent update. {empty}"
    ),
    "DELTA_CONCURRENT_TRANSACTION": (
        "This error occurs when multiple streaming queries are using the same checkpoint to write "
        "into this table. Did you run multiple instances of the same streaming query at the same "
        "time?"
    ),
}
