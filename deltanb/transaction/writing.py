"""Writing within a transaction: rows become data files in their final place, and no version names them yet.

What lives here: :class:`TransactionalWrite`, the half of a transaction that makes files, and takes them
away again. What it does not know: how rows become files (the engines), commits and conflicts.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deltanb.actions import AddFile, Metadata, Protocol
from deltanb.concurrency.precedence import ahead
from deltanb.errors import IllegalStateError, InvalidArgument, require
from deltanb.log.file_options import FileOptions
from deltanb.options import checked, options, random_id, set_options
from deltanb.store.paths import place_of
from deltanb.transaction.ids import claimed, drawn_id
from deltanb.transaction.reads import require_version_of

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.schema.types import StructField
    from deltanb.store.base import LogStore
    from deltanb.transaction.delta_log import DeltaLog

CLUSTERING_DOMAIN = "delta.clustering"

Status = Literal["open", "committing", "committed", "failed", "abandoned", "unknown"]


def _clock() -> int:
    return options.clock()


def stopwatch() -> int:
    """Milliseconds for durations. The clock is left alone: what it says is in the log."""
    return options.timer() // 1_000_000


def clustering_columns(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """Paths of the columns that a table is clustered by, as the log has them; empty where there are none.

    Every file must have statistics of these (PROTOCOL.md, "Clustered Table").

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> clustering_columns(TableBuilder(MemoryStore()).create("id long").log.update())
    []
    """
    domain = snapshot.domain_metadata.get(CLUSTERING_DOMAIN)
    paths = json.loads(domain.configuration).get("clusteringColumns") if domain else None
    return [(path,) if isinstance(path, str) else tuple(path) for path in paths or ()]


def delete_files(store: LogStore, files: Iterable[AddFile]) -> None:
    """Remove files that no version names, all of them even where that is interrupted."""
    interrupt: BaseException | None = None
    for file in files:
        place, name = place_of(store, file.path).opened()
        with suppress(OSError):  # VACUUM removes what cannot be removed now
            try:
                place.delete(name)
            except Exception:
                raise
            except BaseException as error:
                interrupt = error
                place.delete(name)
    if interrupt is not None:
        raise interrupt


@dataclass(frozen=True)
class Savepoint:
    """Where a transaction stood: what it had written, and what it had set. Made by ``txn.savepoint()``."""

    transaction: TransactionalWrite = field(repr=False)
    num_files: int
    has_written: bool
    identity_marks: Mapping[str, int]
    settings: Mapping[str, Any] = field(repr=False)


class TransactionalWrite:
    """What can write files for a version of a table that is to come."""

    _SETTINGS: ClassVar[tuple[str, ...]] = ()
    """What else a savepoint remembers: names of attributes, each replaced whole when it changes."""
    gives_row_ids: ClassVar[bool] = True
    """Whether its commit gives row ids to files that have none, where the table tracks rows."""

    def __init__(
        self, log: DeltaLog, snapshot: Snapshot | None = None, clock: Callable[[], int] | None = None,
    ) -> None:
        require_version_of(log, snapshot)
        if clock is not None and not callable(clock):
            raise InvalidArgument(f"clock={clock!r:.80} is not a function that gives epoch milliseconds")
        self.log = log
        self.clock = _clock if clock is None else checked("clock", clock, "an integer", int)
        """Gives the time in epoch milliseconds."""
        self.snapshot: Snapshot = log.update() if snapshot is None else snapshot
        """The version this transaction reads."""
        self.txn_id: str = drawn_id(self._place_of_ids)
        """Written into the commit; by it the transaction knows its own commit again."""
        self._has_own_id = options.new_id is random_id
        self.status: Status = "open"
        """How far it is. ``failed`` and ``abandoned`` (given up by whoever drove it): nothing was written;
        ``unknown``: the store does not say whether its commit is there."""
        self.has_written = False
        """Whether :meth:`write_files` was called; the metadata is fixed from then on."""
        self.written: list[AddFile] = []
        """Every file :meth:`write_files` wrote."""
        self.identity_marks: dict[str, int] = {}
        """The last value :meth:`write_files` gave to each identity column; the commit records it."""
        self._savepoints: list[Savepoint] = []

    @property
    def _place_of_ids(self) -> str | None:
        return self.log.place_of_ids(None if self.snapshot.version < 0 else self.snapshot.metadata)

    def _claim_id(self) -> None:
        """From here on the id decides which commit is this one."""
        if not self._has_own_id:
            self.txn_id, self._has_own_id = claimed(self._place_of_ids, self.txn_id), True

    @property
    @abstractmethod
    def metadata(self) -> Metadata:
        """The metadata that the files are written for."""

    @property
    @abstractmethod
    def protocol(self) -> Protocol:
        """The protocol that the files are written for."""

    @property
    @abstractmethod
    def may_have_landed(self) -> bool:
        """Whether a put was begun and not answered, so that its version may be this commit."""

    @abstractmethod
    def _must_be_open(self) -> None:
        """Refuse where nothing more can be done."""

    def write_files(
        self, data: Any, write_options: Mapping[str, Any] | FileOptions | None = None, *,
        target_file_size: int | None = None, data_change: bool = True, checks: Sequence[Any] = (),
        clustering: Iterable[Sequence[str]] = (), hidden: Sequence[StructField] = (),
    ) -> list[AddFile]:
        """Write rows as data files in their final place and describe them.

        Args:
            data: Arrow, pandas or Python rows, written in the process; or a Spark DataFrame, written
                by Spark.
            write_options: of Delta's writer, by its names, those that concern files: ``maxRecordsPerFile``
                (rows of a file at most) and ``compression`` (a codec); and ``targetFileSize``.
            target_file_size: bytes at which a file ends.
            data_change: whether the rows are new to the table; an OPTIMIZE only moves them.
            checks: conditions (:class:`deltanb.engines.arrow.constraints.Check`) beside the table's own.
            clustering: physical paths of columns whose statistics are wanted in any case, beside those
                that the table is clustered by.
            hidden: columns of the data that go into the files beside the table's, such as row ids.

        The files are not a part of the table before :meth:`commit`. If writing fails they are removed.

        Raises:
            SchemaMismatch, ConstraintViolation: the rows do not fit the table.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.log.start_transaction()
        >>> [file] = txn.write_files({"id": [2, 3]})
        >>> file.num_records, txn.commit([file], "WRITE"), table.count()
        (2, 1, 3)
        """
        self._must_be_open()
        file_options = write_options if isinstance(write_options, FileOptions) else \
            FileOptions.of({} if write_options is None else write_options)
        if target_file_size is not None:
            file_options = replace(file_options, target_file_size=target_file_size)
        self.has_written = True
        engine = "spark" if type(data).__module__.partition(".")[0] == "pyspark" else "arrow"
        write = import_module(f"deltanb.engines.{engine}.write").write_files
        begun: list[str] = []
        more: dict[str, Any] = {"begun": begun} if engine == "arrow" else {}
        timed = set_options(clock=self.clock) if self.clock is not _clock else nullcontext()
        with self._removed_unless_known(begun), ahead(), timed:
            added = write(
                self.log.store, self.metadata, self.protocol, data, file_options=file_options,
                data_change=data_change, checks=checks, hidden=hidden,
                clustering=[*clustering_columns(self.snapshot), *map(tuple, clustering)],
                marks=self.identity_marks, **more)
            self.written.extend(added)
        return list(added)

    @contextmanager
    def _removed_unless_known(self, begun: Sequence[str]) -> Iterator[None]:
        """A block that writes files and notes them; an interrupt may come between the two."""
        try:
            yield
        except BaseException:
            for name in begun:
                with suppress(OSError):
                    self.log.store.delete(name)
            raise

    def savepoint(self) -> Savepoint:
        """Where it stands, for :meth:`rollback_to`.

        Raises:
            IllegalStateError: the transaction has ended.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> before = txn.savepoint()
        >>> txn.update_metadata(txn.metadata.replace(name="ducks"))
        >>> txn.rollback_to(before)
        >>> txn.metadata.name is None
        True
        """
        self._must_be_open()
        made = Savepoint(self, len(self.written), self.has_written, dict(self.identity_marks),
                         {name: getattr(self, name) for name in self._SETTINGS})
        self._savepoints.append(made)
        return made

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Take back what was written and set since a savepoint, and delete the files; what was read stays
        read. The savepoint can be used again, those made after it are gone.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create("id long").log.start_transaction()
        >>> before = txn.savepoint()
        >>> _ = txn.write_files({"id": [1]})
        >>> txn.rollback_to(before)
        >>> txn.written, txn.has_written
        ([], False)

        Raises:
            IllegalStateError: the transaction has ended; or the savepoint is of another one, or was rolled
                back itself.
        """
        self._must_be_open()
        require(savepoint, Savepoint, "rollback_to", "a savepoint: txn.savepoint()")
        if not any(each is savepoint for each in self._savepoints):
            whose = "another transaction" if savepoint.transaction is not self else (
                "what was rolled back since")
            raise IllegalStateError(
                f"rollback_to: the savepoint is of {whose}; take one with txn.savepoint() and use it until "
                "the transaction is rolled back behind it")
        while self._savepoints[-1] is not savepoint:
            self._savepoints.pop()
        gone = self.written[savepoint.num_files:]
        del self.written[savepoint.num_files:]
        self.has_written = savepoint.has_written
        self.identity_marks = dict(savepoint.identity_marks)
        for name, value in savepoint.settings.items():
            setattr(self, name, value)
        delete_files(self.log.store, gone)

    @property
    def has_surely_not_landed(self) -> bool:
        """Whether the files it wrote are not a part of the table, whatever happens.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> txn.has_surely_not_landed, txn.commit(), txn.has_surely_not_landed
        (True, 1, False)
        """
        return self.status in ("open", "failed", "abandoned") and not self.may_have_landed

    def discard_written(self) -> None:
        """Delete the files this transaction wrote; for a command that is refused in the end.

        Raises:
            IllegalStateError: the transaction committed, or may have; its files may belong to the table.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> _ = txn.write_files({"id": [1]})
        >>> txn.discard_written()
        >>> [file.name for file in txn.log.store.list_all("") if file.name.endswith(".parquet")]
        []
        """
        if not self.has_surely_not_landed:
            state = "may have landed" if self.may_have_landed else f"is {self.status}"
            raise IllegalStateError(f"the transaction {state}; its files stay")
        delete_files(self.log.store, self.written)
        self.written.clear()
