"""The state of a stream into a table: what it has read and written, and how far it is behind.

What lives here: :class:`StreamState`, a value made from Spark's progress reports (as plain dicts) and from
the logs of the table it writes to and the tables it reads.
What it does not know: Spark itself, and how a state is drawn.

Spark reports a batch when it is done, and keeps the last hundred reports of a run. The table's log has all
batches; the newest are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb.commands.read.stream import Offset
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.log import commit_times, history
from deltanb.log.lines import whole_number
from deltanb.text import formatting as units
from deltanb.text.display import Displayable

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog

__all__ = ["BatchState", "SourceState", "StreamState"]

MAX_COMMITS = 100  # of the table, in which the stream's are looked for: as many as Spark keeps reports
CHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
"""What a MERGE did to rows; those that it only copied are not of the stream."""


@dataclass(frozen=True)
class BatchState:
    """One batch: as Spark reports it, and as the table has it.

    ``rows_in`` were read, in ``duration`` milliseconds; None if Spark no longer knows. ``rows_out`` were
    written with ``version``, at ``time`` (epoch milliseconds); None if the table does not have the batch, or
    its commit is not among the newest.
    """

    number: int
    rows_in: int | None = None
    duration: int | None = None
    rows_out: int | None = None
    version: int | None = None
    time: int | None = None


@dataclass(frozen=True)
class SourceState:
    """What a stream reads, and how far it is.

    For a Delta table that is read by this library, ``read_version`` is the last version that was read
    completely (-1: none yet) and ``newest`` the table's newest version; ``is_in_snapshot`` means that the
    stream is still reading the table as it was when the stream began. ``lag`` is the time in milliseconds
    between the commits of the two versions, if the table is open in this process and its log has both. Other
    sources have only a ``name``.
    """

    name: str
    read_version: int | None = None
    newest: int | None = None
    lag: int | None = None
    is_in_snapshot: bool = False

    @property
    def behind(self) -> int | None:
        """How many newer versions the stream has not read completely.

        Versions without rows count, too, until the stream passes them with the next one that has rows.

        >>> SourceState("flights", 3, 5).behind, SourceState("a socket").behind
        (2, None)
        """
        if self.read_version is None or self.newest is None:
            return None
        return max(0, self.newest - self.read_version)


@dataclass(frozen=True, repr=False)
class StreamState(Displayable):
    """A stream into a table at one moment: ``stream.state``, and what a notebook shows of ``stream``.

    ``status`` is ``running``, ``waiting`` (for rows), ``stopped`` or ``failed``, ``message`` is Spark's
    message or the first line of the error. ``num_batches`` are in the table; ``batches`` has the newest of
    them and those that only Spark has reported so far, newest first.

    >>> import deltanb as dn
    >>> table = dn.create("arrivals", "id bigint")
    >>> report = {"batchId": 0, "numInputRows": 7, "batchDuration": 90}
    >>> state = StreamState.of(table.log, "4a812577-36cc", name="ducks", is_active=True, progress=[report])
    >>> print(state)
    Stream ducks  waiting  into arrivals
    no batch in the table  7 rows in
    Reads    nothing reported yet
    Batches  newest 0
    batch  rows in  rows out  version  took   committed
    0      7        ?         not yet  90 ms
    """

    table: str
    id: str
    name: str | None
    status: str
    message: str = ""
    num_batches: int = 0
    batches: tuple[BatchState, ...] = ()
    sources: tuple[SourceState, ...] = ()

    @classmethod
    def of(
        cls, log: DeltaLog, query_id: str, *, name: str | None = None, is_active: bool = False,
        status: Mapping[str, Any] | None = None, progress: Iterable[Mapping[str, Any]] = (),
        error: BaseException | None = None, known: Callable[[str], DeltaLog | None] | None = None,
    ) -> StreamState:
        """The state of a query that writes to a table.

        Args:
            log: the table's log.
            query_id: the query's id, under which the log has its batches.
            name: the query's name, if it has one.
            is_active: whether it runs.
            status: as Spark's ``StreamingQuery.status``.
            progress: as its ``recentProgress``, oldest first.
            error: why it failed, if it did.
            known: returns the log of a table by the table's id; by default, of tables open in this process.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), "id bigint")
        >>> report = {"batchId": 0, "numInputRows": 7}
        >>> state = StreamState.of(table.log, "4a812577-36cc", progress=[report])
        >>> state.status, state.num_batches
        ('stopped', 0)
        """
        reports = list(progress)
        done = log.update().set_transactions.get(query_id, -1)
        query_status = status or {}
        if error is not None:
            state, message = "failed", _first_line(error)
        elif not is_active:
            state, message = "stopped", ""
        else:
            state = "running" if query_status.get("isTriggerActive") else "waiting"
            message = str(query_status.get("message") or "")
        return cls(
            units.name_of(log.path), str(query_id), name, state, units.clean(message), done + 1,
            _batches(log, str(query_id), reports), _sources(reports, known or log.known_by_id))

    @property
    def label(self) -> str:
        """The name of the query, or the beginning of its id if it has none.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), "id bigint")
        >>> report = {"batchId": 0, "numInputRows": 7}
        >>> state = StreamState.of(table.log, "4a812577-36cc", progress=[report])
        >>> state.label
        '4a812577'
        """
        return self.name or self.id.partition("-")[0]

    @property
    def rows_in(self) -> int | None:
        """Rows read in the :attr:`batches` that Spark still knows; None if it knows none.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), "id bigint")
        >>> report = {"batchId": 0, "numInputRows": 7}
        >>> state = StreamState.of(table.log, "4a812577-36cc", progress=[report])
        >>> state.rows_in
        7
        """
        return _sum(batch.rows_in for batch in self.batches)

    @property
    def rows_out(self) -> int | None:
        """Rows written by the :attr:`batches` that are in the table; None if there are none.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), "id bigint")
        >>> report = {"batchId": 0, "numInputRows": 7}
        >>> state = StreamState.of(table.log, "4a812577-36cc", progress=[report])
        >>> state.rows_out is None
        True
        """
        return _sum(batch.rows_out for batch in self.batches)

    @property
    def last_commit(self) -> BatchState | None:
        """The newest batch in the table, if it is among its newest commits.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), "id bigint")
        >>> report = {"batchId": 0, "numInputRows": 7}
        >>> state = StreamState.of(table.log, "4a812577-36cc", progress=[report])
        >>> state.last_commit is None
        True
        """
        return next((batch for batch in self.batches if batch.version is not None), None)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n", 1)[0]


# -- batches -----------------------------------------------------------------------------------------

def _batches(log: DeltaLog, query_id: str, reports: Sequence[Mapping[str, Any]]) -> tuple[BatchState, ...]:
    """The batches that are reported or committed, newest first."""
    by_number: dict[int, BatchState] = {}
    for report in reports:
        number, rows = whole_number(report.get("batchId")), _read_rows(report)
        if number is not None and (rows or number not in by_number):
            by_number[number] = BatchState(number, rows, report.get("batchDuration"))
    # Reports without rows are idle ones.
    by_number = {number: batch for number, batch in by_number.items() if batch.rows_in}
    newest = log.snapshot.version
    for entry in history.between(log, newest - MAX_COMMITS + 1, newest):
        parameters = entry.operation_parameters
        if not isinstance(parameters, Mapping) or parameters.get("queryId") != query_id:
            continue
        number = whole_number(parameters.get("epochId"))
        if number is not None:
            by_number[number] = replace(
                by_number.get(number, BatchState(number)), rows_out=_written(entry.operation_metrics),
                version=entry.version, time=entry.timestamp)
    return tuple(by_number[number] for number in sorted(by_number, reverse=True))


def _read_rows(report: Mapping[str, Any]) -> int | None:
    """The rows of all sources; Spark Connect only has them per source."""
    total = whole_number(report.get("numInputRows"))
    if total is not None:
        return total
    return _sum(whole_number(each.get("numInputRows")) for each in report.get("sources") or ())


def _written(metrics: Any) -> int | None:
    """The rows that a commit wrote, by its metrics.

    >>> _written({"numOutputRows": "3"}), _written({"numTargetRowsInserted": "1", "numOutputRows": "9"})
    (3, 1)
    """
    if not isinstance(metrics, Mapping):
        return None
    changed = [whole_number(metrics[key]) or 0 for key in CHANGED if key in metrics]
    return sum(changed) if changed else whole_number(metrics.get("numOutputRows"))


# -- sources -----------------------------------------------------------------------------------------

def _sources(
    reports: Sequence[Mapping[str, Any]], known: Callable[[str], DeltaLog | None]
) -> tuple[SourceState, ...]:
    """How far each source was read, according to the last report."""
    return tuple(_source(each, known) for each in reports[-1].get("sources") or ()) if reports else ()


def _source(report: Mapping[str, Any], known: Callable[[str], DeltaLog | None]) -> SourceState:
    at = _offset(report.get("endOffset"))
    if at is None:
        return SourceState(_described(report.get("description")))
    read, is_in_snapshot = at.position.version - 1, not at.position.after
    log = known(at.table)
    if log is None:
        end = _offset(report.get("latestOffset"))
        newest = None if end is None else end.position.version - 1
        return SourceState(f"table {at.table[:8]}", read, newest, is_in_snapshot=is_in_snapshot)
    newest = log.update().version
    lag = None if is_in_snapshot else _between(log, read, newest)
    return SourceState(units.name_of(log.path), read, newest, lag, is_in_snapshot)


def _offset(text: Any) -> Offset | None:
    """The offset of a source of this library; None for other sources."""
    value = units.parsed(text)
    try:
        return Offset.of(value) if isinstance(value, Mapping) else None
    except InvalidArgument:
        return None


def _described(description: Any) -> str:
    """Spark's name for a source, without the package of its class and its address in memory.

    >>> _described("FileStreamSource[file:/lake/birds]"), _described("org.apache.spark.RateStream@4e29bc59")
    ('FileStreamSource[file:/lake/birds]', 'RateStream')
    """
    text = units.clean(description or "a source")
    if "[" in text or " " in text:
        return text
    return text.partition("@")[0].rpartition(".")[2] or text


def _between(log: DeltaLog, first: int, last: int) -> int | None:
    """Milliseconds between the commits of two versions; None unless the log has both."""
    if first >= last:
        return 0
    try:
        ends = [commit_times.commit_times(log, version, version).get(version) for version in (first, last)]
    except DeltaError:
        return None
    begin, end = ends
    return None if begin is None or end is None else max(0, end - begin)
