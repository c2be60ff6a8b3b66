"""The errors of deltanb, one tree.

::

    DeltaError
    ├── TableNotFound                     nothing to open at this path
    ├── TableAlreadyExists
    ├── NamespaceNotFound                 no namespace of this name in the catalog
    ├── NamespaceAlreadyExists
    ├── NamespaceNotEmpty                 dropped before what is in it
    ├── TableReplaced                     another table is at the path than the one that was read
    ├── VersionNotFound                   before the first or after the last version that can be read
    ├── InvalidTable                      the log or a file contradicts the protocol: which file, which line
    │   └── MetadataFileNotFound          the metadata file that a catalog names for an Iceberg table is gone
    ├── DataFileNotFound                  (also FileNotFoundError) the log names a file that is gone
    ├── UnsupportedProtocol               the table asks for a feature this library does not have
    ├── MissingDependency                 (also ImportError) an extra is not installed
    ├── InvalidArgument                   (also ValueError)
    │   ├── IdempotencyKeyReused          one key with two requests
    │   ├── InvalidAction                 JSON or value that is not an action
    │   ├── InvalidPredicate              syntax, or a column that is not there
    │   ├── InvalidQuery                  a query of %%sql that is none, or that the engine refuses
    │   ├── UnsupportedPredicate          valid SQL outside the subset that runs in the process
    │   ├── WrongCall                     (also TypeError) an argument that a method does not have
    │   └── BadRequest                    a request to a catalog is malformed: which field
    ├── IllegalStateError                 (also RuntimeError) a call at the wrong moment
    │   └── MaxCommitRetriesExceeded      the commit lost more races than the options allow
    ├── NotIterable                       (also TypeError) a table in place of its rows
    ├── InvariantViolated                 (also AssertionError) an order of writers breaks what should hold
    ├── InvalidTransaction                (also AssertionError) actions no transaction may hold
    │   ├── DuplicateActions              one file added or removed twice
    │   ├── MetadataAbsent                a first commit without metadata
    │   ├── PartitionMismatch             a file's partition values do not fit the table's columns
    │   ├── AppendOnlyTable               a removal on an append-only table
    │   ├── DeletionVectorsDisabled       a new deletion vector while the table has them off
    │   ├── DeletionVectorMissingNumRecords
    │   ├── DeletionVectorWithTightBounds
    │   └── RowIdAssignmentWithoutStats   row ids need the file's numRecords
    ├── SchemaMismatch                    data does not fit the table, difference by difference
    ├── InvalidSchema                     a schema the table may not have
    ├── ConstraintViolation               which constraint, which row
    ├── MultipleSourceRowsMatched         a merge in which several source rows match one of the table
    ├── SourceRowsLost                    a merge whose source Spark's executors held, and they are gone
    ├── MissingChangeData                 a version at which the change data feed was off
    ├── IncompatibleSchemaChange          changes that the columns of a later version cannot show
    ├── CheckpointMismatch                a stream's checkpoint does not go with the table
    ├── StreamSourceChanged               what a stream reads was changed in a way it cannot follow
    ├── CommitOutcomeUnknown              the store cannot say whether the commit landed
    ├── TransactionAbandoned              another table of the same transaction failed
    ├── StorageError                      (also OSError) a file cannot be read or written, so nothing is
    ├── CommitFailed                      a catalog's table is no longer what a request requires of it
    ├── CommitTimedOut                    a commit to a catalog took longer than it may; nothing changed
    ├── Unauthorized                      a server of a catalog does not know who asks
    │   └── Expired                       the token was known, and its time is over
    ├── Forbidden                         a server of a catalog knows who asks, who may not do it
    ├── InvalidTransactionError           a transaction of locks that was reset for good, or failed to commit
    ├── LockFailure                       a lock could not be had; nothing that was held is lost
    │   ├── LockTimeoutError
    │   │   └── DeadlockError             see ``.cycle``: who waits for whom
    │   ├── LockInterruptedError
    │   └── IllegalUpgradeError           a shared lock that the rule does not let become a stronger one
    ├── FeatureDropConflict               a winner uses the feature this transaction drops
    ├── RowTrackingBackfillRunningConcurrentlyWithUnbackfill
    └── DeltaConcurrentModificationException     a winning commit contradicts this one; see ``.conflict``
        ├── ConcurrentWriteException
        ├── MetadataChangedException
        ├── ProtocolChangedException
        ├── ConcurrentTransactionException
        ├── ConcurrentAppendException
        ├── ConcurrentDeleteReadException
        └── ConcurrentDeleteDeleteException

Beside it there are two UserWarnings: :class:`ChecksumMismatchWarning` and :class:`UnknownPropertyWarning`.

Each class says why it is raised, shows how, and what to do about it. ``deltanb help concurrent-append``
prints that; the name is the class's in words (``topic``).

A handler decides by class, by ``kind`` (a stable code; codes are only ever added), or by the data that
each error carries as attributes. The concurrent family keeps the names of ``delta.exceptions``.

>>> try:
...     raise VersionNotFound("version 9 is not there", version=9, earliest=0, latest=3)
... except DeltaError as error:
...     error.kind, error.latest
('VERSION_NOT_FOUND', 3)
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

from deltanb.text.completion import offered
from deltanb.text.safe_text import LINE_BREAK, safe, shown, with_cut, with_short_lines, without_keys

NOTES = "__notes__"
HAS_NOTES = hasattr(BaseException, "add_note")  # Python 3.11; before it tracebacks show messages alone


class DeltaError(Exception):
    """Root of the tree.

    Every keyword given to the constructor becomes an attribute: ``InvalidTable(..., file=f).file``.
    The message is made safe to show: a name in it cannot move the cursor, a path tells no credentials, and
    a predicate is cut at 300 characters, a line at 4000. The attributes are as given, for programs that open
    what they name; but those that are text tell no credentials of a URL either.

    >>> str(TableNotFound("no table at s3://key:secret@lake/\\x1b[2J"))
    'no table at s3://***@lake/\\\\x1b[2J'
    """

    kind: ClassVar[str] = "DELTA_ERROR"
    sql_state: ClassVar[str | None] = None
    topic: ClassVar[str] = "delta-error"
    """The name of its page: ``deltanb help concurrent-append`` prints what the reference says."""

    def __init__(self, message: str, **data: Any) -> None:
        for name in ("predicate", "expression"):
            message = with_cut(message, data.get(name))
        self.message = with_short_lines(safe(message))
        super().__init__(self.message)
        if "differences" in data:  # lines of text, too
            data["differences"] = [safe(line) for line in data["differences"]]
        self.data = {name: without_keys(value) for name, value in data.items()}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        words = re.findall(r"[A-Z][a-z]*", cls.__name__.removesuffix("Exception"))
        cls.topic = "-".join(words).lower()
        if "kind" not in cls.__dict__:
            cls.kind = "_".join(words).upper()

    def __getattr__(self, name: str) -> Any:
        data = self.__dict__.get("data", {})
        if name in data:
            return data[name]
        raise AttributeError(f"{type(self).__name__} carries no {name!r}")

    def __str__(self) -> str:
        return self.message

    def _render_traceback_(self) -> list[str]:
        """The caller's lines for IPython, with the picture of a conflict where there is one."""
        from deltanb.text.display import views

        return list(views().render_traceback(self))

    def __reduce__(self) -> Any:
        state = ({NOTES: list(notes)},) if (notes := self.__dict__.get(NOTES)) else ()
        return (_rebuild, (type(self), self.message, self.data), *state)


def topics() -> dict[str, type[DeltaError]]:
    """Every error by the name of its page, in the order of the tree.

    >>> topics()["concurrent-append"].__name__
    'ConcurrentAppendException'
    """
    def below(cls: type[DeltaError]) -> Iterator[type[DeltaError]]:
        yield cls
        for kind in cls.__subclasses__():
            if kind.__module__ == __name__ and kind.__bases__[0] is cls:
                yield from below(kind)

    return {cls.topic: cls for cls in below(DeltaError)}


def add_note(error: BaseException, note: str) -> None:
    """Say more, once, about an exception that goes on (PEP 678); made safe to show, as a message is.

    Python 3.10 has the list of notes by convention only, and its traceback shows none: there an exception
    without a message of its own, as Ctrl-C is, says the note in its place.

    >>> stopped = KeyboardInterrupt()
    >>> add_note(stopped, "version 3 is committed")
    >>> stopped.__notes__
    ['version 3 is committed']
    """
    note = with_short_lines(safe(note))
    if note in getattr(error, "__notes__", ()):
        return
    if hasattr(error, "add_note"):
        error.add_note(note)
        return
    error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined,unused-ignore]
    if isinstance(error, KeyboardInterrupt) and not error.args:
        error.args = (note,)


def _rebuild(cls: type[DeltaError], message: str, data: dict[str, Any]) -> DeltaError:
    return cls(message, **data)


class TableNotFound(DeltaError):
    """There is no Delta table at the path (``.path``)."""


class TableReplaced(DeltaError):
    """The table that was read is gone and another one is at its path (``.path``, ``.table_id``)."""

    kind = "DELTA_TABLE_ID_MISMATCH"


class TableAlreadyExists(DeltaError):
    """A table is there already (``.path``)."""


class NamespaceNotFound(DeltaError):
    """The catalog has no such namespace (``.namespace``)."""


class NamespaceAlreadyExists(DeltaError):
    """The catalog has the namespace already (``.namespace``)."""


class NamespaceNotEmpty(DeltaError):
    """Tables or namespaces are inside the namespace that is to be dropped (``.namespace``)."""


class VersionNotFound(DeltaError):
    """The version or time asked for cannot be read (``.version``, ``.earliest``, ``.latest``)."""


class InvalidTable(DeltaError):
    """The table contradicts the protocol (``.path``, ``.file``, ``.line`` as far as known)."""


class MetadataFileNotFound(InvalidTable):
    """The metadata file of an Iceberg table is not there (``.file``)."""


class DataFileNotFound(DeltaError, FileNotFoundError):
    """The log names a data file that does not exist (``.path``)."""


class UnsupportedProtocol(DeltaError):
    """The table needs protocol versions or features that are not supported (``.features``)."""


class MissingDependency(DeltaError, ImportError):
    """An optional dependency is absent (``.extra`` names what to install)."""


class InvalidArgument(DeltaError, ValueError):
    """An argument, option or table property has a value that cannot be used."""


class WrongCall(InvalidArgument, TypeError):
    """A method (``.method``) has no such argument (``.argument``), or is a property here."""


class IdempotencyKeyReused(InvalidArgument):
    """An idempotency key came with another request before (``.key``)."""


class InvalidAction(InvalidArgument):
    """A value or JSON line is not a valid action."""


class InvalidPredicate(InvalidArgument):
    """A predicate cannot be parsed, or names a column the table does not have (``.predicate``)."""


class InvalidQuery(InvalidArgument):
    """A query cannot be understood, or its engine refuses it (``.query``)."""


class UnsupportedPredicate(InvalidArgument):
    """Valid SQL, but outside the subset evaluated in the process (``.predicate``)."""

    def or_else(self, way: str) -> UnsupportedPredicate:
        """The same error with the way out that its reader has beside writing other SQL.

        >>> str(UnsupportedPredicate("soundex() needs Spark; rewrite it").or_else('take engine="spark"'))
        'soundex() needs Spark; rewrite it, or take engine="spark"'
        """
        return type(self)(f"{self.message}, or {way}", **self.data)


class BadRequest(InvalidArgument):
    """A request to a catalog is malformed (``.field``: the path of the field, ``updates[3].schema-id``)."""


class IllegalStateError(DeltaError, RuntimeError):
    """A call at a moment when it makes no sense."""


class NotIterable(DeltaError, TypeError):
    """A table was iterated over; the message names what can be."""


class MaxCommitRetriesExceeded(IllegalStateError):
    """The commit lost more races than the configured attempts allow."""

    kind = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    sql_state = "40000"


class InvariantViolated(DeltaError, AssertionError):
    """An order in which writers can take their turns leads to a table that breaks an invariant.

    ``.order`` are the writers turn by turn, ``.number`` is what
    :meth:`~deltanb.observe.explore.exploration.Exploration.replay` takes for it, ``.version`` the version
    with which the invariant ceases to hold.
    """


class InvalidTransaction(DeltaError, AssertionError):
    """The transaction holds something that may not be committed; nothing was written."""


class DuplicateActions(InvalidTransaction):
    """One file (path and deletion vector) is added or removed twice (``.path``)."""

    kind = "DELTA_DUPLICATE_ACTIONS_FOUND"
    sql_state = "2D521"


class MetadataAbsent(InvalidTransaction):
    """The first commit of a table carries no metadata."""


class PartitionMismatch(InvalidTransaction):
    """A file's partition values do not fit the table's partition columns (``.path``)."""


class AppendOnlyTable(InvalidTransaction):
    """The table has ``delta.appendOnly=true`` and the transaction removes data."""

    kind = "DELTA_CANNOT_MODIFY_APPEND_ONLY"


class DeletionVectorsDisabled(InvalidTransaction):
    """A file gets a deletion vector while ``delta.enableDeletionVectors`` is off (``.path``)."""

    kind = "DELTA_ADDING_DELETION_VECTORS_DISALLOWED"


class DeletionVectorMissingNumRecords(InvalidTransaction):
    """A file with a deletion vector has no ``numRecords`` statistic (``.path``)."""


class DeletionVectorWithTightBounds(InvalidTransaction):
    """The statistics of a file with a deletion vector claim tight bounds (``.path``)."""

    kind = "DELTA_ADDING_DELETION_VECTORS_WITH_TIGHT_BOUNDS_DISALLOWED"


class RowIdAssignmentWithoutStats(InvalidTransaction):
    """Row ids cannot be assigned to a file without ``numRecords`` (``.path``)."""

    kind = "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS"


class SchemaMismatch(DeltaError):
    """Data does not fit the table's schema (``.differences``: one line each)."""


class InvalidSchema(DeltaError):
    """A schema or partitioning that no table may have (``.column`` where one is to blame)."""


class ConstraintViolation(DeltaError):
    """A row violates a constraint (``.constraint``, ``.row``)."""


class MissingChangeData(DeltaError):
    """The change data feed was off at a version that is asked for (``.version``)."""

    kind = "DELTA_MISSING_CHANGE_DATA"


class IncompatibleSchemaChange(DeltaError):
    """Columns were dropped, renamed or retyped since a version (``.version``, ``.differences``)."""

    kind = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"


class CheckpointMismatch(DeltaError):
    """A checkpoint is another table's, or two streams write under its id (``.query_id``, ``.batch``)."""


class StreamSourceChanged(DeltaError):
    """Rows or columns that a stream has read are no longer so (``.version``); the message has the ways on."""


class SourceRowsLost(DeltaError):
    """Spark's executors that held the rows of a merge's source are gone; nothing was written."""


class MultipleSourceRowsMatched(DeltaError):
    """Several source rows of a merge match one row of the table: what it becomes is ambiguous."""

    kind = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    sql_state = "21506"


class CommitFailed(DeltaError):
    """A table of a catalog is no longer what a request took it for; nothing was changed.
    ``.failed_requirements`` has each that is not met, ``{"requirement": …, "actual": …}``; none if stale."""


class CommitTimedOut(DeltaError):
    """A commit to a catalog took longer than it may (``.seconds``); nothing was changed."""


class Unauthorized(DeltaError):
    """A server of a catalog was asked without a token, or with one it does not know."""


class Expired(Unauthorized):
    """The token of a request to a server was known, and its time is over."""


class Forbidden(DeltaError):
    """A server of a catalog was asked for what the token's owner may not do."""


class CommitOutcomeUnknown(DeltaError):
    """The store or the catalog leaves open whether the commit landed (``.version``, ``.txn_id``)."""


class TransactionAbandoned(DeltaError):
    """Another table of the same transaction (``.culprit``) failed, so nothing was committed here either."""


class StorageError(DeltaError, OSError):
    """A file cannot be read or written, and surely nothing was committed (``.path``, ``.errno``)."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message, **data)
        self.errno = data.get("errno")

    @classmethod
    def of(cls, error: OSError, doing: str, path: str) -> StorageError:
        """The error for what a store could not do, ``doing`` in words, out of the system's error.

        >>> StorageError.of(PermissionError(13, "Permission denied"), "written", "/lake/t/a")
        StorageError('/lake/t/a cannot be written: Permission denied')
        """
        if isinstance(error, cls):
            return error
        return cls(f"{path} cannot be {doing}: {error.strerror or error}", path=path, errno=error.errno)


class FeatureDropConflict(DeltaError):
    """A winner left traces of the feature that this transaction drops (``.feature``)."""

    kind = "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    sql_state = "40000"


class RowTrackingBackfillRunningConcurrentlyWithUnbackfill(DeltaError):
    """Row tracking is being filled in and taken out at the same time."""

    kind = "DELTA_ROW_TRACKING_BACKFILL_RUNNING_CONCURRENTLY_WITH_UNBACKFILL"
    sql_state = "22KD0"


class DeltaConcurrentModificationException(DeltaError):
    """A commit that landed meanwhile contradicts this transaction; nothing was written.

    ``.conflict`` is the :class:`~deltanb.transaction.conflicts.Conflict` (rule, predicate, files, the
    winner), ``.version`` the winner's version, ``.error_class`` Delta's error class.

    The conflict as text is a note of the exception (PEP 678), so that every traceback ends with it: in a
    script, in a logged exception, in the output of pytest. It is made when it is first asked for. Python 3.10
    shows no notes; there it is a part of ``str(error)``.
    """

    kind = "CONCURRENT_MODIFICATION"
    sql_state = "2D521"
    error_class: str = "DELTA_CONCURRENT_MODIFICATION"

    def __init__(
        self,
        message: str,
        *,
        conflict: Any = None,
        version: int | None = None,
        error_class: str | None = None,
        **data: Any,
    ) -> None:
        super().__init__(message, **data)
        self.conflict = conflict
        self.version = version
        if error_class is not None:
            self.error_class = error_class
        self.data |= {"conflict": conflict, "version": version, "error_class": self.error_class}

    @property
    def __notes__(self) -> list[str]:
        """What a traceback says below the message: the conflict, and what was added with ``add_note``."""
        notes: list[str] | None = self.__dict__.get(NOTES)
        if notes is None:
            notes = self.__dict__[NOTES] = self._conflict_notes()
        return notes

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self.__dict__[NOTES] = notes

    def _conflict_notes(self) -> list[str]:
        if self.conflict is None:
            return []
        from deltanb.text.display import views

        try:
            return [safe(views().note(self.conflict))]
        except Exception:  # a traceback is printed at any time, at the end of the interpreter, too
            return []

    def __str__(self) -> str:
        return self.message if HAS_NOTES else LINE_BREAK.join([self.message, *self.__notes__])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The conflict's picture, where the exception is the last line of a cell."""
        if self.conflict is None:
            return {"text/plain": repr(self)}
        return self.conflict._repr_mimebundle_(include, exclude)


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """The version was taken and this kind of commit is not checked against winners."""

    error_class = "DELTA_CONCURRENT_WRITE"


class MetadataChangedException(DeltaConcurrentModificationException):
    """A winner changed the table's metadata in a way this transaction cannot adopt."""

    error_class = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    """A winner changed the protocol and this transaction cannot adopt it."""

    error_class = "DELTA_PROTOCOL_CHANGED"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """A winner wrote the application id or metadata domain that this transaction depends on."""

    error_class = "DELTA_CONCURRENT_TRANSACTION"


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """A winner added files that this transaction would have read."""

    error_class = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """A winner removed a file that this transaction read."""

    error_class = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """A winner removed a file that this transaction removes too."""

    error_class = "DELTA_CONCURRENT_DELETE_DELETE"


class InvalidTransactionError(DeltaError):
    """The transaction was disabled (``.cause``): by ``reset(cause)``, or because its commit failed."""


class LockFailure(DeltaError):
    """A lock was not granted. What the transaction held before, it still holds (``.index_id``, ``.key``)."""


class LockTimeoutError(LockFailure):
    """A lock was not free in time.

    ``.timeout`` is what the call was ready to wait, in seconds: 0 where it did not wait, -1 for ever.
    ``.owner_attachment`` is what the transaction in the way has attached to itself, or None.
    """


class DeadlockError(LockTimeoutError):
    """Transactions wait for each other, and this call would have been, or was, one of them.

    ``.guilty`` tells whether it is on the cycle, or blocked by one; ``.cycle`` says who waits for whom, in
    which modes, for how long, and which order of locks would have avoided it; ``.deadlock_set`` lists the
    locks waited for (``index_id``, ``key``, ``owner_attachment``). ``.timeout`` is 0 where the call was
    refused before it waited. Nothing is rolled back: the caller exits or resets the transaction.
    """


class LockInterruptedError(LockFailure):
    """Another thread interrupted the wait, or the lock manager was closed."""


class IllegalUpgradeError(LockFailure):
    """A shared lock is held, and the manager's upgrade rule does not let it become a stronger one."""


class ChecksumMismatchWarning(UserWarning):
    """The log does not give what the checksum of a version says: it was changed after it was written."""


class UnknownPropertyWarning(UserWarning):
    """A table property that begins with ``delta.`` and that nobody knows: it changes nothing."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the caller outside this library."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "deltanb":
        level, frame = level + 1, frame.f_back
    warnings.warn(with_short_lines(safe(message)), category, stacklevel=level)


def require(value: object, kind: type | tuple[type, ...], where: str, what: str) -> None:
    """Refuse an argument of another type; ``True`` and ``False`` are not integers here.

    >>> require("3", int, "snapshot_at", "a version (an integer)")
    Traceback (most recent call last):
    deltanb.errors.InvalidArgument: snapshot_at takes a version (an integer), found str: '3'

    Raises:
        InvalidArgument: naming what is called, what it takes and what it was given.
    """
    if not isinstance(value, kind) or (
            isinstance(value, bool) and bool not in (kind if isinstance(kind, tuple) else (kind,))):
        raise InvalidArgument(f"{where} takes {what}, found {type(value).__name__}: {shown(value)}")


__dir__ = offered(globals())
