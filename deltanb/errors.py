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
    ├── NoThreads                         (also RuntimeError) nothing runs side by side here
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

    >>> import deltanb as dn
    >>> try:
    ...     dn.open("no-table-here")
    ... except dn.DeltaError as error:
    ...     error.kind, error.topic
    ('TABLE_NOT_FOUND', 'table-not-found')

    Way out: Catch this class where any failure of a table is handled alike, and one below it where you can
    do better.
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
    """There is no Delta table at the path (``.path``).

    >>> import deltanb as dn
    >>> dn.open("no-table-here")
    Traceback (most recent call last):
        ...
    deltanb.errors.TableNotFound: there is no Delta table at ...no-table-here; create one with ...

    Way out: Check the path, and whether it is relative to the folder you think; ``dn.create`` makes a
    table.
    """


class TableReplaced(DeltaError):
    """The table that was read is gone and another one is at its path (``.path``, ``.table_id``).

    >>> import deltanb as dn, shutil
    >>> table = dn.create("replaced", {"id": [1]})
    >>> with table.transaction() as txn:
    ...     _ = txn.append({"id": [2]})
    ...     shutil.rmtree("replaced")
    ...     _ = dn.create("replaced", {"id": [3]})
    Traceback (most recent call last):
        ...
    deltanb.errors.TableReplaced: the table at ...replaced was replaced by another one after version 0 ...

    Way out: Open the table again with ``dn.open(path)``, and run the operation if it is meant for the new
    one. To replace the content of a table, use ``overwrite``, which keeps its history.
    """

    kind = "DELTA_TABLE_ID_MISMATCH"


class TableAlreadyExists(DeltaError):
    """A table is there already (``.path``).

    >>> import deltanb as dn
    >>> table = dn.create("there-already", {"id": [1]})
    >>> dn.create("there-already", {"id": [1]})
    Traceback (most recent call last):
        ...
    deltanb.errors.TableAlreadyExists: there is a table at ...there-already already (version 0); open it ...

    Way out: ``dn.open(path)`` opens the table. ``dn.create(…, mode="overwrite")`` replaces it by a new
    version, ``mode="ignore"`` leaves it as it is.
    """


class NamespaceNotFound(DeltaError):
    """The catalog has no such namespace (``.namespace``).

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///namespaces.db", warehouse="namespaces")
    >>> catalog.create_table("shop.orders", {"id": [1]})
    Traceback (most recent call last):
        ...
    deltanb.errors.NamespaceNotFound: there is no namespace shop; create it first

    Way out: ``catalog.create_namespace(name)`` makes it; ``catalog.list_namespaces()`` has those that there
    are.
    """


class NamespaceAlreadyExists(DeltaError):
    """The catalog has the namespace already (``.namespace``).

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///twice.db", warehouse="twice")
    >>> catalog.create_namespace("shop")
    >>> catalog.create_namespace("shop")
    Traceback (most recent call last):
        ...
    deltanb.errors.NamespaceAlreadyExists: the namespace shop already exists

    Way out: Use the one that is there, or another name.
    """


class NamespaceNotEmpty(DeltaError):
    """Tables or namespaces are inside the namespace that is to be dropped (``.namespace``).

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///full.db", warehouse="full")
    >>> catalog.create_namespace("shop")
    >>> _ = catalog.create_table("shop.orders", {"id": [1]})
    >>> catalog.drop_namespace("shop")
    Traceback (most recent call last):
        ...
    deltanb.errors.NamespaceNotEmpty: the namespace shop has tables or namespaces; drop these first

    Way out: Drop or rename its tables first; ``catalog.list_tables(name)`` lists them.
    """


class VersionNotFound(DeltaError):
    """The version or time asked for cannot be read (``.version``, ``.earliest``, ``.latest``).

    >>> import deltanb as dn
    >>> table = dn.create("versions", {"id": [1]})
    >>> table.as_of(9)
    Traceback (most recent call last):
        ...
    deltanb.errors.VersionNotFound: version 9 of ...versions cannot be read: the log holds versions 0 to 0

    Way out: Read a version from ``.earliest`` to ``.latest``; ``table.history()`` lists them. Versions
    older than ``delta.logRetentionDuration`` are gone once the log was cleaned up.
    """


class InvalidTable(DeltaError):
    """The table contradicts the protocol (``.path``, ``.file``, ``.line`` as far as known).

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> builder = TableBuilder(MemoryStore()).create("id long").commit().damage(1, "not JSON")
    >>> builder.log.update()
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidTable: _delta_log/00000000000000000001.json of ..., line 1 is not a valid ...

    Way out: ``deltanb verify PATH`` says what is damaged, and what can still be read. Restore the file from
    a backup, or clone the last version that is whole.
    """


class MetadataFileNotFound(InvalidTable):
    """The metadata file of an Iceberg table is not there (``.file``).

    >>> from pathlib import Path
    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///iceberg-gone.db", warehouse="iceberg-gone")
    >>> catalog.create_namespace("shop")
    >>> table = catalog.create_table("shop.orders", {"id": [1]}, format="iceberg")
    >>> for path in Path("iceberg-gone").rglob("*.metadata.json"):
    ...     path.unlink()
    >>> catalog.table("shop.orders").to_arrow()
    Traceback (most recent call last):
        ...
    deltanb.errors.MetadataFileNotFound: there is no metadata file ...iceberg-gone/shop/...

    Way out: Bring the file back from a backup, or register an older metadata file with
    ``catalog.register_table``.
    """


class DataFileNotFound(DeltaError, FileNotFoundError):
    """The log names a data file that does not exist (``.path``).

    >>> from pathlib import Path
    >>> import deltanb as dn
    >>> table = dn.create("file-gone", {"id": [1]})
    >>> for path in Path("file-gone").glob("*.parquet"):
    ...     path.unlink()
    >>> table.to_arrow()
    Traceback (most recent call last):
        ...
    deltanb.errors.DataFileNotFound: version 0 of ...file-gone names the data file ...

    Way out: A reader of a past version comes too late after VACUUM: read a newer one, or keep files longer
    with ``delta.deletedFileRetentionDuration``. Where the newest version lacks a file,
    ``table.verify(files="all")`` lists what is gone, and a restore or a backup brings it back.
    """


class UnsupportedProtocol(DeltaError):
    """The table needs protocol versions or features that are not supported (``.features``).

    >>> import deltanb as dn
    >>> dn.create("unsupported", {"id": [1]}, properties={"delta.enableIcebergCompatV2": True})
    Traceback (most recent call last):
        ...
    deltanb.errors.UnsupportedProtocol: The table at unsupported has the table feature icebergCompatV2 ...

    Way out: The reference of table features says which can be read and written.
    ``table.drop_feature(name)`` removes one from a table that this library can write; a newer release may
    know it.
    """


class MissingDependency(DeltaError, ImportError):
    """An optional dependency is absent (``.extra`` names what to install).

    >>> from deltanb.errors import MissingDependency
    >>> raise MissingDependency("to_pandas() needs pandas: pip install 'deltanb[notebook]'", extra="notebook")
    Traceback (most recent call last):
        ...
    deltanb.errors.MissingDependency: to_pandas() needs pandas: pip install 'deltanb[notebook]'

    Way out: Install what the message names; ``.extra`` is the name of the extra.
    """


class InvalidArgument(DeltaError, ValueError):
    """An argument, option or table property has a value that cannot be used.

    >>> import deltanb as dn
    >>> dn.set_options(max_rows=0)
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: option max_rows=0 must be an integer >= 1

    Way out: The message says what is expected. Options, properties and arguments are checked before
    anything is written.
    """


class WrongCall(InvalidArgument, TypeError):
    """A method (``.method``) has no such argument (``.argument``), or is a property here.

    >>> import deltanb as dn
    >>> dn.create("wrong-call", {"id": [1]}).append({"id": [2]}, mode="append")
    Traceback (most recent call last):
        ...
    deltanb.errors.WrongCall: append() has no argument 'mode'; append(data) adds rows, overwrite(data) ...

    Way out: The message names the argument that is meant here, where another library calls it otherwise.
    """


class IdempotencyKeyReused(InvalidArgument):
    """An idempotency key came with another request before (``.key``).

    >>> from deltanb.errors import IdempotencyKeyReused
    >>> raise IdempotencyKeyReused("the idempotency key a1 came with another request before", key="a1")
    Traceback (most recent call last):
        ...
    deltanb.errors.IdempotencyKeyReused: the idempotency key a1 came with another request before

    Way out: Give each request to a catalog's server a key of its own, and repeat a request only with the
    same body.
    """


class InvalidAction(InvalidArgument):
    """A value or JSON line is not a valid action.

    >>> from deltanb import actions
    >>> actions.from_json('{"add": 3}')
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidAction: add must be an object, found 3

    Way out: Write the action with the fields that the protocol requires; ``.field`` or the message names
    the one to mend.
    """


class InvalidPredicate(InvalidArgument):
    """A predicate cannot be parsed, or names a column the table does not have (``.predicate``).

    >>> import deltanb as dn
    >>> dn.create("predicates", {"id": [1]}).delete("idd = 1")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidPredicate: no column 'idd' at position 1 in the predicate 'idd = 1'; did you ...

    Way out: The message names the column or the place in the text; ``table.columns`` lists the columns.
    """


class InvalidQuery(InvalidArgument):
    """A query cannot be understood, or its engine refuses it (``.query``).

    >>> import deltanb as dn
    >>> dn.sql("DELETE orders WHERE id = 1")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidQuery: FROM is expected, found 'orders' (line 1, column 8)

    Way out: The message shows the place in the text and what may be there; the reference of SQL has all
    statements.
    """


class UnsupportedPredicate(InvalidArgument):
    """Valid SQL, but outside the subset evaluated in the process (``.predicate``).

    >>> import deltanb as dn
    >>> dn.create("soundex", {"name": ["Donald"]}).delete("soundex(name) = 'D543'", engine="arrow")
    Traceback (most recent call last):
        ...
    deltanb.errors.UnsupportedPredicate: Soundex (SOUNDEX(name)) in the predicate "soundex(name) = ...

    Way out: Write the condition with other functions, or let Spark evaluate it with ``engine="spark"``
    where the method takes it.
    """

    def or_else(self, way: str) -> UnsupportedPredicate:
        """The same error with the way out that its reader has beside writing other SQL.

        >>> str(UnsupportedPredicate("soundex() needs Spark; rewrite it").or_else('take engine="spark"'))
        'soundex() needs Spark; rewrite it, or take engine="spark"'
        """
        return type(self)(f"{self.message}, or {way}", **self.data)


class BadRequest(InvalidArgument):
    """A request to a catalog is malformed (``.field``: the path of the field, ``updates[3].schema-id``).

    >>> from deltanb.errors import BadRequest
    >>> raise BadRequest("updates[3].schema-id is missing", field="updates[3].schema-id")
    Traceback (most recent call last):
        ...
    deltanb.errors.BadRequest: updates[3].schema-id is missing

    Way out: Mend the field that ``.field`` names; the reference of REST endpoints has the bodies.
    """


class IllegalStateError(DeltaError, RuntimeError):
    """A call at a moment when it makes no sense.

    >>> import deltanb as dn
    >>> table = dn.create("past", {"id": [1]})
    >>> table.as_of(0).append({"id": [2]})
    Traceback (most recent call last):
        ...
    deltanb.errors.IllegalStateError: append: this is the table past as of version 0, which can be read ...

    Way out: The message says which call is possible instead.
    """


class NoThreads(DeltaError, RuntimeError):
    """Functions were to run side by side on a machine that starts no threads and suspends no calls.

    >>> import threading
    >>> from unittest import mock
    >>> from deltanb.concurrency import stacks
    >>> import deltanb as dn
    >>> table = dn.create("alone", {"id": [1]})
    >>> with (mock.patch.object(stacks, "_has_started", []),  # a machine without threads
    ...       mock.patch.object(threading.Thread, "start", side_effect=RuntimeError(stacks.REFUSAL))):
    ...     dn.race(table, [lambda table: table.append({"id": [2]})])
    Traceback (most recent call last):
        ...
    deltanb.errors.NoThreads: dn.race runs functions side by side, and this Python starts no threads. ...

    Way out: In a browser, one that has JavaScript Promise Integration (Chrome and Edge from version 137).
    Anywhere: begin one transaction by ``table.transaction()``, commit another meanwhile, and leave its block.
    """


class NotIterable(DeltaError, TypeError):
    """A table was iterated over; the message names what can be.

    >>> import deltanb as dn
    >>> for row in dn.create("rows", {"id": [1]}):
    ...     print(row)
    Traceback (most recent call last):
        ...
    deltanb.errors.NotIterable: the table rows is not iterated over row by row; iterate over ...

    Way out: Choose what to iterate over: ``table.to_batches()``, ``table.to_arrow().to_pylist()``, or
    ``table.columns``.
    """


class MaxCommitRetriesExceeded(IllegalStateError):
    """The commit lost more races than the configured attempts allow.

    >>> import deltanb as dn
    >>> table = dn.create("busy", {"id": [1]})
    >>> with dn.set_options(max_commit_attempts=0), table.transaction() as txn:
    ...     _ = txn.append({"id": [2]})
    ...     _ = dn.open("busy").append({"id": [3]})
    Traceback (most recent call last):
        ...
    deltanb.errors.MaxCommitRetriesExceeded: This commit has failed as it has been tried 1 times but did ...

    Way out: Raise ``max_commit_attempts``, wait between tries with ``dn.set_options(backoff=…)``, or run
    the work again with ``dn.retry``.
    """

    kind = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    sql_state = "40000"


class InvariantViolated(DeltaError, AssertionError):
    """An order in which writers can take their turns leads to a table that breaks an invariant.

    ``.order`` are the writers turn by turn, ``.number`` is what
    :meth:`~deltanb.observe.explore.exploration.Exploration.replay` takes for it, ``.version`` the version
    with which the invariant ceases to hold.

    >>> import deltanb as dn
    >>> table = dn.create("invariant", {"id": [1]})
    >>> exploration = dn.explore(table, {
    ...     "ann": lambda table: table.append({"id": [2]}),
    ...     "ben": lambda table: table.append({"id": [2]}),
    ... }, invariant="SELECT count(*) = count(DISTINCT id) FROM invariant")
    >>> exploration.check()
    Traceback (most recent call last):
        ...
    deltanb.errors.InvariantViolated: SELECT count(*) = count(DISTINCT id) FROM invariant breaks in 1 ...

    Way out: ``exploration.replay(error.number)`` shows the order step by step. Let the writers read what
    must not change, so that the commits conflict, or use locks.
    """


class InvalidTransaction(DeltaError, AssertionError):
    """The transaction holds something that may not be committed; nothing was written.

    >>> import deltanb as dn
    >>> table = dn.create("only-additions", {"id": [1]}, properties={"delta.appendOnly": True})
    >>> try:
    ...     table.delete()
    ... except dn.errors.InvalidTransaction as error:
    ...     error.kind
    'DELTA_CANNOT_MODIFY_APPEND_ONLY'

    Way out: The class below it says what the transaction may not hold.
    """


class DuplicateActions(InvalidTransaction):
    """One file (path and deletion vector) is added or removed twice (``.path``).

    >>> import deltanb as dn
    >>> from deltanb.actions import AddFile
    >>> txn = dn.create("duplicates", {"id": [1]}).log.start_transaction()
    >>> file = AddFile("a.parquet", {}, 1, 0)
    >>> txn.commit([file, file], "WRITE")
    Traceback (most recent call last):
        ...
    deltanb.errors.DuplicateActions: table duplicates: file operation 'add' for path a.parquet was ...

    Way out: Give each file once to ``commit``; a file that gets a new deletion vector is removed and added.
    """

    kind = "DELTA_DUPLICATE_ACTIONS_FOUND"
    sql_state = "2D521"


class MetadataAbsent(InvalidTransaction):
    """The first commit of a table carries no metadata.

    >>> import deltanb as dn
    >>> from deltanb.actions import AddFile
    >>> dn.DeltaLog.for_table("no-metadata").start_transaction().commit([AddFile("a", {}, 1, 0)], "WRITE")
    Traceback (most recent call last):
        ...
    deltanb.errors.MetadataAbsent: table no-metadata: couldn't find Metadata while committing the first ...

    Way out: Create the table with ``dn.create``, or call ``txn.update_metadata`` before the first commit.
    """


class PartitionMismatch(InvalidTransaction):
    """A file's partition values do not fit the table's partition columns (``.path``).

    >>> import deltanb as dn
    >>> from deltanb.actions import AddFile
    >>> table = dn.create("partitions", {"id": [1], "day": ["mon"]}, partition_by="day")
    >>> table.log.start_transaction().commit([AddFile("a", {}, 1, 0)], "WRITE")
    Traceback (most recent call last):
        ...
    deltanb.errors.PartitionMismatch: table partitions: file a has partition values for [], the table is ...

    Way out: Give ``AddFile`` a value for each partition column and for no other, or let ``txn.write_files``
    make it.
    """


class AppendOnlyTable(InvalidTransaction):
    """The table has ``delta.appendOnly=true`` and the transaction removes data.

    >>> import deltanb as dn
    >>> table = dn.create("append-only", {"id": [1]}, properties={"delta.appendOnly": True})
    >>> table.delete("id = 1")
    Traceback (most recent call last):
        ...
    deltanb.errors.AppendOnlyTable: table append-only: this table is configured to only allow appends, ...

    Way out: ``table.unset_properties("delta.appendOnly")``, if rows may go after all. OPTIMIZE works as it
    is: it removes no rows.
    """

    kind = "DELTA_CANNOT_MODIFY_APPEND_ONLY"


class DeletionVectorsDisabled(InvalidTransaction):
    """A file gets a deletion vector while ``delta.enableDeletionVectors`` is off (``.path``).

    >>> import deltanb as dn
    >>> from deltanb.actions import DeletionVector
    >>> table = dn.create("vectors-off", {"id": [1, 2]}, properties={
    ...     "delta.feature.deletionVectors": "supported"})
    >>> txn = table.log.start_transaction()
    >>> [file] = txn.filter_files()
    >>> txn.commit([file.remove(), file.with_deletion_vector(DeletionVector("i", "x", 1, 1))], "DELETE")
    Traceback (most recent call last):
        ...
    deltanb.errors.DeletionVectorsDisabled: table vectors-off: DELETE adds file ...

    Way out: ``table.set_properties({"delta.enableDeletionVectors": True})``, or use ``table.delete``, which
    rewrites files where the table has no vectors.
    """

    kind = "DELTA_ADDING_DELETION_VECTORS_DISALLOWED"


class DeletionVectorMissingNumRecords(InvalidTransaction):
    """A file with a deletion vector has no ``numRecords`` statistic (``.path``).

    >>> import deltanb as dn
    >>> from deltanb.actions import DeletionVector
    >>> table = dn.create("no-count", {"id": [1, 2]}, properties={"delta.enableDeletionVectors": True})
    >>> txn = table.log.start_transaction()
    >>> [file] = txn.filter_files()
    >>> marked = file.with_deletion_vector(DeletionVector("i", "x", 1, 1)).replace(stats=None)
    >>> txn.commit([file.remove(), marked], "DELETE")
    Traceback (most recent call last):
        ...
    deltanb.errors.DeletionVectorMissingNumRecords: table no-count: file ...

    Way out: Keep ``numRecords`` in the statistics of the file; ``table.analyze()`` computes it where it is
    missing.
    """


class DeletionVectorWithTightBounds(InvalidTransaction):
    """The statistics of a file with a deletion vector claim tight bounds (``.path``).

    >>> import deltanb as dn
    >>> from deltanb.actions import DeletionVector
    >>> table = dn.create("tight", {"id": [1, 2]}, properties={"delta.enableDeletionVectors": True})
    >>> txn = table.log.start_transaction()
    >>> [file] = txn.filter_files()
    >>> tight = '{"numRecords":2,"tightBounds":true}'
    >>> marked = file.with_deletion_vector(DeletionVector("i", "x", 1, 1)).replace(stats=tight)
    >>> txn.commit([file.remove(), marked], "DELETE")
    Traceback (most recent call last):
        ...
    deltanb.errors.DeletionVectorWithTightBounds: table tight: file part-00000-...-c000.zstd.parquet has ...

    Way out: Write ``"tightBounds": false`` into the statistics: a deleted row may have been the smallest or
    the largest.
    """

    kind = "DELTA_ADDING_DELETION_VECTORS_WITH_TIGHT_BOUNDS_DISALLOWED"


class RowIdAssignmentWithoutStats(InvalidTransaction):
    """Row ids cannot be assigned to a file without ``numRecords`` (``.path``).

    >>> import deltanb as dn
    >>> from deltanb.actions import AddFile
    >>> table = dn.create("row-ids", {"id": [1]}, properties={"delta.enableRowTracking": True})
    >>> table.log.start_transaction().commit([AddFile("a", {}, 1, 0)], "WRITE")
    Traceback (most recent call last):
        ...
    deltanb.errors.RowIdAssignmentWithoutStats: table row-ids: file a has no numRecords in its ...

    Way out: Give the file statistics with ``numRecords``, or let ``txn.write_files`` write it.
    """

    kind = "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS"


class SchemaMismatch(DeltaError):
    """Data does not fit the table's schema (``.differences``: one line each).

    >>> import deltanb as dn
    >>> dn.create("mismatch", {"id": [1]}).append({"id": ["one"]})
    Traceback (most recent call last):
        ...
    deltanb.errors.SchemaMismatch: the data does not fit the table: 1 difference ...

    Way out: Cast the data to ``table.schema``. ``merge_schema=True`` adds new columns;
    ``table.change_column`` widens a type.
    """


class InvalidSchema(DeltaError):
    """A schema or partitioning that no table may have (``.column`` where one is to blame).

    >>> import deltanb as dn
    >>> dn.create("named-twice", "id bigint, ID bigint")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidSchema: table named-twice: found duplicate column(s) in the metadata update: ...

    Way out: The message names the column; ``.column`` has it, too.
    """


class ConstraintViolation(DeltaError):
    """A row violates a constraint (``.constraint``, ``.row``).

    >>> import deltanb as dn
    >>> table = dn.create("constrained", {"id": [1]})
    >>> _ = table.add_constraint("positive", "id > 0")
    >>> table.append({"id": [-1]})
    Traceback (most recent call last):
        ...
    deltanb.errors.ConstraintViolation: CHECK constraint positive (id > 0) is not TRUE for row 1: ...

    Way out: Mend the row that the message shows, or filter such rows out before you write.
    ``table.drop_constraint(name)`` removes a rule that no longer holds.
    """


class MissingChangeData(DeltaError):
    """The change data feed was off at a version that is asked for (``.version``).

    >>> import deltanb as dn
    >>> table = dn.create("no-feed", {"id": [1]})
    >>> table.changes(0)
    Traceback (most recent call last):
        ...
    deltanb.errors.MissingChangeData: ...no-feed recorded no changes at version 0: its change data feed ...

    Way out: ``table.set_properties({"delta.enableChangeDataFeed": True})`` records changes from now on; ask
    for versions after that. ``table.diff(a, b)`` compares two versions without a feed.
    """

    kind = "DELTA_MISSING_CHANGE_DATA"


class IncompatibleSchemaChange(DeltaError):
    """Columns were dropped, renamed or retyped since a version (``.version``, ``.differences``).

    >>> import deltanb as dn
    >>> table = dn.create("renamed", {"id": [1], "n": [1]}, properties={
    ...     "delta.enableChangeDataFeed": True, "delta.columnMapping.mode": "name"})
    >>> _ = table.rename_column("n", "amount")
    >>> table.changes(0).to_arrow()
    Traceback (most recent call last):
        ...
    deltanb.errors.IncompatibleSchemaChange: the changes of ...renamed up to version 1 cannot be shown ...

    Way out: Read the feed up to the version before the change and from it on, or as of a version whose
    columns fit.
    """

    kind = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"


class CheckpointMismatch(DeltaError):
    """A checkpoint is another table's, or two streams write under its id (``.query_id``, ``.batch``).

    >>> from deltanb.errors import CheckpointMismatch
    >>> raise CheckpointMismatch("the checkpoint is that of another table", query_id="a1", batch=3)
    Traceback (most recent call last):
        ...
    deltanb.errors.CheckpointMismatch: the checkpoint is that of another table

    Way out: Give each stream a checkpoint of its own, and the same one after a restart.
    """


class StreamSourceChanged(DeltaError):
    """Rows or columns that a stream has read are no longer so (``.version``); the message has the ways on.

    >>> import deltanb as dn
    >>> from deltanb.commands.read.stream import StreamOptions, TableStreamSource
    >>> table = dn.create("streamed", {"id": [1, 2]})
    >>> source = TableStreamSource(table.log, StreamOptions(), table.snapshot)
    >>> begin = source.latest(source.initial())
    >>> _ = table.delete("id = 1")
    >>> list(source.files(begin, source.latest(begin)))
    Traceback (most recent call last):
        ...
    deltanb.errors.StreamSourceChanged: version 1 of ...streamed (DELETE) rewrites rows that the stream ...

    Way out: The message has the ways on: ``ignoreDeletes``, ``skipChangeCommits``, a stream of the change
    data feed (``readChangeFeed``), or a new checkpoint.
    """


class SourceRowsLost(DeltaError):
    """Spark's executors that held the rows of a merge's source are gone; nothing was written.

    >>> from deltanb.errors import SourceRowsLost
    >>> raise SourceRowsLost("the executors that held the source of the merge are gone; nothing was written")
    Traceback (most recent call last):
        ...
    deltanb.errors.SourceRowsLost: the executors that held the source of the merge are gone; nothing was ...

    Way out: Run the merge again; write a large source into a table first, so that it can be read twice.
    """


class MultipleSourceRowsMatched(DeltaError):
    """Several source rows of a merge match one row of the table: what it becomes is ambiguous.

    >>> import deltanb as dn
    >>> table = dn.create("ambiguous", {"id": [1], "n": [0]})
    >>> table.merge({"id": [1, 1], "n": [5, 6]}, on="id").when_matched_update_all().execute()
    Traceback (most recent call last):
        ...
    deltanb.errors.MultipleSourceRowsMatched: several rows of the source match one row of table ...

    Way out: Keep one row of the source for each key, for instance the newest, before you merge.
    """

    kind = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    sql_state = "21506"


class CommitFailed(DeltaError):
    """A table of a catalog is no longer what a request took it for; nothing was changed.
    ``.failed_requirements`` has each that is not met, ``{"requirement": …, "actual": …}``; none if stale.

    >>> from deltanb.errors import CommitFailed
    >>> raise CommitFailed("the table has another snapshot by now", failed_requirements=[])
    Traceback (most recent call last):
        ...
    deltanb.errors.CommitFailed: the table has another snapshot by now

    Way out: Load the table again and run the change on what it is now.
    """


class CommitTimedOut(DeltaError):
    """A commit to a catalog took longer than it may (``.seconds``); nothing was changed.

    >>> from deltanb.errors import CommitTimedOut
    >>> raise CommitTimedOut("it took longer than 60 seconds; nothing was changed, try again", seconds=60)
    Traceback (most recent call last):
        ...
    deltanb.errors.CommitTimedOut: it took longer than 60 seconds; nothing was changed, try again

    Way out: Try again; ``dn.Limits`` sets how long a commit may take, and ``deltanb catalog check`` says
    whether the catalog's database is in order.
    """


class Unauthorized(DeltaError):
    """A server of a catalog was asked without a token, or with one it does not know.

    >>> from deltanb.catalog.rest.server.tokens import Tokens
    >>> tokens = Tokens.of({"tokens": [{"name": "ada", "token": "s3cret", "permissions": {}}]})
    >>> tokens.principal("Bearer other")
    Traceback (most recent call last):
        ...
    deltanb.errors.Unauthorized: the token is not known

    Way out: Pass the token that the server knows: ``dn.connect(url, token=…)``.
    """


class Expired(Unauthorized):
    """The token of a request to a server was known, and its time is over.

    >>> from deltanb.catalog.rest.server.tokens import Tokens
    >>> tokens = Tokens.of({"tokens": [{"name": "ada", "token": "s3cret", "permissions": {},
    ...                                 "expires": "2020-01-01T00:00:00Z"}]})
    >>> tokens.principal("Bearer s3cret")
    Traceback (most recent call last):
        ...
    deltanb.errors.Expired: the token of ada has expired

    Way out: Ask whoever runs the server for a new token. With ``client_id=`` and ``client_secret=``,
    ``dn.connect`` renews tokens by itself.
    """


class Forbidden(DeltaError):
    """A server of a catalog was asked for what the token's owner may not do.

    >>> from deltanb.catalog.rest.server.tokens import Principal
    >>> Principal("ada", {("sales",): "read"}).require("write", ("sales",))
    Traceback (most recent call last):
        ...
    deltanb.errors.Forbidden: ada may not write in the namespace sales

    Way out: The server's token file gives the permission (``"sales": "write"``); ask whoever runs it.
    """


class CommitOutcomeUnknown(DeltaError):
    """The store or the catalog leaves open whether the commit landed (``.version``, ``.txn_id``).

    >>> from deltanb.errors import CommitOutcomeUnknown
    >>> raise CommitOutcomeUnknown("version 7 could not be written and is not there to be read", version=7,
    ...                            txn_id="a1")
    Traceback (most recent call last):
        ...
    deltanb.errors.CommitOutcomeUnknown: version 7 could not be written and is not there to be read

    Way out: Once the store answers again, look whether version ``.version`` carries ``.txn_id``
    (``table.commit(version)``). Run the operation again only if it does not.
    """


class TransactionAbandoned(DeltaError):
    """Another table of the same transaction (``.culprit``) failed, so nothing was committed here either.

    >>> from deltanb.errors import TransactionAbandoned
    >>> raise TransactionAbandoned("nothing was committed, since shop.orders failed", culprit="shop.orders")
    Traceback (most recent call last):
        ...
    deltanb.errors.TransactionAbandoned: nothing was committed, since shop.orders failed

    Way out: Mend what the message says of ``.culprit``, and run the whole transaction again.
    """


class StorageError(DeltaError, OSError):
    """A file cannot be read or written, and surely nothing was committed (``.path``, ``.errno``).

    >>> from deltanb.errors import StorageError
    >>> raise StorageError.of(PermissionError(13, "Permission denied"), "written", "/lake/orders/a.parquet")
    Traceback (most recent call last):
        ...
    deltanb.errors.StorageError: /lake/orders/a.parquet cannot be written: Permission denied

    Way out: The message has the system's reason: permissions, space, a path through a file. Nothing was
    committed, so the operation can be run again.
    """

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
    """A winner left traces of the feature that this transaction drops (``.feature``).

    >>> import deltanb as dn
    >>> from deltanb.actions import DomainMetadata
    >>> from deltanb.testing import Lose, MemoryStore, ScriptedStore
    >>> store = MemoryStore()
    >>> _ = dn.create(store, {"id": [1]}, properties={"delta.feature.domainMetadata": "supported"})
    >>> table = dn.open(ScriptedStore(store, [Lose((DomainMetadata("mine", "{}"),))]))
    >>> table.drop_feature("domainMetadata")
    Traceback (most recent call last):
        ...
    deltanb.errors.FeatureDropConflict: table ...: feature domainMetadata cannot be dropped, version 1 ...

    Way out: Stop the writers that use the feature, and drop it again.
    """

    kind = "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    sql_state = "40000"


class RowTrackingBackfillRunningConcurrentlyWithUnbackfill(DeltaError):
    """Row tracking is being filled in and taken out at the same time.

    >>> from deltanb import errors
    >>> raise errors.RowTrackingBackfillRunningConcurrentlyWithUnbackfill(
    ...     "version 4 fills in row ids while this transaction takes them out", version=4)
    Traceback (most recent call last):
        ...
    deltanb.errors.RowTrackingBackfillRunningConcurrentlyWithUnbackfill: version 4 fills in row ids ...

    Way out: Let one of the two finish, then run the other.
    """

    kind = "DELTA_ROW_TRACKING_BACKFILL_RUNNING_CONCURRENTLY_WITH_UNBACKFILL"
    sql_state = "22KD0"


class DeltaConcurrentModificationException(DeltaError):
    """A commit that landed meanwhile contradicts this transaction; nothing was written.

    ``.conflict`` is the :class:`~deltanb.transaction.conflicts.Conflict` (rule, predicate, files, the
    winner), ``.version`` the winner's version, ``.error_class`` Delta's error class.

    The conflict as text is a note of the exception (PEP 678), so that every traceback ends with it: in a
    script, in a logged exception, in the output of pytest. It is made when it is first asked for. Python 3.10
    shows no notes; there it is a part of ``str(error)``.

    >>> import deltanb as dn
    >>> table = dn.create("modified", {"id": [1, 2]})
    >>> try:
    ...     with table.transaction() as txn:
    ...         _ = txn.delete("id = 1")
    ...         _ = dn.open("modified").append({"id": [1]})
    ... except dn.errors.DeltaConcurrentModificationException as error:
    ...     error.kind, error.version
    ('CONCURRENT_APPEND', 1)

    Way out: ``error.conflict.advice`` says what helps in this case. ``dn.retry(work)`` runs the work again
    on a fresh snapshot; a narrower predicate, partitions and row-level checks
    (``dn.set_options(row_level="all")``) let more commits pass.
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
    """The version was taken and this kind of commit is not checked against winners.

    >>> import deltanb as dn
    >>> log = dn.create("written", {"id": [1]}).log
    >>> txn = log.start_transaction()
    >>> _ = dn.open("written").append({"id": [2]})
    >>> try:
    ...     txn.commit_large([], "RESTORE")
    ... except dn.errors.ConcurrentWriteException as error:
    ...     error.version
    1

    Way out: Run the command again while nobody else writes. Commits such as those of a large CLONE or
    RESTORE are not checked against others, so any of them ends it.
    """

    error_class = "DELTA_CONCURRENT_WRITE"


class MetadataChangedException(DeltaConcurrentModificationException):
    """A winner changed the table's metadata in a way this transaction cannot adopt.

    >>> import deltanb as dn
    >>> table = dn.create("changed", {"id": [1]})
    >>> try:
    ...     with table.transaction() as txn:
    ...         _ = txn.append({"id": [2]})
    ...         _ = dn.open("changed").add_columns("name string")
    ... except dn.errors.MetadataChangedException as error:
    ...     error.conflict.rule, error.version
    ('metadata', 1)

    Way out: Run it again: it then sees the new schema or properties. Change tables while no long job
    writes.
    """

    error_class = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    """A winner changed the protocol and this transaction cannot adopt it.

    >>> import deltanb as dn
    >>> race = dn.race(dn.create("raised", {"id": [1]}), {
    ...     "ann": lambda table: table.add_feature("deletionVectors"),
    ...     "ben": lambda table: table.add_feature("domainMetadata"),
    ... })
    >>> race.outcomes["ben"].conflict.exception.__name__
    'ProtocolChangedException'

    Way out: Run it again: it then uses the new protocol, or is refused if it cannot. Add features while no
    long job writes.
    """

    error_class = "DELTA_PROTOCOL_CHANGED"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """A winner wrote the application id or metadata domain that this transaction depends on.

    >>> import deltanb as dn
    >>> table = dn.create("once", {"id": [1]})
    >>> try:
    ...     with table.transaction() as txn:
    ...         _ = txn.append({"id": [2]}, txn=("nightly", 7))
    ...         _ = dn.open("once").append({"id": [2]}, txn=("nightly", 7))
    ... except dn.errors.ConcurrentTransactionException as error:
    ...     error.conflict.rule, error.version
    ('application id', 1)

    Way out: Two runs of one application write at once: let one of them go. Run it again, and it sees that
    its batch is there already.
    """

    error_class = "DELTA_CONCURRENT_TRANSACTION"


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """A winner added files that this transaction would have read.

    >>> import deltanb as dn
    >>> table = dn.create("appended", {"id": [1, 2]})
    >>> try:
    ...     with table.transaction() as txn:
    ...         _ = txn.delete("id = 1")
    ...         _ = dn.open("appended").append({"id": [1]})
    ... except dn.errors.ConcurrentAppendException as error:
    ...     error.conflict.rule, error.version
    ('append', 1)

    Way out: Run it again (``dn.retry``): it then reads the new files, too. Narrow the predicate, partition
    by what separates your writers, or let the commit look at rows: ``dn.set_options(row_level="all")``.
    ``WriteSerializable`` lets blind appends pass.
    """

    error_class = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """A winner removed a file that this transaction read.

    >>> import deltanb as dn
    >>> table = dn.create("archived", {"month": [1, 1, 2], "delay": [2, 74, -1]}, partition_by="month")
    >>> race = dn.race(table, {
    ...     "archive": lambda table: table.delete("month = 1"),
    ...     "cleanup": lambda table: table.delete("delay > 60"),
    ... })
    >>> race.outcomes["cleanup"].conflict.exception.__name__
    'ConcurrentDeleteReadException'

    Way out: Run it again: a new transaction no longer reads the file. Deletion vectors with
    ``row_level="vectors"`` let deletes of other rows pass.
    """

    error_class = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """A winner removed a file that this transaction removes too.

    >>> import deltanb as dn
    >>> table = dn.create("compacted", {"id": [1]})
    >>> _ = table.append({"id": [2]})
    >>> race = dn.race(table, {"ann": lambda table: table.optimize(), "ben": lambda table: table.optimize()})
    >>> race.outcomes["ben"].conflict.exception.__name__
    'ConcurrentDeleteDeleteException'

    Way out: Run it again: what the other one removed is gone already. Run OPTIMIZE, and jobs that rewrite
    the same files, one after the other.
    """

    error_class = "DELTA_CONCURRENT_DELETE_DELETE"


class InvalidTransactionError(DeltaError):
    """The transaction was disabled (``.cause``): by ``reset(cause)``, or because its commit failed.

    >>> import deltanb as dn
    >>> txn = dn.locks.LockManager().new_transaction()
    >>> txn.reset("the input was wrong")
    >>> txn.lock_exclusive(1, b"key")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidTransactionError: ... is disabled: the input was wrong; it can still ...

    Way out: Begin a new transaction with ``manager.new_transaction()``; ``.cause`` says why this one ended.
    """


class LockFailure(DeltaError):
    """A lock was not granted. What the transaction held before, it still holds (``.index_id``, ``.key``).

    >>> import deltanb as dn
    >>> manager = dn.locks.LockManager(lock_timeout=0)
    >>> ann, ben = manager.new_transaction(), manager.new_transaction()
    >>> _ = ann.lock_exclusive(1, b"key")
    >>> try:
    ...     ben.lock_exclusive(1, b"key")
    ... except dn.errors.LockFailure as error:
    ...     error.key, ben.lock_check(1, b"key")
    (b'key', UNOWNED)

    Way out: The classes below it say why. What the transaction holds, it still holds: exit or reset it, and
    try again.
    """


class LockTimeoutError(LockFailure):
    """A lock was not free in time.

    ``.timeout`` is what the call was ready to wait, in seconds: 0 where it did not wait, -1 for ever.
    ``.owner_attachment`` is what the transaction in the way has attached to itself, or None.

    >>> import deltanb as dn
    >>> manager = dn.locks.LockManager(lock_timeout=0)
    >>> ann, ben = manager.new_transaction(), manager.new_transaction()
    >>> _ = ann.lock_exclusive(1, b"key")
    >>> ben.lock_exclusive(1, b"key")
    Traceback (most recent call last):
        ...
    deltanb.errors.LockTimeoutError: an exclusive lock on 1:key was not granted: never waited, held by ...

    Way out: ``.owner_attachment`` says who holds the lock. Wait longer (``lock_timeout``), hold locks for a
    shorter time, or run the work again with ``dn.retry``.
    """


class DeadlockError(LockTimeoutError):
    """Transactions wait for each other, and this call would have been, or was, one of them.

    ``.guilty`` tells whether it is on the cycle, or blocked by one; ``.cycle`` says who waits for whom, in
    which modes, for how long, and which order of locks would have avoided it; ``.deadlock_set`` lists the
    locks waited for (``index_id``, ``key``, ``owner_attachment``). ``.timeout`` is 0 where the call was
    refused before it waited. Nothing is rolled back: the caller exits or resets the transaction.

    >>> import deltanb as dn
    >>> manager = dn.locks.LockManager(park=lambda waiter, timeout: ben.lock_exclusive(1, b"a"))
    >>> ann, ben = manager.new_transaction(), manager.new_transaction()
    >>> _ = ann.lock_exclusive(1, b"a"), ben.lock_exclusive(1, b"b")
    >>> ann.lock_exclusive(1, b"b")     # and ben, in another thread, asks for a
    Traceback (most recent call last):
        ...
    deltanb.errors.DeadlockError: an exclusive lock on 1:a was not granted, deadlock (this transaction ...

    Way out: ``.cycle`` shows who waits for whom, and which order of locks avoids it: lock in the same order
    everywhere, or run the work again with ``dn.retry``.
    """


class LockInterruptedError(LockFailure):
    """Another thread interrupted the wait, or the lock manager was closed.

    >>> import deltanb as dn
    >>> manager = dn.locks.LockManager()
    >>> txn = manager.new_transaction()
    >>> manager.close()
    >>> txn.lock_exclusive(1, b"key")
    Traceback (most recent call last):
        ...
    deltanb.errors.LockInterruptedError: an exclusive lock on 1:key was not granted: the lock manager is ...

    Way out: Nothing is wrong with the lock: somebody stopped the wait. Exit the transaction, or ask for the
    lock again.
    """


class IllegalUpgradeError(LockFailure):
    """A shared lock is held, and the manager's upgrade rule does not let it become a stronger one.

    >>> import deltanb as dn
    >>> txn = dn.locks.LockManager(upgrade_rule="STRICT").new_transaction()
    >>> _ = txn.lock_shared(1, b"key")
    >>> txn.lock_exclusive(1, b"key")
    Traceback (most recent call last):
        ...
    deltanb.errors.IllegalUpgradeError: the shared lock on 1:key cannot become exclusive under this ...

    Way out: Ask for an upgradable lock first where you may write later (``lock_upgradable``), or choose
    ``upgrade_rule="LENIENT"``.
    """


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
