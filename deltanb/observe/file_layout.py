"""How a column's values lie in the files of a table: a range for each, and which ones a condition opens.

What lives here: :func:`layout_of` and :class:`FileLayout`; places of values on an axis, bars for one file or
for several neighbours, the stretch of the axis that a condition names.
What it does not know: how bars are drawn (``notebook``), how files are skipped (``log/skipping``).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.errors import InvalidArgument, InvalidTable, MissingDependency
from deltanb.log.arrays import array_of, numbers
from deltanb.log.replay import key_array
from deltanb.log.skipping.stats import TIMESTAMP_SLACK, has_bounds
from deltanb.observe.checkup.live_files import LiveFiles, Path, average_depth, leaves
from deltanb.schema.paths import find, parse_path, quoted, type_at
from deltanb.schema.types import StructType, arrow_type
from deltanb.sql import expressions as ex
from deltanb.sql import predicates
from deltanb.sql.coercion import is_number
from deltanb.sql.expressions import Call, Column, Expression
from deltanb.text.display import Charted
from deltanb.text.formatting import name_of
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    import pandas

    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.conditions import Where

MAX_BARS = 48
"""Bars that are drawn; of more files each bar stands for several that lie next to each other."""
MAX_POINTS = 20
"""Stretches that are marked, as of the values of an IN; of more, the one from the least to the greatest."""
PREFIX = 6
"""Bytes of a text that decide where it lies: as many as a float has room for."""
Span = tuple[float, float]
"""A stretch of the axis."""
_EPOCH = dt.date(1970, 1, 1)
_ABOVE_ALL = b"\xff"  # what ends an upper bound that was cut off, see log/skipping/stats
_TIE_BREAKER = b"\x7f"  # what Delta Spark ends an upper bound with that it cut off before ASCII


@dataclass(frozen=True)
class Bar:
    """Files next to each other, most often one: where their range begins and ends on the axis, from 0 to 1;
    the values there; how many files, bytes and rows, and how many of the files are opened."""

    low: float
    high: float
    least: Any
    greatest: Any
    files: int
    bytes: int
    opened: int
    path: str
    """Of the first file, as in the log."""


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False)
class FileLayout(Charted):
    """The ranges of a column in the files of a version, drawn as bars; see :meth:`DeltaTable.layout`.

    ``files`` has a row for each file in the order of the ranges, with ``path`` (as in the log), ``min`` and
    ``max``, ``rows`` that are not deleted, ``bytes``, and ``opened``. A bound that is NULL is unknown, or
    there is no value: ``num_unknown`` counts files of which the log does not say what is in them,
    ``num_null`` those with NULL alone. A text that was cut off in the log ends in ``…``. ``depth`` is the
    number of files whose range holds a value, on average. ``spans`` are the stretches of the axis that the
    condition names: an axis is 0 at the least bound and 1 at the greatest; texts lie on it by the first
    characters in which they differ.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1, 5]})
    >>> _ = table.append({"id": [4, 9]})
    >>> layout = table.layout("id")
    >>> layout.num_files, layout.files["min"].to_pylist(), layout.files["max"].to_pylist()
    (2, [1, 4], [5, 9])
    """

    table: str
    version: int
    column: str
    type: str
    where: str | None
    left_out: tuple[str, ...]
    """Parts of the condition that only Spark understands: no file is skipped by them."""
    num_files: int
    size_in_bytes: int
    opened: int
    opened_bytes: int
    num_unknown: int
    num_null: int
    depth: float
    spans: tuple[tuple[float, float], ...]
    files: pa.Table = field(compare=False)
    _low: Any = field(compare=False)
    _high: Any = field(compare=False)
    staged_behind: int | None = None
    """Of a transaction, the version that it has read, where ``version`` has what it staged behind that."""

    def bars(self, most: int = MAX_BARS) -> list[Bar]:
        """The files with a range as at most so many bars, in the order of the ranges.

        >>> import deltanb as dn
        >>> table = dn.create("lakes2", {"km": [3, 9]})
        >>> [(bar.low, bar.high, bar.least) for bar in table.layout("km").bars()]
        [(0.0, 1.0, 3)]
        """
        count = len(self._low)
        sizes = numbers(pc.fill_null(self.files["bytes"], pa.scalar(0, pa.int64())))
        opened = numbers(self.files["opened"])
        bars = []
        for group in np.array_split(np.arange(count), min(most, count)) if count else ():
            first, last = int(group[self._low[group].argmin()]), int(group[self._high[group].argmax()])
            bars.append(Bar(
                float(self._low[first]), float(self._high[last]), self.files["min"][first].as_py(),
                self.files["max"][last].as_py(), len(group), int(sizes[group].sum()),
                int(opened[group].sum()), self.files["path"][int(group[0])].as_py()))
        return bars

    def to_arrow(self) -> pa.Table:
        """The files as a table, a row each: ``path``, ``min``, ``max``, ``rows``, ``bytes``, ``opened``.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1, 5]}).layout("id").to_arrow().column_names
        ['path', 'min', 'max', 'rows', 'bytes', 'opened']
        """
        return self.files

    def to_pandas(self) -> pandas.DataFrame:
        """:meth:`to_arrow` as a DataFrame.

        Raises:
            MissingDependency: pandas is not installed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> list(dn.create(MemoryStore(), {"id": [1, 5]}).layout("id").to_pandas()["rows"])
        [2]
        """
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise MissingDependency(
                "layout.to_pandas() needs pandas: pip install pandas; layout.to_arrow() has the same",
                extra="notebook") from None
        return self.files.to_pandas()


def layout_of(snapshot: Snapshot, column: str, where: Where | None = None) -> FileLayout:
    """How a column's values lie in the files of a version.

    Arguments and errors are those of :meth:`deltanb.table.table.DeltaTable.layout`.
    """
    table = snapshot.metadata.name or name_of(snapshot.log.path)
    path, type_ = _resolved(snapshot, column, table)
    condition = predicates.parse_condition(where, snapshot.schema)
    is_partition = len(path) == 1 and path[0] in _partitions(snapshot)
    files = LiveFiles.of(snapshot, [] if is_partition else [path], named=True)
    if is_partition and files.problem:
        raise InvalidTable(files.problem, path=snapshot.log.path)
    low, high, is_null = _values_of_partitions(files, path, type_) if is_partition else _bounds(files, path)
    if not is_partition:
        high = _as_written(high)
    opened = _opened(snapshot, files, condition.parts)
    axis = _Axis(low, high, type_)
    known = np.flatnonzero(axis.is_known)
    order = known[np.lexsort((axis.high[known], axis.low[known]))]
    rest = np.flatnonzero(~axis.is_known)
    listed = array_of(np.concatenate([order, rest]).astype(np.int64))
    rows = pa.chunked_array([array_of(files.rows - files.deleted)])
    is_counted = pa.chunked_array([array_of(files.rows >= 0)])
    shown = pa.table({
        "path": files.names["path"], "min": _readable(low), "max": _readable(high),
        "rows": pc.if_else(is_counted, rows, pa.scalar(None, pa.int64())),
        "bytes": pa.chunked_array([array_of(files.sizes)]), "opened": pa.chunked_array([array_of(opened)])})
    return FileLayout(
        table, snapshot.version, quoted(path), str(type_at(snapshot.schema, path)), condition.sql,
        condition.left_out, len(files), files.total, int(opened.sum()), int(files.sizes[opened].sum()),
        int((~axis.is_known & ~is_null).sum()), int((~axis.is_known & is_null).sum()),
        round(average_depth(axis.low[known], axis.high[known]), 2),
        tuple(axis.spans(condition.parts, path)), shown.take(listed).combine_chunks(),
        axis.low[order], axis.high[order], snapshot.log.staged_behind)


def _resolved(snapshot: Snapshot, column: str, table: str) -> tuple[Path, pa.DataType]:
    path = find(snapshot.schema, parse_path(column), table)
    kind = type_at(snapshot.schema, path)
    if isinstance(kind, StructType):
        names = ", ".join(quoted((*path, *below)) for below in leaves(kind)[:5])
        raise InvalidArgument(
            f"{quoted(path)} of table {table} is a struct, which has no bounds; name one of its fields"
            + (f": {names}" if names else ""), column=column)
    type_ = arrow_type(kind, quoted(path))
    if not has_bounds(type_):
        others = ", ".join(map(quoted, leaves(snapshot.schema)[:5])) or "none"
        raise InvalidArgument(
            f"{quoted(path)} of table {table} is {kind}, of which no bounds are kept; columns that have some "
            f"are {others}", column=column)
    return path, type_


def _partitions(snapshot: Snapshot) -> list[str]:
    return [snapshot.schema.field(name).name for name in snapshot.partition_columns]


def _bounds(files: LiveFiles, path: Path) -> tuple[pa.ChunkedArray, pa.ChunkedArray, Any]:
    return *files.bounds(path), files.is_null(path)


def _values_of_partitions(
    files: LiveFiles, path: Path, type_: pa.DataType
) -> tuple[pa.ChunkedArray, pa.ChunkedArray, Any]:
    """A partition column has one value in each file, which is both of its bounds."""
    at = _partitions(files.snapshot).index(path[0])
    values = pa.array([values[at] for values in files.partitions], type_)
    each = pa.chunked_array([values.take(array_of(files.groups))])
    return each, each, ~numbers(pc.is_valid(each))


def _opened(snapshot: Snapshot, files: LiveFiles, parts: Sequence[predicates.Predicate]) -> Any:
    """Which files a scan opens: all of them without a condition."""
    if not parts:
        return np.ones(len(files), np.bool_)
    some = snapshot.files_for_scan(*parts, columns=["path", "deletion_vector"])
    keys = key_array(files.names["path"], files.names["deletion_vector"])
    return numbers(pc.is_in(keys, value_set=key_array(some["path"], some["deletion_vector"])))


class _Axis:
    """Where values lie between the least and the greatest bound, from 0 to 1: numbers and times by their
    size, texts by the first characters in which they differ."""

    def __init__(self, low: pa.ChunkedArray, high: pa.ChunkedArray, type_: pa.DataType) -> None:
        self.type = type_
        self.is_text = t.is_string(type_) or t.is_binary(type_)
        self.is_known = numbers(pc.and_(pc.is_valid(low), pc.is_valid(high)))
        self.prefix = b""
        """What all bounds of a text begin with."""
        if self.is_text:
            least, most = pc.min(low.cast(pa.binary())).as_py(), pc.max(high.cast(pa.binary())).as_py()
            self.prefix = _shared(least or b"", most or b"")
        places = [self._places(side) for side in (low, high)]
        self.is_known &= _is_range(low, high) if self.is_text else places[0] <= places[1]
        known = np.concatenate([side[self.is_known] for side in places])
        known = known[np.isfinite(known)]
        self.start, self.end = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        self.low, self.high = (self.share(side) for side in places)

    def _places(self, side: pa.ChunkedArray) -> Any:
        if self.is_text:
            values = side.cast(pa.binary()).to_pylist()
            return np.array([0.0 if one is None else self._number(one) for one in values], np.float64)
        if t.is_date(side.type):
            side = side.cast(pa.int32())
        elif t.is_timestamp(side.type):
            side = side.cast(pa.timestamp("us", side.type.tz)).cast(pa.int64())
        elif t.is_boolean(side.type):
            side = side.cast(pa.uint8())
        whole = pa.chunked_array(side.chunks, side.type).cast(pa.float64(), safe=False).combine_chunks()
        places = numbers(pc.fill_null(whole, pa.scalar(0.0)))
        return np.where(np.isnan(places), np.inf, places)  # NaN is above all numbers

    def _number(self, value: bytes) -> float:
        """A text as a number that rises with it: the bytes behind what all bounds begin with."""
        shared = len(self.prefix)
        if value[:shared] != self.prefix:
            return -1.0 if value < self.prefix else float(256 ** PREFIX)
        return float(int.from_bytes(value[shared:shared + PREFIX].ljust(PREFIX, b"\0"), "big"))

    def share(self, places: Any) -> Any:
        """Places as shares of the axis; the middle where all values are one."""
        if self.end <= self.start:
            return np.clip(np.sign(places - self.start) / 2 + 0.5, 0.0, 1.0)
        part = 1.0 if math.isfinite(self.end - self.start) else 0.5  # no float is as long
        begun = part * places - part * self.start
        return np.clip(begun / (part * self.end - part * self.start), 0.0, 1.0)

    def place_of(self, value: Any) -> float:
        """One value as a share of the axis, its ends for what lies beyond."""
        if self.is_text:
            number = self._number(value.encode() if isinstance(value, str) else value)
        elif isinstance(value, dt.datetime):
            zone = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
            number = (zone - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) / dt.timedelta(microseconds=1)
        elif isinstance(value, dt.date):
            number = (value - _EPOCH).days
        else:
            number = math.inf if value != value else float(value)  # NaN is above all numbers
        return float(self.share(np.float64(number)))

    def spans(self, parts: Sequence[predicates.Predicate], path: Path) -> list[Span]:
        """The stretches that the conjuncts on the column name; none where they say nothing of its values."""
        spans: list[Span] | None = None
        for part in parts:
            spans = _both(spans, self._spans_of(part.expression, path))
        return _few(spans or [])

    def _spans_of(self, node: Expression, path: Path) -> list[Span] | None:
        """The stretches in which a condition can be true; None for one that says nothing of the column."""
        if isinstance(node, Column) and node.path == path and t.is_boolean(node.type):
            return [(self.place_of(True), self.place_of(True))]
        if not isinstance(node, Call) or not node.args:
            return None
        if node.op == "not" and isinstance(node.args[0], Column) and node.args[0].path == path:
            return [(self.place_of(False), self.place_of(False))]
        if node.op == "and":
            return reduce(_both, (self._spans_of(arg, path) for arg in node.args))
        if node.op == "or":
            alternatives = [self._spans_of(arg, path) for arg in node.args]
            known = [spans for spans in alternatives if spans is not None]
            is_whole = len(known) == len(alternatives)
            return _joined(list(chain.from_iterable(known))) if is_whole else None
        column = _as_ordered(node.args[0])
        if column is not None and column.path == path and node.op == "is_null":
            return []
        if column is not None and column.path == path and node.op == "in":
            return _joined([(place, place) for place in map(self.place_of, node.extra.values)])
        return self._compared(node, path)

    def _compared(self, node: Call, path: Path) -> list[Span] | None:
        """The stretch of a comparison of the column with a constant."""
        if node.op not in ex.MIRRORED or node.op == "ne" or len(node.args) != 2:
            return None
        (left, right), op = node.args, node.op
        if isinstance(left, ex.Literal):
            left, right, op = right, left, ex.MIRRORED[op]
        column = _as_ordered(left)
        if column is None or column.path != path or not isinstance(right, ex.Literal):
            return None
        if right.value is None:
            return []
        place = self.place_of(right.value)
        return [(place if op in ("eq", "ge", "gt") else 0.0, place if op in ("eq", "le", "lt") else 1.0)]


def _both(one: list[Span] | None, other: list[Span] | None) -> list[Span] | None:
    """Where both can be true.

    >>> _both([(0.0, 0.5)], [(0.25, 1.0)]), _both(None, [(0.5, 0.5)]), _both([(0, 0.1)], [(0.9, 1)])
    ([(0.25, 0.5)], [(0.5, 0.5)], [])
    """
    if one is None or other is None:
        return other if one is None else one
    shared = [(max(low, begin), min(high, end)) for low, high in _few(one)
              for begin, end in _few(other)]
    return [(low, high) for low, high in shared if low <= high]


def _joined(spans: list[Span]) -> list[Span]:
    """Stretches in their order, those that touch as one.

    >>> _joined([(0.5, 0.7), (0.1, 0.1), (0.6, 1.0), (0.1, 0.1)])
    [(0.1, 0.1), (0.5, 1.0)]
    """
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def _few(spans: list[Span]) -> list[Span]:
    """No more stretches than :data:`MAX_POINTS`."""
    return spans if len(spans) <= MAX_POINTS else [(spans[0][0], spans[-1][1])]


def _shared(one: bytes, other: bytes) -> bytes:
    """What both begin with.

    >>> _shared(b"2024-01", b"2024-12")
    b'2024-'
    """
    places = zip(one, other, strict=False)
    return one[:next((at for at, (a, b) in enumerate(places) if a != b), min(len(one), len(other)))]


def _as_ordered(node: Expression) -> Column | None:
    """The column that an expression is, itself or as a wider number: its values are in the same order there,
    and none is another."""
    while isinstance(node, Call) and node.op == "cast" and _widens(node.args[0].type, node.type):
        node = node.args[0]
    return node if isinstance(node, Column) else None


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast keeps every number as it is, but for digits that a double does not have.

    >>> _widens(pa.int32(), pa.decimal128(11, 1)), _widens(pa.int64(), pa.int32())
    (True, False)
    >>> _widens(pa.int8(), pa.string())
    False
    """
    if source == target:
        return True
    if not is_number(source) or not is_number(target):
        return False
    if t.is_floating(target):
        return bool(t.is_float64(target) or (t.is_integer(source) and source.bit_width <= 16))
    if t.is_floating(source):
        return False
    (digits, scale), (room, places) = _digits(source), _digits(target)
    return bool(digits <= room and scale <= places)


def _digits(type_: pa.DataType) -> tuple[int, int]:
    """Digits before the point and behind it."""
    if t.is_decimal(type_):
        return type_.precision - type_.scale, type_.scale
    return len(str(2 ** (type_.bit_width - 1))), 0


def _as_written(high: pa.ChunkedArray) -> pa.ChunkedArray:
    """Upper bounds of times as the log has them: to skip files by, they are widened by what it leaves out."""
    if not t.is_timestamp(high.type):
        return high
    slack = pa.scalar(TIMESTAMP_SLACK, pa.int64())
    return pc.subtract(high.cast(pa.int64()), slack).cast(high.type)


def _is_range(low: pa.ChunkedArray, high: pa.ChunkedArray) -> Any:
    """Of which files the bounds, texts, are in their order: those of a damaged log need not be."""
    is_range = pc.less_equal(low.cast(pa.binary()), high.cast(pa.binary()))
    return numbers(pc.fill_null(is_range, pa.scalar(False)))


def _readable(side: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bounds as people read them: an upper bound of a text that was cut off need not be a text."""
    if not t.is_string(side.type):
        return side
    raw = side.cast(pa.binary())
    is_cut = pc.ends_with(raw, _ABOVE_ALL)
    if not pc.any(is_cut).as_py():
        return side
    texts = [None if one is None else one.removesuffix(_ABOVE_ALL).removesuffix(_TIE_BREAKER)
             .decode("utf-8", "ignore") + "…" if one.endswith(_ABOVE_ALL) else one.decode("utf-8", "ignore")
             for one in raw.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])
